package dmlx

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx/formula"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// # Parts written as formulas
//
// In a rule's name a part in brackets is a formula (see package formula): "cos/[1-Sap, San]/[max(0, San-Sap+0.5)]". It
// reads the similarities Sap and San and the distances Dap and Dan of a triplet, the [Numbers], and numbers of its own,
// whose values follow it: "[sigmoid(k*(San-Sap)), k=4]". mean(x, y) is the mean of x over 𝒫 of Eq. 12 if x reads Rap,
// or over 𝒩 if it reads Ran, and y where that set is empty. Its canonical text is the part's name.

// PairFormula returns the pair weight of two formulas, P₊ and P₋: "1-Sap, San". An error is a [formula.Error].
func PairFormula(text string) (PairWeight, error) {
	l, err := formula.Parse(text, numberNames(), formula.IsNumber, formula.IsNumber)
	return PairWeight{Name: "[" + l.String() + "]", part: written(l), Of: func(b *Batch) (positive, negative *Node) {
		w := writer{Batch: b, list: l}
		return w.whole(0), w.whole(1)
	}}, err
}

// TripletFormula returns the triplet weight of a formula: "max(0, San-Sap+0.5)". An error is a [formula.Error].
func TripletFormula(text string) (TripletWeight, error) {
	l, err := formula.Parse(text, numberNames(), formula.IsNumber)
	return TripletWeight{Name: "[" + l.String() + "]", part: written(l), Of: func(b *Batch) *Node {
		return (&writer{Batch: b, list: l}).whole(0)
	}}, err
}

// MaskFormula returns the mask of a condition, where P₊ becomes zero: "San > Sap". An error is a [formula.Error].
func MaskFormula(text string) (Mask, error) {
	l, err := formula.Parse(text, numberNames(), formula.IsCondition)
	return Mask{Name: "[" + l.String() + "]", part: written(l), Of: func(b *Batch) *Node {
		return (&writer{Batch: b, list: l}).whole(0)
	}}, err
}

func numberNames() []string { return slice.Map(Numbers, func(n Number) string { return n.Name }) }

// written marks a part that is a formula.
func written(l formula.List) part {
	p := known(l.Reads(numberNames())...)
	p.text, p.formula = l.String(), &l
	return p
}

// Formula returns the text of the formulas that a part computes, "" for one that has none: a direction, or a weight of
// the user's own that is a function.
func (p part) Formula() string { return p.text }

// partNamed returns a part by its name, or by the formulas that it has in brackets.
func partNamed[T any](kind, name string, in []T, nameOf func(T) string, written func(string) (T, error)) (T, error) {
	inner, open := strings.CutPrefix(name, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !open {
		return find(kind, name, in, nameOf)
	}
	if !closed {
		var none T
		return none, errs.Invalid(fmt.Errorf("the %s %q: want a closing ]", kind, name))
	}
	out, err := written(inner)
	if err != nil {
		err = errs.Invalid(fmt.Errorf("%s %w", kind, err))
	}
	return out, err
}

// ownNumbers are the numbers of the rule's formulas' own.
func (r Rule) ownNumbers() map[string]float64 {
	out := map[string]float64{}
	for _, l := range []*formula.List{r.Pair.formula, r.Triplet.formula, r.Mask.formula} {
		for _, p := range l.Numbers() {
			out[p.Name] = p.Value
		}
	}
	return out
}

// setOwn gives a number of the formulas' own a value. A formula stays valid.
func (r *Rule) setOwn(name string, v float64) {
	if l := r.Pair.formula; l != nil {
		r.Pair, _ = PairFormula(l.With(name, v).String())
	}
	if l := r.Triplet.formula; l != nil {
		r.Triplet, _ = TripletFormula(l.With(name, v).String())
	}
	if l := r.Mask.formula; l != nil {
		r.Mask, _ = MaskFormula(l.With(name, v).String())
	}
}

// writer builds the graph of formulas.
type writer struct {
	*Batch
	list   formula.List
	row    *Node // R, [T, B], inside of a mean; else nil.
	others *[2]others
}

// whole is a formula's value of each triplet, [T].
func (w *writer) whole(i int) *Node { return w.like(w.Sap, w.node(w.list.Exprs[i])) }

// like returns x in the shape of another node.
func (w *writer) like(of, x *Node) *Node {
	if x.Rank() == 0 {
		return BroadcastToDims(x, of.Shape().Dimensions...)
	}
	return BroadcastToShape(x, of.Shape())
}

// node builds a formula: a scalar, [T], or inside of a mean [T, 1] or [T, B].
func (w *writer) node(e *formula.Expr) *Node {
	if e.Op == "" {
		return w.leaf(e)
	}
	if e.Op == "mean" {
		return w.mean(e)
	}
	x := slice.Map(e.Args, w.node)
	if of := oneArgument[e.Op]; of != nil {
		return of(x[0])
	}
	if of := twoArguments[e.Op]; of != nil {
		return of(x[0], x[1])
	}
	shape := x[0] // Of where.
	for _, y := range x[1:] {
		if y.Shape().Size() > shape.Shape().Size() {
			shape = y
		}
	}
	return Where(w.like(shape, x[0]), w.like(shape, x[1]), w.like(shape, x[2]))
}

var oneArgument = map[string]func(x *Node) *Node{
	"neg": Neg, "!": LogicalNot, "exp": Exp, "log": Log, "sqrt": Sqrt, "abs": Abs, "tanh": Tanh, "sigmoid": Sigmoid,
	"relu":     func(x *Node) *Node { return Max(x, ScalarZero(x.Graph(), x.DType())) },
	"softplus": func(x *Node) *Node { return Add(Max(x, ScalarZero(x.Graph(), x.DType())), Log1P(Exp(Neg(Abs(x))))) },
}

var twoArguments = map[string]func(x, y *Node) *Node{
	"+": Add, "-": Sub, "*": Mul, "/": Div, "<": LessThan, "<=": LessOrEqual, ">": GreaterThan, ">=": GreaterOrEqual,
	"&&": LogicalAnd, "||": LogicalOr, "min": Min, "max": Max, "pow": Pow,
}

// leaf builds a number, a variable or a parameter.
func (w *writer) leaf(e *formula.Expr) *Node {
	column := func(x *Node) *Node {
		if w.row != nil {
			return graphs.Column(x)
		}
		return x
	}
	switch e.Name {
	case "":
		return w.scalar(e.Number)
	case "Sap":
		return column(w.Sap)
	case "San":
		return column(w.San)
	case "Dap":
		return column(w.Dap())
	case "Dan":
		return column(w.Dan())
	case "Rap", "Ran":
		return w.row
	}
	for _, n := range Numbers {
		if p := w.number(n); n.Name == e.Name && p.input != nil {
			return p.input
		} else if n.Name == e.Name {
			return w.scalar(p.value)
		}
	}
	for _, p := range w.list.Own {
		if p.Name == e.Name {
			return w.scalar(p.Value)
		}
	}
	panic(fmt.Errorf("formula [%s]: no variable %s", w.list, e.Name)) // [formula.Parse] has refused it.
}

func (w *writer) scalar(v float64) *Node { return Scalar(w.Sap.Graph(), w.Sap.DType(), v) }

// mean builds a mean over 𝒫 or 𝒩, [T].
func (w *writer) mean(e *formula.Expr) *Node {
	if w.others == nil {
		positives, negatives := w.relative()
		w.others = &[2]others{positives, negatives}
	}
	set := w.others[0]
	if e.Name == "Ran" {
		set = w.others[1]
	}
	inside := *w
	return set.mean(func(r *Node) *Node {
		inside.row = r
		return inside.node(e.Args[0])
	}, w.like(w.Sap, w.node(e.Args[1])))
}

// LaTeX returns the equations of the rule's weights and mask in LaTeX, and the values of the formulas' own numbers.
func (r Rule) LaTeX() (out []string) {
	r = r.WithDefaults()
	sides := []string{"P_{+}=", "P_{-}=", "T=", `P_{+}=0\;\mathrm{for}\;`}
	for _, p := range []part{r.Pair.part, r.Triplet.part, r.Mask.part} {
		formulas, own := formula.Labels("[" + p.text + "]")
		for _, of := range formulas {
			out, sides = append(out, sides[0]+of), sides[1:]
		}
		for _, x := range own {
			if !slices.Contains(out, x) {
				out = append(out, x)
			}
		}
	}
	return out
}

// Bound returns the rule's weights as formulas with its numbers. It is an error if one is a function without them.
func (r Rule) Bound() (w formula.Weights, err error) {
	r = r.WithDefaults()
	if r.Pair.text == "" || r.Triplet.text == "" || r.Mask.Of != nil && r.Mask.text == "" {
		return w, fmt.Errorf("rule %s: a part is a function of Go, not a formula", r)
	}
	bound := func(text string, kinds ...formula.Kind) []*formula.Expr {
		l, failed := formula.Parse(text, numberNames(), kinds...)
		err = errors.Join(err, failed)
		return append(l.Bound(r.Numbers()), nil, nil)
	}
	pair := bound(r.Pair.text, formula.IsNumber, formula.IsNumber)
	w = formula.Weights{Positive: pair[0], Negative: pair[1], Triplet: bound(r.Triplet.text, formula.IsNumber)[0]}
	if r.Mask.Of != nil {
		w.Mask = bound(r.Mask.text, formula.IsCondition)[0]
	}
	return w, err
}

// Implied returns the loss of a triplet alone whose gradient the rule is; see [formula.Weights.Implied]. An orthogonal
// direction is of no loss: it is an error.
func (r Rule) Implied() (formula.Implied, error) {
	w, err := r.Bound()
	if err != nil {
		return formula.Implied{}, err
	}
	switch r.WithDefaults().Direction.Name {
	case DirectionCos.Name:
		return w.Implied(false)
	case DirectionEuc.Name:
		return w.Implied(true)
	}
	return formula.Implied{}, fmt.Errorf("rule %s: no loss on similarities moves the negative along %s", r,
		r.Direction.Name)
}

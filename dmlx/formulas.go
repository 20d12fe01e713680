package dmlx

import (
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
	p, err := written(text, formula.IsNumber, formula.IsNumber)
	return PairWeight{Name: p.bracketed(), part: p, Of: func(b *Batch) (positive, negative *Node) {
		x := b.values(p.formulas)
		return x[0], x[1]
	}}, err
}

// TripletFormula returns the triplet weight of a formula: "max(0, San-Sap+0.5)". An error is a [formula.Error].
func TripletFormula(text string) (TripletWeight, error) {
	p, err := written(text, formula.IsNumber)
	return TripletWeight{Name: p.bracketed(), part: p, Of: func(b *Batch) *Node { return b.values(p.formulas)[0] }}, err
}

// MaskFormula returns the mask of a condition, where P₊ becomes zero: "San > Sap". An error is a [formula.Error].
func MaskFormula(text string) (Mask, error) {
	p, err := written(text, formula.IsCondition)
	return Mask{Name: p.bracketed(), part: p, Of: func(b *Batch) *Node { return b.values(p.formulas)[0] }}, err
}

func numberNames() []string { return slice.Map(Numbers, func(n Number) string { return n.Name }) }

// written is a part of formulas.
func written(text string, kinds ...formula.Kind) (part, error) {
	l, err := formula.Parse(text, numberNames(), kinds...)
	return part{known: true, reads: l.Reads(numberNames()), formulas: l}, err
}

// means is a part with a name that the formulas are, too.
func means(text string) part {
	l, _ := formula.ParseAny(text, numberNames()) // Tests read all of them.
	return part{known: true, reads: l.Reads(numberNames()), formulas: l}
}

// Formulas returns the formulas that a part computes, none for one that has none: a direction, or a weight of the
// user's own that is a function.
func (p part) Formulas() formula.List { return p.formulas }

func (p part) bracketed() string { return "[" + p.formulas.String() + "]" }

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
	for _, p := range slices.Concat(r.Pair.formulas.Own, r.Triplet.formulas.Own, r.Mask.formulas.Own) {
		out[p.Name] = p.Value
	}
	return out
}

// setOwn gives a number of the formulas' own a value. A formula stays valid.
func (r *Rule) setOwn(name string, v float64) {
	if l := r.Pair.formulas; len(l.Own) > 0 {
		r.Pair, _ = PairFormula(l.With(name, v).String())
	}
	if l := r.Triplet.formulas; len(l.Own) > 0 {
		r.Triplet, _ = TripletFormula(l.With(name, v).String())
	}
	if l := r.Mask.formulas; len(l.Own) > 0 {
		r.Mask, _ = MaskFormula(l.With(name, v).String())
	}
}

// values builds formulas for each triplet, [T] each.
func (b *Batch) values(of formula.List) []*Node {
	numbers := map[string]float64{}
	for _, n := range Numbers {
		if b.Parameters[n.Name] == nil {
			numbers[n.Name] = n.In(b.Options)
		}
	}
	w := writer{Batch: b, others: &[]others{}}
	return slice.Map(of.Bound(numbers), func(e *formula.Expr) *Node { return like(b.Sap, w.node(e)) })
}

// writer builds the graph of a formula.
type writer struct {
	*Batch
	row    *Node     // R, [T, B], inside of a mean; else nil.
	others *[]others // 𝒫 and 𝒩, once a mean has asked for them.
}

// like returns x in the shape of another node.
func like(of, x *Node) *Node {
	if x.Rank() == 0 {
		return BroadcastToDims(x, of.Shape().Dimensions...)
	}
	return BroadcastToShape(x, of.Shape())
}

// node builds a formula: a scalar, [T], or inside of a mean [T, 1] or [T, B].
func (w writer) node(e *formula.Expr) *Node {
	switch {
	case e.Op == "mean":
		return w.mean(e)
	case e.Op != "":
		x := append(slice.Map(e.Args, w.node), nil, nil)
		return functions[e.Op](x[0], x[1], x[2])
	case e.Name == "":
		return Scalar(w.Sap.Graph(), w.Sap.DType(), e.Number)
	case w.Parameters[e.Name] != nil:
		return w.Parameters[e.Name]
	case e.Name == "Rap", e.Name == "Ran":
		return w.row
	}
	x := variables[e.Name](w.Batch)
	if w.row != nil {
		x = graphs.Column(x)
	}
	return x
}

var variables = map[string]func(*Batch) *Node{
	"Sap": func(b *Batch) *Node { return b.Sap }, "San": func(b *Batch) *Node { return b.San },
	"Dap": (*Batch).Dap, "Dan": (*Batch).Dan,
}

func one(of func(x *Node) *Node) func(x, y, z *Node) *Node {
	return func(x, _, _ *Node) *Node { return of(x) }
}

func two(of func(x, y *Node) *Node) func(x, y, z *Node) *Node {
	return func(x, y, _ *Node) *Node { return of(x, y) }
}

var functions = map[string]func(x, y, z *Node) *Node{
	"neg": one(Neg), "!": one(LogicalNot), "exp": one(Exp), "log": one(Log), "sqrt": one(Sqrt), "abs": one(Abs),
	"tanh": one(Tanh), "sigmoid": one(Sigmoid), "relu": one(relu),
	"softplus": one(func(x *Node) *Node { return Add(relu(x), Log1P(Exp(Neg(Abs(x))))) }),
	"+":        two(Add), "-": two(Sub), "*": two(Mul), "/": two(Div), "pow": two(Pow), "min": two(Min), "max": two(Max),
	"<": two(LessThan), "<=": two(LessOrEqual), ">": two(GreaterThan), ">=": two(GreaterOrEqual), "&&": two(LogicalAnd),
	"||": two(LogicalOr),
	"where": func(x, y, z *Node) *Node {
		shape := x
		for _, other := range []*Node{y, z} {
			if other.Shape().Size() > shape.Shape().Size() {
				shape = other
			}
		}
		return Where(like(shape, x), like(shape, y), like(shape, z))
	},
}

func relu(x *Node) *Node { return Max(x, ScalarZero(x.Graph(), x.DType())) }

// mean builds a mean over 𝒫 or 𝒩, [T].
func (w writer) mean(e *formula.Expr) *Node {
	if len(*w.others) == 0 {
		positives, negatives := w.relative()
		*w.others = []others{positives, negatives}
	}
	set := (*w.others)[0]
	if e.Name == "Ran" {
		set = (*w.others)[1]
	}
	empty := like(w.Sap, w.node(e.Args[1]))
	return set.mean(func(r *Node) *Node {
		w.row = r
		return w.node(e.Args[0])
	}, empty)
}

// LaTeX returns the equations of the rule's weights and mask in LaTeX, and the values of the formulas' own numbers.
func (r Rule) LaTeX() (out []string) {
	r = r.WithDefaults()
	sides := []string{"P_{+}=", "P_{-}=", "T=", `P_{+}=0\;\mathrm{for}\;`}
	for _, p := range []part{r.Pair.part, r.Triplet.part, r.Mask.part} {
		formulas, own := p.formulas.Labels()
		for _, of := range formulas {
			out, sides = append(out, sides[0]+of), sides[1:]
		}
		out = slice.AddNew(out, own...)
	}
	return out
}

// Bound returns the rule's weights as formulas with its numbers. It is an error if one is a function without them.
func (r Rule) Bound() (w formula.Weights, err error) {
	r = r.WithDefaults()
	bound := func(p part) []*formula.Expr { return append(p.formulas.Bound(r.Numbers()), nil, nil) }
	pair, mask := bound(r.Pair.part), bound(r.Mask.part)[0]
	w = formula.Weights{Positive: pair[0], Negative: pair[1], Triplet: bound(r.Triplet.part)[0], Mask: mask}
	if w.Negative == nil || w.Triplet == nil || r.Mask.Of != nil && mask == nil {
		return w, fmt.Errorf("rule %s: a part is a function of Go, not a formula", r)
	}
	return w, nil
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

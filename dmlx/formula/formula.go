// Package formula reads weights of a rule that are written as formulas of a triplet's similarities, such as
// "max(0, San-Sap+0.5)". A formula is parsed once, by go/parser with a whitelist of what it may contain. Its tree has
// one walk for each use: values ([Expr.Value]), canonical text, Python for PyTorch and JAX, and LaTeX ([Expr.Text]),
// and a graph of GoMLX, which package dmlx builds.
package formula

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// Variables are what a formula may read of a triplet: the similarities and distances of its two pairs, and inside of
// mean the similarity of another positive, Rap, or of another negative, Ran.
var Variables = []string{"Sap", "San", "Dap", "Dan", "Rap", "Ran"}

// The most characters of a list of formulas, and the most levels of a formula.
const (
	mostLength = 500
	mostDepth  = 32
)

// Kind is what a formula's value is.
type Kind byte

// The kinds of values.
const (
	IsNumber    Kind = 'n'
	IsCondition Kind = 'c'
)

func (k Kind) String() string {
	if k == IsCondition {
		return "a condition, as San > Sap"
	}
	return "a number"
}

// Expr is a formula or a part of one: a number, a name, or an operator with its arguments.
type Expr struct {
	Op     string  // A function or an operator as in Go; "neg" for a sign, "" for a number or a name.
	Name   string  // Of a variable, a parameter of rules or one of the formula's own; of a mean, Rap or Ran.
	Number float64 // Without Op and Name.
	Args   []*Expr
}

// Parameter is a number of a formula's own, with its value: k=4.
type Parameter struct {
	Name  string
	Value float64
}

func (p Parameter) String() string { return p.Name + "=" + format(p.Value) }

// List is what the brackets of a part hold: one formula, or two of a pair weight, and their own parameters.
type List struct {
	Exprs []*Expr
	Own   []Parameter
}

// Error is what is wrong with a list of formulas, and where.
type Error struct {
	Text string // As it was given.
	At   int    // The character of Text where it is, from 0.
	What string
}

func (e *Error) Error() string {
	return fmt.Sprintf("[%s] at character %d: %s", e.Text, e.At+1, e.What)
}

// reader reads one list.
type reader struct {
	text       string
	parameters []string // That rules have.
	list       List
	read       map[string]bool
}

func (r *reader) fail(at int, format string, args ...any) error {
	at = min(at, len(r.text))
	return errs.Invalid(&Error{r.text, utf8.RuneCountInString(r.text[:at]), fmt.Sprintf(format, args...)})
}

// Parse reads formulas of the given kinds, and then the parameters of their own: "sigmoid(k*(San-Sap)), k=4". They may
// also read the given parameters of rules; nil stands for all words of lower-case letters. An error is an [Error].
func Parse(text string, parameters []string, kinds ...Kind) (List, error) {
	r := &reader{text: text, parameters: parameters, read: map[string]bool{}}
	if len(text) > mostLength {
		return r.list, r.fail(mostLength, "too long: want at most %d characters", mostLength)
	}
	if i := strings.IndexFunc(text, func(c rune) bool { return c == utf8.RuneError || c < ' ' }); i >= 0 {
		return r.list, r.fail(i, "want a formula in one line of text")
	}
	fields, starts := split(text, ",")
	n := len(fields)
	for n > 0 && isParameter(fields[n-1]) {
		n--
	}
	for i := n; i < len(fields); i++ {
		if err := r.own(fields[i], starts[i]); err != nil {
			return r.list, err
		}
	}
	if n != len(kinds) {
		want := "one formula"
		if len(kinds) == 2 {
			want = "two formulas, P+ and P-"
		}
		return r.list, r.fail(append(starts[:n], len(text))[min(n, len(kinds))], "want %s, not %d, and then numbers of its "+
			"own, as k=4", want, n)
	}
	for i, kind := range kinds {
		e, err := r.parse(fields[i], starts[i], kind)
		if err != nil {
			return r.list, err
		}
		r.list.Exprs = append(r.list.Exprs, e)
	}
	for _, p := range r.list.Own {
		if !r.read[p.Name] {
			return r.list, r.fail(strings.LastIndex(text, p.Name), "no formula reads %s", p.Name)
		}
	}
	return r.list, nil
}

// ParseAny reads what the brackets of a part may hold: a triplet weight, the two of a pair weight, or a mask.
func ParseAny(text string, parameters []string) (l List, err error) {
	for _, kinds := range [][]Kind{{IsNumber}, {IsNumber, IsNumber}, {IsCondition}} {
		if l, err = Parse(text, parameters, kinds...); err == nil {
			break
		}
	}
	return l, err
}

// Split splits a text like [strings.Split], but for what stands in brackets of any kind.
func Split(text, sep string) []string { out, _ := split(text, sep); return out }

func split(text, sep string) (fields []string, starts []int) {
	depth, start := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '[', '(':
			depth++
		case ')':
			depth = max(0, depth-1)
		case ']': // A parenthesis that is open still is the formula's fault.
			depth = 0
		}
		if depth == 0 && strings.HasPrefix(text[i:], sep) {
			fields, starts = append(fields, text[start:i]), append(starts, start)
			i += len(sep) - 1
			start = i + 1
		}
	}
	return append(fields, text[start:]), append(starts, start)
}

// Closed is an error for the first [ of a text without its ].
func Closed(text string) error {
	open := -1
	for i, c := range []rune(text + "[") {
		switch {
		case c == ']':
			open = -1
		case c == '[' && open >= 0:
			return errs.Invalid(fmt.Errorf("the [ at character %d has no ]", open+1))
		case c == '[':
			open = i
		}
	}
	return nil
}

// Complete lists how a text that ends within a formula may go on: with each name that its last letters begin.
func Complete(typed string, parameters []string) (out []string) {
	if strings.LastIndexByte(typed, '[') <= strings.LastIndexByte(typed, ']') {
		return nil
	}
	i := 1 + strings.LastIndexFunc(typed, func(c rune) bool { return !unicode.IsLetter(c) })
	for _, name := range slices.Concat(Variables, parameters, Functions) {
		if operators[name] != nil {
			name += "("
		}
		if strings.HasPrefix(name, typed[i:]) {
			out = append(out, typed[:i]+name)
		}
	}
	return out
}

// isParameter reports whether a field is a name with a value, and not a comparison.
func isParameter(field string) bool {
	name, value, found := strings.Cut(field, "=")
	return found && !strings.HasPrefix(value, "=") && token.IsIdentifier(strings.TrimSpace(name))
}

// isLower reports whether a name has lower-case letters and digits alone.
func isLower(name string) bool {
	return !strings.ContainsFunc(name, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') })
}

// own reads a parameter of the formula's own.
func (r *reader) own(field string, at int) error {
	name, value, _ := strings.Cut(field, "=")
	name = strings.TrimSpace(name)
	at += strings.Index(field, name)
	v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	switch {
	case slices.Contains(r.parameters, name):
		return r.fail(at, "%s is a number of rules: set it behind the rule, as ?%s=%s", name, name, strings.TrimSpace(value))
	case slices.Contains(Variables, name), operators[name] != nil:
		return r.fail(at, "%s has a meaning already: want another name", name)
	case !isLower(name):
		return r.fail(at, "the number %s: want a name of lower-case letters", name)
	case r.list.has(name):
		return r.fail(at, "%s is given twice", name)
	case err != nil || !(math.Abs(v) <= math.MaxFloat32):
		return r.fail(at, "%s needs a finite number", name)
	}
	r.list.Own = append(r.list.Own, Parameter{name, v})
	return nil
}

// parse reads one formula of a kind, which stands at a byte of the text.
func (r *reader) parse(text string, at int, kind Kind) (*Expr, error) {
	tree, err := parser.ParseExpr(text)
	if err != nil {
		where, what := at+len(text), err.Error()
		if list, is := errors.AsType[scanner.ErrorList](err); is {
			where, what = at+min(list[0].Pos.Offset, len(text)), list[0].Msg
		}
		return nil, r.fail(where, "%s", strings.NewReplacer("expected 'EOF'", "expected an operator or the end",
			"'EOF'", "the end", "newline", "the end").Replace(what))
	}
	return r.expr(tree, at-1, kind, mostDepth, nil) // Positions in a tree begin with 1.
}

// expr is a tree of go/parser as a formula. Inside of a mean, in takes which of Rap and Ran it reads.
func (r *reader) expr(tree ast.Expr, base int, kind Kind, depth int, in *string) (*Expr, error) {
	tree = ast.Unparen(tree)
	at := base + int(tree.Pos())
	if depth == 0 {
		return nil, r.fail(at, "too deep: want at most %d levels", mostDepth)
	}
	var op string
	var args []ast.Expr
	opAt := at
	switch t := tree.(type) {
	case *ast.BasicLit:
		v, err := strconv.ParseFloat(t.Value, 64)
		if t.Kind != token.INT && t.Kind != token.FLOAT || err != nil || v > math.MaxFloat32 {
			return nil, r.fail(at, "want a number as 0.5, not %s", t.Value)
		}
		return &Expr{Number: v}, r.want(kind, IsNumber, at)
	case *ast.Ident:
		return r.name(t.Name, at, kind, in)
	case *ast.UnaryExpr:
		op, args = map[token.Token]string{token.SUB: "neg", token.NOT: "!"}[t.Op], []ast.Expr{t.X}
		if t.Op == token.ADD {
			return r.expr(t.X, base, kind, depth-1, in)
		} else if op == "" {
			return nil, r.fail(at, "no operator %s: want - or !", t.Op)
		}
	case *ast.BinaryExpr:
		op, args, opAt = t.Op.String(), []ast.Expr{t.X, t.Y}, base+int(t.OpPos)
		if operators[op] == nil {
			return nil, r.fail(opAt, "no operator %s: want + - * / < <= > >= && || or pow(x, y)", op)
		}
	case *ast.CallExpr:
		f, is := t.Fun.(*ast.Ident)
		if !is || t.Ellipsis.IsValid() {
			return nil, r.fail(at, "want a function by its name: %s", strings.Join(Functions, ", "))
		}
		if op, args = f.Name, t.Args; !slices.Contains(Functions, op) {
			return nil, r.fail(at, "no function %s%s", op, didYouMean(op, Functions))
		}
		if (op == "min" || op == "max") && len(args) > 2 { // max(a, b, c) is max(max(a, b), c).
			last := len(args) - 1
			args = []ast.Expr{&ast.CallExpr{Fun: f, Args: args[:last]}, args[last]}
		}
	case *ast.StarExpr:
		return nil, r.fail(at, "no operator **: want pow(x, y), as pow(Sap, 2)")
	default:
		return nil, r.fail(at, "want a formula of numbers, variables and functions")
	}
	o := operators[op]
	if len(args) != len(o.takes()) {
		return nil, r.fail(at, "%s takes %d values, not %d", op, len(o.takes()), len(args))
	}
	if err := r.want(kind, o.gives(), opAt); err != nil {
		return nil, err
	}
	out := &Expr{Op: op}
	for i, a := range args {
		inside := in
		if op == "mean" && in != nil {
			return nil, r.fail(at, "a mean inside of a mean")
		} else if op == "mean" && i == 0 {
			inside = &out.Name
		}
		e, err := r.expr(a, base, Kind(o.kinds[i]), depth-1, inside)
		if err != nil {
			return nil, err
		}
		if op == "mean" && i == 0 && out.Name == "" {
			return nil, r.fail(at, "a mean reads Rap, of the other positives, or Ran, of the other negatives")
		}
		out.Args = append(out.Args, e)
	}
	return out, nil
}

// didYouMean ends an error about a name with the nearest of those that there are, or with all.
func didYouMean(name string, known []string) string {
	if near := errs.Nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ": want " + strings.Join(known, ", ")
}

// name is a variable or a parameter.
func (r *reader) name(name string, at int, kind Kind, in *string) (*Expr, error) {
	switch {
	case operators[name] != nil:
		return nil, r.fail(at, "%s is a function: want %s(…)", name, name)
	case r.parameters == nil && isLower(name), slices.Contains(r.parameters, name), r.list.has(name):
	case !slices.Contains(Variables, name):
		known := slices.Concat(Variables, r.parameters, slice.Map(r.list.Own, func(p Parameter) string { return p.Name }),
			[]string{"or a number of its own behind it, as k=4"})
		return nil, r.fail(at, "no variable %s%s", name, didYouMean(name, known))
	case name == "Rap" || name == "Ran":
		if in == nil {
			return nil, r.fail(at, "%s stands inside of a mean alone, as mean(Sap-Rap, 0)", name)
		}
		if *in != "" && *in != name {
			return nil, r.fail(at, "a mean of Rap and Ran: want one of them")
		}
		*in = name
	}
	r.read[name] = true
	return &Expr{Name: name}, r.want(kind, IsNumber, at)
}

func (r *reader) want(want, got Kind, at int) error {
	if want == got {
		return nil
	}
	return r.fail(at, "want %s here, not %s", want, strings.Split(got.String(), ",")[0])
}

// Reads lists the parameters of rules that the formulas read, of those that [Parse] was given.
func (l List) Reads(parameters []string) []string {
	return slices.DeleteFunc(slices.Clone(parameters), func(p string) bool {
		return !slices.ContainsFunc(l.Exprs, func(e *Expr) bool { return e.reads(p) })
	})
}

func (e *Expr) reads(name string) bool {
	return e.Name == name || e.Op == "mean" && name == "epsilon" ||
		slices.ContainsFunc(e.Args, func(a *Expr) bool { return a.reads(name) })
}

// String is the canonical text, with the spaces of gofmt in the arguments of a function. [Parse] reads it back.
func (l List) String() string {
	out := slice.Map(l.Exprs, func(e *Expr) string { return e.Text(Go, nil) })
	return strings.Join(append(out, slice.Map(l.Own, Parameter.String)...), ", ")
}

func (l List) has(own string) bool {
	return slices.ContainsFunc(l.Own, func(p Parameter) bool { return p.Name == own })
}

// With returns the list with another value of a parameter of its own.
func (l List) With(name string, v float64) List {
	l.Own = slices.Clone(l.Own)
	for i := range l.Own {
		if l.Own[i].Name == name {
			l.Own[i].Value = v
		}
	}
	return l
}

// Bound returns the formulas with numbers for the parameters of their own, and those of rules that are given.
func (l List) Bound(parameters map[string]float64) []*Expr {
	values := map[string]float64{}
	maps.Copy(values, parameters)
	for _, p := range l.Own {
		values[p.Name] = p.Value
	}
	return slice.Map(l.Exprs, func(e *Expr) *Expr { return e.bound(values) })
}

func (e *Expr) bound(values map[string]float64) *Expr {
	if v, is := values[e.Name]; is && e.Op == "" {
		return &Expr{Number: v}
	}
	out := *e
	out.Args = slice.Map(e.Args, func(a *Expr) *Expr { return a.bound(values) })
	return &out
}

// Value returns a bound formula's value for a triplet alone, without other positives and negatives: a condition is 1
// or 0.
func (e *Expr) Value(sap, san float64) float64 {
	switch {
	case e.Op == "mean":
		return e.Args[1].Value(sap, san)
	case e.Op != "":
		x := [3]float64{}
		for i, a := range e.Args {
			x[i] = a.Value(sap, san)
		}
		return operators[e.Op].value(x[0], x[1], x[2])
	}
	switch e.Name {
	case "Sap":
		return sap
	case "San":
		return san
	case "Dap":
		return math.Sqrt(max(0, 2-2*sap))
	case "Dan":
		return math.Sqrt(max(0, 2-2*san))
	}
	return e.Number
}

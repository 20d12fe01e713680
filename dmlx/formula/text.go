package formula

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// Language is what [Expr.Text] writes.
type Language int

// The languages. LaTeX is of the subset that package figures draws.
const (
	Go Language = iota
	Python
	LaTeX
)

// operator is a function or an operator. What it takes and gives are the letters of its kinds, the last that of its
// value. It is written as in texts, for each language: $1 is its first argument, in parentheses if it binds less than
// it must, #1 the same as it is, and @ the set of a mean. Where a text is "" it is a call by its name.
type operator struct {
	kinds string
	binds int // Of ||, 1, up to that of a call.
	texts [3]string
	value func(x, y, z float64) float64
}

func (o *operator) takes() string { return o.kinds[:len(o.kinds)-1] }
func (o *operator) gives() Kind   { return Kind(o.kinds[len(o.kinds)-1]) }

// How strongly the operators bind.
const (
	ors = iota + 1
	ands
	comparison
	sum
	product
	sign
	call
)

func one(of func(x float64) float64) func(x, y, z float64) float64 {
	return func(x, _, _ float64) float64 { return of(x) }
}

func two(of func(x, y float64) float64) func(x, y, z float64) float64 {
	return func(x, y, _ float64) float64 { return of(x, y) }
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func relu(x float64) float64 { return max(x, 0) }

var operators = map[string]*operator{
	"||": {"ccc", ors, [3]string{"$1 || $2", "$1 | $2", `$1\;\mathrm{or}\;$2`}, two(math.Max)},
	"&&": {"ccc", ands, [3]string{"$1 && $2", "$1 & $2", `$1\;\mathrm{and}\;$2`}, two(math.Min)},
	"!":  {"cc", sign, [3]string{"!$1", "~$1", `\mathrm{not}\;$1`}, one(func(x float64) float64 { return 1 - x })},
	"<": {"nnc", comparison, [3]string{"$1 < $2", "$1 < $2", "$1<$2"},
		two(func(x, y float64) float64 { return truth(x < y) })},
	"<=": {"nnc", comparison, [3]string{"$1 <= $2", "$1 <= $2", `$1\le $2`},
		two(func(x, y float64) float64 { return truth(x <= y) })},
	">": {"nnc", comparison, [3]string{"$1 > $2", "$1 > $2", "$1>$2"},
		two(func(x, y float64) float64 { return truth(x > y) })},
	">=": {"nnc", comparison, [3]string{"$1 >= $2", "$1 >= $2", `$1\ge $2`},
		two(func(x, y float64) float64 { return truth(x >= y) })},
	"+": {"nnn", sum, [3]string{"$1+$2", "$1 + $2", "$1+$2"}, two(func(x, y float64) float64 { return x + y })},
	"-": {"nnn", sum, [3]string{"$1-$2", "$1 - $2", "$1-$2"}, two(func(x, y float64) float64 { return x - y })},
	"*": {"nnn", product, [3]string{"$1*$2", "$1 * $2", `$1\cdot $2`}, two(func(x, y float64) float64 { return x * y })},
	"/": {"nnn", product, [3]string{"$1/$2", "$1 / $2", "$1/$2"}, two(func(x, y float64) float64 { return x / y })},

	"neg":  {"nn", sign, [3]string{"-$1", "-$1", "-$1"}, one(func(x float64) float64 { return -x })},
	"pow":  {"nnn", sign, [3]string{"", "$1**$2", "{$1}^{#2}"}, two(math.Pow)},
	"min":  {"nnn", call, [3]string{"", "minimum(#1, #2)", ""}, two(math.Min)},
	"max":  {"nnn", call, [3]string{"", "maximum(#1, #2)", ""}, two(math.Max)},
	"mean": {"nnn", call, [3]string{"", "mean(#1, @, #2)", `\mathrm{mean}_{@}(#1;\;#2)`}, nil},
	"exp":  {"nn", call, [3]string{"", "", "e^{#1}"}, one(math.Exp)},
	"log":  {"nn", call, [3]string{}, one(math.Log)},
	"sqrt": {"nn", call, [3]string{"", "", `\sqrt{#1}`}, one(math.Sqrt)},
	"abs":  {"nn", call, [3]string{"", "", "|#1|"}, one(math.Abs)},
	"tanh": {"nn", call, [3]string{}, one(math.Tanh)},
	"relu": {"nn", call, [3]string{"", "maximum(#1, 0)", ""}, one(relu)},
	"sigmoid": {"nn", call, [3]string{"", "", `\sigma(#1)`},
		one(func(x float64) float64 { return 1 / (1 + math.Exp(-x)) })},
	"softplus": {"nn", call, [3]string{},
		one(func(x float64) float64 { return relu(x) + math.Log1p(math.Exp(-math.Abs(x))) })},
	"where": {"cnnn", call, [3]string{}, func(x, y, z float64) float64 {
		if x != 0 {
			return y
		}
		return z
	}},
}

// Functions lists the functions that a formula may call.
var Functions = []string{"exp", "log", "sqrt", "abs", "min", "max", "pow", "sigmoid", "softplus", "tanh", "relu",
	"where", "mean"}

// format returns a number as it is written.
func format(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// Text returns the formula in a language. name returns how a variable or a parameter is called there, nil for its own
// name, and for the usual symbol in LaTeX; inMean says whether it stands inside of a mean, where a variable has a row
// for each anchor. Python computes on arrays like s_ap, so what would be a number alone becomes one by full_like.
func (e *Expr) Text(l Language, name func(name string, inMean bool) string) string {
	if name == nil {
		name = func(name string, _ bool) string { return name }
		if l == LaTeX {
			name = symbol
		}
	}
	text, _ := e.text(l, name, false)
	if l == Python && e.plain() {
		text = "full_like(" + name("Sap", false) + ", " + text + ")"
	}
	return text
}

// symbol is how a variable or a parameter is called in LaTeX.
func symbol(name string, _ bool) string {
	switch {
	case slices.Contains(Variables, name):
		return strings.Replace(name[:1], "D", "d", 1) + "_{" + name[1:] + "}"
	case slices.Contains([]string{"alpha", "beta", "gamma", "epsilon", "lambda", "mu", "rho", "sigma", "tau"}, name):
		return `\` + name + " "
	case len(name) > 1:
		return `\mathrm{` + name + "}"
	}
	return name
}

// Labels returns a part's formulas in LaTeX, and its own parameters, if its name are formulas in brackets.
func Labels(part string) (formulas, own []string) {
	if text, is := strings.CutPrefix(part, "["); is {
		if l, err := ParseAny(strings.TrimSuffix(text, "]"), nil); err == nil {
			return l.Labels()
		}
	}
	return nil, nil
}

// Labels returns the formulas in LaTeX, and their own parameters.
func (l List) Labels() (formulas, own []string) {
	return slice.Map(l.Exprs, func(e *Expr) string { return e.Text(LaTeX, nil) }),
		slice.Map(l.Own, func(p Parameter) string { return symbol(p.Name, false) + "=" + format(p.Value) })
}

func (e *Expr) text(l Language, name func(string, bool) string, inMean bool) (text string, binds int) {
	switch {
	case e.Name != "" && e.Op == "":
		return name(e.Name, inMean), call
	case e.Op == "":
		return format(e.Number), call
	}
	o := operators[e.Op]
	form, binds := o.texts[l], o.binds
	if form == "" {
		called := e.Op
		if l == LaTeX {
			called = `\mathrm{` + e.Op + "}"
		}
		form, binds = called+"(#1, #2, #3"[:len(o.takes())*4-1]+")", call
	}
	var out strings.Builder
	for i := 0; i < len(form); i++ {
		switch c := form[i]; c {
		case '@':
			out.WriteString(name(map[string]string{"Rap": "P", "Ran": "N"}[e.Name], inMean))
		case '$', '#':
			i++
			out.WriteString(e.argument(l, int(form[i]-'1'), c == '#', name, inMean))
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), binds
}

// argument is the text of an argument, in parentheses if its operator needs them and does not enclose it.
func (e *Expr) argument(l Language, i int, enclosed bool, name func(string, bool) string, inMean bool) string {
	inMean = inMean || e.Op == "mean" && i == 0
	text, binds := e.Args[i].text(l, name, inMean)
	o, first := operators[e.Op], 0
	need := o.binds
	if i > 0 || need == sign {
		need++
	}
	if l == Python && o.kinds[0] == 'c' { // There & binds more than <.
		need, first = call, len(o.kinds)/4 // The first value, of where.
	}
	if !enclosed && (binds < need || i > 0 && strings.HasPrefix(text, "-")) {
		text = "(" + text + ")"
	}
	if l == Python && i == first && !slices.Contains(arithmetic, e.Op) &&
		!slices.ContainsFunc(e.Args[i:], func(a *Expr) bool { return !a.plain() }) {
		text = "full_like(" + name("Sap", inMean) + ", " + text + ")"
	}
	return text
}

// plain reports whether Python has the formula as a number, not an array.
func (e *Expr) plain() bool {
	return !slices.Contains(Variables, e.Name) && (e.Op == "" || slices.Contains(arithmetic, e.Op)) &&
		!slices.ContainsFunc(e.Args, func(a *Expr) bool { return !a.plain() })
}

// arithmetic are the operators that Python has for numbers and arrays alike.
var arithmetic = []string{"+", "-", "*", "/", "neg"}

package formula

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Language is what [Expr.Text] writes.
type Language int

// The languages. LaTeX is of the subset that package figures draws.
const (
	Go Language = iota
	Python
	LaTeX
)

// operator is a function or an operator: the kinds that it takes and gives, its value, and how it is written, where
// that is not a call by its name.
type operator struct {
	takes string
	gives Kind
	value func(x, y, z float64) float64
	texts map[Language]form
}

// form is how an operator is written: "$1+$2". An argument that binds less than it needs is put in parentheses.
type form struct {
	text  string
	binds int // Of ||, 1, up to that of a call.
	needs [2]int
}

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

// infix is an operator that is written alike in Go and Python, with spaces in the latter.
func infix(op, latex string, binds int, needs [2]int, value func(x, y float64) float64) *operator {
	text, gives := "$1"+op+"$2", IsNumber
	spaced := "$1 " + op + " $2"
	if binds == comparison {
		text, gives = spaced, IsCondition
	}
	return &operator{"nn", gives, func(x, y, _ float64) float64 { return value(x, y) }, map[Language]form{
		Go: {text, binds, needs}, Python: {spaced, binds, needs}, LaTeX: {"$1" + latex + "$2", binds, needs}}}
}

func compare(op, latex string, is func(x, y float64) bool) *operator {
	return infix(op, latex, comparison, [2]int{sum, sum}, func(x, y float64) float64 { return truth(is(x, y)) })
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// function is one of a number. Its LaTeX, if any, encloses the argument.
func function(value func(x float64) float64, latex string) *operator {
	o := &operator{"n", IsNumber, func(x, _, _ float64) float64 { return value(x) }, map[Language]form{}}
	if latex != "" {
		o.texts[LaTeX] = form{text: latex, binds: call}
	}
	return o
}

// logical is an operator of conditions. In Python its arguments need parentheses.
func logical(goText, python, latex string, binds int, value func(x, y float64) float64) *operator {
	takes, needs := "cc", [2]int{binds, binds + 1}
	if binds == sign {
		takes, needs = "c", [2]int{call}
	}
	return &operator{takes, IsCondition, func(x, y, _ float64) float64 { return value(x, y) }, map[Language]form{
		Go: {goText, binds, needs}, Python: {python, binds, [2]int{call, call}}, LaTeX: {latex, binds, needs}}}
}

var operators map[string]*operator

func init() {
	left, right := [2]int{sum, product}, [2]int{product, sign}
	minus := form{"-$1", sign, [2]int{call}}
	operators = map[string]*operator{
		"||": logical("$1 || $2", "$1 | $2", `$1\;\mathrm{or}\;$2`, ors, math.Max),
		"&&": logical("$1 && $2", "$1 & $2", `$1\;\mathrm{and}\;$2`, ands, math.Min),
		"!":  logical("!$1", "~$1", `\mathrm{not}\;$1`, sign, func(x, _ float64) float64 { return 1 - x }),
		"<":  compare("<", "<", func(x, y float64) bool { return x < y }),
		"<=": compare("<=", `\le `, func(x, y float64) bool { return x <= y }),
		">":  compare(">", ">", func(x, y float64) bool { return x > y }),
		">=": compare(">=", `\ge `, func(x, y float64) bool { return x >= y }),
		"+":  infix("+", "+", sum, left, func(x, y float64) float64 { return x + y }),
		"-":  infix("-", "-", sum, left, func(x, y float64) float64 { return x - y }),
		"*":  infix("*", `\cdot `, product, right, func(x, y float64) float64 { return x * y }),
		"/":  infix("/", "/", product, right, func(x, y float64) float64 { return x / y }),
		"neg": {"n", IsNumber, func(x, _, _ float64) float64 { return -x },
			map[Language]form{Go: minus, Python: minus, LaTeX: minus}},
		"pow": {"nn", IsNumber, func(x, y, _ float64) float64 { return math.Pow(x, y) }, map[Language]form{
			Python: {"$1**$2", sign, [2]int{call, call}}, LaTeX: {"{$1}^{$2}", sign, [2]int{call}}}},
		"min": {"nn", IsNumber, func(x, y, _ float64) float64 { return math.Min(x, y) }, map[Language]form{
			Python: {text: "minimum($1, $2)", binds: call}}},
		"max": {"nn", IsNumber, func(x, y, _ float64) float64 { return math.Max(x, y) }, map[Language]form{
			Python: {text: "maximum($1, $2)", binds: call}}},
		"where": {"cnn", IsNumber, func(x, y, z float64) float64 {
			if x != 0 {
				return y
			}
			return z
		}, nil},
		"mean": {"nn", IsNumber, nil, map[Language]form{Python: {text: "mean($1, $set, $2)", binds: call},
			LaTeX: {text: `\mathrm{mean}_{$set}($1;\;$2)`, binds: call}}},
		"exp":     function(math.Exp, "e^{$1}"),
		"log":     function(math.Log, ""),
		"sqrt":    function(math.Sqrt, `\sqrt{$1}`),
		"abs":     function(math.Abs, "|$1|"),
		"tanh":    function(math.Tanh, ""),
		"relu":    function(func(x float64) float64 { return max(x, 0) }, ""),
		"sigmoid": function(func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, `\sigma($1)`),
		"softplus": function(func(x float64) float64 {
			return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
		}, ""),
	}
	operators["relu"].texts[Python] = form{text: "maximum($1, 0)", binds: call}
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
	text, is := strings.CutPrefix(part, "[")
	for _, kinds := range [][]Kind{{IsNumber}, {IsNumber, IsNumber}, {IsCondition}} {
		l, err := Parse(strings.TrimSuffix(text, "]"), nil, kinds...)
		if !is || err != nil {
			continue
		}
		for _, e := range l.Exprs {
			formulas = append(formulas, e.Text(LaTeX, nil))
		}
		for _, p := range l.Own {
			own = append(own, symbol(p.Name, false)+"="+format(p.Value))
		}
	}
	return formulas, own
}

func (e *Expr) text(l Language, name func(string, bool) string, inMean bool) (text string, binds int) {
	switch {
	case e.Name != "" && e.Op == "":
		return name(e.Name, inMean), call
	case e.Op == "":
		return format(e.Number), call
	}
	o := operators[e.Op]
	f, is := o.texts[l]
	if !is {
		called := e.Op
		if l == LaTeX {
			called = `\mathrm{` + e.Op + "}"
		}
		f = form{text: called + [...]string{"($1)", "($1, $2)", "($1, $2, $3)"}[len(o.takes)-1], binds: call}
	}
	var out strings.Builder
	for before, rest, found := strings.Cut(f.text, "$"); ; before, rest, found = strings.Cut(rest, "$") {
		out.WriteString(before)
		if !found {
			return out.String(), f.binds
		}
		if of, is := strings.CutPrefix(rest, "set"); is { // Of a mean.
			out.WriteString(name(map[string]string{"Rap": "P", "Ran": "N"}[e.Name], inMean))
			rest = of
			continue
		}
		out.WriteString(e.argument(l, f, int(rest[0]-'1'), name, inMean))
		rest = rest[1:]
	}
}

// argument is the text of an argument, in parentheses if its operator needs them.
func (e *Expr) argument(l Language, f form, i int, name func(string, bool) string, inMean bool) string {
	inMean = inMean || e.Op == "mean" && i == 0
	text, binds := e.Args[i].text(l, name, inMean)
	if i < 2 && binds < f.needs[i] || i == 1 && f.binds < call && strings.HasPrefix(text, "-") {
		text = "(" + text + ")"
	}
	if l == Python && i == e.firstValue() && !slices.Contains(arithmetic, e.Op) &&
		!slices.ContainsFunc(e.Args[i:], func(a *Expr) bool { return !a.plain() }) {
		text = "full_like(" + name("Sap", inMean) + ", " + text + ")"
	}
	return text
}

// firstValue is the first argument that is a value of the operator.
func (e *Expr) firstValue() int {
	if e.Op == "where" {
		return 1
	}
	return 0
}

// plain reports whether Python has the formula as a number, not an array.
func (e *Expr) plain() bool {
	return !slices.Contains(Variables, e.Name) && (e.Op == "" || slices.Contains(arithmetic, e.Op)) &&
		!slices.ContainsFunc(e.Args, func(a *Expr) bool { return !a.plain() })
}

// arithmetic are the operators that Python has for numbers and arrays alike.
var arithmetic = []string{"+", "-", "*", "/", "neg"}

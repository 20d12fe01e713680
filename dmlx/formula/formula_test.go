package formula

import (
	"errors"
	gofmt "go/format"
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
)

var parameters = []string{"tau", "alpha", "beta", "lambda", "epsilon"}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, canonical, python, latex string
		kinds                          []Kind
		at                             float64 // The value at S_ap = 0.6 and S_an = 0.2.
	}{
		{"max( 0 , (San - Sap) + .50)", "max(0, San-Sap+0.5)", "maximum(0, San - Sap + 0.5)",
			`\mathrm{max}(0, San-Sap+0.5)`, nil, 0.1},
		{"San - (Sap - 1)", "San-(Sap-1)", "San - (Sap - 1)", "San-(Sap-1)", nil, 0.6},
		{"-San*-Sap - -2", "-San*(-Sap)-(-2)", "-San * (-Sap) - (-2)", `-San\cdot (-Sap)-(-2)`, nil, 2.12},
		{"1-(San/2/2)", "1-San/2/2", "1 - San / 2 / 2", "1-San/2/2", nil, 0.95},
		{"+San/(2/4)", "San/(2/4)", "San / (2 / 4)", "San/(2/4)", nil, 0.4},
		{"max(1, San, 2)", "max(max(1, San), 2)", "maximum(maximum(1, San), 2)",
			`\mathrm{max}(\mathrm{max}(1, San), 2)`, nil, 2},
		{"where(San>Sap || !(Sap<=.5&&1>=San), exp(1), pow(San,2))",
			"where(San > Sap || !(Sap <= 0.5 && 1 >= San), exp(1), pow(San, 2))",
			"where((San > Sap) | (~((Sap <= 0.5) & (1 >= San))), exp(full_like(Sap, 1)), San**2)",
			`\mathrm{where}(San>Sap\;\mathrm{or}\;\mathrm{not}\;(Sap\le 0.5\;\mathrm{and}\;1\ge San), e^{1}, {San}^{2})`,
			nil, math.E},
		{"where(San>Sap, 1, 0)", "where(San > Sap, 1, 0)", "where(San > Sap, full_like(Sap, 1), 0)",
			`\mathrm{where}(San>Sap, 1, 0)`, nil, 0},
		{"0.5", "0.5", "full_like(Sap, 0.5)", "0.5", nil, 0.5},
		{"1/(1+exp(tau*(Sap-San)))", "1/(1+exp(tau*(Sap-San)))", "1 / (1 + exp(tau * (Sap - San)))",
			`1/(1+e^{tau\cdot (Sap-San)})`, nil, 1 / (1 + math.Exp(0.8))},
		{"sigmoid(k*(San-Sap)) , k = 4e0", "sigmoid(k*(San-Sap)), k=4", "sigmoid(k * (San - Sap))",
			`\sigma(k\cdot (San-Sap))`, nil, 1 / (1 + math.Exp(1.6))},
		{"mean(Sap-Rap, 0)+Dan", "mean(Sap-Rap, 0)+Dan", "mean(Sap - Rap, P, 0) + Dan",
			`\mathrm{mean}_{P}(Sap-Rap;\;0)+Dan`, nil, math.Sqrt(1.6)},
		{"abs(San-sqrt(Sap))+tanh(log(Dap))+relu(-San)+softplus(San)*min(San, 1)",
			"abs(San-sqrt(Sap))+tanh(log(Dap))+relu(-San)+softplus(San)*min(San, 1)",
			"abs(San - sqrt(Sap)) + tanh(log(Dap)) + maximum(-San, 0) + softplus(San) * minimum(San, 1)",
			`|San-\sqrt{Sap}|+\mathrm{tanh}(\mathrm{log}(Dap))+\mathrm{relu}(-San)+\mathrm{softplus}(San)\cdot \mathrm{min}` +
				`(San, 1)`, nil,
			math.Sqrt(0.6) - 0.2 + math.Tanh(math.Log(math.Sqrt(0.8))) + 0.2*math.Log(1+math.Exp(0.2))},
		{"San > Sap", "San > Sap", "San > Sap", "San>Sap", []Kind{IsCondition}, 0},
	} {
		kinds := c.kinds
		if kinds == nil {
			kinds = []Kind{IsNumber}
		}
		l, err := Parse(c.text, parameters, kinds...)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		e := l.Exprs[0]
		if l.String() != c.canonical || e.Text(Python, nil) != c.python &&
			e.Text(Python, sets) != c.python || e.Text(LaTeX, sets) != c.latex {
			t.Errorf("%s: %s, %s, %s", c.text, l, e.Text(Python, sets), e.Text(LaTeX, sets))
		}
		bound := l.Bound(map[string]float64{"tau": 2})[0]
		if got := bound.Value(0.6, 0.2); math.Abs(got-c.at) > 1e-12 {
			t.Errorf("%s is %g, want %g", c.text, got, c.at)
		}
		// The canonical text is read back as itself, and is what gofmt prints.
		if again, err := Parse(l.String(), parameters, kinds...); err != nil || again.String() != l.String() {
			t.Errorf("%s is read as %s (%v)", l, again, err)
		}
		call := "f(0, " + e.Text(Go, nil) + ")"
		if got, err := gofmt.Source([]byte(call)); err != nil || string(got) != call {
			t.Errorf("gofmt prints %s as %s (%v)", call, got, err)
		}
	}
	l, err := Parse("1-Sap, San*k, k=2", parameters, IsNumber, IsNumber)
	if err != nil || l.String() != "1-Sap, San*k, k=2" || l.With("k", 3).String() != "1-Sap, San*k, k=3" {
		t.Errorf("%s, %s: %v", l, l.With("k", 3), err)
	}
	if l, err = Parse("mean(exp(alpha*(Sap-Rap)), 1)*tau", parameters, IsNumber); err != nil ||
		strings.Join(l.Reads(parameters), " ") != "tau alpha epsilon" {
		t.Errorf("%s reads %v: %v", l, l.Reads(parameters), err)
	}
}

// sets are names as package pytorch gives them, but for variables.
func sets(name string, _ bool) string { return name }

// An error says where it is, what is wrong, and what would be right.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		at   int
		want string
	}{
		{"1-Spa", 2, "no variable Spa; did you mean Sap?"},
		{"", 0, "expected operand, found the end"},
		{"max(0, San", 10, "missing ',' before the end"},
		{"San 5", 4, "expected an operator or the end, found 5"},
		{"San**2", 4, "no operator **: want pow(x, y)"},
		{"maximum(0, San)", 0, "no function maximum: want exp, log"},
		{"sigmiod(San)", 0, "did you mean sigmoid?"},
		{"exp", 0, "exp is a function: want exp(…)"},
		{"exp(San, 2)", 0, "exp takes 1 values, not 2"},
		{"max()", 0, "max takes 2 values, not 0"},
		{"max(San)", 0, "max takes 2 values, not 1"},
		{"San > Sap", 4, "want a number here, not a condition"},
		{"where(San, 1, 2)", 6, "want a condition, as San > Sap here, not a number"},
		{"Sap < San < 1", 10, "want a number here, not a condition"},
		{"San^2", 3, "no operator ^: want + - * / < <= > >= && || or pow(x, y)"},
		{"San%2", 3, "no operator %: want + - * /"},
		{"&San", 0, "no operator &"},
		{"Rap", 0, "Rap stands inside of a mean alone"},
		{"mean(Sap, 0)", 0, "a mean reads Rap"},
		{"mean(Rap-Ran, 0)", 9, "a mean of Rap and Ran"},
		{"mean(Rap, Rap)", 10, "inside of a mean alone"},
		{"mean(mean(Rap, 0), 0)", 5, "a mean inside of a mean"},
		{"San.x", 0, "want a formula of numbers"},
		{"func() {}", 0, "want a formula of numbers"},
		{"San[0]", 0, "want a formula"},
		{"x.f(San)", 0, "want a function by its name"},
		{"'a'", 0, "want a number as 0.5"},
		{"\"a\"", 0, "want a number as 0.5"},
		{"1e39", 0, "want a number as 0.5"},
		{"2i", 0, "want a number as 0.5"},
		{"San, Sap", 4, "want one formula, not 2, and then numbers of its own"},
		{"San*k", 4, "epsilon, or a number of its own behind it, as k=4"},
		{"San*k, k", 6, "want one formula"},
		{"San, k=4", 5, "no formula reads k"},
		{"San*k, k=4, k=5", 12, "k is given twice"},
		{"San*k, k=x", 7, "k needs a finite number"},
		{"San*k, k=Inf", 7, "k needs a finite number"},
		{"San*tau, tau=2", 9, "tau is a number of rules"},
		{"San, exp=2", 5, "exp has a meaning already"},
		{"San*K, K=2", 7, "lower-case"},
		{"San\n+1", 3, "in one line"},
		{"San\xff", 3, "in one line"},
		{"τ*San", 0, "no variable τ"},
		{strings.Repeat("(", 300) + "San" + strings.Repeat(")", 300), 500, "too long"},
		{strings.Repeat("-", 1) + strings.Repeat("exp(", 40) + "San" + strings.Repeat(")", 40), 125, "too deep"},
	} {
		_, err := Parse(c.text, parameters, IsNumber)
		e, is := errors.AsType[*Error](err)
		if !is || e.At != c.at || !strings.Contains(err.Error(), c.want) || !errs.IsInvalid(err) {
			t.Errorf("%q: %v; want it at %d: …%s…", c.text, err, c.at+1, c.want)
		}
	}
	if _, err := Parse("San", parameters, IsNumber, IsNumber); err == nil || !strings.Contains(err.Error(), "P+ and P-") {
		t.Error(err)
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, sep, want string }{
		{"cos/[1/2, (San/Sap)]/con", "/", "cos|[1/2, (San/Sap)]|con"},
		{"Ours = cos/[San*k, k = 4]/con", " = ", "Ours|cos/[San*k, k = 4]/con"},
		{"]/[", "/", "]|["}, {"", "/", ""}, {"[a/b", "/", "[a/b"}, {"[(a/b]/c", "/", "[(a/b]|c"},
	} {
		if got := strings.Join(Split(c.text, c.sep), "|"); got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
}

// What is read has a canonical text that is read as the same formula: no panic, no other value.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"max(0, San-Sap+0.5)", "sigmoid(k*(San-Sap)), k=4", "-(San - -Sap)*-2/3",
		"where(San > Sap || !(Dap <= 1), 1, mean(exp(tau*(Sap-Rap)), 1))", "pow(abs(Ran), 2), a=1e-3", "((("} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Parse(text, parameters, IsNumber)
		if err != nil {
			if e, is := errors.AsType[*Error](err); !is || e.At < 0 || e.At > len(text) || strings.Contains(e.What, "\n") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		again, err := Parse(l.String(), parameters, IsNumber)
		if err != nil && len(l.String()) <= mostLength || err == nil && again.String() != l.String() {
			t.Fatalf("%q is %s, which is read as %s (%v)", text, l, again, err)
		}
		if err != nil {
			return
		}
		numbers := map[string]float64{"tau": 1, "alpha": 2, "beta": 10, "lambda": 0.5, "epsilon": 0.1}
		x, y := l.Bound(numbers)[0].Value(0.3, -0.4), again.Bound(numbers)[0].Value(0.3, -0.4)
		if x != y && (x == x || y == y) {
			t.Errorf("%q is %g, and %s is %g", text, x, again, y)
		}
		l.Exprs[0].Text(Python, sets)
		l.Exprs[0].Text(LaTeX, sets)
	})
}

// A formula is read and written at each keystroke.
func BenchmarkParse(b *testing.B) {
	text := "1/(mean(exp(alpha*(Sap-Rap)), 1)+exp(alpha*(Sap-lambda))), " +
		"1/(mean(exp(-beta*(San-Ran)), 1)+exp(-beta*(San-lambda)))"
	b.ReportAllocs()
	for b.Loop() {
		l, err := Parse(text, parameters, IsNumber, IsNumber)
		if err != nil || l.String() != text {
			b.Fatal(l, err)
		}
	}
}

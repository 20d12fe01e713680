package dmlx_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/formula"
)

// inFormulas is a rule with the formulas of its parts for their names.
func inFormulas(t *testing.T, r dmlx.Rule) dmlx.Rule {
	t.Helper()
	name := r.Direction.Name + "/[" + r.Pair.Formulas().String() + "]/[" + r.Triplet.Formulas().String() + "]"
	if r.Mask.Of != nil {
		name += "+[" + r.Mask.Formulas().String() + "]"
	}
	_, options, has := strings.Cut(r.Name(), "?")
	if has {
		name += "?" + options
	}
	f, err := dmlx.ParseRule(name)
	if err != nil {
		t.Fatal(err)
	}
	if f.Name() != name || f.Custom() || strings.Join(f.UsedOptions(), " ") != strings.Join(r.UsedOptions(), " ") {
		t.Errorf("%s is read as %s, custom %v, with the options %v, not %v", name, f, f.Custom(), f.UsedOptions(),
			r.UsedOptions())
	}
	return f
}

// The paper's rules have the same gradients as formulas, at the normalized embeddings and at those given.
func TestPaperInFormulas(t *testing.T) {
	t.Parallel()
	e := dissect.Sample(6, 4, 5, 0.9, 7)
	all := dmlx.Rules()
	for i, r := range dmlx.Rules() {
		if r.Mask.Name == dmlx.SC2.Name {
			all[i].Mask = dmlx.SC2Printed
			all = append(all, r)
		}
	}
	for _, options := range []string{"", "tau=3&alpha=1.5&beta=7&lambda=0.3&epsilon=0.25"} {
		t.Run(options, func(t *testing.T) {
			backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
				if testing.Short() && (options == "" || !backendtest.IsGo(b)) || options == "" && !backendtest.IsGo(b) {
					t.Skip("takes long, and differs in constants alone")
				}
				var rules []dmlx.Rule
				for _, r := range all {
					if !backendtest.IsGo(b) && r.Direction.Name != dmlx.DirectionCosOrth.Name {
						continue // Directions are no formulas, and each graph takes XLA a second.
					}
					if options != "" {
						var err error
						if r, err = r.WithOptions(options); err != nil {
							t.Fatal(err)
						}
					}
					rules = append(rules, r)
				}
				largest := 0.0
				for some := range slices.Chunk(rules, 8) { // For one graph of all XLA takes minutes.
					out, err := ExecOnce(b, func(x, labels *Node) *Node {
						f := dmlx.Normalize(x)
						var differences []*Node
						for _, r := range some {
							gradients := func(r dmlx.Rule) (g, raw *Node) {
								g = dmlx.Compose(dmlx.NewBatch(f, labels, r.Options), r).G
								return g, Gradient(ReduceAllSum(dmlx.Inject(f, g)), x)[0]
							}
							g, raw := gradients(r)
							g2, raw2 := gradients(inFormulas(t, r))
							for _, pair := range [][2]*Node{{g, g2}, {raw, raw2}} { // Relative to the largest value.
								differences = append(differences, Div(ReduceAllMax(Abs(Sub(pair[0], pair[1]))),
									ReduceAllMax(Abs(pair[0]))))
							}
						}
						return Stack(differences, 0)
					}, tensors.FromFlatDataAndDimensions(e.Values, e.N, e.Dim), e.Labels)
					if err != nil {
						t.Fatal(err)
					}
					for i, v := range tensors.MustCopyFlatData[float32](out) {
						if largest = max(largest, float64(v)); !(v <= 1e-6) { // NaN where all gradients are zero.
							t.Errorf("%s differs by %g", some[i/2], v)
						}
					}
				}
				t.Logf("%d rules differ by at most %.1e", len(rules), largest)
			})
		})
	}
}

// Weights of formulas by hand, in the graph and as values, and numbers that are inputs of a graph.
func TestFormulasByHand(t *testing.T) {
	t.Parallel()
	const sap, san = 0.6, 0.2
	dap, dan := math.Sqrt(0.8), math.Sqrt(1.6)
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		for text, want := range map[string]float64{
			"2":                                         2,
			"max(0, San-Sap+0.5)":                       0.1,
			"min(Sap, San)*abs(San-1)/4":                0.04,
			"where(San > Sap || Sap >= 1, 1, -3)":       -3,
			"where(!(San > Sap), Dap, 7)":               dap,
			"where(San < Sap && Sap <= 1, exp(Dan), 0)": math.Exp(dan),
			"pow(Sap, 3)-sqrt(San)":                     0.216 - math.Sqrt(0.2),
			"tanh(2)+log(Sap)":                          math.Tanh(2) + math.Log(0.6),
			"softplus(30*(Sap-San))+relu(-Sap)":         12 + math.Log1p(math.Exp(-12)),
			"sigmoid(k*(San-Sap))*tau, k=4":             3 * sigmoid(-1.6),
			"mean(Sap-Rap, 0.25)+1":                     1.25, // A triplet alone has no others.
		} {
			r, err := dmlx.ParseRule("cos/con/[" + text + "]")
			if err != nil {
				t.Fatal(err)
			}
			if r.Uses("tau") {
				r.Options.Tau = new(3.0)
			}
			_, _, w, err := dissect.Weights(b, r, []float32{sap, 0}, []float32{san, 0})
			if err != nil || math.Abs(float64(w[0])-want) > 1e-5*max(1, math.Abs(want)) {
				t.Errorf("%s is %v (%v), want %g", text, w, err, want)
			}
			value := weight(t, r).Value(sap, san)
			if math.Abs(value-want) > 1e-9*max(1, math.Abs(want)) {
				t.Errorf("%s has the value %g, want %g", text, value, want)
			}
		}
	})
}

// weight is a rule's triplet weight as a bound formula.
func weight(t *testing.T, r dmlx.Rule) *formula.Expr {
	t.Helper()
	w, err := r.Bound()
	if err != nil {
		t.Fatal(err)
	}
	return w.Triplet
}

// A number of a formula's own is set behind the rule, as those of rules are, and is part of the rule's name.
func TestOwnNumbers(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"cos/con/[ sigmoid(k*(San-Sap)),k=4.0 ]":         "cos/con/[sigmoid(k*(San-Sap)), k=4]",
		"cos/con/[sigmoid(k*(San-Sap)), k=4]?k=8":        "cos/con/[sigmoid(k*(San-Sap)), k=8]",
		"euc/[k, k*San, k=1]/[k*tau, k=2]?tau=3&k=5&sum": "euc/[k, k*San, k=5]/[k*tau, k=5]?sum&tau=3",
		"cos/lin/con+[San>Sap+m, m=0]?m=-1":              "cos/lin/con+[San > Sap+m, m=-1]",
	} {
		r, err := dmlx.ParseRule(name)
		if err != nil || r.Name() != want {
			t.Errorf("%s is read as %s (%v), want %s", name, r, err, want)
		}
		if again, err := dmlx.ParseRule(r.Name()); err != nil || again.Name() != want {
			t.Errorf("%s is read as %s (%v)", want, again, err)
		}
	}
	r, err := dmlx.ParseRule("cos/con/[sigmoid(k*(San-Sap)), k=4]")
	if err != nil {
		t.Fatal(err)
	}
	if with, err := r.WithOptions("k=2&tau=3"); err != nil || with.Name() != "cos/con/[sigmoid(k*(San-Sap)), k=2]" ||
		r.Name() != "cos/con/[sigmoid(k*(San-Sap)), k=4]" ||
		fmt.Sprint(with.Numbers(), r.UsedOptions()) != "map[k:2] [k skip-duplicates sum]" {
		t.Errorf("%s, %s, %v, %v: %v", r, with, with.Numbers(), r.UsedOptions(), err)
	}
}

func TestRefusedParts(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"cos/[1-Spa, San]/con":     "pair weight [1-Spa, San] at character 3: no variable Spa; did you mean Sap?",
		"cos/[1-Sap]/con":          "two formulas, P+ and P-, not 1",
		"cos/con/[San > Sap]":      "[San > Sap] at character 5: want a number here, not a condition",
		"cos/con/con+[San]":        "mask [San] at character 1: want a condition",
		"cos/con/[San":             "the [ at character 9 has no ]",
		"cos/[1-Sap/[San]":         "the [ at character 5 has no ]",
		"cos/con/[max(0, San]+sc1": "triplet weight [max(0, San] at character 11: missing ',' before the end",
		"cos/con/[San]x":           "closing ]",
		"cos/con/[San]?k=2":        "no option",
		"cos/lin/con?beta=5": "beta has no effect, since no part of the rule uses it: of the parts with a name, sig, " +
			"sig-ms do",
		"cos-orth/lin/con?tau=2":                     "cos, cir do",
		"cos/con/[San]?tau=2":                        "tau has no effect",
		"cos/con/con?keep-length":                    "euc-orth, cos-orth do",
		"[cos]/con/con":                              "no direction",
		"cos/[1/Sap, San]/[San]/con":                 "want direction/pair/triplet",
		"cos/con/[" + strings.Repeat("(", 600) + "]": "too long",
	} {
		if r, err := dmlx.ParseRule(name); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s is read as %s: %v; want …%s…", name, r, err, want)
		}
	}
	// Runs were recorded with such numbers, and keep their names.
	for _, name := range []string{"cos/lin/con?beta=5", "cos/con/con?keep-length"} {
		if r, err := dmlx.ParseRecorded(name); err != nil || r.Name() != name {
			t.Errorf("%s is read as %s (%v)", name, r, err)
		}
	}
}

// A step of a linear layer by the paper's best rule, by name and as formulas, one after the other.
func BenchmarkStep(b *testing.B) {
	const batch, features, dim = 112, 512, 128
	e := dissect.Sample(28, 4, features, 0.9, 7)
	w := dissect.Sample(1, dim, features, 1, 8) // [dim, features]
	named, err := dmlx.ParseRule("cos-orth/sig-ms/cir")
	if err != nil {
		b.Fatal(err)
	}
	written, err := dmlx.ParseRule(fmt.Sprintf("cos-orth/[%s]/[%s]", named.Pair.Formulas(), named.Triplet.Formulas()))
	if err != nil {
		b.Fatal(err)
	}
	choice, err := backend.Open()
	if err != nil {
		b.Fatal(err)
	}
	var took [2][]time.Duration
	var steps [2]*Exec
	for i, r := range []dmlx.Rule{named, written} {
		if steps[i], err = NewExec(choice.Backend, func(w, x, labels *Node) *Node {
			f, _ := dmlx.Surgery(MatMul(x, Transpose(w, 0, 1)), labels, r)
			return Sub(w, MulScalar(Gradient(ReduceAllSum(f), w)[0], 0.1))
		}); err != nil {
			b.Fatal(err)
		}
	}
	weights, x := tensors.FromFlatDataAndDimensions(w.Values, dim, features), tensors.FromFlatDataAndDimensions(e.Values,
		batch, features)
	for b.Loop() {
		for i, step := range steps {
			begin := time.Now()
			out, err := step.Call(weights, x, e.Labels)
			if err != nil {
				b.Fatal(err)
			}
			out[0].MustFinalizeAll()
			took[i] = append(took[i], time.Since(begin))
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	n := len(took[0])
	b.ReportMetric(float64(took[0][0].Microseconds()), "named-µs")
	b.ReportMetric(float64(took[1][0])/float64(took[0][0]), "least/least")
	b.ReportMetric(float64(took[1][n/2])/float64(took[0][n/2]), "median/median")
}

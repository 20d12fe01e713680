package evidence

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/figures"
)

// The facts of claims.toml, on formulas and on the print itself, are derived again.
func TestFacts(t *testing.T) {
	t.Parallel()
	numbers, err := NumbersOf(scores.Printed())
	if err != nil {
		t.Fatal(err)
	}
	derived := derivedFacts()
	for _, c := range Claims() {
		if c.Fact == nil {
			continue
		}
		i := slices.IndexFunc(derived, func(d derivedFact) bool { return d.asks == c.Asks })
		if i < 0 {
			t.Errorf("%q is not derived", c.Asks)
			continue
		}
		got, want := derived[i].check(numbers), *c.Fact
		got.Decided, want.Decided = Decision{}, Decision{}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%s\n%+v, and claims.toml says\n%+v", c.Asks, got, want)
		}
		derived = slices.Delete(derived, i, i+1)
	}
	for _, d := range derived {
		t.Errorf("no claim asks %q", d.asks)
	}
}

// derivedFact is a claim whose finding is derived.
type derivedFact struct {
	part, section string
	quote, asks   figures.Markup
	check         func(*Numbers) Finding
}

func derivedFacts() []derivedFact {
	relativeLess := "When its relative-similarity term $m_-^{sig}<1$ [the selected negative is relatively far] … The " +
		"latter situation will not exist under the training with hard negative mining."
	published := "However, in MS paper, the best recall@1, 78.2% of SOP uses batch size 1000. In the DR-MS paper, the " +
		"best recall@1 of In-shop, 91.7%, use batch size 600."
	batch160 := "When DR-MS uses batch size 160 (a comparable batch size to our setting), recall@1 is 88.3%."
	instability := "We see that sig-ms weight changes dramatically on the negative pair … [$\\Delta S=0$ and $0.1$] In " +
		"contrast … the variation of our lin-ms pair weight is well controlled"
	alpha, beta, lambda := figureIn(hyperparameters, `\alpha=`), figureIn(hyperparameters, `\beta=`),
		figureIn(hyperparameters, `\lambda=`)
	return []derivedFact{
		{"framework", "§3.4, Fig. 3", `When a triplet in a correct configuration, $S_{ap}-S_{an}>0$, the triplet weight ` +
			`[$T^{cos}$] is small. Otherwise, the triplet weight will be large.`,
			`$T^{cos}$ below and above $T^{con}=0.5$ on a grid, $\tau=1$.`,
			byFormula(func() Finding {
				wrong := largest(func(p, q float64) float64 {
					if p == q || (p > q) == (tCos(p, q) < 0.5) {
						return 0
					}
					return 1
				})
				return truth(wrong == 0, fmt.Sprintf("From %.2f to %.2f; 0.5 at $S_{ap}=S_{an}$.", tCos(1, 0), tCos(0, 1)))
			})},
		{"framework", "§3.4, Fig. 3",
			`… the equal weight line in $T^{cir}$ is circular lines with form $(S_{ap}-1)^2+S_{an}^2=\mathrm{const.}$`,
			"Whether the exponent is 1 minus that, on a grid.",
			byFormula(func() Finding {
				e := largest(func(p, q float64) float64 { return math.Abs(p*(2-p) - q*q - (1 - (p-1)*(p-1) - q*q)) })
				return truth(e < tiny, fmt.Sprintf("Largest difference %.1g.", e))
			})},
		{"framework", "§3.4, Fig. 3",
			`The idea of $T^{cir}$ is to introduce a non-linear mapping … in order to weight more on the corner cases ` +
				`[both similarities large or both small]`,
			`$T^{cir}$ above $T^{cos}$ where $S_{ap}=S_{an}$, $\tau=1$.`,
			byFormula(func() Finding {
				most := math.Inf(-1)
				for _, s := range similarityGrid() {
					most = max(most, tCir(s, s)-tCos(s, s))
				}
				return truth(most > tiny, fmt.Sprintf("Nowhere. In the corners both are %.2f, in the middle $T^{cir}$ is "+
					"%.2f: the corners weigh more beside what lies between them, by weighing that less.",
					tCir(1, 1), tCir(0.5, 0.5)))
			})},
		{"framework", "Fig. 3",
			`… $T^{sc1}$ and $T^{sc2}$ (where the anchor-positive pair only has a positive weight below the boundary).`,
			"What Eq. 19, as printed with >, keeps and zeroes, on a grid.",
			byFormula(func() Finding {
				kept, hard, zeroed, easy := 0, 0, 0, 0
				for _, p := range similarityGrid() {
					for _, q := range similarityGrid() {
						zero := p*(2-p)-q*q > 0.5
						if q > p {
							hard++
							if !zero {
								kept++
							}
						} else if p-q > 0.5 {
							easy++
							if zero {
								zeroed++
							}
						}
					}
				}
				share := func(a, b int) float64 { return 100 * float64(a) / float64(max(b, 1)) }
				return misprinted(kept == 0 && zeroed == 0, fmt.Sprintf("It keeps the positive weight of %.0f %% of the triplets "+
					"with $S_{an}>S_{ap}$ and zeroes that of %.0f %% of those with $S_{ap}-S_{an}>0.5$: the sign is the other way "+
					"round.", share(kept, hard), share(zeroed, easy)))
			})},
		{"directions", "§5.4, Fig. 2",
			"The Euclidean gradient has stronger force to pull positive close and push negative " +
				"away than the cosine direction when two features are close to each other.",
			`$\sqrt{(1+S)/2}$ against $\sqrt{1-S^2}$.`,
			byFormula(func() Finding {
				euc := func(s float64) float64 { return math.Sqrt((1 + s) / 2) }
				cos := func(s float64) float64 { return math.Sqrt(1 - s*s) }
				cross := 0.0
				for _, s := range similarityGrid() {
					if euc(s) <= cos(s)+tiny {
						cross = s
					}
				}
				return truth(cross < 1, fmt.Sprintf("Stronger above $S=%.2f$; at $S=0.9$ %.2f against %.2f.", cross,
					euc(0.9), cos(0.9)))
			})},
		{"best", "§6", "To ensure a fair comparison, we also re-implement … MS and DR-MS results (noted as MS* and " +
			"DR-MS*) with our gradient method … with the same network backbone, pre-processing and training settings.",
			"Table 5: MS*, DR-MS* and Ours stand side by side at one batch, with the same recalls on the same sets.",
			ofPaper("All are trained by one program here; the table compares them.", func(n *Numbers) Finding {
				together, all := 0, 0
				for _, data := range []string{"CUB", "CAR", "SOP", "In-shop"} {
					for _, m := range n.measures(Claim{Table: 5, Measure: "every recall"}, data) {
						all++
						there := func(method string) bool {
							return len(n.rows.Select(scores.Row{Table: 5, Role: data, Measure: m, Method: method, Times: 1})) > 0
						}
						if there("MS*") && there("DR-MS*") && there("Ours") {
							together++
						}
					}
				}
				return truth(together == all, fmt.Sprintf("%d of %d columns, at batch %d.", together, all,
					scores.PrintedBatch))
			})},
		{"best", "§6", "In addition, we vary the batch size 128, 256, 384, 512 on all tests for four datasets …",
			"Table 5: how many of the paper's own methods have more than one batch size.",
			ofPaper("A matter of the paper's table.", func(n *Numbers) Finding {
				own := n.rows.Where(func(r scores.Row) bool { return r.Table == 5 && r.Rule != "" }).Group(scores.Method.Of)
				var several []string
				for _, method := range own {
					if len(method.Rows.Values(scores.Times.Of)) > 1 {
						several = append(several, method.Key)
					}
				}
				return counted(len(several), len(own), fmt.Sprintf("%d of %d: %s.", len(several), len(own),
					strings.Join(several, ", ")))
			})},
		{"conclusion", "§7", "We do not exhaustively compute all possible combination of all the three gradient components",
			"How many of the combinations of the components in Tables 2 to 5 stand in any of the tables.",
			ofPaper("The full grid is run here; see its own notebook.", func(n *Numbers) Finding {
				rules := n.rows.Where(func(r scores.Row) bool { return r.Direction != "" })
				run, d, p, t := len(rules.Values(scores.Rule.Of)), len(rules.Values(scores.Direction.Of)),
					len(rules.Values(scores.Pair.Of)), len(rules.Values(scores.Triplet.Of))
				return truth(run < d*p*t, fmt.Sprintf("%d of %d × %d × %d = %d.", run, d, p, t, d*p*t))
			})},
		{"conclusion", "§7", "… we keep a constant step size …",
			"How many learning rates Tables 6 to 8 have for a set.",
			ofPaper("Each family of pair weights has its own rate here.", func(n *Numbers) Finding {
				rates := n.rows.Where(func(r scores.Row) bool { return r.LR != 0 })
				slices.SortFunc(rates, func(a, b scores.Row) int {
					return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.LR, b.LR))
				})
				var what []string
				constant := true
				for _, set := range rates.Group(scores.Role.Of) {
					different := set.Rows.Values(scores.LR.Of)
					constant = constant && len(different) == 1
					what = append(what, fmt.Sprintf("%s %d, from %s to %s", set.Key, len(different), different[0],
						different[len(different)-1]))
				}
				return truth(constant, strings.Join(what, "; ")+
					". Tables 2 to 4 take the best of them; Table 5 states none.")
			})},
		{"appendix", "App. A", "Appendix … shows more raw data with various learning rates",
			"Tables 2 to 4: how many numbers are there at their learning rates, and are the best over them.",
			ofPaper("Here Tables 2 to 4 have fixed rates, not the best of a sweep.", rawData)},
		{"appendix", "App. B", "Given a negative pair, when its relative-similarity term $m_-^{sig}>1$, this indicates " +
			"the selected negative example is relatively closer to anchor …",
			`$m_-^{sig}=\mathrm{exp}(-\beta(S_{an}-R_{an}))$ for a selected negative that is nearer than another.`,
			byFormula(func() Finding {
				m := math.Exp(-beta * (0.6 - 0.5))
				return misprinted(m > 1, fmt.Sprintf(`$S_{an}=0.6$, $R_{an}=0.5$: $m_-=%.2f$. The weight does increase, `+
					`since $m_-<1$ makes the denominator smaller; the inequality is the wrong way round.`, m))
			})},
		{"appendix", "App. B", relativeLess, `The largest $m_-^{sig}$ where the selected negative is the hardest.`,
			byFormula(func() Finding {
				most := largest(func(s, r float64) float64 {
					if r > s {
						return 0
					}
					return math.Exp(-beta * (s - r))
				})
				return truth(most > 1+tiny,
					fmt.Sprintf("It is %.2f: with the hardest negative $m_-^{sig}$ is at most 1, so it is the only situation "+
						"there is.", most))
			})},
		{"appendix", "App. B", "When its relative-similarity term $m_+^{sig}<1$ [the selected positive is relatively far] " +
			"… The latter situation will not exist under the training with easy positive mining.",
			`The smallest $m_+^{sig}=\mathrm{exp}(\alpha(S_{ap}-R_{ap}))$ where the selected positive is the easiest.`,
			byFormula(func() Finding {
				least := -largest(func(s, r float64) float64 {
					if r > s {
						return math.Inf(-1)
					}
					return -math.Exp(alpha * (s - r))
				})
				return truth(least >= 1-tiny, fmt.Sprintf("It is %.2f.", least))
			})},
		{"appendix", "App. C, Fig. 6", instability,
			`By what factor $P_-$ grows at $S_{an}=1$ from $\Delta S=0$ to the other.`,
			byFormula(func() Finding {
				delta := figureIn(instability, "and $")
				sig := func(d float64) float64 { return 1 / (math.Exp(-beta*d) + math.Exp(-beta*(1-lambda))) }
				a, b := sig(delta)/sig(0), 1+delta
				return truth(a > 2 && b < 1.5, fmt.Sprintf("sig-ms %.2f times, lin-ms %.2f times.", a, b))
			})},
		{"appendix", "App. D", `We set $\lambda=0.5$ to make the weight symmetric when similarity varies from 0 to 1`,
			`$P^{sig}(\lambda+x)+P^{sig}(\lambda-x)=1$ for both signs.`,
			byFormula(func() Finding {
				p := func(k, s float64) float64 { return 1 / (1 + math.Exp(k*(s-lambda))) }
				e := largest(func(s, _ float64) float64 {
					return max(math.Abs(p(alpha, s)+p(alpha, 1-s)-1), math.Abs(p(-beta, s)+p(-beta, 1-s)-1))
				})
				return truth(e < tiny, fmt.Sprintf("Largest difference %.1g.", e))
			})},
		{"appendix", "App. D", published, "Table 5 has the same two numbers for MS and DR-MS.",
			ofPaper("The literature's rows are not run here.", func(n *Numbers) Finding {
				agree, found := 0, []string{}
				for _, q := range []struct {
					method, data string
					said         float64
				}{{"MS", "SOP", figureIn(published, "MS paper, the best recall@1,")},
					{"DR-MS", "In-shop", figureIn(published, "of In-shop,")}} {
					s := n.Of(scores.Row{Table: 5, Role: q.data, Method: q.method})
					found = append(found, fmt.Sprintf("%s, %s: %.1f", q.method, q.data, s.Mean))
					if math.Abs(s.Mean-q.said) < slack {
						agree++
					}
				}
				return truth(agree == len(found), strings.Join(found, "; ")+".")
			})},
		{"appendix", "App. D", batch160, "Not in any table; DR-MS* at 128 stands in Table 5.",
			func(n *Numbers) Finding {
				s := n.Of(scores.Row{Table: 5, Role: "In-shop", Method: "DR-MS*", Rule: "cos-orth/sig-ms/con", Times: 1})
				return Finding{Verdict: None, Evidence: fmt.Sprintf("DR-MS*, B%d: %.1f, %s to what is said.",
					scores.PrintedBatch, s.Mean,
					figures.Signed(s.Mean-figureIn(batch160, "recall@1 is")))}
			}},
		{"appendix", "App. E", `$l_{\perp pos}^{euc}=\sqrt{1-l_{\parallel pos}^2}=\sqrt{(1+S_{ap})/2}$`,
			`With the printed $l_{\parallel pos}^{euc}=(1-S)/\sqrt{2-2S}$, on a grid below S = 1.`,
			byFormula(func() Finding {
				e := largest(func(s, _ float64) float64 {
					if s == 1 {
						return 0
					}
					l := (1 - s) / math.Sqrt(2-2*s)
					return math.Abs(math.Sqrt(1-l*l) - math.Sqrt((1+s)/2))
				})
				return truth(e < tiny, fmt.Sprintf("Largest difference %.1g.", e))
			})},
		{"appendix", "App. E", `$l_{\parallel neg}^{cos}=\mathbf{e_n^{cos}}\mathbf{f_n}=\mathbf{f_a}\mathbf{f_m}=S_{ap}$`,
			`Whether $l_{\perp neg}^{cos}=\sqrt{1-S_{an}^2}$, printed two lines below, follows.`,
			byFormula(func() Finding {
				const sap, san = 0.9, 0.5 // Any two.
				said, follows := math.Sqrt(1-sap*sap), math.Sqrt(1-san*san)
				return misprinted(math.Abs(said-follows) < tiny, fmt.Sprintf("At $S_{ap}=%g$, $S_{an}=%g$ it would "+
					"be %.2f and not %.2f: $S_{ap}$ stands for $S_{an}$.", sap, san, said, follows))
			})},
		{"tables", "Table 5", "",
			"Table 5: bold numbers that are not the best of their column, and the best that are not bold.",
			ofPaper("A matter of the paper's table.", func(n *Numbers) Finding {
				five := n.rows.Select(scores.Row{Table: 5})
				bold := len(five.Select(scores.Row{Bold: true}))
				wrong := paper.BoldErrors(five)
				var what []string
				for _, m := range wrong {
					name := m.Cell.Method
					if m.Cell.Direction != "" {
						name += fmt.Sprintf(" (B%d)", m.Cell.Batch)
					}
					kind := "best, not bold"
					if m.Cell.Bold {
						kind = "bold, not best"
					}
					what = append(what, fmt.Sprintf("%s %s %s %.1f %s", m.Cell.Data, m.Cell.Measure, name, m.Cell.Value.Mean, kind))
				}
				if wrong == nil {
					return truth(true, fmt.Sprintf("All %d bold numbers.", bold))
				}
				return counted(len(five)-len(wrong), len(five), fmt.Sprintf("%d of %d bold. %s.", bold, len(five),
					strings.Join(what, "; ")))
			})},
		{"tables", "Tables 2–8", "",
			"Settings that stand in several of Tables 2 to 4 and 6 to 8: same mean and deviation.",
			ofPaper("A run is made once here and stands in all tables.", sharedCells)},
	}
}

const tiny = 1e-12

const hyperparameters = `when $\alpha=2$, $\beta=10$ and $\lambda=0.5$` // Figure of App. B.

func tCos(sap, san float64) float64 { return 1 / (1 + math.Exp(sap-san)) } // τ = 1.
func tCir(sap, san float64) float64 { return 1 / (1 + math.Exp(sap*(2-sap)-san*san)) }

// similarityGrid returns similarities from 0 to 1, as in the paper's triplet diagrams.
func similarityGrid() []float64 {
	const steps = 100
	out := make([]float64, steps+1)
	for i := range out {
		out[i] = float64(i) / steps
	}
	return out
}

// largest returns the largest value of a function over the grid of two similarities.
func largest(f func(sap, san float64) float64) float64 {
	out := math.Inf(-1)
	for _, p := range similarityGrid() {
		for _, q := range similarityGrid() {
			out = max(out, f(p, q))
		}
	}
	return out
}

// rawData compares Tables 2 to 4 with the sweeps from which they are taken.
func rawData(n *Numbers) Finding {
	covered, best, all := 0, 0, 0
	var absent []string
	for _, r := range n.rows {
		if r.Table < 2 || r.Table > 4 {
			continue
		}
		all++
		top := math.Inf(-1)
		for _, other := range n.rows {
			if other.Table > 5 && other.Role == r.Role && other.Rule == r.Rule {
				top = max(top, other.Value.Mean)
			}
		}
		switch {
		case math.IsInf(top, -1):
			if !slices.Contains(absent, r.Triplet) {
				absent = append(absent, r.Triplet)
			}
			continue
		case top == r.Value.Mean:
			best++
		}
		covered++
	}
	text := fmt.Sprintf("%d of %d are there", covered, all)
	if len(absent) > 0 {
		text += ", not those of " + strings.Join(slice.Map(absent, figures.TripletLabel), " and of ")
	}
	return counted(best, all, text+
		fmt.Sprintf("; %d of the %d are the best over the rates, by test recall.", best, covered))
}

// sharedCells finds settings whose numbers differ between tables: a rule at a rate, or without one the number of the
// main tables.
func sharedCells(n *Numbers) Finding {
	settings, wrong := 0, []string{}
	cells := n.rows.Where(func(r scores.Row) bool { return r.Table != 5 })
	for _, cell := range cells.Group(func(r scores.Row) string { return r.Data + " " + r.Rule }) {
		slices.SortStableFunc(cell.Rows, func(a, b scores.Row) int { return cmp.Compare(a.LR, b.LR) })
		for _, at := range cell.Rows.Group(scores.LR.Of) {
			if len(at.Rows) < 2 {
				continue
			}
			settings++
			values := at.Rows.Group(func(r scores.Row) string {
				return fmt.Sprintf("%.1f ± %.1f", r.Value.Mean, r.Value.Std)
			})
			if len(values) == 1 {
				continue
			}
			var texts []string
			for _, v := range values {
				texts = append(texts, fmt.Sprintf("%s (Table %d)", v.Key, v.Rows[0].Table))
			}
			setting := cell.Key
			if at.Key != "" {
				setting += " lr " + at.Key
			}
			wrong = append(wrong, setting+": "+strings.Join(texts, ", "))
		}
	}
	if len(wrong) == 0 {
		return truth(true, fmt.Sprintf("All of %d settings.", settings))
	}
	agree := settings - len(wrong)
	return counted(agree, settings, fmt.Sprintf("%d of %d settings agree. Not: %s.", agree, settings,
		strings.Join(wrong, "; ")))
}

func ofPaper(_ figures.Markup, check func(n *Numbers) Finding) func(n *Numbers) Finding { return check }

func byFormula(check func() Finding) func(n *Numbers) Finding {
	return func(*Numbers) Finding { return check() }
}

// truth is the finding on something that the paper's own numbers or formulas decide.
func truth(is bool, evidence figures.Markup) Finding {
	if is {
		return Finding{Verdict: Reproduced, Evidence: evidence}
	}
	return Finding{Verdict: ContradictsItself, Evidence: evidence}
}

// counted is the finding on something that should hold of all.
func counted(holding, of int, evidence figures.Markup) Finding {
	f := truth(holding == of, evidence)
	f.Holding, f.Of = holding, of
	return f
}

// misprinted is truth for a formula that holds with another sign or symbol than the printed one.
func misprinted(is bool, evidence figures.Markup) Finding {
	f := truth(is, evidence)
	f.Misprint = !is
	return f
}

// figureIn reads the number that follows some text in a quote, NaN if there is none.
func figureIn(quote, after string) float64 {
	m := regexp.MustCompile(regexp.QuoteMeta(after) + `\D*?([0-9]+(\.[0-9]+)?)`).FindStringSubmatch(quote)
	if m == nil {
		return math.NaN()
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

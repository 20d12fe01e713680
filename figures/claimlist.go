package figures

import (
	"fmt"
	"iter"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Names of the components, in the paper's order.
var (
	claimDirections = []string{"euc", "cos", "euc-orth", "cos-orth"}
	claimPairs      = []string{"con", "euc", "lin", "lin-ms", "sig", "sig-ms"}
	claimMasked     = []struct{ masked, bare string }{{"cos+sc1", "cos"}, {"cos+sc2", "cos"}, {"cir+sc1", "cir"}, {"cir+sc2", "cir"}}
	claimTriplets   = []string{"con", "cos", "cos+sc1", "cos+sc2", "cir", "cir+sc1", "cir+sc2"}
)

const (
	clearly = 1.0 // Points that a "clear" or "much" difference has at least, where the check says so.
	little  = 1.0 // Points that two numbers which are "almost the same" differ at most.
)

// Numbers of the tables, as facts to look up.

func t2(data, direction string) Fact { return Fact{Table: 2, Data: data, Rule: direction + "/con/con"} }
func t3(data, direction, pair string) Fact {
	return Fact{Table: 3, Data: data, Rule: direction + "/" + pair + "/con"}
}
func t4(data, pair, triplet string) Fact {
	return Fact{Table: 4, Data: data, Rule: "cos/" + pair + "/" + triplet}
}

// The columns of Tables 3 and 7, and of 4 and 8.
var (
	columns3 = []string{"euc", "cos"}
	columns4 = []string{"con", "lin"}
)

// cells are all pairs of a data set that something stands for and a component.
func (n *Numbers) cells(components []string, sets ...string) iter.Seq2[string, string] {
	return func(yield func(data, component string) bool) {
		for _, data := range n.sets(sets...) {
			for _, component := range components {
				if !yield(data, component) {
					return
				}
			}
		}
	}
}

// Words for cells.

func (n *Numbers) on(data string, labels ...Markup) Markup {
	return strings.Join(append(labels, n.labels[data]), ", ")
}

// atRate names a place in the sweeps of two rules: their rate, or both where they differ.
func atRate(a, b float64) string {
	if a == b {
		return fmt.Sprintf("lr %g", a)
	}
	return fmt.Sprintf("lr %g and %g", a, b)
}

// overRates compares two rules of a sweep rate by rate, by their places in their ranges where those differ.
func (c *comparisons) overRates(table int, data, a, b string, label Markup) {
	ra, rb := c.n.rates(table, data, a), c.n.rates(table, data, b)
	if len(ra) == 0 || len(ra) != len(rb) {
		c.missing++
		return
	}
	for i := range ra {
		c.above(c.n.on(data, label, atRate(ra[i], rb[i])), Fact{Table: table, Data: data, Rule: a, LR: ra[i]}, Fact{Table: table, Data: data, Rule: b, LR: rb[i]})
	}
}

// swept are a rule's numbers over the rates.
func (n *Numbers) swept(table int, data, rule string) []Fact {
	var out []Fact
	for _, lr := range n.rates(table, data, rule) {
		out = append(out, Fact{Table: table, Data: data, Rule: rule, LR: lr})
	}
	if out == nil { // Looked for and found missing.
		out = []Fact{{Table: table, Data: data, Rule: rule}}
	}
	return out
}

// ofPaper is a check that only the paper's own numbers can be put to.
func ofPaper(why Markup, check func(n *Numbers) Finding) func(n *Numbers) Finding {
	return func(n *Numbers) Finding {
		if n.printed == nil {
			return Finding{Uncheckable, why}
		}
		return check(n)
	}
}

// ofRuns is a check that only runs can be put to.
func ofRuns(why Markup, check func(c *comparisons) Finding) func(n *Numbers) Finding {
	return func(n *Numbers) Finding {
		if !n.measured {
			return Finding{Uncheckable, why}
		}
		return check(&comparisons{n: n})
	}
}

// on is a check by comparisons that either numbers can be put to.
func on(check func(c *comparisons) Finding) func(n *Numbers) Finding {
	return func(n *Numbers) Finding { return check(&comparisons{n: n}) }
}

// byFormula is a check of formulas, which are the same for all.
func byFormula(check func() Finding) func(n *Numbers) Finding {
	return ofPaper("A matter of the formulas alone.", func(*Numbers) Finding { return check() })
}

func truth(is bool) Verdict {
	if is {
		return Holds
	}
	return Fails
}

// figureIn reads a number that a quote gives after some text.
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

// Table 5.

const oursMethod = "Ours"

// metrics5 are the recalls that the paper prints for a data set in Table 5.
func metrics5(data string) []string {
	var out []string
	results, _ := paperResults() // Read before, by PaperNumbers.
	for _, r := range results {
		if r.Table == 5 && r.Dataset == data && !slices.Contains(out, r.Metric) {
			out = append(out, r.Metric)
		}
	}
	return out
}

// literature are the rows of Table 5 that the paper copied, for a data set and metric.
func (n *Numbers) literature(data, metric string) []Fact {
	var out []Fact
	for _, f := range n.order {
		if f.Table == 5 && f.Data == data && f.Metric == metric && f.Rule == "" {
			out = append(out, f)
		}
	}
	return out
}

// own are the authors' rows of a method.
func (n *Numbers) own(method, data, metric string) []Fact {
	var out []Fact
	for _, f := range n.order {
		if f.Table == 5 && f.Data == data && f.Metric == metric && f.Method == method && f.Rule != "" {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b Fact) int { return a.Times - b.Times })
	return out
}

// againstLiterature compares the best of some rows with the best of the literature.
func againstLiterature(sets []string, onlyFirst bool, bound float64, rows func(n *Numbers, data, metric string) []Fact) func(*Numbers) Finding {
	return ofPaper("The literature's rows are not run here.", func(n *Numbers) Finding {
		c := &comparisons{n: n}
		for _, data := range sets {
			metrics := metrics5(data)
			if onlyFirst {
				metrics = metrics[:min(1, len(metrics))]
			}
			for _, m := range metrics {
				a, ok := n.best(1, rows(n, data, m))
				b, there := n.best(1, n.literature(data, m))
				if !ok || !there {
					c.missing++
					continue
				}
				c.above(fmt.Sprintf("%s %s, to %s", data, m, b.Method), a, b)
			}
		}
		return c.all(bound)
	})
}

// Formulas, with the paper's hyper-parameters read from what it prints.

const hyperparameters = `when $\alpha=2$, $\beta=10$ and $\lambda=0.5$` // Figure of App. B.

func tCos(sap, san float64) float64 { return 1 / (1 + math.Exp(sap-san)) } // τ = 1.
func tCir(sap, san float64) float64 { return 1 / (1 + math.Exp(sap*(2-sap)-san*san)) }

// grid is similarities from 0 to 1, as in the paper's triplet diagrams.
func similarityGrid() []float64 {
	const steps = 100
	out := make([]float64, steps+1)
	for i := range out {
		out[i] = float64(i) / steps
	}
	return out
}

// largest is the largest value of a function over the grid of two similarities.
func largest(f func(sap, san float64) float64) float64 {
	out := math.Inf(-1)
	for _, p := range similarityGrid() {
		for _, q := range similarityGrid() {
			out = max(out, f(p, q))
		}
	}
	return out
}

const rounding = 1e-12

// Claims lists the sentences of the paper that say something measurable, in its order.
func Claims() []Claim {
	return slices.Concat(overviewClaims(), formulaClaims(), directionClaims(), pairClaims(), tripletClaims(), bestClaims(), conclusionClaims(), appendixClaims())
}

func overviewClaims() []Claim {
	oursAll := func(n *Numbers, data, metric string) []Fact { return n.own(oursMethod, data, metric) }
	return []Claim{
		{"overview", "Abstract", "… a simple algorithm that beats the state of the art for image retrieval on the CAR, CUB and Stanford Online products datasets.",
			"Table 5: the best of Ours over its batches above the best of the literature, all three recalls of the three sets.",
			againstLiterature([]string{"CAR", "CUB", "SOP"}, false, 0, oursAll)},
		{"overview", "§1", "… a new gradient rule that outperforms the current state-of-art result for image retrieval by a clear margin across multiple datasets",
			"Table 5, R@1: the same by at least 1 point, on the four sets.",
			againstLiterature(allSets, true, clearly, oursAll)},
		{"overview", "§2", "… like the current state-of-the-art approach across many datasets [MS loss] …",
			"Table 5, R@1: MS as published is not below the rest of the literature, on the four sets.",
			ofPaper("The literature's rows are not run here.", func(n *Numbers) Finding {
				c := &comparisons{n: n}
				for _, data := range allSets {
					lit := n.literature(data, "R@1")
					ms := slices.IndexFunc(lit, func(f Fact) bool { return f.Method == "MS" })
					if ms < 0 {
						c.missing++
						continue
					}
					rest := slices.Delete(slices.Clone(lit), ms, ms+1)
					if b, there := n.best(1, rest); there {
						c.above(fmt.Sprintf("%s, to %s", data, b.Method), lit[ms], b)
					}
				}
				return c.all(-slack * 2)
			})},
	}
}

func formulaClaims() []Claim {
	return []Claim{
		{"framework", "§3.4", `When a triplet in a correct configuration, $S_{ap}-S_{an}>0$, the triplet weight [$T^{cos}$] is small. Otherwise, the triplet weight will be large.`,
			`$T^{cos}$ below and above $T^{con}=0.5$ on a grid, $\tau=1$.`,
			byFormula(func() Finding {
				wrong := largest(func(p, q float64) float64 {
					if p == q || (p > q) == (tCos(p, q) < 0.5) {
						return 0
					}
					return 1
				})
				return Finding{truth(wrong == 0), fmt.Sprintf("From %.2f to %.2f; 0.5 at $S_{ap}=S_{an}$.", tCos(1, 0), tCos(0, 1))}
			})},
		{"framework", "§3.4", `… the equal weight line in $T^{cir}$ is circular lines with form $(S_{ap}-1)^2+S_{an}^2=\mathrm{const.}$`,
			"Whether the exponent is 1 minus that, on a grid.",
			byFormula(func() Finding {
				e := largest(func(p, q float64) float64 { return math.Abs(p*(2-p) - q*q - (1 - (p-1)*(p-1) - q*q)) })
				return Finding{truth(e < rounding), fmt.Sprintf("Largest difference %.1g.", e)}
			})},
		{"framework", "§3.4", `The idea of $T^{cir}$ is to introduce a non-linear mapping … in order to weight more on the corner cases [both similarities large or both small]`,
			`$T^{cir}$ above $T^{cos}$ where $S_{ap}=S_{an}$, $\tau=1$.`,
			byFormula(func() Finding {
				most, least := math.Inf(-1), math.Inf(1)
				for _, s := range similarityGrid() {
					most, least = max(most, tCir(s, s)-tCos(s, s)), min(least, tCir(s, s)-tCos(s, s))
				}
				f := Finding{Fails, fmt.Sprintf("Nowhere. In the corners both are %.2f, in the middle $T^{cir}$ is %.2f: the corners weigh more beside what lies between them, by weighing that less.",
					tCir(1, 1), tCir(0.5, 0.5))}
				if most > rounding {
					f.Verdict = Holds
				} else if least < -rounding {
					f.Verdict = Mixed
				}
				return f
			})},
		{"framework", "Fig. 3", `… $T^{sc1}$ and $T^{sc2}$ (where the anchor-positive pair only has a positive weight below the boundary).`,
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
				f := Finding{Fails, fmt.Sprintf("It keeps the positive weight of %.0f %% of the triplets with $S_{an}>S_{ap}$ and zeroes that of %.0f %% of those with $S_{ap}-S_{an}>0.5$: the sign is the other way round.",
					share(kept, hard), share(zeroed, easy))}
				if kept == 0 && zeroed == 0 {
					f.Verdict = Holds
				}
				return f
			})},
	}
}

func directionClaims() []Claim {
	portrait := func(metric string, sets ...string) func(*Numbers) Finding {
		return ofRuns("A picture, without numbers.", func(c *comparisons) Finding {
			for _, data := range c.n.sets(sets...) {
				a, b := "euc", "cos"
				if metric == SpreadTrain || metric == SpreadTest {
					a, b = b, a
				}
				c.above(c.n.on(data), Fact{Data: data, Rule: a + "/con/con", Metric: metric}, Fact{Data: data, Rule: b + "/con/con", Metric: metric})
			}
			return c.all(0)
		})
	}
	return []Claim{
		{"directions", "§5.1", "… the cosine and cosine-orthogonal direction have better Recall@1 accuracy than other directions.",
			"Table 2: each of the two above each of the other two, on both sets.",
			on(func(c *comparisons) Finding {
				for _, data := range c.n.sets(componentSets...) {
					for _, a := range []string{"cos", "cos-orth"} {
						for _, b := range []string{"euc", "euc-orth"} {
							c.above(c.n.on(data, a+" − "+b), t2(data, a), t2(data, b))
						}
					}
				}
				return c.all(0)
			})},
		{"directions", "§5.1", "… the cosine-orthogonal gradient direction gives an improvement for both datasets compared to the cos direction.",
			"Table 2: cos-orth above cos, on both sets.",
			on(func(c *comparisons) Finding {
				for _, data := range c.n.sets(componentSets...) {
					c.above(c.n.on(data), t2(data, "cos-orth"), t2(data, "cos"))
				}
				return c.all(0)
			})},
		{"directions", "§5.4", "Because most pairs during the training have positive similarity …",
			"Share in percent of the last five epochs' pairs with $S>0$, with con weights: above 50.",
			ofRuns("No numbers are given.", func(c *comparisons) Finding {
				for data, d := range c.n.cells(columns3, componentSets...) {
					c.sum(c.n.on(data, d), term{1, Fact{Data: data, Rule: d + "/con/con", Metric: Positive}})
				}
				return c.all(50)
			})},
		{"directions", "§5.4", "The Euclidean gradient has stronger force to pull positive close and push negative away than the cosine direction when two features are close to each other.",
			`$\sqrt{(1+S)/2}$ against $\sqrt{1-S^2}$.`,
			byFormula(func() Finding {
				euc := func(s float64) float64 { return math.Sqrt((1 + s) / 2) }
				cos := func(s float64) float64 { return math.Sqrt(1 - s*s) }
				cross := 0.0
				for _, s := range similarityGrid() {
					if euc(s) <= cos(s)+rounding {
						cross = s
					}
				}
				return Finding{truth(cross < 1), fmt.Sprintf("Stronger above $S=%.2f$; at $S=0.9$ %.2f against %.2f.", cross, euc(0.9), cos(0.9))}
			})},
		{"directions", "§5.4", "The Euclidean direction clusters the same label feature more tightly than the cosine direction because there are more triplets along the right edge [last 5 epochs, CAR]",
			`Share in percent of the last five epochs' triplets with $S_{ap}>0.9$: euc above cos.`, portrait(EdgeLast, "CAR")},
		{"directions", "§5.4", "The Euclidean gradient has more triplets very close to the top right corner [whole training set]",
			`Share in percent with both similarities above 0.9: euc above cos.`, portrait(CornerTrain, componentSets...)},
		{"directions", "§5.4", "The Euclidean gradient has more triplets very close to the top right corner [testing set]",
			`The same on the test classes.`, portrait(CornerTest, componentSets...)},
		{"directions", "§5.4", "… cosine gradient creates triplets that are more spread out [whole training set]",
			`100 times the root of the summed variances of $S_{ap}$ and $S_{an}$: cos above euc.`, portrait(SpreadTrain, componentSets...)},
		{"directions", "§5.4", "… cosine gradient creates triplets that are more spread out [testing set]",
			`The same on the test classes.`, portrait(SpreadTest, componentSets...)},
		{"directions", "§5.4", "When the Euclidean pair weight $P^{euc}$ is applied to Euclidean direction and cosine direction, the performance gap between these two methods is almost disappeared.",
			"Table 3: cos less euc with $P^{euc}$ is at most 1 point.",
			on(func(c *comparisons) Finding {
				for _, data := range c.n.sets(componentSets...) {
					c.above(c.n.on(data), t3(data, "cos", "euc"), t3(data, "euc", "euc"))
				}
				return c.within(little)
			})},
	}
}

func pairClaims() []Claim {
	return []Claim{
		{"pairs", "Fig. 4", "On the CAR datasets, the nearest positive pairs distribution is largely overlay on the nearest negative pair distribution … on the In-shop datasets, the overlay area … is much less",
			"Overlap of the two distributions in percent after training with cos/con/con: CAR's above In-shop's.",
			ofRuns("A picture, without numbers.", func(c *comparisons) Finding {
				if len(c.n.sets(componentSets...)) == 2 {
					c.above(c.n.labels["CAR"]+" − "+c.n.labels["In-shop"], Fact{Data: "CAR", Rule: "cos/con/con", Metric: Overlapping}, Fact{Data: "In-shop", Rule: "cos/con/con", Metric: Overlapping})
				}
				return c.all(0)
			})},
		{"pairs", "§5.2", "… all pair weights provide a clear performance gain to their baseline results.",
			"Table 3: each pair weight above $P^{con}$, both directions and sets.",
			on(func(c *comparisons) Finding {
				for data, d := range c.n.cells(columns3, componentSets...) {
					for _, p := range claimPairs[1:] {
						c.above(c.n.on(data, PairLabel(p), d), t3(data, d, p), t3(data, d, "con"))
					}
				}
				return c.all(0)
			})},
		{"pairs", "§5.2", "Also, the performance gap of gradient direction $\\mathbf{e^{euc}}$ and $\\mathbf{e^{cos}}$ after applying the pair weight is greatly reduced.",
			"Table 3: half the gap with $P^{con}$ less the gap with each other weight, whichever direction leads, is positive.",
			on(func(c *comparisons) Finding {
				for data, p := range c.n.cells(claimPairs[1:], componentSets...) {
					sign := 1.0
					if c.n.facts[scored(t3(data, "cos", p))].Mean < c.n.facts[scored(t3(data, "euc", p))].Mean {
						sign = -1
					}
					c.sum(c.n.on(data, PairLabel(p)), term{0.5, t3(data, "cos", "con")}, term{-0.5, t3(data, "euc", "con")},
						term{-sign, t3(data, "cos", p)}, term{sign, t3(data, "euc", p)})
				}
				return c.all(0)
			})},
		{"pairs", "§5.2", "Both relative-similarity methods $P^{lin-ms}$ and $P^{sig-ms}$ perform better than the method with only self-similarity on CAR dataset across different learning rates.",
			"Table 7, CAR: each above $P^{lin}$ and $P^{sig}$, at each rate, both directions.",
			on(func(c *comparisons) Finding {
				for data, d := range c.n.cells(columns3, "CAR") {
					for _, p := range []string{"lin", "sig"} {
						c.overRates(7, data, d+"/"+p+"-ms/con", d+"/"+p+"/con", PairLabel(p+"-ms")+", "+d)
					}
				}
				return c.all(0)
			})},
		{"pairs", "§5.2", "[On In-shop] $P^{lin-ms}$ is performance almost as same as $P^{lin}$ …",
			"Table 3, In-shop: the difference is at most 1 point.",
			on(func(c *comparisons) Finding {
				for data, d := range c.n.cells(columns3, "In-shop") {
					c.above(c.n.on(data, d), t3(data, d, "lin-ms"), t3(data, d, "lin"))
				}
				return c.within(little)
			})},
		{"pairs", "§5.2", "… but $P^{sig-ms}$ shows some computation instability effect.",
			"Table 7, In-shop: from the lowest to the highest rate $P^{sig-ms}$ loses at least 1 point more than $P^{sig}$.",
			on(func(c *comparisons) Finding { unstable(c); return c.all(clearly) })},
		{"pairs", "§5.2", "First, pair weight causes substantial improvement in recall@1 accuracy.",
			"Table 3: the best pair weight is at least 1 point above $P^{con}$, both directions and sets.",
			on(func(c *comparisons) Finding {
				for data, d := range c.n.cells(columns3, componentSets...) {
					var rest []Fact
					for _, p := range claimPairs[1:] {
						rest = append(rest, t3(data, d, p))
					}
					if b, there := c.n.best(1, rest); there {
						c.above(c.n.on(data, d), b, t3(data, d, "con"))
					} else {
						c.missing++
					}
				}
				return c.all(clearly)
			})},
		{"pairs", "§5.2", "Second, in most cases, the linear and sigmoid pair weight outperforms the default Euclidean pair weight.",
			"Table 3: each of lin, lin-ms, sig, sig-ms above $P^{euc}$, both directions and sets: more than half.",
			on(func(c *comparisons) Finding {
				for data, d := range c.n.cells(columns3, componentSets...) {
					for _, p := range claimPairs[2:] {
						c.above(c.n.on(data, PairLabel(p), d), t3(data, d, p), t3(data, d, "euc"))
					}
				}
				return c.most()
			})},
		{"pairs", "§5.2", "Third, the linear version of the multi-similarity … is much more robust to different learning rates than the sigmoid version",
			"Table 7: highest less lowest recall over the rates, $P^{sig-ms}$'s less $P^{lin-ms}$'s, is positive.",
			on(func(c *comparisons) Finding {
				for data, d := range c.n.cells(columns3, componentSets...) {
					c.sum(c.n.on(data, d), append(c.n.spread(1, c.n.swept(7, data, d+"/sig-ms/con")), c.n.spread(-1, c.n.swept(7, data, d+"/lin-ms/con"))...)...)
				}
				return c.all(0)
			})},
		{"pairs", "§5.2", "… and gives better performance and Recall@1 accuracy [than sig-ms].",
			"Table 3: $P^{lin-ms}$ above $P^{sig-ms}$, both directions and sets.",
			on(func(c *comparisons) Finding {
				for data, d := range c.n.cells(columns3, componentSets...) {
					c.above(c.n.on(data, d), t3(data, d, "lin-ms"), t3(data, d, "sig-ms"))
				}
				return c.all(0)
			})},
	}
}

// scored is a fact's key with the metric that tables 2 to 4 and 6 to 8 have.
func scored(f Fact) Fact { f.Metric = "R@1"; return f }

// unstable adds how much more sig-ms loses than sig from the lowest rate to the highest, on In-shop.
func unstable(c *comparisons) {
	for data, d := range c.n.cells(columns3, "In-shop") {
		ms, sig := c.n.swept(7, data, d+"/sig-ms/con"), c.n.swept(7, data, d+"/sig/con")
		c.sum(c.n.on(data, d), term{1, ms[0]}, term{-1, ms[len(ms)-1]}, term{-1, sig[0]}, term{1, sig[len(sig)-1]})
	}
}

func tripletClaims() []Claim {
	boost := func(c *comparisons, sets []string, triplets ...string) {
		for data, p := range c.n.cells(columns4, sets...) {
			for _, t := range triplets {
				c.above(c.n.on(data, TripletLabel(t), PairLabel(p)), t4(data, p, t), t4(data, p, "con"))
			}
		}
	}
	masks := func(c *comparisons, sets ...string) {
		for data, p := range c.n.cells(columns4, sets...) {
			for _, m := range claimMasked {
				c.above(c.n.on(data, TripletLabel(m.masked), PairLabel(p)), t4(data, p, m.masked), t4(data, p, m.bare))
			}
		}
	}
	return []Claim{
		{"triplets", "§5.3", "Comparing to the baseline … $T^{con}=0.5$, $T^{cos}$ and $T^{cir}$ has minimal but slight boost in performance",
			"Table 4: each above $T^{con}$, both pair weights and sets.",
			on(func(c *comparisons) Finding { boost(c, componentSets, "cos", "cir"); return c.all(0) })},
		{"triplets", "§5.3", "$T^{sc1}$ and $T^{sc2}$ has bigger impact on CAR data set than In-shop dataset.",
			"Table 4: distance from $T^{con}$, whichever sign, on CAR less that on In-shop.",
			on(func(c *comparisons) Finding {
				if len(c.n.sets(componentSets...)) < 2 {
					return Finding{Uncheckable, "One of the two sets is missing."}
				}
				for _, p := range columns4 {
					for _, m := range claimMasked {
						var terms []term
						for i, data := range componentSets {
							weight := []float64{1, -1}[i]
							if c.n.facts[scored(t4(data, p, m.masked))].Mean < c.n.facts[scored(t4(data, p, "con"))].Mean {
								weight = -weight
							}
							terms = append(terms, term{weight, t4(data, p, m.masked)}, term{-weight, t4(data, p, "con")})
						}
						c.sum(TripletLabel(m.masked)+", "+PairLabel(p), terms...)
					}
				}
				return c.all(0)
			})},
		{"triplets", "§5.3", "[On In-shop] the goal is to continue separating the images better, which is the impact of $T^{cos}$ and $T^{cir}$",
			"Table 4, In-shop: each above $T^{con}$, both pair weights.",
			on(func(c *comparisons) Finding { boost(c, []string{"In-shop"}, "cos", "cir"); return c.all(0) })},
		{"triplets", "§5.3", "… the performance gain in Circle loss is largely from the pair weight not from the triplet weight.",
			"Table 4: $P^{lin}$ with $T^{con}$ above $T^{cir}$ with $P^{con}$, both sets.",
			on(func(c *comparisons) Finding {
				for _, data := range c.n.sets(componentSets...) {
					c.above(c.n.on(data), t4(data, "lin", "con"), t4(data, "con", "cir"))
				}
				return c.all(0)
			})},
		{"triplets", "§5.3", "Selective Contrastive operator benefits the training tasks which need to separate triplets with hard negative …",
			"Table 4, CAR: each mask above its triplet weight without it.",
			on(func(c *comparisons) Finding { masks(c, "CAR"); return c.all(0) })},
		{"triplets", "§5.3", "… and is not helpful for training tasks which easily separate triplets during the training.",
			"Table 4, In-shop: no mask above its triplet weight without it.",
			on(func(c *comparisons) Finding { masks(c, "In-shop"); return c.none(0) })},
	}
}

func bestClaims() []Claim {
	return []Claim{
		{"best", "§6", `… the $\mathbf{e}^{cos-orth}$ gives the best performance …`,
			"Table 2: above each other direction, on both sets.",
			on(func(c *comparisons) Finding {
				for _, data := range c.n.sets(componentSets...) {
					for _, d := range claimDirections[:3] {
						c.above(c.n.on(data, "to "+d), t2(data, "cos-orth"), t2(data, d))
					}
				}
				return c.all(0)
			})},
		{"best", "§6", "… and is relatively stable with respect to the learning rate.",
			"Table 6: highest less lowest recall over the rates is smaller than that of most other directions.",
			on(func(c *comparisons) Finding {
				for _, data := range c.n.sets(componentSets...) {
					for _, d := range claimDirections[:3] {
						c.sum(c.n.on(data, "to "+d), append(c.n.spread(1, c.n.swept(6, data, d+"/con/con")), c.n.spread(-1, c.n.swept(6, data, "cos-orth/con/con"))...)...)
					}
				}
				return c.most()
			})},
		{"best", "§6", "… $P^{lin-ms}$ is consistently a top performer across datasets.",
			"Table 3: at most 1 point below the best pair weight, both directions and sets.",
			on(func(c *comparisons) Finding {
				for data, d := range c.n.cells(columns3, componentSets...) {
					var rest []Fact
					for _, p := range claimPairs {
						if p != "lin-ms" {
							rest = append(rest, t3(data, d, p))
						}
					}
					if b, there := c.n.best(1, rest); there {
						c.above(c.n.on(data, d, "to "+PairLabel(strings.Split(b.Rule, "/")[1])), t3(data, d, "lin-ms"), b)
					} else {
						c.missing++
					}
				}
				return c.all(-little)
			})},
		{"best", "§6", "Similarly, $T^{cir}$ shows stable improvement to both CAR and In-shop datasets.",
			"Table 4: above $T^{con}$, both pair weights and sets.",
			on(func(c *comparisons) Finding {
				for data, p := range c.n.cells(columns4, componentSets...) {
					c.above(c.n.on(data, PairLabel(p)), t4(data, p, "cir"), t4(data, p, "con"))
				}
				return c.all(0)
			})},
		{"best", "§6", "To ensure a fair comparison, we also re-implement … MS and DR-MS results (noted as MS* and DR-MS*) with our gradient method",
			"Table 5: Ours above MS* and DR-MS* at their batch, all recalls and sets.",
			on(func(c *comparisons) Finding {
				for _, data := range c.n.sets(allSets...) {
					for _, m := range metrics5(data) {
						for _, other := range []string{"MS*", "DR-MS*"} {
							a, b := c.n.own(oursMethod, data, m), c.n.own(other, data, m)
							if len(a) == 0 || len(b) == 0 {
								c.missing++
								continue
							}
							c.above(c.n.on(data, m+" to "+other), a[0], b[0])
						}
					}
				}
				return c.all(0)
			})},
		{"best", "§6", "In addition, we vary the batch size 128, 256, 384, 512 on all tests for four datasets …",
			"Table 5: how many of the paper's own methods have more than one batch size.",
			ofPaper("A matter of the paper's table.", func(n *Numbers) Finding {
				batches := make(map[string][]int)
				for _, f := range n.order {
					if f.Table == 5 && f.Rule != "" && !slices.Contains(batches[f.Method], f.Times) {
						batches[f.Method] = append(batches[f.Method], f.Times)
					}
				}
				var several []string
				for _, m := range sortedKeys(batches) {
					if len(batches[m]) > 1 {
						several = append(several, m)
					}
				}
				f := Finding{truth(len(several) == len(batches)), fmt.Sprintf("%d of %d: %s.", len(several), len(batches), strings.Join(several, ", "))}
				if f.Verdict == Fails && len(several) > 0 {
					f.Verdict = Mixed
				}
				return f
			})},
		{"best", "§6", "… and continue to improve the Recall performance.",
			"Table 5: Ours at each batch above the next smaller one, all recalls and sets.",
			on(func(c *comparisons) Finding {
				for _, data := range c.n.sets(allSets...) {
					for _, m := range metrics5(data) {
						rows := c.n.own(oursMethod, data, m)
						for i := 1; i < len(rows); i++ {
							c.above(c.n.on(data, m, fmt.Sprintf("batch ×%d to ×%d", rows[i].Times, rows[i-1].Times)), rows[i], rows[i-1])
						}
					}
				}
				return c.all(0)
			})},
		{"best", "Table 5", "… comparing to the best reported results. [with the best in bold]",
			"Table 5: bold numbers that are not the best of their column, and the best that are not bold.",
			ofPaper("A matter of the paper's table.", func(n *Numbers) Finding {
				var five []PaperResult
				bold := 0
				for _, r := range n.printed {
					if r.Table == 5 {
						five = append(five, r)
						if r.Bold {
							bold++
						}
					}
				}
				wrong := WronglyBold(five)
				var what []string
				for _, m := range wrong {
					name := m.Cell.Method
					if m.Cell.Direction != "" {
						name += fmt.Sprintf(" (B%d)", m.Cell.BatchSize)
					}
					kind := "best, not bold"
					if m.Cell.Bold {
						kind = "bold, not best"
					}
					what = append(what, fmt.Sprintf("%s %s %s %.1f %s", m.Cell.Dataset, m.Cell.Metric, name, m.Cell.Mean, kind))
				}
				if wrong == nil {
					return Finding{Holds, fmt.Sprintf("All %d bold numbers.", bold)}
				}
				return Finding{Mixed, fmt.Sprintf("%d of %d bold. %s.", bold, len(five), strings.Join(what, "; "))}
			})},
	}
}

func conclusionClaims() []Claim {
	cosine := "… the cosine gradient direction has a consistently big improvement over a large set of experimental conditions."
	column := func(data string, of []string, fact func(string) Fact) []Fact {
		out := make([]Fact, len(of))
		for i, name := range of {
			out[i] = fact(name)
		}
		return out
	}
	return []Claim{
		{"conclusion", "§7", "We do not exhaustively compute all possible combination of all the three gradient components",
			"How many of the combinations of the components in Tables 2 to 5 stand in any of the tables.",
			ofPaper("The full grid is run here; see its own notebook.", func(n *Numbers) Finding {
				parts := [3]map[string]bool{{}, {}, {}}
				rules := make(map[string]bool)
				for _, f := range n.order {
					if p := strings.Split(f.Rule, "/"); len(p) == 3 {
						rules[f.Rule] = true
						for i := range parts {
							parts[i][p[i]] = true
						}
					}
				}
				all := len(parts[0]) * len(parts[1]) * len(parts[2])
				return Finding{truth(len(rules) < all), fmt.Sprintf("%d of %d × %d × %d = %d.", len(rules), len(parts[0]), len(parts[1]), len(parts[2]), all)}
			})},
		{"conclusion", "§7", "… we keep a constant step size …",
			"How many learning rates Tables 6 to 8 have for a set.",
			ofPaper("Each family of pair weights has its own rate here.", func(n *Numbers) Finding {
				rates := make(map[string][]float64)
				for _, f := range n.order {
					if f.LR != 0 && !slices.Contains(rates[f.Data], f.LR) {
						rates[f.Data] = append(rates[f.Data], f.LR)
					}
				}
				var what []string
				constant := true
				for _, data := range sortedKeys(rates) {
					slices.Sort(rates[data])
					constant = constant && len(rates[data]) == 1
					what = append(what, fmt.Sprintf("%s %d, from %g to %g", data, len(rates[data]), rates[data][0], rates[data][len(rates[data])-1]))
				}
				return Finding{truth(constant), strings.Join(what, "; ") + ". Tables 2 to 4 take the best of them; Table 5 states none."}
			})},
		{"conclusion", "§8", cosine, "Table 3: cos above euc with each pair weight, on both sets.",
			on(func(c *comparisons) Finding {
				for data, p := range c.n.cells(claimPairs, componentSets...) {
					c.above(c.n.on(data, PairLabel(p)), t3(data, "cos", p), t3(data, "euc", p))
				}
				return c.all(0)
			})},
		{"conclusion", "§8", cosine, "Table 7: the same at each learning rate.",
			on(func(c *comparisons) Finding {
				for data, p := range c.n.cells(claimPairs, componentSets...) {
					c.overRates(7, data, "cos/"+p+"/con", "euc/"+p+"/con", PairLabel(p))
				}
				return c.all(0)
			})},
		{"conclusion", "§8", "… our findings that the pair-weight term is very important. In contrast, we find the triplet weight term to have limited impact …",
			"Highest less lowest of Table 3's cos column less the same of each of Table 4's columns, on both sets.",
			on(func(c *comparisons) Finding {
				for data, p := range c.n.cells(columns4, componentSets...) {
					pairs := c.n.spread(1, column(data, claimPairs, func(name string) Fact { return t3(data, "cos", name) }))
					triplets := c.n.spread(-1, column(data, claimTriplets, func(name string) Fact { return t4(data, p, name) }))
					c.sum(c.n.on(data, "triplet weights with "+PairLabel(p)), append(pairs, triplets...)...)
				}
				return c.all(0)
			})},
		{"conclusion", "§8", "… that was not consistent across datasets.",
			"Table 4: at least one triplet weight gains over $T^{con}$ on one set and loses on the other.",
			on(inconsistent)},
		{"conclusion", "§8", "… gives improvements to state-of-the-art performance relative to recent work.",
			"Table 5, R@1: Ours at 128, the batch of its re-implementations, above the best of the literature, on the four sets.",
			againstLiterature(allSets, true, 0, func(n *Numbers, data, metric string) []Fact {
				rows := n.own(oursMethod, data, metric)
				return rows[:min(1, len(rows))]
			})},
	}
}

// inconsistent finds triplet weights whose effect has one sign on one set and the other on the other.
func inconsistent(c *comparisons) Finding {
	sets := c.n.sets(componentSets...)
	if len(sets) < 2 {
		return Finding{Uncheckable, "One of the two sets is missing."}
	}
	opposite, same, unclear := 0, 0, 0
	var what []string
	for _, p := range []string{"con", "lin"} {
		for _, t := range claimTriplets[1:] {
			before := len(c.list)
			for _, data := range sets {
				c.above(c.n.on(data, TripletLabel(t), PairLabel(p)), t4(data, p, t), t4(data, p, "con"))
			}
			if len(c.list) < before+2 {
				continue
			}
			a, b := c.list[before], c.list[before+1]
			up := func(d difference) answer { return c.isAbove(d, 0) }
			down := func(d difference) answer { d.value = -d.value; return c.isAbove(d, 0) }
			switch {
			case up(a) == yes && down(b) == yes, down(a) == yes && up(b) == yes:
				opposite++
				if what == nil {
					what = append(what, a.String(), b.String())
				}
			case up(a) == yes && up(b) == yes, down(a) == yes && down(b) == yes:
				same++
			default:
				unclear++
			}
		}
	}
	n := opposite + same + unclear
	if n == 0 {
		return Finding{NotYetRun, fmt.Sprintf("%d cells.", c.missing)}
	}
	f := Finding{Evidence: fmt.Sprintf("%d of %d triplet weights", opposite, n)}
	switch {
	case opposite > 0:
		f.Verdict = Holds
		f.Evidence += ": " + strings.Join(what, ", ")
	case unclear > 0 && c.n.measured:
		f.Verdict = WithinNoise
	default:
		f.Verdict = Fails
	}
	if c.n.measured {
		f.Evidence += fmt.Sprintf("; %d beyond noise with the same sign on both", same)
	}
	f.Evidence += "."
	return f
}

func appendixClaims() []Claim {
	relativeLess := "When its relative-similarity term $m_-^{sig}<1$ [the selected negative is relatively far] … The latter situation will not exist under the training with hard negative mining."
	published := "However, in MS paper, the best recall@1, 78.2% of SOP uses batch size 1000. In the DR-MS paper, the best recall@1 of In-shop, 91.7%, use batch size 600."
	batch160 := "When DR-MS uses batch size 160 (a comparable batch size to our setting), recall@1 is 88.3%."
	instability := "We see that sig-ms weight changes dramatically on the negative pair … [$\\Delta S=0$ and $0.1$] In contrast … the variation of our lin-ms pair weight is well controlled"
	alpha, beta, lambda := figureIn(hyperparameters, `\alpha=`), figureIn(hyperparameters, `\beta=`), figureIn(hyperparameters, `\lambda=`)
	return []Claim{
		{"appendix", "App. A", "Appendix … shows more raw data with various learning rates",
			"Tables 2 to 4: how many numbers are there at their learning rates, and are the best over them.",
			ofPaper("Here Tables 2 to 4 have fixed rates, not the best of a sweep.", rawData)},
		{"appendix", "App. A", "Appendix … shows more raw data with various learning rates [the same runs in several tables]",
			"Settings that stand in several of Tables 2 to 4 and 6 to 8: same mean and deviation.",
			ofPaper("A run is made once here and stands in all tables.", sharedCells)},
		{"appendix", "App. B", "Given a negative pair, when its relative-similarity term $m_-^{sig}>1$, this indicates the selected negative example is relatively closer to anchor …",
			`$m_-^{sig}=\mathrm{exp}(-\beta(S_{an}-R_{an}))$ for a selected negative that is nearer than another.`,
			byFormula(func() Finding {
				m := math.Exp(-beta * (0.6 - 0.5))
				return Finding{truth(m > 1), fmt.Sprintf(`$S_{an}=0.6$, $R_{an}=0.5$: $m_-=%.2f$. The weight does increase, since $m_-<1$ makes the denominator smaller; the inequality is the wrong way round.`, m)}
			})},
		{"appendix", "App. B", relativeLess, `The largest $m_-^{sig}$ where the selected negative is the hardest.`,
			byFormula(func() Finding {
				most := largest(func(s, r float64) float64 {
					if r > s {
						return 0
					}
					return math.Exp(-beta * (s - r))
				})
				return Finding{truth(most > 1+rounding), fmt.Sprintf("It is %.2f: with the hardest negative $m_-^{sig}$ is at most 1, so it is the only situation there is.", most)}
			})},
		{"appendix", "App. B", "When its relative-similarity term $m_+^{sig}<1$ [the selected positive is relatively far] … The latter situation will not exist under the training with easy positive mining.",
			`The smallest $m_+^{sig}=\mathrm{exp}(\alpha(S_{ap}-R_{ap}))$ where the selected positive is the easiest.`,
			byFormula(func() Finding {
				least := -largest(func(s, r float64) float64 {
					if r > s {
						return math.Inf(-1)
					}
					return -math.Exp(alpha * (s - r))
				})
				return Finding{truth(least >= 1-rounding), fmt.Sprintf("It is %.2f.", least)}
			})},
		{"appendix", "App. C", instability, `By what factor $P_-$ grows at $S_{an}=1$ from $\Delta S=0$ to the other.`,
			byFormula(func() Finding {
				delta := figureIn(instability, "and $")
				sig := func(d float64) float64 { return 1 / (math.Exp(-beta*d) + math.Exp(-beta*(1-lambda))) }
				a, b := sig(delta)/sig(0), 1+delta
				return Finding{truth(a > 2 && b < 1.5), fmt.Sprintf("sig-ms %.2f times, lin-ms %.2f times.", a, b)}
			})},
		{"appendix", "App. C", "The problem occurs when the learning rate is large as shown in Appendix Table 7.",
			"Table 7, In-shop, as in §5.2: sig-ms loses more than sig from the lowest rate to the highest.",
			on(func(c *comparisons) Finding { unstable(c); return c.all(0) })},
		{"appendix", "App. C", "With a small learning rate, especially in CAR tests, the sig-ms pair weight performs better than sig pair weight.",
			"Table 7: sig-ms above sig at the lowest rate on CAR, both directions.",
			on(func(c *comparisons) Finding {
				for data, d := range c.n.cells(columns3, "CAR") {
					c.above(c.n.on(data, d), c.n.swept(7, data, d+"/sig-ms/con")[0], c.n.swept(7, data, d+"/sig/con")[0])
				}
				return c.all(0)
			})},
		{"appendix", "App. C", "But in In-shop tests, the unstable computation problem occurs and the performance of sig-ms pair weight is much worse than sig pair weight.",
			"Table 7, In-shop: sig above sig-ms by at least 1 point at each rate, both directions.",
			on(func(c *comparisons) Finding {
				for data, d := range c.n.cells(columns3, "In-shop") {
					c.overRates(7, data, d+"/sig/con", d+"/sig-ms/con", d)
				}
				return c.all(clearly)
			})},
		{"appendix", "App. C", "… the performance of lin-ms pair weight performs better and is more stable with respect to learning-rate than sig-ms pair weight.",
			"Table 7: lin-ms above sig-ms at each rate, both directions and sets. (More stable: see §5.2.)",
			on(func(c *comparisons) Finding {
				for data, d := range c.n.cells(columns3, componentSets...) {
					c.overRates(7, data, d+"/lin-ms/con", d+"/sig-ms/con", d)
				}
				return c.all(0)
			})},
		{"appendix", "App. D", `We set $\lambda=0.5$ to make the weight symmetric when similarity varies from 0 to 1`,
			`$P^{sig}(\lambda+x)+P^{sig}(\lambda-x)=1$ for both signs.`,
			byFormula(func() Finding {
				p := func(k, s float64) float64 { return 1 / (1 + math.Exp(k*(s-lambda))) }
				e := largest(func(s, _ float64) float64 {
					return max(math.Abs(p(alpha, s)+p(alpha, 1-s)-1), math.Abs(p(-beta, s)+p(-beta, 1-s)-1))
				})
				return Finding{truth(e < rounding), fmt.Sprintf("Largest difference %.1g.", e)}
			})},
		{"appendix", "App. D", "In Table 5 of the main paper, this re-implementation outperforms what is originally reported by the MS paper on CUB, CAR, and SOP with batch size 128.",
			"Table 5: MS* above MS, all three recalls of the three sets.",
			ofPaper("The literature's rows are not run here.", func(n *Numbers) Finding {
				c := &comparisons{n: n}
				for _, data := range []string{"CUB", "CAR", "SOP"} {
					for _, m := range metrics5(data) {
						a, b := n.own("MS*", data, m), n.literature(data, m)
						i := slices.IndexFunc(b, func(f Fact) bool { return f.Method == "MS" })
						if len(a) == 0 || i < 0 {
							c.missing++
							continue
						}
						c.above(data+" "+m, a[0], b[i])
					}
				}
				return c.all(0)
			})},
		{"appendix", "App. D", published, "Table 5 has the same two numbers for MS and DR-MS.",
			ofPaper("The literature's rows are not run here.", func(n *Numbers) Finding {
				agree, found := 0, []string{}
				for _, q := range []struct {
					method, data string
					said         float64
				}{{"MS", "SOP", figureIn(published, "MS paper, the best recall@1,")}, {"DR-MS", "In-shop", figureIn(published, "of In-shop,")}} {
					s := n.facts[Fact{Table: 5, Data: q.data, Method: q.method, Metric: "R@1"}]
					found = append(found, fmt.Sprintf("%s, %s: %.1f", q.method, q.data, s.Mean))
					if math.Abs(s.Mean-q.said) < slack {
						agree++
					}
				}
				return Finding{truth(agree == len(found)), strings.Join(found, "; ") + "."}
			})},
		{"appendix", "App. D", batch160, "Not in any table; DR-MS* at 128 stands in Table 5.",
			func(n *Numbers) Finding {
				if n.printed == nil {
					return Finding{Uncheckable, "Not run here."}
				}
				s := n.facts[Fact{Table: 5, Data: "In-shop", Method: "DR-MS*", Rule: "cos-orth/sig-ms/con", Times: 1, Metric: "R@1"}]
				return Finding{Uncheckable, fmt.Sprintf("DR-MS*, B%d: %.1f, %s to what is said.", paperBatch, s.Mean, signed(s.Mean-figureIn(batch160, "recall@1 is")))}
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
				return Finding{truth(e < rounding), fmt.Sprintf("Largest difference %.1g.", e)}
			})},
		{"appendix", "App. E", `$l_{\parallel neg}^{cos}=\mathbf{e_n^{cos}}\mathbf{f_n}=\mathbf{f_a}\mathbf{f_m}=S_{ap}$`,
			`Whether $l_{\perp neg}^{cos}=\sqrt{1-S_{an}^2}$, printed two lines below, follows.`,
			byFormula(func() Finding {
				const sap, san = 0.9, 0.5 // Any two.
				said, printed := math.Sqrt(1-sap*sap), math.Sqrt(1-san*san)
				return Finding{truth(math.Abs(said-printed) < rounding), fmt.Sprintf("At $S_{ap}=%g$, $S_{an}=%g$ it would be %.2f and not %.2f: a slip of the pen for $S_{an}$.", sap, san, said, printed)}
			})},
	}
}

// componentKey is a setting of the component tables.
type componentKey struct{ data, rule string }

// rawData compares Tables 2 to 4 with the sweeps that they are taken from.
func rawData(n *Numbers) Finding {
	covered, best, all := 0, 0, 0
	var absent []string
	for _, f := range n.order {
		if f.Table < 2 || f.Table > 4 {
			continue
		}
		all++
		top := math.Inf(-1)
		for _, g := range n.order {
			if g.Table > 5 && g.Data == f.Data && g.Rule == f.Rule {
				top = max(top, n.facts[g].Mean)
			}
		}
		switch {
		case math.IsInf(top, -1):
			if triplet := strings.Split(f.Rule, "/")[2]; !slices.Contains(absent, triplet) {
				absent = append(absent, triplet)
			}
			continue
		case top == n.facts[f].Mean:
			best++
		}
		covered++
	}
	labels := make([]string, len(absent))
	for i, t := range absent {
		labels[i] = TripletLabel(t)
	}
	f := Finding{Mixed, fmt.Sprintf("%d of %d are there", covered, all)}
	if len(absent) > 0 {
		f.Evidence += ", not those of " + strings.Join(labels, " and of ")
	}
	f.Evidence += fmt.Sprintf("; %d of the %d are the best over the rates, by test recall.", best, covered)
	switch {
	case covered == all && best == all:
		f.Verdict = Holds
	case best == 0:
		f.Verdict = Fails
	}
	return f
}

// sharedCells finds settings that several tables have with different numbers.
func sharedCells(n *Numbers) Finding {
	byKey := make(map[componentKey][]Fact)
	var keys []componentKey
	for _, f := range n.order {
		if f.Table == 5 {
			continue
		}
		k := componentKey{f.Data, f.Rule}
		if byKey[k] == nil {
			keys = append(keys, k)
		}
		byKey[k] = append(byKey[k], f)
	}
	settings, wrong := 0, []string{}
	for _, k := range keys {
		// At each rate, and without one: the number of the main tables.
		byRate := make(map[float64][]Fact)
		for _, f := range byKey[k] {
			byRate[f.LR] = append(byRate[f.LR], f)
		}
		for _, lr := range sortedKeys(byRate) {
			facts := byRate[lr]
			if len(facts) < 2 {
				continue
			}
			settings++
			var values []string
			for _, f := range facts {
				s := n.facts[f]
				v := fmt.Sprintf("%.1f ± %.1f", s.Mean, s.Std)
				if !slices.ContainsFunc(values, func(have string) bool { return strings.HasPrefix(have, v) }) {
					values = append(values, fmt.Sprintf("%s (Table %d)", v, f.Table))
				}
			}
			if len(values) > 1 {
				at := ""
				if lr != 0 {
					at = fmt.Sprintf(" lr %g", lr)
				}
				wrong = append(wrong, fmt.Sprintf("%s %s%s: %s", k.data, k.rule, at, strings.Join(values, ", ")))
			}
		}
	}
	if len(wrong) == 0 {
		return Finding{Holds, fmt.Sprintf("All of %d settings.", settings)}
	}
	return Finding{Mixed, fmt.Sprintf("%d of %d settings agree. Not: %s.", settings-len(wrong), settings, strings.Join(wrong, "; "))}
}

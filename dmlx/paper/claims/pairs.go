package claims

import (
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/figures"
)

func pairClaims() []Claim {
	return []Claim{
		{"pairs", "Fig. 4", "On the CAR datasets, the nearest positive pairs distribution is largely overlay on the " +
			"nearest negative pair distribution … on the In-shop datasets, the overlay area … is much less",
			"Overlap of the two distributions in percent after training with cos/con/con: CAR's above In-shop's.",
			ofRuns("A picture, without numbers.", func(c *Comparisons) Finding {
				if len(c.n.sets(componentSets...)) == 2 {
					c.Above(c.n.labels["CAR"]+" − "+c.n.labels["In-shop"],
						shape("CAR", "cos", report.Overlap), shape("In-shop", "cos", report.Overlap))
				}
				return c.All(0)
			})},
		{"pairs", "§5.2", "… all pair weights provide a clear performance gain to their baseline results.",
			"Table 3: each pair weight above $P^{con}$, both directions and sets.",
			onCells(componentSets, columns3, func(c *Comparisons, data, d string) {
				for _, p := range claimPairs[1:] {
					c.Above(c.n.on(data, figures.PairLabel(p), d), t3(data, d, p), t3(data, d, "con"))
				}
			})},
		{"pairs", "§5.2", "Also, the performance gap of gradient direction $\\mathbf{e^{euc}}$ and $\\mathbf{e^{cos}}$ " +
			"after applying the pair weight is greatly reduced.",
			"Table 3: half the gap with $P^{con}$ less the gap with each other weight, whichever direction leads, is " +
				"positive.",
			onCells(componentSets, claimPairs[1:], func(c *Comparisons, data, p string) {
				sign := 1.0
				if c.n.Of(t3(data, "cos", p)).Mean < c.n.Of(t3(data, "euc", p)).Mean {
					sign = -1
				}
				c.sum(c.n.on(data, figures.PairLabel(p)), term{0.5, t3(data, "cos", "con")}, term{-0.5, t3(data, "euc", "con")},
					term{-sign, t3(data, "cos", p)}, term{sign, t3(data, "euc", p)})
			})},
		{"pairs", "§5.2", "Both relative-similarity methods $P^{lin-ms}$ and $P^{sig-ms}$ perform better than the method " +
			"with only self-similarity on CAR dataset across different learning rates.",
			"Table 7, CAR: each above both $P^{lin}$ and $P^{sig}$, at each rate, both directions.",
			onCells([]string{"CAR"}, columns3, func(c *Comparisons, data, d string) {
				for _, p := range []string{"lin-ms", "sig-ms"} {
					for _, alone := range []string{"lin", "sig"} {
						c.overRates(7, data, d+"/"+p+"/con", d+"/"+alone+"/con",
							figures.PairLabel(p)+" to "+figures.PairLabel(alone)+", "+d)
					}
				}
			})},
		{"pairs", "§5.2", "[On In-shop] $P^{lin-ms}$ is performance almost as same as $P^{lin}$ …",
			"Table 3, In-shop: the difference is at most 1 point.",
			Compare(func(c *Comparisons) Finding {
				for data, d := range c.n.cells(columns3, "In-shop") {
					c.Above(c.n.on(data, d), t3(data, d, "lin-ms"), t3(data, d, "lin"))
				}
				return c.Within(little)
			})},
		{"pairs", "§5.2", "… but $P^{sig-ms}$ shows some computation instability effect.",
			"Table 7, In-shop: from the lowest to the highest rate $P^{sig-ms}$ loses at least 1 point more than $P^{sig}$.",
			Compare(func(c *Comparisons) Finding { unstable(c); return c.All(clearly) })},
		{"pairs", "§5.2", "First, pair weight causes substantial improvement in recall@1 accuracy.",
			"Table 3: the best pair weight is at least 1 point above $P^{con}$, both directions and sets.",
			Compare(func(c *Comparisons) Finding {
				for data, d := range c.n.cells(columns3, componentSets...) {
					var rest scores.Table
					for _, p := range claimPairs[1:] {
						rest = append(rest, t3(data, d, p))
					}
					if b, there := c.n.best(1, rest); there {
						c.Above(c.n.on(data, d), b, t3(data, d, "con"))
					} else {
						c.missing++
					}
				}
				return c.All(clearly)
			})},
		{"pairs", "§5.2",
			"Second, in most cases, the linear and sigmoid pair weight outperforms the default Euclidean pair weight.",
			"Table 3: each of lin, lin-ms, sig, sig-ms above $P^{euc}$, both directions and sets: more than half.",
			Compare(func(c *Comparisons) Finding {
				for data, d := range c.n.cells(columns3, componentSets...) {
					for _, p := range claimPairs[2:] {
						c.Above(c.n.on(data, figures.PairLabel(p), d), t3(data, d, p), t3(data, d, "euc"))
					}
				}
				return c.Most()
			})},
		{"pairs", "§5.2", "Third, the linear version of the multi-similarity … is much more robust to different learning " +
			"rates than the sigmoid version",
			"Table 7: highest less lowest recall over the rates, $P^{sig-ms}$'s less $P^{lin-ms}$'s, is positive.",
			onCells(componentSets, columns3, func(c *Comparisons, data, d string) {
				c.sum(c.n.on(data, d), append(c.n.spread(1, c.n.swept(7, data, d+"/sig-ms/con")),
					c.n.spread(-1, c.n.swept(7, data, d+"/lin-ms/con"))...)...)
			})},
		{"pairs", "§5.2", "… and gives better performance and Recall@1 accuracy [than sig-ms].",
			"Table 3: $P^{lin-ms}$ above $P^{sig-ms}$, both directions and sets.",
			onCells(componentSets, columns3, func(c *Comparisons, data, d string) {
				c.Above(c.n.on(data, d), t3(data, d, "lin-ms"), t3(data, d, "sig-ms"))
			})},
	}
}

// unstable adds how much more sig-ms loses than sig from the lowest rate to the highest, on In-shop.
func unstable(c *Comparisons) {
	for data, d := range c.n.cells(columns3, "In-shop") {
		ms, sig := c.n.swept(7, data, d+"/sig-ms/con"), c.n.swept(7, data, d+"/sig/con")
		c.sum(c.n.on(data, d), term{1, ms[0]}, term{-1, ms[len(ms)-1]}, term{-1, sig[0]}, term{1, sig[len(sig)-1]})
	}
}

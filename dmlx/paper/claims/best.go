package claims

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/figures"
)

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
						c.sum(c.n.on(data, "to "+d), append(c.n.spread(1, c.n.swept(6, data, d+"/con/con")),
							c.n.spread(-1, c.n.swept(6, data, "cos-orth/con/con"))...)...)
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
						c.above(c.n.on(data, d, "to "+figures.PairLabel(strings.Split(b.Rule, "/")[1])), t3(data, d, "lin-ms"), b)
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
					c.above(c.n.on(data, figures.PairLabel(p)), t4(data, p, "cir"), t4(data, p, "con"))
				}
				return c.all(0)
			})},
		{"best", "§6", "To ensure a fair comparison, we also re-implement … MS and DR-MS results (noted as MS* and " +
			"DR-MS*) with our gradient method",
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
				f := Finding{truth(len(several) == len(batches)), fmt.Sprintf("%d of %d: %s.", len(several), len(batches),
					strings.Join(several, ", "))}
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
				var five []figures.PaperResult
				bold := 0
				for _, r := range n.printed {
					if r.Table == 5 {
						five = append(five, r)
						if r.Bold {
							bold++
						}
					}
				}
				wrong := BoldErrors(five)
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

package claims

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/figures"
)

func bestClaims() []Claim {
	return []Claim{
		{"best", "§6", `… the $\mathbf{e}^{cos-orth}$ gives the best performance …`,
			"Table 2: above each other direction, on both sets.",
			onSets(componentSets, func(c *Comparisons, data string) {
				for _, d := range claimDirections[:3] {
					c.Above(c.n.on(data, "to "+d), t2(data, "cos-orth"), t2(data, d))
				}
			})},
		{"best", "§6", "… and is relatively stable with respect to the learning rate.",
			"Table 6: highest less lowest recall over the rates is smaller than that of most other directions.",
			Compare(func(c *Comparisons) Finding {
				for _, data := range c.n.sets(componentSets...) {
					for _, d := range claimDirections[:3] {
						c.sum(c.n.on(data, "to "+d), append(c.n.spread(1, c.n.swept(6, data, d+"/con/con")),
							c.n.spread(-1, c.n.swept(6, data, "cos-orth/con/con"))...)...)
					}
				}
				return c.Most()
			})},
		{"best", "§6", "… $P^{lin-ms}$ is consistently a top performer across datasets.",
			"Table 3: at most 1 point below the best pair weight, both directions and sets.",
			Compare(func(c *Comparisons) Finding {
				for data, d := range c.n.cells(columns3, componentSets...) {
					var rest scores.Table
					for _, p := range claimPairs {
						if p != "lin-ms" {
							rest = append(rest, t3(data, d, p))
						}
					}
					if b, there := c.n.best(1, rest); there {
						c.Above(c.n.on(data, d, "to "+figures.PairLabel(strings.Split(b.Rule, "/")[1])), t3(data, d, "lin-ms"), b)
					} else {
						c.missing++
					}
				}
				return c.All(-little)
			})},
		{"best", "§6", "Similarly, $T^{cir}$ shows stable improvement to both CAR and In-shop datasets.",
			"Table 4: above $T^{con}$, both pair weights and sets.",
			onCells(componentSets, columns4, func(c *Comparisons, data, p string) {
				c.Above(c.n.on(data, figures.PairLabel(p)), t4(data, p, "cir"), t4(data, p, "con"))
			})},
		{"best", "§6", "To ensure a fair comparison, we also re-implement … MS and DR-MS results (noted as MS* and " +
			"DR-MS*) with our gradient method … with the same network backbone, pre-processing and training settings.",
			"Table 5: MS*, DR-MS* and Ours stand side by side at one batch, with the same recalls on the same sets.",
			ofPaper("All are trained by one program here; the table compares them.", func(n *Numbers) Finding {
				together, all := 0, 0
				for _, data := range allSets {
					for _, m := range metrics5(data) {
						all++
						there := func(method string) bool {
							return slices.ContainsFunc(n.own(method, data, m), func(r scores.Row) bool { return r.Times == 1 })
						}
						if there("MS*") && there("DR-MS*") && there(oursMethod) {
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
		{"best", "§6", "… and continue to improve the Recall performance.",
			"Table 5: Ours at each batch above the next smaller one, all recalls and sets.",
			onSets(allSets, func(c *Comparisons, data string) {
				for _, m := range metrics5(data) {
					rows := c.n.own(oursMethod, data, m)
					for i := 1; i < len(rows); i++ {
						c.Above(c.n.on(data, m, fmt.Sprintf("batch ×%d to ×%d", rows[i].Times, rows[i-1].Times)), rows[i], rows[i-1])
					}
				}
			})},
	}
}

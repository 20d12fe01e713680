package claims

import (
	"fmt"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/scores"
)

func overviewClaims() []Claim {
	oursAll := func(n *Numbers, data, metric string) scores.Table { return n.own(oursMethod, data, metric) }
	return []Claim{
		{"overview", "Abstract", "… a simple algorithm that beats the state of the art for image retrieval on the CAR, " +
			"CUB and Stanford Online products datasets.",
			"Table 5: the best of Ours over its batches above the best of the literature, all three recalls of the three " +
				"sets.",
			againstLiterature([]string{"CAR", "CUB", "SOP"}, false, (*Comparisons).allAbove, oursAll)},
		{"overview", "§1", "… a new gradient rule that outperforms the current state-of-art result for image retrieval by " +
			"a clear margin across multiple datasets",
			"Table 5, R@1: the same by at least 1 point, on at least two of the four sets.",
			againstLiterature(allSets, true, func(c *Comparisons) Finding { return c.several(2, clearly) }, oursAll)},
		{"overview", "§2", "… like the current state-of-the-art approach across many datasets [MS loss] …",
			"Table 5, R@1: MS as published is not below the rest of the literature, on the four sets.",
			ofPaper("The literature's rows are not run here.", func(n *Numbers) Finding {
				c := &Comparisons{n: n}
				for _, data := range allSets {
					lit := n.literature(data, "R@1")
					ms := slices.IndexFunc(lit, func(r scores.Row) bool { return r.Method == "MS" })
					if ms < 0 {
						c.missing++
						continue
					}
					rest := slices.Delete(slices.Clone(lit), ms, ms+1)
					if b, there := n.best(1, rest); there {
						c.Above(fmt.Sprintf("%s, to %s", data, b.Method), lit[ms], b)
					}
				}
				return c.All(-slack * 2)
			})},
	}
}

// againstLiterature compares the best of some rows with the best of the literature.
func againstLiterature(sets []string, onlyFirst bool, decide func(c *Comparisons) Finding,
	rows func(n *Numbers, data, metric string) scores.Table) func(*Numbers) Finding {
	return ofPaper("The literature's rows are not run here.", func(n *Numbers) Finding {
		c := &Comparisons{n: n}
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
				c.Above(fmt.Sprintf("%s %s, to %s", data, m, b.Method), a, b)
			}
		}
		return decide(c)
	})
}

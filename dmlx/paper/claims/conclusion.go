package claims

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/paper/verdicts"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/figures"
)

func conclusionClaims() []Claim {
	cosine := "… the cosine gradient direction has a consistently big improvement over a large set of experimental " +
		"conditions."
	column := func(data string, of []string, row func(string) scores.Row) scores.Table {
		out := make(scores.Table, len(of))
		for i, name := range of {
			out[i] = row(name)
		}
		return out
	}
	return []Claim{
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
		{"conclusion", "§8", cosine, "Table 3: cos above euc with each pair weight, on both sets.",
			onCells(componentSets, claimPairs, func(c *Comparisons, data, p string) {
				c.Above(c.n.on(data, figures.PairLabel(p)), t3(data, "cos", p), t3(data, "euc", p))
			})},
		{"conclusion", "§8", cosine, "Table 7: the same at each learning rate.",
			onCells(componentSets, claimPairs, func(c *Comparisons, data, p string) {
				c.overRates(7, data, "cos/"+p+"/con", "euc/"+p+"/con", figures.PairLabel(p))
			})},
		{"conclusion", "§8", "… our findings that the pair-weight term is very important. In contrast, we find the " +
			"triplet weight term to have limited impact …",
			"Highest less lowest of Table 3's cos column less the same of each of Table 4's columns, on both sets.",
			onCells(componentSets, columns4, func(c *Comparisons, data, p string) {
				pairs := c.n.spread(1, column(data, claimPairs, func(name string) scores.Row { return t3(data, "cos", name) }))
				triplets := c.n.spread(-1, column(data, claimTriplets, func(name string) scores.Row { return t4(data, p, name) }))
				c.sum(c.n.on(data, "triplet weights with "+figures.PairLabel(p)), append(pairs, triplets...)...)
			})},
		{"conclusion", "§8", "… that was not consistent across datasets.",
			"Table 4: at least one triplet weight gains over $T^{con}$ on one set and loses on the other.",
			Compare(inconsistent)},
		{"conclusion", "§8", "… gives improvements to state-of-the-art performance relative to recent work.",
			"Table 5, R@1: Ours at 128, the batch of its re-implementations, above the best of the literature, on the " +
				"four sets.",
			againstLiterature(allSets, true, (*Comparisons).allAbove, func(n *Numbers, data, metric string) scores.Table {
				rows := n.own(oursMethod, data, metric)
				return rows[:min(1, len(rows))]
			})},
	}
}

// inconsistent finds triplet weights with opposite effects on the two data sets.
func inconsistent(c *Comparisons) Finding {
	sets := c.n.sets(componentSets...)
	if len(sets) < 2 {
		return Finding{Verdict: verdicts.None, Evidence: "One of the two sets is missing."}
	}
	for _, p := range []string{"con", "lin"} {
		for _, t := range claimTriplets[1:] {
			own := &Comparisons{n: c.n}
			for _, data := range sets {
				own.Above(c.n.on(data, figures.TripletLabel(t), figures.PairLabel(p)), t4(data, p, t), t4(data, p, "con"))
			}
			if c.missing, c.diverged = c.missing+min(1, own.missing), c.diverged+min(1, own.diverged); len(own.list) == 2 {
				c.list = append(c.list, own.list...)
			}
		}
	}
	if len(c.list) == 0 {
		return c.judge(1, nil)
	}
	var example figures.Markup
	f := c.decide(1, func() (of []verdicts.Comparison) {
		for i := 0; i < len(c.list); i += 2 {
			up, down := [2]float64{}, [2]float64{}
			for j, d := range c.list[i : i+2] {
				up[j] = c.above(d, 0).Holds
				d.value = -d.value
				down[j] = c.above(d, 0).Holds
			}
			one := verdicts.Comparison{Holds: min(max(up[0], down[1]), max(down[0], up[1])),
				Opposite: min(max(up[0], up[1]), max(down[0], down[1]))}
			if of = append(of, one); one.Yes() && example == "" {
				example = fmt.Sprintf(": %s, %s", c.list[i], c.list[i+1])
			}
		}
		return of
	})
	f.Evidence = fmt.Sprintf("%d of %d triplet weights%s", f.Holding, f.Of, example)
	if c.n.measured {
		f.Evidence += fmt.Sprintf("; %d beyond noise with the same sign on both", f.Opposite)
	}
	f.Evidence += "."
	return f
}

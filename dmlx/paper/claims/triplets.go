package claims

import (
	"github.com/gradient-surgery/dml/dmlx/paper/verdicts"
	"github.com/gradient-surgery/dml/figures"
)

func tripletClaims() []Claim {
	boost := func(c *Comparisons, sets []string, triplets ...string) {
		for data, p := range c.n.cells(columns4, sets...) {
			for _, t := range triplets {
				c.Above(c.n.on(data, figures.TripletLabel(t), figures.PairLabel(p)), t4(data, p, t), t4(data, p, "con"))
			}
		}
	}
	masks := func(c *Comparisons, sets ...string) {
		for data, p := range c.n.cells(columns4, sets...) {
			for _, m := range claimMasked {
				c.Above(c.n.on(data, figures.TripletLabel(m.masked), figures.PairLabel(p)), t4(data, p, m.masked),
					t4(data, p, m.bare))
			}
		}
	}
	return []Claim{
		{"triplets", "§5.3",
			"Comparing to the baseline … $T^{con}=0.5$, $T^{cos}$ and $T^{cir}$ has minimal but slight boost in performance",
			"Table 4: each above $T^{con}$, both pair weights and sets.",
			Compare(func(c *Comparisons) Finding { boost(c, componentSets, "cos", "cir"); return c.All(0) })},
		{"triplets", "§5.3", "$T^{sc1}$ and $T^{sc2}$ has bigger impact on CAR data set than In-shop dataset.",
			"Table 4: distance from $T^{con}$, whichever sign, on CAR less that on In-shop.",
			Compare(func(c *Comparisons) Finding {
				if len(c.n.sets(componentSets...)) < 2 {
					return Finding{Verdict: verdicts.None, Evidence: "One of the two sets is missing."}
				}
				for _, p := range columns4 {
					for _, m := range claimMasked {
						var terms []term
						for i, data := range componentSets {
							weight := []float64{1, -1}[i]
							if c.n.Of(t4(data, p, m.masked)).Mean < c.n.Of(t4(data, p, "con")).Mean {
								weight = -weight
							}
							terms = append(terms, term{weight, t4(data, p, m.masked)}, term{-weight, t4(data, p, "con")})
						}
						c.sum(figures.TripletLabel(m.masked)+", "+figures.PairLabel(p), terms...)
					}
				}
				return c.All(0)
			})},
		{"triplets", "§5.3",
			"[On In-shop] the goal is to continue separating the images better, which is the impact of $T^{cos}$ and $T^{cir}$",
			"Table 4, In-shop: each above $T^{con}$, both pair weights.",
			Compare(func(c *Comparisons) Finding { boost(c, []string{"In-shop"}, "cos", "cir"); return c.All(0) })},
		{"triplets", "§5.3",
			"… the performance gain in Circle loss is largely from the pair weight not from the triplet weight.",
			"Table 4: $P^{lin}$ with $T^{con}$ above $T^{cir}$ with $P^{con}$, both sets.",
			onSets(componentSets, func(c *Comparisons, data string) {
				c.Above(c.n.on(data), t4(data, "lin", "con"), t4(data, "con", "cir"))
			})},
		{"triplets", "§5.3",
			"Selective Contrastive operator benefits the training tasks which need to separate triplets with hard negative …",
			"Table 4, CAR: each mask above its triplet weight without it.",
			Compare(func(c *Comparisons) Finding { masks(c, "CAR"); return c.All(0) })},
		{"triplets", "§5.3", "… and is not helpful for training tasks which easily separate triplets during the training.",
			"Table 4, In-shop: no mask above its triplet weight without it.",
			Compare(func(c *Comparisons) Finding { masks(c, "In-shop"); return c.None(0) })},
	}
}

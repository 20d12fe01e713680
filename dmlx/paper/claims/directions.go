package claims

import (
	"fmt"
	"math"

	"github.com/gradient-surgery/dml/dmlx/report"
)

func directionClaims() []Claim {
	portrait := func(measure string, sets ...string) func(*Numbers) Finding {
		return ofRuns("A picture, without numbers.", func(c *Comparisons) Finding {
			for _, data := range c.n.sets(sets...) {
				a, b := "euc", "cos"
				if measure == SpreadTrain || measure == SpreadTest {
					a, b = b, a
				}
				c.Above(c.n.on(data), shape(data, a, measure), shape(data, b, measure))
			}
			return c.All(0)
		})
	}
	return []Claim{
		{"directions", "§5.1",
			"… the cosine and cosine-orthogonal direction have better Recall@1 accuracy than other directions.",
			"Table 2: each of the two above each of the other two, on both sets.",
			onSets(componentSets, func(c *Comparisons, data string) {
				for _, a := range []string{"cos", "cos-orth"} {
					for _, b := range []string{"euc", "euc-orth"} {
						c.Above(c.n.on(data, a+" − "+b), t2(data, a), t2(data, b))
					}
				}
			})},
		{"directions", "§5.1",
			"… the cosine-orthogonal gradient direction gives an improvement for both datasets compared to the cos direction.",
			"Table 2: cos-orth above cos, on both sets.",
			onSets(componentSets, func(c *Comparisons, data string) {
				c.Above(c.n.on(data), t2(data, "cos-orth"), t2(data, "cos"))
			})},
		{"directions", "§5.4", "Because most pairs during the training have positive similarity …",
			"Share in percent of the last five epochs' pairs with $S>0$, with con weights: above 50.",
			ofRuns("No numbers are given.", func(c *Comparisons) Finding {
				for data, d := range c.n.cells(columns3, componentSets...) {
					c.sum(c.n.on(data, d), term{1, shape(data, d, Positive)})
				}
				return c.All(50)
			})},
		{"directions", "§5.4, Fig. 2", "The Euclidean gradient has stronger force to pull positive close and push negative " +
			"away than the cosine direction when two features are close to each other.",
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
				return truth(cross < 1, fmt.Sprintf("Stronger above $S=%.2f$; at $S=0.9$ %.2f against %.2f.", cross,
					euc(0.9), cos(0.9)))
			})},
		{"directions", "§5.4, Fig. 5", "The Euclidean direction clusters the same label feature more tightly than the " +
			"cosine direction because there are more triplets along the right edge [last 5 epochs, CAR]",
			`Share in percent of the last five epochs' triplets with $S_{ap}>0.9$: euc above cos.`, portrait(EdgeLast, "CAR")},
		{"directions", "§5.4, Fig. 5",
			"The Euclidean gradient has more triplets very close to the top right corner [whole training set]",
			`Share in percent with both similarities above 0.9: euc above cos.`, portrait(CornerTrain, componentSets...)},
		{"directions", "§5.4, Fig. 5",
			"The Euclidean gradient has more triplets very close to the top right corner [testing set]",
			`The same on the test classes.`, portrait(report.Compact, componentSets...)},
		{"directions", "§5.4, Fig. 5", "… cosine gradient creates triplets that are more spread out [whole training set]",
			`100 times the root of the summed variances of $S_{ap}$ and $S_{an}$: cos above euc.`,
			portrait(SpreadTrain, componentSets...)},
		{"directions", "§5.4, Fig. 5", "… cosine gradient creates triplets that are more spread out [testing set]",
			`The same on the test classes.`, portrait(SpreadTest, componentSets...)},
		{"directions", "§5.4", "When the Euclidean pair weight $P^{euc}$ is applied to Euclidean direction and cosine " +
			"direction, the performance gap between these two methods is almost disappeared.",
			"Table 3: cos less euc with $P^{euc}$ is at most 1 point.",
			Compare(func(c *Comparisons) Finding {
				for _, data := range c.n.sets(componentSets...) {
					c.Above(c.n.on(data), t3(data, "cos", "euc"), t3(data, "euc", "euc"))
				}
				return c.Within(little)
			})},
	}
}

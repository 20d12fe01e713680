package claims

import (
	"fmt"
	"math"
)

func formulaClaims() []Claim {
	return []Claim{
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
				return truth(e < rounding, fmt.Sprintf("Largest difference %.1g.", e))
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
				return truth(most > rounding, fmt.Sprintf("Nowhere. In the corners both are %.2f, in the middle $T^{cir}$ is "+
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
				return printed(kept == 0 && zeroed == 0, fmt.Sprintf("It keeps the positive weight of %.0f %% of the triplets "+
					"with $S_{an}>S_{ap}$ and zeroes that of %.0f %% of those with $S_{ap}-S_{an}>0.5$: the sign is the other way "+
					"round.", share(kept, hard), share(zeroed, easy)))
			})},
	}
}

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

const rounding = 1e-12

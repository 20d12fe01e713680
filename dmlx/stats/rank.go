package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
)

// RankAgreement says how well two lists of means agree in their order.
type RankAgreement struct {
	N int
	// Rho is Spearman's rank correlation: 1 for the same order, −1 for the opposite one.
	Rho float64
	// P is the probability that a random order agrees at least as well: one-sided, over all orders of up to 8 means and
	// over random ones beyond.
	P float64
	// Low and High bound the middle 95 % of ρ when every mean moves by its own standard error. They are NaN where a mean
	// is of a single seed, whose noise is not known.
	Low, High float64
}

// String is "ρ = 0.80 [0.40, 1.00], n = 4, p = 0.17", without the brackets where there is no interval.
func (a RankAgreement) String() string {
	if math.IsNaN(a.Rho) {
		return fmt.Sprintf("ρ undefined, n = %d", a.N)
	}
	sign := func(v float64) string {
		s := fmt.Sprintf("%.2f", math.Abs(v))
		if v < 0 && s != "0.00" {
			return "−" + s
		}
		return s
	}
	interval := ""
	if !math.IsNaN(a.Low) {
		interval = fmt.Sprintf(" [%s, %s]", sign(a.Low), sign(a.High))
	}
	return fmt.Sprintf("ρ = %s%s, n = %d, p = ", sign(a.Rho), interval, a.N) +
		strings.Replace(fmt.Sprintf("%.2g", a.P), "-", "−", 1)
}

// CompareRanks compares the order of two lists of means, pair by pair. Pairs without a mean on either side are left
// out. With fewer than three pairs left, or equal means throughout a side, ρ is NaN. The result is deterministic.
func CompareRanks(a, b []Mean) (RankAgreement, error) {
	if len(a) != len(b) {
		return RankAgreement{}, fmt.Errorf("rank agreement: %d means against %d, want as many", len(a), len(b))
	}
	var x, y []Mean
	for i := range a {
		if !math.IsNaN(a[i].Mean) && !math.IsNaN(b[i].Mean) {
			x, y = append(x, a[i]), append(y, b[i])
		}
	}
	means := func(list []Mean) []float64 {
		values := make([]float64, len(list))
		for i, s := range list {
			values[i] = s.Mean
		}
		return values
	}
	out := RankAgreement{N: len(x)}
	if out.N < 3 {
		out.Rho, out.P, out.Low, out.High = math.NaN(), math.NaN(), math.NaN(), math.NaN()
		return out, nil
	}
	mx, my := means(x), means(y)
	out.Rho = Spearman(mx, my)
	if math.IsNaN(out.Rho) {
		out.P, out.Low, out.High = math.NaN(), math.NaN(), math.NaN()
		return out, nil
	}
	source := rand.New(rand.NewPCG(1, 2))
	out.P = permutationP(mx, my, out.Rho, source)
	single := func(s Mean) bool { return s.N == 1 }
	if slices.ContainsFunc(x, single) || slices.ContainsFunc(y, single) {
		out.Low, out.High = math.NaN(), math.NaN() // To move the other means alone would show too little.
		return out, nil
	}
	noisy := func(list []Mean) []float64 {
		moved := means(list)
		for i, s := range list {
			if s.N > 0 {
				moved[i] += source.NormFloat64() * s.Std / math.Sqrt(float64(s.N))
			}
		}
		return moved
	}
	var rhos []float64
	for range 2000 {
		if r := Spearman(noisy(x), noisy(y)); !math.IsNaN(r) {
			rhos = append(rhos, r)
		}
	}
	slices.Sort(rhos)
	out.Low, out.High = stat.Quantile(0.025, stat.Empirical, rhos, nil), stat.Quantile(0.975, stat.Empirical, rhos, nil)
	return out, nil
}

// Spearman returns the rank correlation of two samples of the same length; ties share their mean rank. It is NaN where
// a sample is constant or shorter than two. Samples of different lengths panic, as in gonum.
func Spearman(x, y []float64) float64 { return stat.Correlation(ranks(x), ranks(y), nil) }

func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case x[a] < x[b]:
			return -1
		case x[a] > x[b]:
			return 1
		}
		return 0
	})
	out := make([]float64, len(x))
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for k := i; k < j; k++ {
			out[order[k]] = float64(i+j-1)/2 + 1
		}
		i = j
	}
	return out
}

// permutationP returns the share of all orders of y, or of many random ones, whose ρ with x is at least rho.
func permutationP(x, y []float64, rho float64, source *rand.Rand) float64 {
	const slack = 1e-12
	rx, ry := ranks(x), ranks(y)
	atLeast, all := 0, 0
	count := func() {
		all++
		if stat.Correlation(rx, ry, nil) >= rho-slack {
			atLeast++
		}
	}
	if len(y) > 8 {
		const draws = 20000
		count() // The order as it is: a share of zero would claim too much.
		for range draws {
			source.Shuffle(len(ry), func(i, j int) { ry[i], ry[j] = ry[j], ry[i] })
			count()
		}
		return float64(atLeast) / float64(all)
	}
	var permute func(k int)
	permute = func(k int) {
		if k == len(ry) {
			count()
			return
		}
		for i := k; i < len(ry); i++ {
			ry[k], ry[i] = ry[i], ry[k]
			permute(k + 1)
			ry[k], ry[i] = ry[i], ry[k]
		}
	}
	permute(0)
	return float64(atLeast) / float64(all)
}

package formulas

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/dissect"
)

// relativeProbe is a batch of one anchor, row 0, its positive, row 1, and its negative, row 2, both of the
// similarity s, and as many other positives and other negatives as others says, each of the similarity s−delta to
// the anchor. The other positives are in 𝒫 and the other negatives in 𝒩 (Eq. 12) for any ε > 0 and delta ≥ 0:
//
//	R_ap = s−delta < s+ε ≤ max{S_an, R_an}+ε    R_an = s−delta > s−delta−ε = min{S_ap, R_ap}−ε
//
// so ΔS_ap = ΔS_an = delta exactly, and as all members of a set are alike, its size does not matter.
func relativeProbe(s, delta float64, others int) (dissect.Embeddings, error) {
	if !(s >= -1 && s <= 1 && s-delta >= -1 && s-delta <= 1) || others < 0 {
		return dissect.Embeddings{},
			fmt.Errorf("similarities %g and %g with %d others: want similarities in [-1, 1] and a count that is not negative",
				s, s-delta, others)
	}
	e := dissect.Embeddings{N: 3 + 2*others, Dim: 3 + 2*others,
		Triplets: []dissect.Triplet{{Anchor: 0, Positive: 1, Negative: 2}}}
	e.Values = make([]float32, e.N*e.Dim)
	e.Values[0] = 1
	e.Labels = make([]int64, e.N)
	for i := 1; i < e.N; i++ { // Each in a plane with the anchor that it shares with no other.
		at := s
		if i > 2 {
			at = s - delta
		}
		e.Values[i*e.Dim], e.Values[i*e.Dim+i] = float32(at), float32(math.Sqrt(max(1-at*at, 0)))
		e.Labels[i] = int64(1 - i%2) // Odd rows are of the anchor's class.
	}
	return e, nil
}

// RelativeWeights returns P₊ and P₋ of a rule where S_ap = S_an = s and each of the anchor's other positives and
// negatives is less similar by delta. The op computes them on a batch with exactly these similarities.
func RelativeWeights(b compute.Backend, r dmlx.Rule, s, delta float64, others int) (positive, negative float64,
	err error) {
	e, err := relativeProbe(s, delta, others)
	if err != nil {
		return 0, 0, err
	}
	d, err := dissect.Rule(b, e, r)
	if err != nil {
		return 0, 0, err
	}
	return float64(d.Triplets[0].PairPositive), float64(d.Triplets[0].PairNegative), nil
}

// PublishedWeights returns the weights of [RelativeWeights] for MS loss as published: |∂L/∂S_ap| and ∂L/∂S_an
// by autodiff. Its sums run over 𝒫 and 𝒩 with the pair itself.
func PublishedWeights(b compute.Backend, s, delta float64, others int) (positive, negative float64, err error) {
	e, err := relativeProbe(s, delta, others)
	if err != nil {
		return 0, 0, err
	}
	l, err := publishedMS()
	if err != nil {
		return 0, 0, err
	}
	g, err := Differentiate(b, e, l, dmlx.Options{})
	if err != nil {
		return 0, 0, err
	}
	return -float64(g.M[1]), float64(g.M[2]), nil // Row 0, the anchor's; nothing is written in its column.
}

// publishedMS returns MS loss with its own sums; no rule is its gradient.
func publishedMS() (dmlx.Loss, error) {
	i := slices.IndexFunc(dmlx.Losses, func(l dmlx.Loss) bool { return l.Name == "table1-ms-published" })
	if i < 0 {
		return dmlx.Loss{}, fmt.Errorf("loss table1-ms-published is not registered")
	}
	return dmlx.Losses[i], nil
}

package formulas

import (
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
)

// The probe batch has exactly the ΔS that it is asked for: the op's weights on it are the closed forms.
func TestRelativeWeights(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	const alpha, beta, lambda = 2, 10, 0.5
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-5*max(1, want) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	for _, s := range []float64{0, 0.3, 0.5, 0.9, 1} {
		for _, delta := range []float64{0, 0.1, 0.5} {
			for _, others := range []int{1, 4} {
				p, n, err := RelativeWeights(b, dmlx.Rule{Pair: dmlx.PairSigMS}, s, delta, others)
				if err != nil {
					t.Fatal(err)
				}
				near("P₊ of sig-ms", p, 1/(math.Exp(alpha*delta)+math.Exp(alpha*(s-lambda))))
				near("P₋ of sig-ms", n, 1/(math.Exp(-beta*delta)+math.Exp(-beta*(s-lambda))))
				// The same as sig at the others' similarity, times a constant.
				near("P₋ of sig-ms, shifted", n, math.Exp(beta*delta)/(1+math.Exp(-beta*(s-delta-lambda))))
				p, n, err = RelativeWeights(b, dmlx.Rule{Pair: dmlx.PairLinMS}, s, delta, others)
				if err != nil {
					t.Fatal(err)
				}
				near("P₊ of lin-ms", p, (1-delta)*(1-s))
				near("P₋ of lin-ms", n, (1+delta)*s)
				p, n, err = PublishedWeights(b, s, delta, others)
				if err != nil {
					t.Fatal(err)
				}
				k := float64(others)
				near("P₊ as published", p, 1/(1+k*math.Exp(alpha*delta)+math.Exp(alpha*(s-lambda))))
				near("P₋ as published", n, 1/(1+k*math.Exp(-beta*delta)+math.Exp(-beta*(s-lambda))))
			}
		}
	}
	p, n, err := RelativeWeights(b, dmlx.Rule{Pair: dmlx.PairSigMS}, 0.6, 0.1, 0) // Empty sets: sig.
	if err != nil {
		t.Fatal(err)
	}
	near("P₊ alone", p, 1/(1+math.Exp(alpha*0.1)))
	near("P₋ alone", n, 1/(1+math.Exp(-beta*0.1)))
	if _, _, err := RelativeWeights(b, dmlx.Rule{}, -0.95, 0.1, 1); err == nil {
		t.Error("a similarity of −1.05 has weights")
	}
}

// The op's gradients have the lengths that the appendix derives, and those that it does not, where S_pn counts.
func TestProjections(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	for _, direction := range projectedDirections {
		lengths, err := ProjectedLengths(b, anyTriplets(200, projectedDim), direction)
		if err != nil {
			t.Fatal(err)
		}
		worst, without, n := 0.0, 0.0, 0
		for _, l := range lengths {
			if !distinct(l) {
				continue
			}
			n++
			worst = max(worst, math.Abs(l.Parallel-ParallelLength(l.Direction, l.Member, l.Sap, l.San, l.Spn)))
			if math.IsNaN(ParallelLength(l.Direction, l.Member, l.Sap, l.San, l.San)) {
				continue // No triplet has these similarities.
			}
			without = max(without, math.Abs(l.Parallel-ParallelLength(l.Direction, l.Member, l.Sap, l.San, l.San)))
		}
		if n < 200 || worst > 1e-4 {
			t.Errorf("%s: off by %v over %d", direction.Name, worst, n)
		}
		if projected := strings.HasSuffix(direction.Name, "-orth"); projected != (without > 0.1) {
			t.Errorf("%s: without S_pn off by %v", direction.Name, without)
		}
	}
}

// On the circle a gradient's parts can be checked by hand.
func TestParallelLength(t *testing.T) {
	for _, c := range []struct {
		direction     string
		member        Member
		sap, san, spn float64
		want          float64
	}{
		{"euc", PositiveMember, 0.5, 0, 0, 0.5}, // The chord of 60° meets the radius at 60°.
		{"cos", PositiveMember, 0.5, 0, 0, -0.5},
		{"euc", NegativeMember, 0, 0.5, 0, -0.5},
		{"cos", NegativeMember, 0, 0.5, 0, 0.5},
		{"euc-orth", PositiveMember, 0.5, 0, 0, 0.5},
		// Anchor and positive at ±60° of the negative: the gradient lies on the line through it.
		{"cos-orth", NegativeMember, -0.5, 0.5, 0.5, 1},
		{"euc-orth", NegativeMember, -0.5, 0.5, 0.5, -1},
		// Anchor 0°, positive 90°, negative −90° on a circle: f_a−f_p points to −45°, the gradient to 45°.
		{"cos-orth", NegativeMember, 0, 0, -1, -math.Sqrt(0.5)},
		{"euc-orth", NegativeMember, 0, 0, -1, -math.Sqrt(0.5)},
	} {
		if got := ParallelLength(c.direction, c.member, c.sap, c.san, c.spn); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if got := ParallelLength("cir", NegativeMember, 0, 0, 0); !math.IsNaN(got) {
		t.Errorf("no direction has the length %v", got)
	}
}

package formulas

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/figures"
)

// Member is the member of a triplet at which a gradient acts, in the paper's index.
type Member string

// The members whose gradient has only one part.
const (
	PositiveMember Member = "p"
	NegativeMember Member = "n"
)

// Projected is a measurement of a unit gradient at a member of a triplet: its signed length along d_∥, which is the
// member's own embedding, and its length along d_⊥, which is orthogonal to it, with the triplet's similarities.
type Projected struct {
	Direction               string // euc, cos, euc-orth, cos-orth.
	Member                  Member
	Sap, San, Spn           float64
	Parallel, Perpendicular float64
}

// ParallelLength returns e·f, the length along d_∥ of a direction's unit gradient at a member, from the triplet's
// similarities. For euc and cos it follows the paper's appendix, except that the negative of cos has S_an where the
// paper prints S_ap:
//
//	euc  at p: (1−S_ap)/√(2−2S_ap) = √((1−S_ap)/2)    at n: −√((1−S_an)/2)
//	cos  at p: −S_ap                                   at n: S_an
//
// The appendix leaves out the orthogonal directions. They are the same at p, and at n, with
// q = 1−S_ap−S_an+S_pn = (f_a−f_n)·(f_a−f_p):
//
//	euc-orth: (S_an−1 − q(S_an−S_pn)/(2−2S_ap)) / √(2−2S_an − q²/(2−2S_ap))
//	cos-orth: (S_an+S_pn) / √(2+2S_ap)
//
// It returns NaN for an unknown direction, and where a difference or a projection of length zero leaves the direction
// undefined. [PerpendicularLength] is the length along d_⊥.
func ParallelLength(direction string, member Member, sap, san, spn float64) float64 {
	if member == PositiveMember {
		switch direction {
		case "euc", "euc-orth":
			return (1 - sap) / math.Sqrt(2-2*sap)
		case "cos", "cos-orth":
			return -sap
		}
	}
	q := 1 - sap - san + spn
	switch direction {
	case "euc":
		return (san - 1) / math.Sqrt(2-2*san)
	case "cos":
		return san
	case "euc-orth":
		return (san - 1 - q*(san-spn)/(2-2*sap)) / math.Sqrt(2-2*san-q*q/(2-2*sap))
	case "cos-orth":
		return (san + spn) / math.Sqrt(2+2*sap)
	}
	return math.NaN()
}

// separate returns a batch of triplets that share no image: rows 3k, 3k+1 and 3k+2 are anchor, positive and negative of
// triplet k, so that the gradient at a positive or a negative has one part.
type separate struct{ dissect.Embeddings }

func (s *separate) add(anchor, positive, negative []float64) {
	k := int64(len(s.Triplets))
	s.Dim = len(anchor)
	for _, v := range [][]float64{anchor, positive, negative} {
		for _, x := range v {
			s.Values = append(s.Values, float32(x))
		}
	}
	s.Labels = append(s.Labels, 2*k, 2*k, 2*k+1)
	s.Triplets = append(s.Triplets, dissect.Triplet{Anchor: s.N, Positive: s.N + 1, Negative: s.N + 2})
	s.N += 3
}

// orthonormal returns three orthonormal random vectors of dimension dim.
func orthonormal(rng *rand.Rand, dim int) (u, v, w []float64) {
	out := make([][]float64, 3)
	for k := range out {
		x := make([]float64, dim)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		for range 2 { // The second pass removes the rounding of the first.
			for _, y := range out[:k] {
				along := dotProduct(x, y)
				for i := range x {
					x[i] -= along * y[i]
				}
			}
		}
		length := math.Sqrt(dotProduct(x, x))
		for i := range x {
			x[i] /= length
		}
		out[k] = x
	}
	return out[0], out[1], out[2]
}

func dotProduct(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// turned returns cos·a + sin·b at a cosine.
func turned(a, b []float64, cosine float64) []float64 {
	sine := math.Sqrt(max(1-cosine*cosine, 0))
	out := make([]float64, len(a))
	for i := range a {
		out[i] = cosine*a[i] + sine*b[i]
	}
	return out
}

// anyTriplets returns n triplets in general position, near and far.
func anyTriplets(n, dim int) dissect.Embeddings {
	var s separate
	rng := rand.New(rand.NewPCG(5, 6))
	for range n {
		a, u, v := orthonormal(rng, dim)
		p := turned(a, u, math.Cos(math.Pi*rng.Float64()))
		s.add(a, p, turned(p, turned(v, u, 2*rng.Float64()-1), math.Cos(math.Pi*rng.Float64())))
	}
	return s.Embeddings
}

// ProjectedLengths projects the unit gradients at the positives and negatives of separate triplets on the member's own
// embedding and on its orthogonal complement. It leaves out members without a gradient. The gradients are the op's; the
// sums are in double precision.
func ProjectedLengths(b compute.Backend, e dissect.Embeddings, direction dmlx.Direction) ([]Projected, error) {
	d, err := dissect.Rule(b, e, dmlx.Rule{Direction: direction})
	if err != nil {
		return nil, err
	}
	row := func(of []float32, i int) []float64 {
		out := make([]float64, d.Dim)
		for k, v := range d.Row(of, d.Dim, i) {
			out[k] = float64(v)
		}
		return out
	}
	var out []Projected
	for _, t := range d.Triplets {
		positive, negative := row(d.F, t.Positive), row(d.F, t.Negative)
		for _, m := range []struct {
			name Member
			row  int
			own  []float64
		}{{PositiveMember, t.Positive, positive}, {NegativeMember, t.Negative, negative}} {
			g := row(d.G, m.row)
			length := math.Sqrt(dotProduct(g, g))
			if length == 0 {
				continue
			}
			square, along := dotProduct(m.own, m.own), dotProduct(g, m.own)
			rest := 0.0
			for k := range g {
				r := g[k] - along/square*m.own[k]
				rest += r * r
			}
			out = append(out, Projected{Direction: direction.Name, Member: m.name,
				Sap: dotProduct(row(d.F, t.Anchor), positive), San: dotProduct(row(d.F, t.Anchor), negative),
				Spn:      dotProduct(positive, negative),
				Parallel: along / math.Sqrt(square) / length, Perpendicular: math.Sqrt(rest) / length})
		}
	}
	return out, nil
}

// projectedDirections are the directions of the paper's appendix.
var projectedDirections = []dmlx.Direction{dmlx.DirectionEuc, dmlx.DirectionCos, dmlx.DirectionEucOrth,
	dmlx.DirectionCosOrth}

const projectedDim = 16

// ProjectionErrors compares the op with the closed forms on triplets in general position: a row for each direction and
// member with the largest difference along d_∥ and along d_⊥. worst is the largest of all.
func ProjectionErrors(b compute.Backend, triplets int) (t *figures.Table, worst float64, err error) {
	e := anyTriplets(triplets, projectedDim)
	t = &figures.Table{
		Columns: []figures.Column{{Title: "Direction", Left: true, Merged: true}, {Title: "at"},
			{Title: `largest difference along $d_\parallel$`},
			{Title: `of the squares along $d_\perp$`}, {Title: "triplets"}},
		Caption: "The parts of the op's gradients against the closed forms, on random triplets.",
		Notes: []figures.Markup{"Triplets in which a difference or a projection is shorter than 0.1 are left out: its " +
			"direction has lost digits to cancellation in single precision."},
		Provenance: fmt.Sprintf("%d triplets in %d dimensions, float32, Go backend", triplets, projectedDim),
	}
	for _, direction := range projectedDirections {
		lengths, err := ProjectedLengths(b, e, direction)
		if err != nil {
			return nil, 0, err
		}
		for _, member := range []Member{PositiveMember, NegativeMember} {
			parallel, perpendicular, count := 0.0, 0.0, 0
			for _, l := range lengths {
				if l.Member != member || !distinct(l) {
					continue
				}
				want := ParallelLength(l.Direction, l.Member, l.Sap, l.San, l.Spn)
				parallel = max(parallel, math.Abs(l.Parallel-want))
				// √(1−l²) has no digits left at |l| = 1, so lengths are compared by their squares.
				perpendicular = max(perpendicular, math.Abs(l.Perpendicular*l.Perpendicular-(1-want*want)))
				count++
			}
			worst = max(worst, parallel, perpendicular)
			t.Rows = append(t.Rows, figures.Row(figures.DirectionLabel(direction.Name), fmt.Sprintf("$%s$", member),
				fmt.Sprintf("%.1e", parallel), fmt.Sprintf("%.1e", perpendicular), count))
		}
	}
	return t, worst, nil
}

// distinct tells whether a triplet's members and projections are far enough apart to compare.
func distinct(l Projected) bool {
	const near = 0.1
	q := 1 - l.Sap - l.San + l.Spn
	ap, an := 2-2*l.Sap, 2-2*l.San
	eucOrth, cosOrth := an-q*q/ap, (1+l.Sap)/2 // The squared lengths that the projection leaves of f_a−f_n and of f_a.
	return min(ap, an, eucOrth, cosOrth) > near*near
}

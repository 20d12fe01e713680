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

// evenly returns cosine i of n over (−1, 1), in equal steps of the angle, without the ends.
func evenly(i, n int) float64 { return math.Cos(math.Pi * (float64(i) + 0.5) / float64(n)) }

// pairsOverS returns n triplets with S_ap = S_an from 1 to −1, for the directions that depend on one pair.
func pairsOverS(n, dim int) dissect.Embeddings {
	var s separate
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		a, u, v := orthonormal(rng, dim)
		s.add(a, turned(a, u, evenly(i, n)), turned(a, v, evenly(i, n)))
	}
	return s.Embeddings
}

// betweenOverS returns n triplets with the given S_ap whose negatives are as near to the positive as to the anchor.
// S_an = S_pn falls from the largest possible value to the smallest, ±√((1+S_ap)/2).
func betweenOverS(n, dim int, sap float64) dissect.Embeddings {
	var s separate
	rng := rand.New(rand.NewPCG(3, 4))
	half := math.Sqrt((1 + sap) / 2) // The cosine of half the angle between anchor and positive.
	for i := range n {
		b, u, v := orthonormal(rng, dim) // b is the bisector.
		minus := turned(b, u, half)
		for k := range minus {
			minus[k] = 2*half*b[k] - minus[k] // The mirror image of the anchor.
		}
		s.add(turned(b, u, half), minus, turned(b, v, evenly(i, n)))
	}
	return s.Embeddings
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
func ProjectedLengths(b compute.Backend, e dissect.Embeddings, direction dmlx.Direction) ([]figures.Projected, error) {
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
	var out []figures.Projected
	for _, t := range d.Triplets {
		positive, negative := row(d.F, t.Positive), row(d.F, t.Negative)
		for _, m := range []struct {
			name figures.Member
			row  int
			own  []float64
		}{{figures.PositiveMember, t.Positive, positive}, {figures.NegativeMember, t.Negative, negative}} {
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
			out = append(out, figures.Projected{Direction: direction.Name, Member: m.name,
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

// The S_ap at which the orthogonal directions are drawn.
var projectedAt = []float64{0.8, 0}

const projectedDim = 16

// Projections draws the parts of the op's gradients along d_∥ and d_⊥, at the positive and the negative, for all
// directions, over the closed forms. points is the number of measured points of a curve.
func Projections(b compute.Backend, points int) (*figures.Figure, error) {
	measured, err := projections(b, points)
	if err != nil {
		return nil, err
	}
	f, err := figures.ProjectionLengths(measured)
	if err == nil {
		f.Provenance = fmt.Sprintf("lines: closed forms · points: the op's gradients, %d dimensions, float32, Go backend",
			projectedDim)
	}
	return f, err
}

func projections(b compute.Backend, points int) ([]figures.Projected, error) {
	var out []figures.Projected
	for _, direction := range projectedDirections {
		batches := []dissect.Embeddings{pairsOverS(points, projectedDim)}
		projected := direction.Name == dmlx.DirectionEucOrth.Name || direction.Name == dmlx.DirectionCosOrth.Name
		if projected {
			batches = nil
			for _, sap := range projectedAt {
				batches = append(batches, betweenOverS(points, projectedDim, sap))
			}
		}
		for _, e := range batches {
			lengths, err := ProjectedLengths(b, e, direction)
			if err != nil {
				return nil, err
			}
			for _, l := range lengths {
				if !projected || l.Member == figures.NegativeMember {
					out = append(out, l)
				}
			}
		}
	}
	return out, nil
}

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
		for _, member := range []figures.Member{figures.PositiveMember, figures.NegativeMember} {
			parallel, perpendicular, count := 0.0, 0.0, 0
			for _, l := range lengths {
				if l.Member != member || !distinct(l) {
					continue
				}
				want := figures.ParallelLength(l.Direction, l.Member, l.Sap, l.San, l.Spn)
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
func distinct(l figures.Projected) bool {
	const near = 0.1
	q := 1 - l.Sap - l.San + l.Spn
	ap, an := 2-2*l.Sap, 2-2*l.San
	eucOrth, cosOrth := an-q*q/ap, (1+l.Sap)/2 // The squared lengths that the projection leaves of f_a−f_n and of f_a.
	return min(ap, an, eucOrth, cosOrth) > near*near
}

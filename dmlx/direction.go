package dmlx

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// Direction gives the directions in which the members of a triplet move (§3.2).
type Direction struct {
	Name string
	// Of builds the directions of all triplets of a batch.
	Of func(b *Batch) Moves

	part
}

// Custom tells whether the direction is the user's own.
func (d Direction) Custom() bool { return d.Of != nil && !d.known }

// Moves are the four gradient directions of a triplet. A gradient is descended: a member moves against its own.
type Moves struct {
	Positive       Combination // e_p
	Negative       Combination // e_n
	AnchorPositive Combination // e_ap, the anchor's because of the positive
	AnchorNegative Combination // e_an, the anchor's because of the negative
}

// Combination is a vector for each triplet, as coefficients [T] of f_a, f_p and f_n. A nil coefficient is zero.
type Combination struct{ Anchor, Positive, Negative *Node }

// Neg is the opposite vector.
func (c Combination) Neg() Combination {
	neg := func(x *Node) *Node {
		if x == nil {
			return nil
		}
		return Neg(x)
	}
	return Combination{neg(c.Anchor), neg(c.Positive), neg(c.Negative)}
}

// The directions that have a name.
var (
	// DirectionCos is e^cos (Eq. 6): e_p = −f_a, e_n = f_a, e_ap = −f_p, e_an = f_n.
	DirectionCos = Direction{Name: "cos", Of: cosine, part: known()}
	// DirectionEuc is e^euc (Eq. 5): e_p = (f_p−f_a)/‖f_p−f_a‖, e_n = (f_a−f_n)/‖f_a−f_n‖, e_ap = −e_p, e_an = −e_n. A
	// difference of length zero gives a zero vector.
	DirectionEuc = Direction{Name: "euc", Of: euclidean, part: known()}
	// DirectionEucOrth is e^euc-orth (Eq. 7): e^euc, with e_n and e_an projected so that they are orthogonal to f_a−f_p.
	DirectionEucOrth = Direction{Name: "euc-orth", Of: func(b *Batch) Moves { return orthogonal(b, euclidean(b)) },
		part: known("keep-length", "negative-only")}
	// DirectionCosOrth is e^cos-orth (Eq. 7): e^cos, with e_n and e_an projected so that they are orthogonal to f_a−f_p.
	// Its e_n is the unit vector along f_a+f_p.
	DirectionCosOrth = Direction{Name: "cos-orth", Of: func(b *Batch) Moves { return orthogonal(b, cosine(b)) },
		part: known("keep-length", "negative-only")}
	// Directions lists the directions that have a name, those of the paper's Table 2 first.
	Directions = []Direction{DirectionEuc, DirectionCos, DirectionEucOrth, DirectionCosOrth}
)

// vanishing is the length under which a difference or a projection of float32 unit vectors is rounding error: it has
// no direction, and a zero vector stands for it.
const (
	vanishingDistance   = 1e-5
	vanishingProjection = 1e-5
)

func cosine(b *Batch) Moves {
	one := OnesLike(b.Sap)
	return Moves{
		Positive:       Combination{Anchor: Neg(one)},
		Negative:       Combination{Anchor: one},
		AnchorPositive: Combination{Positive: Neg(one)},
		AnchorNegative: Combination{Negative: one},
	}
}

func euclidean(b *Batch) Moves {
	ap := inverseLength(b.Dap(), vanishingDistance)
	an := inverseLength(b.Dan(), vanishingDistance)
	positive := Combination{Anchor: Neg(ap), Positive: ap}
	negative := Combination{Anchor: an, Negative: Neg(an)}
	return Moves{positive, negative, positive.Neg(), negative.Neg()}
}

// orthogonal projects e_n and e_an on the complement of u = (f_a−f_p)/‖f_a−f_p‖ and makes them unit vectors again.
// Lengths are measured on the vectors themselves, not read off S: near zero S has no digits left for them.
func orthogonal(b *Batch, m Moves) Moves {
	inverse := inverseLength(b.Dap(), vanishingDistance) // Zero where f_a = f_p: then nothing is projected.
	fa, fp, fn := b.members()
	u := Mul(Sub(fa, fp), graphs.Column(inverse))
	project := func(c Combination) Combination {
		v := Add(Add(scaled(c.Anchor, fa), scaled(c.Positive, fp)), scaled(c.Negative, fn))
		along := ReduceSum(Mul(v, u), 1)
		rest := Sub(v, Mul(u, graphs.Column(along)))
		shift := Mul(along, inverse)
		out := Combination{Anchor: Sub(orZero(c.Anchor, shift), shift), Positive: Add(orZero(c.Positive, shift), shift),
			Negative: c.Negative}
		if b.Options.KeepLength {
			return out
		}
		unit := inverseLength(Sqrt(ReduceSum(Square(rest), 1)), vanishingProjection)
		out.Anchor, out.Positive = Mul(out.Anchor, unit), Mul(out.Positive, unit)
		if out.Negative != nil {
			out.Negative = Mul(out.Negative, unit)
		}
		return out
	}
	m.Negative = project(m.Negative)
	if !b.Options.NegativeOnly {
		m.AnchorNegative = project(m.AnchorNegative)
	}
	return m
}

// inverseLength is 1/length, and 0 where the length is not more than vanishing.
func inverseLength(length *Node, vanishing float64) *Node {
	there := GreaterThan(length, Scalar(length.Graph(), length.DType(), vanishing))
	return Where(there, Reciprocal(Where(there, length, OnesLike(length))), ZerosLike(length))
}

func scaled(coefficient, f *Node) *Node {
	if coefficient == nil {
		return ZerosLike(f)
	}
	return Mul(graphs.Column(coefficient), f)
}

func orZero(x, like *Node) *Node {
	if x == nil {
		return ZerosLike(like)
	}
	return x
}

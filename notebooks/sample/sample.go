// Package sample generates the batches of the notebooks: embeddings with known similarities, so that the effect of a
// rule can be checked by eye.
package sample

import (
	"math"
	"math/rand/v2"

	"github.com/gradient-surgery/dml/dmlx/dissect"
)

// Batch returns a batch like that of a half-trained network: random class centers, and around each of them images
// with Gaussian noise; noise 1 is as long as a center. It has classes × images rows of dimension dim, sorted by
// class, and depends only on its arguments.
func Batch(classes, images, dim int, noise float64, seed uint64) dissect.Embeddings {
	return dissect.Sample(classes, images, dim, noise, seed)
}

// Pairs returns a batch of n triplets without common images. Their S_ap covers (−1, 1) in equal steps of the angle.
// The ends are left out, since e^euc or e^cos has no part along d_⊥ there. Negatives are random.
func Pairs(n, dim int, seed uint64) dissect.Embeddings {
	rng := rand.New(rand.NewPCG(seed, 1))
	e := dissect.Embeddings{N: 3 * n, Dim: dim}
	for k := range n {
		a, p := unit(gaussian(rng, dim)), gaussian(rng, dim)
		along := dot(a, p)
		for i := range p { // p becomes orthogonal to a, and below the unit vector at the angle.
			p[i] -= along * a[i]
		}
		p = unit(p)
		sin, cos := math.Sincos(math.Pi * (float64(k) + 0.5) / float64(n))
		for i := range p {
			p[i] = cos*a[i] + sin*p[i]
		}
		for _, v := range [][]float64{a, p, gaussian(rng, dim)} {
			for _, x := range v {
				e.Values = append(e.Values, float32(x))
			}
		}
		e.Labels = append(e.Labels, int64(2*k), int64(2*k), int64(2*k+1))
		e.Triplets = append(e.Triplets, dissect.Triplet{Anchor: 3 * k, Positive: 3*k + 1, Negative: 3*k + 2})
	}
	return e
}

// Strengths returns, for each triplet, the length along d_⊥ of the unit gradient at the positive, which is what
// remains of it without its part along f_p (Eq. 20). No image may be in two triplets.
func Strengths(d *dissect.Dissection) []float64 {
	out := make([]float64, len(d.Triplets))
	for i, t := range d.Triplets {
		g, f := wide(d.Row(d.G, d.Dim, t.Positive)), wide(d.Row(d.F, d.Dim, t.Positive))
		e := unit(g)
		along := dot(e, f)
		for j := range e {
			e[j] -= along * f[j]
		}
		out[i] = math.Sqrt(dot(e, e))
	}
	return out
}

// Products returns, for each triplet, the inner product of the unit gradient at the negative with f_a − f_p, which
// the orthogonal directions make zero (Eq. 7). No image may be in two triplets.
func Products(d *dissect.Dissection) []float64 {
	out := make([]float64, len(d.Triplets))
	for i, t := range d.Triplets {
		e := unit(wide(d.Row(d.G, d.Dim, t.Negative)))
		out[i] = dot(e, wide(d.Row(d.F, d.Dim, t.Anchor))) - dot(e, wide(d.Row(d.F, d.Dim, t.Positive)))
	}
	return out
}

func gaussian(rng *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}

func wide(v []float32) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

func dot(a, b []float64) float64 {
	s := 0.0
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}

// unit returns v scaled to length 1; a zero vector stays zero.
func unit(v []float64) []float64 {
	length := math.Sqrt(dot(v, v))
	out := make([]float64, len(v))
	for i := range v {
		out[i] = v[i]
		if length > 0 {
			out[i] /= length
		}
	}
	return out
}

package dissect

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"gonum.org/v1/gonum/mat"

	"github.com/gradient-surgery/dml/dmlx"
)

// pseudoInverse solves the equations of a gradient on the sphere for the pairs i < j of M, written out as one matrix,
// by its singular values: the least solution, the part of the gradient that is left, and how many unknowns are free.
func pseudoInverse(e Embeddings, g []float64, pairs []bool) (m []float64, rest float64, free int) {
	n, dim := e.N, e.Dim
	f := make([][]float64, n)
	for i := range f {
		f[i] = unitRow(e.Values[i*dim : (i+1)*dim])
	}
	flat := func(x, f []float64) []float64 {
		out := slices.Clone(x)
		along := dot(x, f)
		for j := range out {
			out[j] -= along * f[j]
		}
		return out
	}
	var of [][2]int
	for i := range n {
		for j := range i {
			if pairs == nil || pairs[i*n+j] || pairs[j*n+i] {
				of = append(of, [2]int{i, j})
			}
		}
	}
	system, right := mat.NewDense(n*dim, len(of), nil), mat.NewVecDense(n*dim, nil)
	for k, p := range of {
		for c, v := range flat(f[p[1]], f[p[0]]) {
			system.Set(p[0]*dim+c, k, v)
		}
		for c, v := range flat(f[p[0]], f[p[1]]) {
			system.Set(p[1]*dim+c, k, v)
		}
	}
	for i := range n {
		for c, v := range flat(g[i*dim:(i+1)*dim], f[i]) {
			right.SetVec(i*dim+c, v)
		}
	}
	var svd mat.SVD
	svd.Factorize(system, mat.SVDThin)
	rank := svd.Rank(1e-9)
	var x, made mat.VecDense
	svd.SolveVecTo(&x, right, rank)
	made.MulVec(system, &x)
	made.SubVec(right, &made)
	m = make([]float64, n*n)
	for k, p := range of {
		m[p[0]*n+p[1]], m[p[1]*n+p[0]] = x.AtVec(k), x.AtVec(k)
	}
	return m, mat.Norm(&made, 2) / mat.Norm(right, 2), len(of) - rank
}

// The closed form and the conjugate gradients are the pseudo-inverse of the equations as written out: for fewer and for
// more embeddings than dimensions, for gradients of losses and for any gradients, for all pairs and for some.
func TestFromAutogradIsThePseudoInverse(t *testing.T) {
	b := goBackend(t)
	for _, size := range [][2]int{{4, 6}, {5, 5}, {6, 3}, {9, 4}, {8, 7}} {
		e := random(size[0], size[1], 3, uint64(size[0]))
		n := e.N
		loss, err := Loss(b, e, Proxies{}, softLoss)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(3, 4))
		any := make([]float32, n*e.Dim)
		for i := range any {
			any[i] = float32(rng.NormFloat64())
		}
		some := make([]bool, n*n)
		for i := range some {
			some[i] = rng.IntN(3) == 0
		}
		for what, g := range map[string][]float32{"loss": loss.G, "any": any} {
			for _, pairs := range [][]bool{nil, some} {
				d, err := FromAutograd(e, Autograd{Gradient: g, Pairs: pairs})
				if err != nil {
					t.Fatal(err)
				}
				m, rest, free := pseudoInverse(e, float64s(g), pairs)
				largest := slices.Max(m)
				for i, v := range m {
					// Conjugate gradients find the least solution of scaled unknowns, so only what is determined is the same.
					if free > 0 && pairs != nil {
						break
					}
					if math.Abs(float64(d.M[i])-v) > 1e-5*largest {
						t.Errorf("%v, %s, pairs %v: M is %g at %d, the pseudo-inverse has %g", size, what, pairs != nil, d.M[i], i, v)
						break
					}
				}
				if math.Abs(d.Coordinates-rest) > 1e-6 || what == "loss" && pairs == nil && rest > 1e-6 {
					t.Errorf("%v, %s, pairs %v: left over %g, the pseudo-inverse has %g", size, what, pairs != nil, d.Coordinates,
						rest)
				}
				if pairs == nil && d.Ambiguity != free || d.Ambiguity > free {
					t.Errorf("%v, %s, pairs %v: ambiguity %d, the equations leave %d", size, what, pairs != nil, d.Ambiguity, free)
				}
			}
		}
	}
}

// A loss's gradient gives back the loss's matrix and weights where M is unique, at the normalized and at the given
// embeddings, and ∂L/∂S gives back all of them anywhere.
func TestFromAutogradFindsTheLoss(t *testing.T) {
	b := goBackend(t)
	for _, size := range [][2]int{{12, 16}, {14, 6}} {
		e := random(size[0], size[1], 4, 5)
		n := e.N
		want, err := Loss(b, e, Proxies{}, softLoss)
		if err != nil {
			t.Fatal(err)
		}
		for what, a := range map[string]Autograd{
			"normalized": {Gradient: want.G},
			"raw":        {Gradient: want.Raw, Raw: true},
			"similarity": {Similarity: want.W},
			"both":       {Similarity: want.W, Gradient: want.Raw, Raw: true},
		} {
			d, err := FromAutograd(e, a)
			if err != nil {
				t.Fatal(err)
			}
			if d.Coordinates > 1e-6 || d.Lengths > 1e-6 || d.Outside > 1e-6 || d.Implied.Residual > 2e-6+want.Implied.Residual {
				t.Errorf("%v, %s: left over %g, lengths %g, outside %g, residual %g", size, what, d.Coordinates, d.Lengths,
					d.Outside, d.Implied.Residual)
			}
			if worst := largestDifference(want.Raw, d.Raw); worst > 1e-6 {
				t.Errorf("%v, %s: the gradient at the embeddings is %g away", size, what, worst)
			}
			if a.Similarity == nil && n > e.Dim {
				if k := n - e.Dim; d.Ambiguity != k*(k+1)/2 {
					t.Errorf("%v, %s: ambiguity %d", size, what, d.Ambiguity)
				}
				continue
			}
			if d.Ambiguity != 0 {
				t.Errorf("%v, %s: ambiguity %d", size, what, d.Ambiguity)
			}
			for i := range n {
				want.M[i*n+i], d.M[i*n+i] = 0, 0
			}
			if worst := largestDifference(want.M, d.M); worst > 2e-6 {
				t.Errorf("%v, %s: M is %g away", size, what, worst)
			}
			against, err := d.Against(want.G, want.M)
			if err != nil || math.Abs(against.Constant-1) > 2e-6 || against.Error > 2e-6 {
				t.Errorf("%v, %s: %+v, %v", size, what, against, err)
			}
			if a.Similarity == nil {
				continue
			}
			for i, anchor := range want.Implied.Anchors {
				if got := d.Implied.Anchors[i]; got.Anchor != anchor.Anchor || math.Abs(got.Weight-anchor.Weight) > 1e-6 ||
					math.Abs(got.PairPositive-anchor.PairPositive) > 1e-6 {
					t.Errorf("%v, %s: anchor %d is %+v, want %+v", size, what, i, got, anchor)
				}
			}
		}
	}
}

// easyPositives takes for each anchor the nearest positive and the nearest negative, as rules do.
func easyPositives(b *dmlx.LossBatch) *dmlx.LossBatch {
	return b.Mined(dmlx.NewBatch(dmlx.Normalize(b.X), b.Labels, dmlx.Options{}).Triplets)
}

// With more embeddings than dimensions, knowing the pairs makes M unique, and tells whose they are.
func TestFromAutogradOnPairs(t *testing.T) {
	b, e := goBackend(t), random(24, 8, 5, 6)
	want, err := Loss(b, e, Proxies{}, func(x *dmlx.LossBatch) *Node { return tripletCos(easyPositives(x)) })
	if err != nil {
		t.Fatal(err)
	}
	pairs, err := MinedPairs(b, e, easyPositives)
	if err != nil {
		t.Fatal(err)
	}
	d, err := FromAutograd(e, Autograd{Gradient: want.Raw, Raw: true, Pairs: pairs})
	if err != nil {
		t.Fatal(err)
	}
	if worst := largestDifference(want.M, d.M); worst > 1e-5 || d.Ambiguity != 0 || d.Coordinates > 2e-6 {
		t.Errorf("M is %g away, ambiguity %d, left over %g", worst, d.Ambiguity, d.Coordinates)
	}
	if all, err := FromAutograd(e, Autograd{Gradient: want.G}); err != nil || all.Ambiguity != 16*17/2 ||
		all.Coordinates > 2e-6 || largestDifference(want.M, all.M) < 0.1 {
		t.Errorf("with all pairs: ambiguity %d, left over %g, %v", all.Ambiguity, all.Coordinates, err)
	}
	// Another choice of pairs does not explain the gradient.
	for i := range pairs {
		pairs[i] = !pairs[i] && i%11 == 0
	}
	if d, err := FromAutograd(e, Autograd{Gradient: want.G, Pairs: pairs}); err != nil || d.Coordinates < 0.1 {
		t.Errorf("on other pairs: left over %g, %v", d.Coordinates, err)
	}
}

// What is not a loss on the batch's similarities is left over.
func TestFromAutogradLeavesOver(t *testing.T) {
	b, e := goBackend(t), random(6, 12, 3, 7)
	q := random(4, 12, 4, 8)
	p := Proxies{Values: append(q.Values, q.Values[:24]...), N: 6, Dim: 12, Classes: e.Labels}
	loss, err := Loss(b, e, p, proxyLoss)
	if err != nil {
		t.Fatal(err)
	}
	d, err := FromAutograd(e, Autograd{Gradient: loss.Raw[:e.N*e.Dim], Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	if d.Outside < 0.3 || d.Coordinates < d.Outside || d.OnS() == nil {
		t.Errorf("proxies: outside %g, left over %g, %v", d.Outside, d.Coordinates, d.OnS())
	}
	many, turn := random(12, 4, 3, 9), make([]float32, 48)
	for i := 0; i < len(turn); i += 4 { // Each row is turned in the plane of the first two axes.
		length := float32(norm32(many.Values[i : i+4]))
		turn[i], turn[i+1] = -many.Values[i+1]/length, many.Values[i]/length
	}
	d, err = FromAutograd(many, Autograd{Gradient: turn})
	if err != nil || math.Abs(d.Coordinates-1) > 1e-6 || d.Outside > 1e-6 {
		t.Errorf("a turn of the batch: left over %g, outside %g, %v", d.Coordinates, d.Outside, err)
	}
	// A gradient along the embeddings is none, and at the embeddings as given it changes their lengths alone.
	if d, err = FromAutograd(e, Autograd{Gradient: e.Values, Raw: true}); err != nil || math.Abs(d.Lengths-1) > 1e-6 ||
		norm32(d.G) > 1e-5*norm32(e.Values) {
		t.Errorf("along the embeddings: %g, %v", d.Lengths, err)
	}
	if d, err = FromAutograd(e, Autograd{Gradient: make([]float32, 72)}); err != nil || norm32(d.M) != 0 ||
		d.Coordinates != 0 || len(d.Implied.Anchors) != 0 {
		t.Errorf("zeros: %+v, %v", d, err)
	} else if _, err := d.Against(d.G, d.M); err == nil {
		t.Error("zeros agree with zeros")
	}
	// Equal embeddings are no basis.
	copy(e.Values[e.Dim:2*e.Dim], e.Values[:e.Dim])
	if d, err = FromAutograd(e, Autograd{Gradient: loss.G[:72]}); err != nil || d.Ambiguity != 1 || !finite(d.M[7]) {
		t.Errorf("equal embeddings: ambiguity %d, %v", d.Ambiguity, err)
	}
}

func TestFromAutogradBadInput(t *testing.T) {
	e := random(4, 3, 2, 1)
	short := random(4, 3, 2, 1)
	short.Labels = short.Labels[:3]
	zero := random(4, 3, 2, 1)
	copy(zero.Values[3:], make([]float32, 3))
	good := make([]float32, 12)
	bad := slices.Clone(good)
	bad[7] = float32(math.NaN())
	for want, c := range map[string]struct {
		e Embeddings
		a Autograd
	}{
		"no gradient: want":          {e, Autograd{}},
		"gradient: 11 values":        {e, Autograd{Gradient: good[:11]}},
		"row 2, column 1 is NaN":     {e, Autograd{Gradient: bad}},
		"similarity gradient: 12":    {e, Autograd{Similarity: good}},
		"pairs: 4 values":            {e, Autograd{Gradient: good, Pairs: make([]bool, 4)}},
		"pairs and ∂L/∂S are both":   {e, Autograd{Similarity: make([]float32, 16), Pairs: make([]bool, 16)}},
		"labels: 4 rows":             {short, Autograd{Gradient: good}},
		"row 1 has the length 0, so": {zero, Autograd{Gradient: good}},
	} {
		if _, err := FromAutograd(c.e, c.a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	d, err := FromAutograd(e, Autograd{Gradient: good})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Against(good[:3], good); err == nil {
		t.Error("a gradient of three values was compared")
	}
}

// A set as package retrieval and the run store give it, without its number of rows, is a batch as it is.
func TestRowsAreLabels(t *testing.T) {
	b, e := goBackend(t), random(9, 4, 3, 2)
	whole, err := Rule(b, e, dmlx.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	e.N = 0
	d, err := Rule(b, e, dmlx.Rule{})
	if err != nil || !slices.Equal(d.G, whole.G) || d.N != 9 {
		t.Errorf("rule: %v", err)
	}
	if d, err := Loss(b, e, Proxies{}, softLoss); err != nil || d.N != 9 {
		t.Errorf("loss: %v", err)
	}
	if d, err := FromAutograd(e, Autograd{Gradient: whole.G}); err != nil || d.N != 9 {
		t.Errorf("autograd: %v", err)
	}
	if pairs, err := MinedPairs(b, e, easyPositives); err != nil || len(pairs) != 81 {
		t.Errorf("pairs: %v", err)
	}
	e.Labels = nil
	if _, err := Rule(b, e, dmlx.Rule{}); err == nil {
		t.Error("a batch without labels passed")
	}
}

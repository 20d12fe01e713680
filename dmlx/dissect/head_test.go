package dissect

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
	"github.com/gradient-surgery/dml/dmlx/losses"
)

func randomHead(features, dim int) (Head, HeadBatch) {
	rng := rand.New(rand.NewPCG(3, 4))
	draw := func(n int) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(rng.NormFloat64())
		}
		return out
	}
	return Head{features, dim, draw(dim * features), draw(dim)}, HeadBatch{Values: draw(12 * features),
		Scale: draw(features), Shift: draw(features), Labels: []int64{5, 5, 5, 1, 1, 1, 2, 2, 2, 7, 7, 7}}
}

// A step by hand: the gradient at the embeddings is taken through the normalization and the layer by loops.
func TestHeadStepByHand(t *testing.T) {
	const features, dim, rate = 7, 4, 0.3
	h, b := randomHead(features, dim)
	n := len(b.Labels)
	x, e := make([]float64, n*features), Embeddings{N: n, Dim: dim, Labels: b.Labels}
	for k := range x {
		x[k] = float64(b.Values[k])*float64(b.Scale[k%features]) + float64(b.Shift[k%features])
	}
	for i := range n {
		for d := range dim {
			sum := float64(h.Bias[d])
			for k := range features {
				sum += float64(h.Weight[d*features+k]) * x[i*features+k]
			}
			e.Values = append(e.Values, float32(sum))
		}
	}
	// after is the head after a step by the gradient at e.
	after := func(raw func(i, d int) float64) (weight, bias []float64) {
		weight, bias = float64s(h.Weight), float64s(h.Bias)
		for i := range n {
			for d := range dim {
				bias[d] -= rate * raw(i, d)
				for k := range features {
					weight[d*features+k] -= rate * raw(i, d) * x[i*features+k]
				}
			}
		}
		return weight, bias
	}
	backendtest.OnEach(t, func(t *testing.T, backend compute.Backend) {
		compare := func(got Head, raw func(i, d int) float64) {
			t.Helper()
			weight, bias := after(raw)
			for k, want := range append(weight, bias...) {
				if have := append(got.Weight, got.Bias...)[k]; !(math.Abs(float64(have)-want) < 2e-5) {
					t.Fatalf("value %d is %v; want %v", k, have, want)
				}
			}
		}
		for _, name := range []string{"cos/con/con", "euc-orth/lin-ms/cir?tau=3", "cos-orth/sig-ms/cos+sc1?beta=3&sum"} {
			r := mustParse(t, name)
			got, triplets, err := Compile(backend, r).TrainHead(h, b, r.Options, rate)
			if err != nil {
				t.Fatal(err)
			}
			reference := referenceOf(e, r)
			compare(got, func(i, d int) float64 {
				length := 0.0
				for _, v := range e.Values[i*dim : (i+1)*dim] {
					length += float64(v) * float64(v)
				}
				f, g := reference.f[i], reference.g[i]
				return (g[d] - g.dot(f)*f[d]) / math.Sqrt(length)
			})
			if triplets.Count != n || triplets.Sap == 0 || triplets.San == 0 {
				t.Errorf("%s: %+v", name, triplets)
			}
		}
		l, err := losses.Parse("ms")
		if err != nil {
			t.Fatal(err)
		}
		got, triplets, err := CompileLoss(backend, l.Of).TrainHead(h, b, rate)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := Loss(backend, e, Proxies{}, l.Of)
		if err != nil {
			t.Fatal(err)
		}
		compare(got, func(i, d int) float64 { return float64(whole.Raw[i*dim+d]) })
		if triplets.Count != n {
			t.Errorf("ms: %+v", triplets)
		}
		f, err := h.Embed(backend, b)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range f {
			if d := math.Abs(float64(v) - float64(whole.F[i])); !(d < 1e-5) {
				t.Fatalf("value %d of the embeddings is off by %g", i, d)
			}
		}
	})
}

func TestHeadErrors(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, backend compute.Backend) {
		h, b := randomHead(3, 2)
		c := Compile(backend, dmlx.Rule{})
		for want, change := range map[string]func(h *Head, b *HeadBatch) float64{
			"5 weights":                      func(h *Head, _ *HeadBatch) float64 { h.Weight = h.Weight[1:]; return 1 },
			"for 11 samples":                 func(_ *Head, b *HeadBatch) float64 { b.Labels = b.Labels[1:]; return 1 },
			"not finite; want a lower rate":  func(*Head, *HeadBatch) float64 { return math.Inf(1) },
			"rule cos/con/con: the step lea": func(h *Head, _ *HeadBatch) float64 { h.Bias[0] = float32(math.NaN()); return 1 },
		} {
			other, batch := h, b
			other.Bias = append([]float32{}, h.Bias...)
			rate := change(&other, &batch)
			if _, _, err := c.TrainHead(other, batch, dmlx.Options{}, rate); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want …%s…", err, want)
			}
		}
	})
}

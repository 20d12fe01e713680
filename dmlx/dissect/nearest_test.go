package dissect

import (
	"math"
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
)

// Each of some rules is the nearest to its own gradient, whatever the gradient's size.
func TestNearest(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	e := Sample(8, 4, 16, 0.7, 3)
	candidates := RuleCandidates(dmlx.Rules())
	for _, name := range []string{"cos-orth/lin-ms/cir", "euc-orth/sig/cos"} {
		r, err := dmlx.ParseRule(name)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Rule(b, e, r)
		if err != nil {
			t.Fatal(err)
		}
		g := make([]float32, len(d.G))
		for i, v := range d.G {
			g[i] = 3 * v
		}
		ranked, err := Nearest(e, g, candidates)
		if err != nil {
			t.Fatal(err)
		}
		if first := ranked[0]; first.Name != name || math.Abs(first.Constant-3) > 1e-5 || first.Error > 1e-5 ||
			len(ranked) != len(candidates) {
			t.Errorf("%s: nearest of %d is %+v", name, len(ranked), first)
		}
		if ranked[1].Cosine > ranked[0].Cosine || ranked[1].Error < 1e-3 {
			t.Errorf("%s: the second is %+v", name, ranked[1])
		}
	}
	if _, err := Nearest(e, make([]float32, len(e.Values)), candidates); err == nil {
		t.Error("a zero gradient was ranked")
	}
}

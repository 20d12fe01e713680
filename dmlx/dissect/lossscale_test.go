package dissect

import (
	"math"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/losses"
)

// A loss that is twice another has twice its scale, and the contrastive loss, whose pairs all count alike, has one near
// that of cos/con/con.
func TestLossScale(t *testing.T) {
	b, err := probeBackend()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"contrastive", "ms", "norm-softmax"} {
		l, err := losses.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		once, err := LossScale(b, l.Of, losses.PerClass(l))
		if err != nil {
			t.Fatal(err)
		}
		twice, err := LossScale(b, func(b *dmlx.LossBatch) *Node { return MulScalar(l.Of(b), 2) }, losses.PerClass(l))
		if err != nil || math.Abs(twice/once-2) > 1e-5 {
			t.Errorf("%s: %g and %g, %v", name, once, twice, err)
		}
		if name == "contrastive" && (once < 0.5 || once > 3) {
			t.Errorf("%s: %g", name, once)
		}
	}
	zero := func(b *dmlx.LossBatch) *Node { return MulScalar(ReduceAllSum(b.S), 0) }
	if scale, err := LossScale(b, zero, 0); err == nil || !strings.Contains(err.Error(), "want a positive one") {
		t.Errorf("a loss without a gradient: %g, %v", scale, err)
	}
}

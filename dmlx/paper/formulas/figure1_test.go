package formulas

import (
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
)

func firstStep(t *testing.T) (*Network, *ImageBatch) {
	t.Helper()
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	set, err := datasets.Open("minicar", datasets.Options{Cache: t.TempDir(), TrainClasses: 6, TestClasses: 2})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := DrawBatch(set, 4, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	n, err := FirstStep(b, 16, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n, batch
}

// What Figure 1 says holds on a real batch: G = M f, the op hands exactly G on, and a loss leads to the same.
func TestStep(t *testing.T) {
	n, batch := firstStep(t)
	for _, name := range []string{"table1-circle", "triplet-cos"} {
		loss, err := LossOf(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := n.Step(batch, loss)
		if err != nil {
			t.Fatal(err)
		}
		size, dim := len(s.Labels), s.Dim
		for i := range size {
			for k := range dim {
				sum := 0.0
				for j := range size {
					sum += float64(s.M[i*size+j]) * float64(s.F[j*dim+k])
				}
				if got := float64(s.G[i*dim+k]); math.Abs(got-sum) > 1e-6 {
					t.Fatalf("%s: G at row %d, column %d is %v, M f is %v", name, i, k, got, sum)
				}
			}
		}
		if s.DifferenceM > 1e-5 || s.DifferenceG > 1e-5 {
			t.Errorf("%s: the loss's gradient differs by %v and %v", name, s.DifferenceM, s.DifferenceG)
		}
		rule := loss.Rule(dmlx.Options{})
		op, err := n.Backpropagate(batch, BySurgery(rule))
		if err != nil {
			t.Fatal(err)
		}
		given, err := n.Backpropagate(batch, ByGradient(s.G))
		if err != nil {
			t.Fatal(err)
		}
		auto, err := n.Backpropagate(batch, ByLoss(loss, dmlx.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		if d := op.Difference(given, 1); d > 1e-6 {
			t.Errorf("%s: the op hands on another gradient than G: %v", name, d)
		}
		if d := auto.Difference(op, s.Constant); d > 1e-4 {
			t.Errorf("%s: the loss moves the weights otherwise: %v", name, d)
		}
		total := 0.0
		for _, v := range op.Values {
			total += float64(v) * float64(v)
		}
		for i, norm := range op.Norms {
			total -= norm * norm
			if !(norm > 0) {
				t.Errorf("%s: no gradient at %s", name, Stages[i])
			}
		}
		if math.Abs(total) > 1e-9 {
			t.Errorf("%s: the stages' gradients are not all there are: %v is left", name, total)
		}
	}
	// Another rule's gradient is another one: the comparisons can fail.
	lin, err := n.Backpropagate(batch, BySurgery(dmlx.Rule{Pair: dmlx.PairLin}))
	if err != nil {
		t.Fatal(err)
	}
	con, err := n.Backpropagate(batch, BySurgery(dmlx.Rule{}))
	if err != nil {
		t.Fatal(err)
	}
	if d := lin.Difference(con, 1); d < 0.1 {
		t.Errorf("lin and con differ by %v only", d)
	}
}

func TestDrawBatch(t *testing.T) {
	n, batch := firstStep(t)
	for i, l := range batch.Labels {
		if l != batch.Set.Train.Labels[batch.Indices[i]] || l != batch.Labels[i/4*4] {
			t.Fatalf("image %d has class %d", i, l)
		}
	}
	again, err := DrawBatch(batch.Set, 4, 4, 1)
	if err != nil || again.Indices[5] != batch.Indices[5] {
		t.Errorf("the same seed drew %v, not %v: %v", again, batch.Indices, err)
	}
	a, err := n.Embed(batch)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := n.Embed(again); err != nil || b.Values[7] != a.Values[7] {
		t.Errorf("the same images are embedded otherwise: %v", err)
	}
	for want, c := range map[string][2]int{"has 6 to train on": {7, 2}, "has 16": {2, 17}, "at least one": {0, 2}} {
		if _, err := DrawBatch(batch.Set, c[0], c[1], 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", c, err)
		}
	}
	if _, err := LossOf("table1-dr-ms"); err == nil {
		t.Error("table1-dr-ms has no rule that is its gradient")
	}
}

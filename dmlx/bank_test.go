package dmlx_test

import (
	"math"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
)

// gradients runs a graph and returns the gradient of the sum of its output at the first input.
func gradientsOf(t *testing.T, fn func(in []*Node) *Node, args ...any) []float32 {
	t.Helper()
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	exec, err := NewExec(b, func(in []*Node) *Node { return Gradient(ReduceAllSum(fn(in)), in[0])[0] })
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Finalize()
	out, err := exec.Call(args...)
	if err != nil {
		t.Fatal(err)
	}
	return tensors.MustCopyFlatData[float32](out[0])
}

// circle returns points of the unit circle at angles in degrees.
func circle(degrees ...float64) [][]float32 {
	var out [][]float32
	for _, d := range degrees {
		sin, cos := math.Sincos(d * math.Pi / 180)
		out = append(out, []float32{float32(cos), float32(sin)})
	}
	return out
}

// bankOf takes embeddings and labels of a bank from the inputs in[2] and in[3].
func bankOf(in []*Node) *dmlx.Bank { return &dmlx.Bank{F: in[2], Labels: in[3]} }

// By hand: anchor 0° of class 0 has its positive, 60°, in the bank, and the nearest of its negatives, 90° in the batch
// and −30° in the bank, is in the bank. Anchor 90° of class 1 has the positive 150° in the bank, since the place with
// the label −1 is empty, and the nearest of its negatives, 0° in the batch and 60° in the bank, is in the bank.
func TestRuleWithBankByHand(t *testing.T) {
	batch, labels := circle(0, 90), []int32{0, 1}
	bank, bankLabels := circle(60, -30, 150, 90), []int32{0, 2, 1, -1}
	rule := dmlx.Rule{} // cos/con/con: T = ½, e_ap = −f_p, e_an = f_n, and the mean over two triplets.
	got := gradientsOf(t, func(in []*Node) *Node {
		f, _ := dmlx.Selection{Bank: bankOf(in)}.Surgery(in[0], in[1], rule)
		return f
	}, batch, labels, bank, bankLabels)
	members := circle(60, -30, 150, 60)
	var want []float64
	for i, f := range batch {
		p, n := members[2*i], members[2*i+1]
		g := [2]float64{float64(n[0]-p[0]) / 4, float64(n[1]-p[1]) / 4}
		along := g[0]*float64(f[0]) + g[1]*float64(f[1]) // The normalization removes it.
		want = append(want, g[0]-along*float64(f[0]), g[1]-along*float64(f[1]))
	}
	for i, w := range want {
		if math.Abs(float64(got[i])-w) > 1e-6 {
			t.Fatalf("gradient %v, want %v", got, want)
		}
	}
}

// An empty bank with the gradient of the batch changes nothing; neither does one of the embeddings' own classes alone
// where only negatives of another class count.
func TestEmptyBank(t *testing.T) {
	batch, labels := circle(0, 25, 90, 140, 200, 310), []int32{0, 0, 1, 1, 2, 2}
	bank, empty := circle(10, 20), []int32{-1, -1}
	withGradient := func(in []*Node) *dmlx.Bank {
		return &dmlx.Bank{F: in[2], Labels: in[3], BatchGradient: Const(in[0].Graph(), float32(1))}
	}
	for _, name := range []string{"cos-orth/lin-ms/cir", "euc/sig-ms/cos+sc1"} {
		rule, err := dmlx.ParseRule(name)
		if err != nil {
			t.Fatal(err)
		}
		for miner, mine := range map[string]func(*dmlx.LossBatch) *dmlx.LossBatch{
			"EPHN": nil, "hard": miners.Extreme{Positive: miners.Hard, Negative: miners.Hard}.Mine,
		} {
			plain := gradientsOf(t, func(in []*Node) *Node {
				f, _ := dmlx.Selection{Mine: mine}.Surgery(in[0], in[1], rule)
				return f
			}, batch, labels)
			banked := gradientsOf(t, func(in []*Node) *Node {
				f, _ := dmlx.Selection{Mine: mine, Bank: withGradient(in)}.Surgery(in[0], in[1], rule)
				return f
			}, batch, labels, bank, empty)
			near(t, name+" "+miner, banked, plain)
		}
	}
	for _, loss := range losses.All() {
		l, err := losses.Parse(loss.Name)
		if err != nil {
			t.Fatal(err)
		}
		if losses.CheckBank(l) != nil {
			continue
		}
		plain := gradientsOf(t, func(in []*Node) *Node {
			f, _ := dmlx.ComposeLoss(dmlx.NewLossBatch(in[0], in[1], nil, nil), l.Of).Surgery()
			return f
		}, batch, labels)
		banked := gradientsOf(t, func(in []*Node) *Node {
			f, _ := dmlx.ComposeLoss(dmlx.NewLossBatchWith(in[0], in[1], withGradient(in)), l.Of).Surgery()
			return f
		}, batch, labels, bank, empty)
		near(t, loss.Name, banked, plain)
	}
}

func near(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) || !slices.ContainsFunc(want, func(v float32) bool { return v != 0 }) {
		t.Errorf("%s: %v, want %v", what, got, want)
		return
	}
	for i, w := range want {
		if math.Abs(float64(got[i]-w)) > 2e-6*(1+math.Abs(float64(w))) {
			t.Errorf("%s: %v, want %v", what, got, want)
			return
		}
	}
}

// The gradient of each loss with a bank is that of finite differences of the loss, in which the anchors move and their
// references, the batch's own copies among them, do not.
func TestLossWithBankByFiniteDifferences(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	batch, labels := circle(0, 35, 100, 150), []int32{0, 0, 1, 1}
	bank, bankLabels := circle(20, 60, 115, 170, 250), []int32{0, 1, 1, 0, 2}
	for i := range batch { // In three dimensions, not of unit length.
		batch[i] = []float32{1.5 * batch[i][0], 1.5 * batch[i][1], 0.3 * float32(i)}
	}
	for i := range bank {
		bank[i] = []float32{0.8 * bank[i][0], 0.8 * bank[i][1], 0.6}
	}
	for _, loss := range losses.All() {
		l, err := losses.Parse(loss.Name)
		if err != nil {
			t.Fatal(err)
		}
		if losses.CheckBank(l) != nil || loss.Name == "circle" { // It holds factors fixed that differences do not.
			continue
		}
		got := gradientsOf(t, func(in []*Node) *Node {
			f, _ := dmlx.ComposeLoss(dmlx.NewLossBatchWith(in[0], in[1], bankOf(in)), l.Of).Surgery()
			return f
		}, batch, labels, bank, bankLabels)
		// The batch's own copies as a bank: anchors that move are compared with copies that do not, by putting the copies
		// into the bank and dropping the columns of the batch.
		value, err := NewExec(b, func(in []*Node) *Node {
			copies := &dmlx.Bank{
				F:      Concatenate([]*Node{dmlx.Normalize(in[4]), in[2]}, 0),
				Labels: Concatenate([]*Node{in[1], in[3]}, 0),
			}
			all := dmlx.NewLossBatchWith(in[0], in[1], copies)
			n := in[1].Shape().Dim(0)
			own := *all
			drop := func(x *Node) *Node { return Slice(x, AxisRange(), AxisRangeToEnd(n)) }
			own.S, own.Positive, own.Negative = drop(all.S), drop(all.Positive), drop(all.Negative)
			// An image is no positive of its own copy.
			itself := Equal(Iota(in[0].Graph(), own.S.Shape(), 0), Iota(in[0].Graph(), own.S.Shape(), 1))
			own.Positive = LogicalAnd(own.Positive, LogicalNot(itself))
			return l.Of(&own)
		})
		if err != nil {
			t.Fatal(err)
		}
		at := func(i, j int, delta float32) float64 {
			x := make([][]float32, len(batch))
			for k := range x {
				x[k] = slices.Clone(batch[k])
			}
			x[i][j] += delta
			out, err := value.Call(x, labels, bank, bankLabels, batch)
			if err != nil {
				t.Fatal(loss.Name, err)
			}
			return float64(tensors.ToScalar[float32](out[0]))
		}
		const h = 1e-2
		for i := range batch {
			for j := range 3 {
				// Five points: the error of the difference is h⁴.
				d := (8*(at(i, j, h)-at(i, j, -h)) - (at(i, j, 2*h) - at(i, j, -2*h))) / (12 * h)
				if g := float64(got[3*i+j]); math.Abs(d-g) > 2e-3*(1+math.Abs(d)) {
					t.Errorf("%s: gradient [%d][%d] is %.5f, by differences %.5f", loss.Name, i, j, g, d)
				}
			}
		}
		value.Finalize()
	}
}

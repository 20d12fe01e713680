package dissect

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
)

func goBackend(t *testing.T) compute.Backend {
	t.Helper()
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// softLoss is an InfoNCE-like loss on S: each anchor's positives against its negatives, of those that have both.
func softLoss(b *dmlx.LossBatch) *Node {
	e := func(mask *Node) *Node {
		x := Exp(MulScalar(b.S, 3))
		return AddScalar(ReduceSum(Where(mask, x, ZerosLike(x)), 1), 1e-9)
	}
	rows := LogicalAnd(LogicalAny(b.Positive, 1), LogicalAny(b.Negative, 1))
	x := Softplus(Sub(Log(e(b.Negative)), Log(e(b.Positive))))
	return ReduceAllSum(Where(rows, x, ZerosLike(x)))
}

// tripletCos is the loss of T^cos for the batch's triplets.
func tripletCos(b *dmlx.LossBatch) *Node {
	at := func(other *Node) *Node { return Gather(b.S, Stack([]*Node{b.Triplets.Anchor, other}, 1)) }
	return ReduceAllSum(Softplus(Sub(at(b.Triplets.Negative), at(b.Triplets.Positive))))
}

// proxyLoss is a cross entropy of the similarities with the proxies, with a pull between these.
func proxyLoss(b *dmlx.LossBatch) *Node {
	own := Where(b.Own, b.SP, ZerosLike(b.SP))
	all := Log(ReduceSum(Exp(MulScalar(b.SP, 4)), 1))
	loss := ReduceAllSum(Sub(all, MulScalar(ReduceSum(own, 1), 4)))
	// The proxies are anchors too here.
	return Sub(Add(loss, ReduceAllSum(Square(b.PS))), ReduceAllSum(MulScalar(b.PP, 0.1)))
}

// M f is what autodiff makes of the same loss when it differentiates through S itself.
func TestAnyLossIsAMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		e := random(14, 6, 4, 21)
		q := random(5, 6, 5, 22)
		p := Proxies{Values: q.Values, N: 5, Dim: 6}
		classes := []int64{e.Labels[0]}
		for _, l := range e.Labels {
			if !slices.Contains(classes, l) {
				classes = append(classes, l)
			}
		}
		for i := range 5 {
			p.Classes = append(p.Classes, classes[i%len(classes)])
		}
		d, err := Loss(b, e, p, func(b *dmlx.LossBatch) *Node { return Add(softLoss(b), proxyLoss(b)) })
		if err != nil {
			t.Fatal(err)
		}
		out, err := runOn(b, e, func(x, labels *Node) []*Node {
			y := Const(x.Graph(), tensors.FromFlatDataAndDimensions(p.Values, p.N, p.Dim))
			f, g := dmlx.Normalize(x), dmlx.Normalize(y)
			// Nothing here is a leaf: the gradient goes through the products.
			c := &dmlx.LossBatch{Labels: labels, S: MatMul(f, Transpose(f, 0, 1)), SP: MatMul(f, Transpose(g, 0, 1)),
				PS: MatMul(g, Transpose(f, 0, 1)), PP: MatMul(g, Transpose(g, 0, 1))}
			pairs := dmlx.NewLossBatch(x, labels, nil, nil)
			c.Positive, c.Negative = pairs.Positive, pairs.Negative
			c.Own = Equal(Reshape(labels, -1, 1), Reshape(Const(x.Graph(), p.Classes), 1, -1))
			loss := Add(softLoss(c), proxyLoss(c))
			at := Gradient(loss, f, g, x, y)
			return []*Node{loss, Concatenate(at[:2], 0), Concatenate(at[2:], 0)}
		})
		if err != nil {
			t.Fatal(err)
		}
		rows := func(x []float32) (m []vec) {
			for i := 0; i < len(x); i += e.Dim {
				m = append(m, float64s(x[i:i+e.Dim]))
			}
			return m
		}
		g, raw := rows(tensors.MustCopyFlatData[float32](out[1])), rows(tensors.MustCopyFlatData[float32](out[2]))
		near(t, "G", d.G, g, 1e-5)
		near(t, "the raw gradient", d.Raw, raw, 1e-5)
		n := d.N + d.Proxies
		product := make([]vec, n)
		for i := range n {
			product[i] = make(vec, d.Dim)
			for j := range n {
				if d.M[i*n+j] != d.M[j*n+i] {
					t.Fatalf("M is not symmetric at %d, %d", i, j)
				}
				product[i] = product[i].add(float64(d.M[i*n+j]), float64s(d.F[j*d.Dim:(j+1)*d.Dim]))
			}
		}
		near(t, "M f", d.G, product, 1e-5)
		if want := tensors.ToScalar[float32](out[0]); math.Abs(float64(d.Value-want)) > 1e-4*math.Abs(float64(want)) {
			t.Errorf("the loss is %g, want %g", d.Value, want)
		}
		if err := d.OnS(); err != nil {
			t.Error(err)
		}
		if d.Implied.Residual > 1e-5 || d.Implied.Lone != 0 {
			t.Errorf("%g is left over, %g of lone anchors", d.Implied.Residual, d.Implied.Lone)
		}
	})
}

func TestImpliedByHand(t *testing.T) {
	b := goBackend(t)
	// a at 0°, p at 60°, n at 90°: S_ap = ½, S_an = 0, so T^cos = 1/(1+e^½), with P₊ = P₋ = 1.
	e := circleBatch([]int64{0, 0, 1}, 0, 60, 90)
	e.Triplets = []Triplet{{Anchor: 0, Positive: 1, Negative: 2}}
	d, err := Loss(b, e, Proxies{}, tripletCos)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Implied.Anchors) != 1 {
		t.Fatalf("%d anchors", len(d.Implied.Anchors))
	}
	a := d.Implied.Anchors[0]
	want := 1 / (1 + math.Exp(0.5))
	for what, v := range map[string][2]float64{
		"T": {a.Weight, want}, "P₊": {a.PairPositive, 1}, "P₋": {a.PairNegative, 1}, "T of the triplet": {a.Triplet(0, 0),
			want},
		// −f_p + f_n is (−½, 1−√3/2); on the circle at 0° that points down or up alone.
		"the direction": {float64(a.Direction[1]), 1}, "the residual": {d.Implied.Residual,
			0}, "against": {d.Implied.Against, 0},
	} {
		if math.Abs(v[0]-v[1]) > 1e-6 {
			t.Errorf("%s is %g, want %g", what, v[0], v[1])
		}
	}
	if a.Anchor != 0 || a.Positives[0].Other != 1 || a.Negatives[0].Other != 2 ||
		math.Abs(float64(a.Positives[0].S)-0.5) > 1e-6 {
		t.Errorf("the pairs are %+v", a)
	}
	// The softmax family has rows that sum to zero: constant pair weights.
	d, err = Loss(b, random(16, 5, 3, 4), Proxies{}, softLoss)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range d.Implied.Anchors {
		sum := 0.0
		for i := range a.Positives {
			for j := range a.Negatives {
				sum += a.Triplet(i, j)
			}
		}
		if math.Abs(a.PairPositive-1) > 1e-4 || math.Abs(a.PairNegative-1) > 1e-4 || math.Abs(sum/a.Weight-1) > 1e-4 {
			t.Errorf("anchor %d: Σ₊ %g, Σ₋ %g, its triplets' weights sum to %g of %g", a.Anchor, a.PairPositive, a.PairNegative,
				sum, a.Weight)
		}
	}
	if len(d.Implied.Anchors) == 0 {
		t.Error("no anchors")
	}
}

func TestWhatIsLeftOver(t *testing.T) {
	b := goBackend(t)
	all := func(b *dmlx.LossBatch) *Node { return ReduceAllSum(Where(b.Negative, b.S, ZerosLike(b.S))) }
	// Row 2 is alone in its class, so what it does has no triplet.
	e := circleBatch([]int64{0, 0, 1}, 0, 60, 100)
	d, err := Loss(b, e, Proxies{}, all)
	if err != nil {
		t.Fatal(err)
	}
	// Of each of the two pairs the lone row pushes half, with the other half pushed from the other side.
	if math.Abs(d.Implied.Residual-0.5) > 1e-6 || math.Abs(d.Implied.Lone-0.5) > 1e-6 {
		t.Errorf("%g is left over, %g of lone anchors; want a half", d.Implied.Residual, d.Implied.Lone)
	}
	if a := d.Implied.Anchors[0]; a.PairPositive != 0 || math.Abs(a.PairNegative-2) > 1e-6 || a.Triplet(0, 0) != 0 {
		t.Errorf("an anchor that only pushes: %+v", a)
	}
	// Pulling a negative is against the form's sign.
	d, err = Loss(b, e, Proxies{}, func(b *dmlx.LossBatch) *Node { return Neg(all(b)) })
	if err != nil || d.Implied.Against != 1 {
		t.Errorf("against: %v, %v", d, err)
	}
	e = random(10, 4, 3, 5)
	for want, loss := range map[string]dmlx.LossFunc{
		"coordinates": func(b *dmlx.LossBatch) *Node { return Add(softLoss(b), ReduceAllSum(Abs(b.F))) },
		"before":      func(b *dmlx.LossBatch) *Node { return Add(softLoss(b), ReduceAllSum(Square(b.X))) },
	} {
		d, err := Loss(b, e, Proxies{}, loss)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.OnS(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
		if want == "coordinates" && (d.Coordinates <= 0 || d.Implied.Residual < 0.9*d.Coordinates) {
			t.Errorf("%g through coordinates, %g left over", d.Coordinates, d.Implied.Residual)
		}
	}
}

func TestLossBadInput(t *testing.T) {
	b := goBackend(t)
	e := random(6, 3, 2, 1)
	classes := slices.Compact(slices.Sorted(slices.Values(e.Labels)))
	good := Proxies{Values: make([]float32, 6), N: 2, Dim: 3, Classes: classes}
	for i := range good.Values {
		good.Values[i] = float32(i)
	}
	with := func(change func(p *Proxies)) Proxies { p := good; change(&p); return p }
	nothing := func(b *dmlx.LossBatch) *Node { return ReduceAllSum(ZerosLike(b.S)) }
	for _, c := range []struct {
		want string
		p    Proxies
		loss dmlx.LossFunc
	}{
		{"as many columns", with(func(p *Proxies) { p.Dim = 2 }), nothing},
		{"needs 6 values", with(func(p *Proxies) { p.Values = p.Values[1:] }), nothing},
		{"as many classes", with(func(p *Proxies) { p.Classes = p.Classes[:1] }), nothing},
		{"has no proxy", with(func(p *Proxies) { p.Classes = []int64{77, classes[0]} }), nothing},
		{"row 1, column 0 is NaN", with(func(p *Proxies) { p.Values = []float32{1, 2, 3, float32(math.NaN()), 5, 6} }),
			nothing},
		{"proxies: row 0 has the length", with(func(p *Proxies) { p.Values = []float32{3e19, 2, 3, 4, 5, 6} }), nothing},
		{"not a scalar", good, func(b *dmlx.LossBatch) *Node { return b.S }},
		{"the loss is +Inf", good, func(b *dmlx.LossBatch) *Node {
			return Div(ReduceAllSum(Square(b.S)),
				ReduceAllSum(ZerosLike(b.S)))
		}},
		{"gradient with respect to S is NaN", good, func(b *dmlx.LossBatch) *Node {
			return ReduceAllSum(Sqrt(Sub(b.S,
				b.S)))
		}},
		{"oh no", good, func(*dmlx.LossBatch) *Node { panic("oh no") }},
	} {
		if _, err := Loss(b, e, c.p, c.loss); err == nil {
			t.Errorf("no error that says %q", c.want)
		} else if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("unclear: %v: does not say %q", err, c.want)
		}
	}
	e.Labels = e.Labels[:5]
	if _, err := Loss(b, e, Proxies{}, nothing); err == nil || !strings.Contains(err.Error(), "as many labels") {
		t.Errorf("labels: %v", err)
	}
	// A loss of nothing has a gradient of nothing, and nothing is left over of it.
	d, err := Loss(b, random(6, 3, 2, 1), Proxies{}, nothing)
	if err != nil || d.Implied.Residual != 0 || len(d.Implied.Anchors) != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := LossParts(b, func(b *dmlx.LossBatch) *Node { return ReduceAllSum(b.F) }, 0, []float32{0.5},
		[]float32{0.5}); err == nil ||
		!strings.Contains(err.Error(), "not one on S") {
		t.Errorf("a loss of F: %v", err)
	}
	if _, err := Separate([]float32{1}, []float32{1}, []float32{float32(math.NaN())}, []float32{1}); err == nil {
		t.Error("NaN was taken apart")
	}
}

func grid(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = (float32(i) + 0.5) / float32(n)
	}
	return out
}

// A rule's parts come out of its products again, up to the one constant.
func TestSeparate(t *testing.T) {
	b := goBackend(t)
	x := grid(15)
	for _, name := range []string{"cos/con/cos", "cos/lin/cir?tau=3", "cos/sig/con", "cos/euc/cos?tau=5", "cos/sig/cir"} {
		r := mustParse(t, name)
		got, err := RuleParts(b, r, x, x)
		if err != nil {
			t.Fatal(err)
		}
		p, q, w, err := Weights(b, r, x, x) // Along the diagonal: each P at its own similarity.
		if err != nil {
			t.Fatal(err)
		}
		scale := 0.0
		for i := range x {
			scale += float64(p[i]+q[i]) / float64(2*len(x))
		}
		for i := range x {
			for what, v := range map[string][2]float64{
				"P₊": {got.PairPositive[i] * scale, float64(p[i])}, "P₋": {got.PairNegative[i] * scale, float64(q[i])},
				"T": {got.Weight[i*len(x)+i] / scale, float64(w[i])},
			} {
				if math.Abs(v[0]-v[1]) > 1e-3 {
					t.Errorf("%s: %s at %g is %g, want %g", name, what, x[i], v[0], v[1])
				}
			}
		}
		if got.Residual > 1e-3 {
			t.Errorf("%s: %g is left over", name, got.Residual)
		}
	}
	// A pull that depends on both similarities and a push that depends on none alone: T and P₊ cannot both have it.
	n := len(x)
	pull, push := make([]float32, n*n), make([]float32, n*n)
	for i := range n {
		for j := range n {
			pull[i*n+j], push[i*n+j] = 1, 1
			if (i > n/2) == (j > n/2) {
				pull[i*n+j] = 3
			}
		}
	}
	if got, err := Separate(x, x, pull, push); err != nil || got.Residual < 0.1 {
		t.Errorf("an interaction leaves %v over, %v", got, err)
	}
	if got, err := Separate(x, x, make([]float32, n*n), make([]float32, n*n)); err != nil || got.Residual != 0 ||
		got.Weight[0] != 0 {
		t.Errorf("nothing: %v, %v", got, err)
	}
}

package dissect

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// Proxies are the vectors beside the embeddings that a loss uses: proxies, centers, rows of a classifier. The zero
// value is none.
type Proxies struct {
	Values []float32 // Un-normalized, [N, Dim] row by row.
	N, Dim int
	// The label that each stands for, [N]. Those of a class stand together, as many of each as the loss has.
	Classes []int64
}

// check names the first thing that is wrong with a batch, see [checkBatch], or with proxies for it.
func (p Proxies) check(e *Embeddings) error {
	if err := checkBatch(e); err != nil {
		return err
	}
	if p.N == 0 && len(p.Values) == 0 && len(p.Classes) == 0 {
		return nil
	}
	if p.N < 1 || p.Dim != e.Dim {
		return fmt.Errorf("proxies: [%d, %d] do not match embeddings [%d, %d]; both need as many columns", p.N, p.Dim, e.N,
			e.Dim)
	}
	if e.N+p.N > MaxRows {
		return fmt.Errorf("%d rows and %d proxies: want at most %d in all, since a batch takes matrices [N, N]", e.N, p.N,
			MaxRows)
	}
	if len(p.Values) != p.N*p.Dim {
		return fmt.Errorf("proxies: [%d, %d] needs %d values, there are %d", p.N, p.Dim, p.N*p.Dim, len(p.Values))
	}
	if len(p.Classes) != p.N {
		return fmt.Errorf("proxies: %d rows need as many classes, there are %d", p.N, len(p.Classes))
	}
	if err := checkRows("proxies", p.Values, p.Dim); err != nil {
		return err
	}
	there := make(map[int64]bool)
	for _, c := range p.Classes {
		there[c] = true
	}
	for i, l := range e.Labels {
		if !there[l] {
			return fmt.Errorf("labels: class %d of row %d has no proxy; the %d proxies are of %d classes, %d to %d",
				l, i, p.N, len(there), slices.Min(p.Classes), slices.Max(p.Classes))
		}
	}
	return nil
}

// LossDissection is a loss's gradient for a batch and what it is made of. Matrices are row by row. Rows are those of
// the embeddings, and behind them those of the proxies: N+C of them.
type LossDissection struct {
	Value   float32   // The loss.
	N, Dim  int       // Of the embeddings.
	Proxies int       // How many of them there are, C.
	F       []float32 // The L2-normalized rows, [N+C, Dim].
	Labels  []int64   // [N+C]
	S       []float32 // Their similarities, [N+C, N+C].
	W       []float32 // ∂L/∂S as the loss reads it, its rows the anchors', [N+C, N+C].
	M       []float32 // W + Wᵀ, the gradient matrix, [N+C, N+C].
	G       []float32 // The gradient at F, [N+C, Dim]; M F for a loss on S.
	Raw     []float32 // The gradient at the un-normalized rows, [N+C, Dim].
	Implied *Implied  // The parts that the loss implies, and how much of G they are.

	// Coordinates and Lengths are the shares of the gradient that do not come through S: through the coordinates of the
	// normalized vectors, and through the lengths of the embeddings. 0 for a loss on S.
	Coordinates, Lengths float64
}

// OnS is nil if the loss's gradient comes through S alone, and else an error that says what it uses instead. M of such
// a loss is not all of its gradient, so no rule can stand for it.
func (d *LossDissection) OnS() error {
	const rounding = 1e-6
	switch {
	case d.Lengths > rounding:
		return fmt.Errorf("not a loss on S = f fᵀ: %.3g of its gradient comes from the embeddings before their "+
			"normalization", d.Lengths)
	case d.Coordinates > rounding:
		return fmt.Errorf("not a loss on S = f fᵀ: %.3g of its gradient comes from the coordinates of the vectors "+
			"themselves", d.Coordinates)
	}
	return nil
}

// Loss takes a loss apart at a batch: its gradient matrix, the pair and triplet weights that it implies, and what
// they leave over. Triplets of the batch, if there are any, are those that the loss is of. Proxies belong to losses
// that have them; each label needs one at least. A gradient that is not finite is an error, as is bad input.
func Loss(b compute.Backend, e Embeddings, p Proxies, loss dmlx.LossFunc) (*LossDissection, error) {
	c := CompileLoss(b, loss)
	defer c.Close()
	return c.Loss(e, p)
}

// CompiledLoss is a loss whose graphs are built once for each shape of a batch, as [Compiled] is a rule. Its parameters
// are constants of them.
type CompiledLoss struct {
	programs
	loss dmlx.LossFunc
}

// CompileLoss prepares a loss to be taken apart many times.
func CompileLoss(b compute.Backend, loss dmlx.LossFunc) *CompiledLoss {
	return &CompiledLoss{programs{backend: b}, loss}
}

// Loss takes the loss apart at a batch, as the function [Loss] does.
func (l *CompiledLoss) Loss(e Embeddings, p Proxies) (*LossDissection, error) {
	if err := p.check(&e); err != nil {
		return nil, err
	}
	out, err := l.run(lossKey{"loss", p.N > 0}, func(in []*Node) []*Node {
		c := dmlx.ComposeLoss(lossBatch(in, p.N > 0), l.loss)
		raw, rawP := c.Raw()
		if p.N == 0 {
			return []*Node{c.Value, c.F, c.S, c.W, c.G, raw, c.Direct, c.Length}
		}
		rows := func(x, y *Node) *Node { return Concatenate([]*Node{x, y}, 0) }
		block := func(s, sp, ps, pp *Node) *Node {
			return rows(Concatenate([]*Node{s, sp}, 1), Concatenate([]*Node{ps, pp}, 1))
		}
		return []*Node{c.Value, rows(c.F, c.P), block(c.S, c.SP, c.PS, c.PP), block(c.W, c.WSP, c.WPS, c.WPP),
			rows(c.G, c.GP), rows(raw, rawP), rows(c.Direct, c.DirectP), c.Length}
	}, lossArguments(e, p))
	if err != nil {
		return nil, err
	}
	floats := func(i int) []float32 { return graphs.Floats(out[i]) }
	d := &LossDissection{Value: tensors.ToScalar[float32](out[0]), N: e.N, Dim: e.Dim, Proxies: p.N,
		F: floats(1), S: floats(2), W: floats(3), G: floats(4), Raw: floats(5), Labels: append(append([]int64{},
			e.Labels...), p.Classes...)}
	if !finite(d.Value) {
		return nil, fmt.Errorf("the loss is %v", d.Value)
	}
	n := e.N + p.N
	for _, m := range []struct {
		what    string
		values  []float32
		columns int
	}{{"gradient with respect to S", d.W, n}, {"gradient with respect to the embeddings", d.Raw, e.Dim}, {"gradient", d.G,
		e.Dim}} {
		for i, v := range m.values {
			if !finite(v) {
				return nil, fmt.Errorf("the loss's %s is %v at row %d, column %d", m.what, v, i/m.columns, i%m.columns)
			}
		}
	}
	d.M = make([]float32, n*n)
	for i := range n {
		for j := range n {
			d.M[i*n+j] = d.W[i*n+j] + d.W[j*n+i]
		}
	}
	direct, length := floats(6), floats(7)
	whole := norm(d.onSphere(d.G))
	if rest := norm(d.onSphere(direct)); rest > 0 {
		d.Coordinates = rest / whole
	}
	if rest := norm(float64s(length)); rest > 0 {
		d.Lengths = rest / norm(float64s(d.Raw))
	}
	d.Implied = imply(d.F, d.S, d.W, d.G, d.Labels, d.Dim)
	return d, nil
}

// Exchanged is a loss's gradient at a batch with parts of another (see exchange.go), the rows of embeddings and proxies
// one under the other: at the normalized vectors, [N+C, Dim], and at those given. Errors are those of [Loss], and a
// loss that is not one on S.
func Exchanged(b compute.Backend, e Embeddings, p Proxies, loss dmlx.LossFunc, x dmlx.Exchange) (g, raw []float32,
	err error) {
	if err := p.check(&e); err != nil {
		return nil, nil, err
	}
	l := CompileLoss(b, loss)
	defer l.Close()
	out, err := l.run(lossKey{"exchange", p.N > 0}, func(in []*Node) []*Node {
		c := dmlx.ComposeLoss(lossBatch(in, p.N > 0), loss).Exchange(x)
		raw, rawP := c.Raw()
		if p.N == 0 {
			return []*Node{c.G, raw}
		}
		return []*Node{Concatenate([]*Node{c.G, c.GP}, 0), Concatenate([]*Node{raw, rawP}, 0)}
	}, lossArguments(e, p))
	if err != nil {
		return nil, nil, err
	}
	g, raw = graphs.Floats(out[0]), graphs.Floats(out[1])
	for i := range g {
		if !finite(g[i]) || !finite(raw[i]) {
			return nil, nil, fmt.Errorf("the gradient with %s is not finite at row %d, column %d", x, i/e.Dim, i%e.Dim)
		}
	}
	return g, raw, nil
}

// ExchangeAngle returns by how much an exchange of parts turns a loss's gradient at a batch: the angle in degrees, 0 to
// 180, between the two at the embeddings as given, each as one long vector. A gradient of zero has none, which is an
// error.
func ExchangeAngle(b compute.Backend, e Embeddings, p Proxies, loss dmlx.LossFunc, x dmlx.Exchange) (float64, error) {
	d, err := Loss(b, e, p, loss)
	if err != nil {
		return 0, err
	}
	_, raw, err := Exchanged(b, e, p, loss, x)
	if err != nil {
		return 0, err
	}
	before, after := float64s(d.Raw[:e.N*e.Dim]), float64s(raw[:e.N*e.Dim])
	product, lengths := dot(before, after), norm(before)*norm(after)
	if lengths == 0 {
		return 0, fmt.Errorf("the batch gives no gradient to compare; it needs two images of a class and two classes")
	}
	return 180 / math.Pi * math.Acos(max(-1, min(1, product/lengths))), nil
}

// lossArguments are a batch with its proxies and given triplets, if there are any, as a graph takes them.
func lossArguments(e Embeddings, p Proxies) []*tensors.Tensor {
	args := batchArguments(e)
	if p.N > 0 {
		args = slices.Insert(args, 2, tensors.FromFlatDataAndDimensions(p.Values, p.N, p.Dim),
			tensors.FromFlatDataAndDimensions(p.Classes, p.N))
	}
	return args
}

// lossKey tells the programs of a loss apart.
type lossKey struct {
	what    string
	proxies bool
}

// lossBatch is what a graph makes of them.
func lossBatch(in []*Node, proxies bool) *dmlx.LossBatch {
	x, labels, rest := in[0], in[1], in[2:]
	var p, classes *Node
	if proxies {
		p, classes, rest = rest[0], rest[1], rest[2:]
	}
	batch := dmlx.NewLossBatch(x, labels, p, classes)
	if len(rest) > 0 {
		batch = batch.Mined(given(rest))
	}
	return batch
}

// onSphere takes from each row its part along the row's own f, which does not train.
func (d *LossDissection) onSphere(g []float32) []float64 { return onSphere(d.F, g, d.Dim) }

func onSphere(f, g []float32, dim int) []float64 {
	out := make([]float64, len(g))
	for i := 0; i < len(g); i += dim {
		along := 0.0
		for j := i; j < i+dim; j++ {
			along += float64(f[j]) * float64(g[j])
		}
		for j := i; j < i+dim; j++ {
			out[j] = float64(g[j]) - along*float64(f[j])
		}
	}
	return out
}

// Implied are the weights that a loss gives the pairs and triplets of a batch, in the terms of a rule (see
// composeloss.go in package dmlx).
type Implied struct {
	// Anchors are those that move a pair and have triplets, a positive and a negative among the rows, in their order.
	Anchors []ImpliedAnchor
	// Residual is the share of the gradient that the anchors' parts are not: 0 for one that is made of triplets, up to 1.
	Residual float64
	// Lone is the share that belongs to anchors without a positive or without a negative, so without a triplet.
	Lone float64
	// Against is the share of the anchors' weight with which positives are pushed and negatives pulled: negative pair
	// weights.
	Against float64
}

// ImpliedAnchor is what a loss implies for one anchor: T P₊ of each of its positives and T P₋ of each of its negatives,
// as T of the anchor and the P, which sum to 2 where none is negative.
type ImpliedAnchor struct {
	Anchor               int     // Its row.
	Weight               float64 // T
	PairPositive         float64 // The sum of P₊ over its positives, Σ₊; 1 for a loss that weighs triplets alone.
	PairNegative         float64 // The sum of P₋ over its negatives, Σ₋.
	Positives, Negatives []ImpliedPair
	// Direction is the unit vector, on the sphere, of what the anchor's own pairs add to its gradient; it is descended.
	Direction []float32
}

// ImpliedPair is one pair of an anchor with its weight.
type ImpliedPair struct {
	Other  int     // The row of the positive or negative.
	S      float32 // Their similarity.
	Weight float64 // P₊ or P₋.
}

// Triplet is the weight T_apn of the anchor's i-th positive with its j-th negative, to go with the pair weights
// PairPositive and PairNegative. 0 if the anchor only pulls or only pushes.
func (a ImpliedAnchor) Triplet(i, j int) float64 {
	if a.PairPositive == 0 || a.PairNegative == 0 {
		return 0
	}
	return a.Weight * a.Positives[i].Weight / a.PairPositive * a.Negatives[j].Weight / a.PairNegative
}

// imply reads the parts off W [n, n] and measures what they leave of the gradient g [n, dim].
func imply(f, s, w, g []float32, labels []int64, dim int) *Implied {
	n := len(labels)
	members := make(map[int64]int)
	for _, l := range labels {
		members[l]++
	}
	out := &Implied{}
	form, lone := make([]float32, len(g)), make([]float32, len(g))
	add := func(to []float32, i int, k float32, from int) {
		gonum.Implementation{}.Saxpy(dim, k, f[from*dim:(from+1)*dim], 1, to[i*dim:(i+1)*dim], 1)
	}
	var against, all float64
	for a := range n {
		to := form
		whole := members[labels[a]] > 1 && members[labels[a]] < n
		if !whole {
			to = lone
		}
		own := make([]float32, dim)
		var total float64
		for j := range n {
			v := w[a*n+j]
			if j == a || v == 0 { // The diagonal is along f_a: nothing on the sphere.
				continue
			}
			add(to, a, v, j)
			add(to, j, v, a)
			total += math.Abs(float64(v))
			add(own, 0, v, j)
		}
		if !whole || total == 0 {
			continue
		}
		anchor := ImpliedAnchor{Anchor: a, Weight: total / 2, Direction: unit(onSphere(f[a*dim:(a+1)*dim], own, dim))}
		for j := range n {
			v := float64(w[a*n+j])
			if j == a || v == 0 {
				continue
			}
			all += math.Abs(v)
			pair := ImpliedPair{Other: j, S: s[a*n+j], Weight: v / anchor.Weight}
			if labels[j] == labels[a] {
				pair.Weight = -pair.Weight
				anchor.Positives, anchor.PairPositive = append(anchor.Positives, pair), anchor.PairPositive+pair.Weight
			} else {
				anchor.Negatives, anchor.PairNegative = append(anchor.Negatives, pair), anchor.PairNegative+pair.Weight
			}
			if pair.Weight < 0 {
				against += math.Abs(v)
			}
		}
		out.Anchors = append(out.Anchors, anchor)
	}
	if all > 0 {
		out.Against = against / all
	}
	if whole := norm(onSphere(f, g, dim)); whole > 0 {
		rest := make([]float32, len(g))
		for i := range rest {
			rest[i] = g[i] - form[i]
		}
		out.Residual = norm(onSphere(f, rest, dim)) / whole
		out.Lone = norm(onSphere(f, lone, dim)) / whole
	}
	return out
}

func unit(x []float64) []float32 {
	out := make([]float32, len(x))
	if length := norm(x); length > 0 {
		for i, v := range x {
			out[i] = float32(v / length)
		}
	}
	return out
}

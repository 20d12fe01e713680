package dmlx

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/brief"
)

// Embeddings is a batch on the host.
type Embeddings struct {
	Values []float32 // Un-normalised, [N, Dim] row by row.
	N, Dim int
	Labels []int64 // [N]

	// Triplets are taken instead of mined ones, if there are any. Only their indices are read.
	Triplets []Triplet
}

// Triplet is one triplet of a batch, with what a rule makes of it.
type Triplet struct {
	Anchor, Positive, Negative int     // Rows of the batch.
	Sap, San                   float32 // Cosine similarities.
	PairPositive, PairNegative float32 // P₊ (the mask applied) and P₋.
	Weight                     float32 // T
}

// Dissection is the gradient of a batch under a rule and what it is made of. Matrices are row by row.
type Dissection struct {
	Rule     Rule
	N, Dim   int
	F        []float32 // The L2-normalised embeddings, [N, Dim].
	S        []float32 // Their similarities, [N, N].
	M        []float32 // The gradient matrix, [N, N].
	G        []float32 // The gradient at F, G = M F, [N, Dim].
	Raw      []float32 // The gradient at the un-normalised embeddings, [N, Dim].
	Triplets []Triplet // The valid triplets, in the order of their anchors, or as given.
}

// check names the first thing that is wrong with the batch.
func (e Embeddings) check() error {
	if e.N < 1 || e.Dim < 1 {
		return fmt.Errorf("embeddings: want at least one row and one column, not [%d, %d]", e.N, e.Dim)
	}
	if len(e.Values) != e.N*e.Dim {
		return fmt.Errorf("embeddings: [%d, %d] needs %d values, there are %d", e.N, e.Dim, e.N*e.Dim, len(e.Values))
	}
	if len(e.Labels) != e.N {
		return fmt.Errorf("labels: %d rows of embeddings need as many labels, there are %d", e.N, len(e.Labels))
	}
	if err := checkRows("embeddings", e.Values, e.Dim); err != nil {
		return err
	}
	for i, t := range e.Triplets {
		for _, row := range []int{t.Anchor, t.Positive, t.Negative} {
			if row < 0 || row >= e.N {
				return fmt.Errorf("triplet %d: row %d is outside the batch of %d", i, row, e.N)
			}
		}
	}
	return nil
}

// checkRows names the first row of which float32 cannot hold the square of its length, or a value.
func checkRows(what string, values []float32, dim int) error {
	for i := range len(values) / dim {
		square := 0.0
		for j, v := range values[i*dim : (i+1)*dim] {
			if !finite(v) {
				return fmt.Errorf("%s: value at row %d, column %d is %v", what, i, j, v)
			}
			square += float64(v) * float64(v)
		}
		if length := math.Sqrt(square); length > 1e19 {
			return fmt.Errorf("%s: row %d has the length %.3g, whose square float32 does not hold; scale it down", what, i, length)
		}
	}
	return nil
}

// triplets gives the indices of the given triplets as constants of the graph.
func (e Embeddings) triplets(g *Graph) Triplets {
	column := func(of func(Triplet) int) *Node {
		x := make([]int32, len(e.Triplets))
		for i, t := range e.Triplets {
			x[i] = int32(of(t))
		}
		return Const(g, x)
	}
	valid := make([]bool, len(e.Triplets))
	for i := range valid {
		valid[i] = true
	}
	return Triplets{
		Anchor:   column(func(t Triplet) int { return t.Anchor }),
		Positive: column(func(t Triplet) int { return t.Positive }),
		Negative: column(func(t Triplet) int { return t.Negative }),
		Valid:    Const(g, valid),
	}
}

func (e Embeddings) batch(f, labels *Node, o Options) *Batch {
	if len(e.Triplets) > 0 {
		return NewBatchOf(f, labels, e.triplets(f.Graph()), o)
	}
	return NewBatch(f, labels, o)
}

// run executes a graph of the embeddings and labels on a backend. What the graph's parts panic with is an error.
func (e Embeddings) run(b compute.Backend, fn func(x, labels *Node) []*Node) (out []*tensors.Tensor, err error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	return run(b, func(in []*Node) []*Node { return fn(in[0], in[1]) },
		tensors.FromFlatDataAndDimensions(e.Values, e.N, e.Dim), tensors.FromFlatDataAndDimensions(e.Labels, e.N))
}

func run(b compute.Backend, fn func(in []*Node) []*Node, args ...any) ([]*tensors.Tensor, error) {
	out, err := runEach(b, fn, args)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// runEach executes one graph on several lists of arguments, all of the same shapes.
func runEach(b compute.Backend, fn func(in []*Node) []*Node, lists ...[]any) (out [][]*tensors.Tensor, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, brief.Error(fmt.Errorf("%v", r))
		}
	}()
	exec, err := NewExec(b, func(in []*Node) []*Node {
		// GoMLX catches panics with errors alone, and waits forever on a graph that another left half built.
		defer func() {
			if r := recover(); r != nil {
				if _, is := r.(error); !is {
					r = fmt.Errorf("%v", r)
				}
				panic(r)
			}
		}()
		return fn(in)
	})
	if err != nil {
		return nil, brief.Error(err)
	}
	defer exec.Finalize()
	for _, args := range lists {
		values, err := exec.Call(args...)
		if err != nil {
			return nil, brief.Error(err)
		}
		out = append(out, values)
	}
	return out, nil
}

// Dissect composes the gradient of a rule for a batch: the triplets of each anchor's nearest positive and negative
// (EPHN), or e.Triplets, and all that [Compose] makes of them. A batch without any valid triplet has a zero gradient
// and no triplets. Embeddings that are not finite, labels that do not match, triplets outside the batch and a part of
// the rule that fails are errors; so is a rule that gives a gradient that is not finite.
func Dissect(b compute.Backend, e Embeddings, r Rule) (*Dissection, error) {
	out, err := e.run(b, func(x, labels *Node) []*Node {
		f := Normalize(x)
		c := Compose(e.batch(f, labels, r.Options), r)
		raw := Gradient(ReduceAllSum(Inject(f, c.G)), x)[0]
		t := c.Triplets
		return []*Node{f, c.S, c.M, c.G, raw, t.Anchor, t.Positive, t.Negative, t.Valid, c.Sap, c.San, c.PairPositive, c.PairNegative, c.Weight}
	})
	if err != nil {
		return nil, fmt.Errorf("rule %s: %w", r.Name(), err)
	}
	floats := func(i int) []float32 { return tensors.MustCopyFlatData[float32](out[i]) }
	ints := func(i int) []int32 { return tensors.MustCopyFlatData[int32](out[i]) }
	d := &Dissection{Rule: r, N: e.N, Dim: e.Dim, F: floats(0), S: floats(1), M: floats(2), G: floats(3), Raw: floats(4)}
	anchor, positive, negative := ints(5), ints(6), ints(7)
	sap, san, pPos, pNeg, weight := floats(9), floats(10), floats(11), floats(12), floats(13)
	for i, valid := range tensors.MustCopyFlatData[bool](out[8]) {
		if valid {
			d.Triplets = append(d.Triplets, Triplet{int(anchor[i]), int(positive[i]), int(negative[i]), sap[i], san[i], pPos[i], pNeg[i], weight[i]})
		}
	}
	for i, v := range d.Raw {
		if !finite(v) || !finite(d.G[i]) {
			return nil, fmt.Errorf("rule %s: its gradient of row %d, column %d is not finite", r.Name(), i/e.Dim, i%e.Dim)
		}
	}
	return d, nil
}

func finite(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }

// Row is row i of a matrix of the dissection with the given number of columns: d.Row(d.G, d.Dim, 3).
func (d *Dissection) Row(of []float32, columns, i int) []float32 {
	return of[i*columns : (i+1)*columns]
}

// Residual is the largest |G − M F|, with M F multiplied out in double precision: what single precision leaves over.
func (d *Dissection) Residual() float64 {
	worst := 0.0
	for i := range d.N {
		row := float64s(d.Row(d.G, d.Dim, i))
		for j, m := range d.Row(d.M, d.N, i) {
			for k, f := range d.Row(d.F, d.Dim, j) {
				row[k] -= float64(m) * float64(f)
			}
		}
		for _, x := range row {
			worst = max(worst, math.Abs(x))
		}
	}
	return worst
}

// Agreement says how a rule's composed gradient G relates to the gradient of a loss by autodiff, at the normalised
// embeddings of a batch.
type Agreement struct {
	Constant float64 // The c for which c·G is nearest to the loss's gradient, by least squares.
	Error    float64 // The largest |∂L/∂f − c·G| over the largest |∂L/∂f|.
	Cosine   float64 // Of the angle between the two gradients, each as one long vector.
	Skew     float64 // How far M is from a matrix that a loss on S has: ‖M−Mᵀ‖ / (2‖M‖), 0 to 1.
}

// Compare differentiates a loss of Table 1 on a batch by machine and holds it against its rule's composed gradient.
func Compare(b compute.Backend, e Embeddings, l Loss, o Options) (*Agreement, error) {
	r, err := ParseRule(cmp.Or(l.RuleName, l.Name))
	if err != nil {
		return nil, fmt.Errorf("loss %s: no rule of its name in Table 1: %w", l.Name, err)
	}
	r.Options = o
	out, err := e.run(b, func(x, labels *Node) []*Node {
		f := Normalize(x)
		c := Compose(e.batch(f, labels, o), r)
		loss := l.Of(c.Batch, f, MatMul(f, Transpose(f, 0, 1)))
		return []*Node{c.G, Gradient(loss, f)[0], c.M}
	})
	if err != nil {
		return nil, fmt.Errorf("loss %s: %w", l.Name, err)
	}
	g, d := tensors.MustCopyFlatData[float32](out[0]), tensors.MustCopyFlatData[float32](out[1])
	a := agreement(float64s(g), float64s(d), tensors.MustCopyFlatData[float32](out[2]), e.N)
	if a == nil {
		return nil, fmt.Errorf("loss %s: the batch gives no gradient to compare; it needs two images of a class and two classes", l.Name)
	}
	return a, nil
}

// agreement compares a composed gradient g, made by the matrix m [n, n], with a loss's gradient d; nil if one is zero.
func agreement(g, d []float64, m []float32, n int) *Agreement {
	var gg, gd, dd, largest, worst, skew, whole float64
	for i, x := range g {
		y := d[i]
		gg, gd, dd, largest = gg+x*x, gd+x*y, dd+y*y, max(largest, math.Abs(y))
	}
	if gg == 0 || dd == 0 {
		return nil
	}
	a := &Agreement{Constant: gd / gg, Cosine: gd / math.Sqrt(gg*dd)}
	for i, x := range g {
		worst = max(worst, math.Abs(d[i]-a.Constant*x))
	}
	a.Error = worst / largest
	for i := range n {
		for j := range n {
			x, y := float64(m[i*n+j]), float64(m[j*n+i])
			skew, whole = skew+(x-y)*(x-y), whole+x*x
		}
	}
	a.Skew = math.Sqrt(skew) / (2 * math.Sqrt(whole))
	return a
}

func float64s(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// Weights evaluates the parts of a rule on similarities alone, as a triplet diagram needs them: P₊ (the mask applied),
// P₋ and T at each S_ap, S_an. There is no batch around these triplets: 𝒫 and 𝒩 are empty, and a part of the user's own
// that looks at F or S is an error.
func Weights(b compute.Backend, r Rule, sap, san []float32) (positive, negative, triplet []float32, err error) {
	if len(sap) != len(san) || len(sap) == 0 {
		return nil, nil, nil, fmt.Errorf("rule %s: want as many S_ap as S_an and at least one, not %d and %d", r.Name(), len(sap), len(san))
	}
	out, err := run(b, func(in []*Node) []*Node {
		p, n, t := weights(&Batch{Sap: in[0], San: in[1], Options: r.Options}, r.withDefaults())
		return []*Node{p, n, t}
	}, tensors.FromFlatDataAndDimensions(sap, len(sap)), tensors.FromFlatDataAndDimensions(san, len(san)))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("rule %s: %w", r.Name(), err)
	}
	return tensors.MustCopyFlatData[float32](out[0]), tensors.MustCopyFlatData[float32](out[1]), tensors.MustCopyFlatData[float32](out[2]), nil
}

// probeBackend is for identities alone: the same everywhere, whatever backend trains.
var probeBackend = sync.OnceValues(backend.Go)

// probe is what a rule makes of fixed batches, from loose ones to ones in which a class is all but a point.
func probe(r Rule) ([]float32, error) {
	b, err := probeBackend()
	if err != nil {
		return nil, err
	}
	const n, dim = 96, 8
	var values []float32
	for tightness := range 5 {
		rng := rand.New(rand.NewPCG(uint64(tightness), 0))
		e := Embeddings{Values: make([]float32, n*dim), N: n, Dim: dim, Labels: make([]int64, n)}
		var centre [dim]int
		for i := range n {
			if i%4 == 0 {
				for j := range centre {
					centre[j] = rng.IntN(129) - 64
				}
			}
			e.Labels[i] = int64(i / 4)
			for j := range dim {
				e.Values[i*dim+j] = float32(centre[j] + (rng.IntN(65)-32)>>tightness)
			}
		}
		// Products of integers over a power of two are exact, so no order of summation changes a bit of a similarity.
		// The rows' lengths are about 1; that they are not 1 does no harm to a probe.
		out, err := e.run(b, func(x, labels *Node) []*Node {
			c := Compose(NewBatch(MulScalar(x, 1./128), labels, r.Options), r)
			return []*Node{c.M, c.PairPositive, c.PairNegative, c.Weight}
		})
		if err != nil {
			return nil, err
		}
		for _, t := range out {
			values = append(values, tensors.MustCopyFlatData[float32](t)...)
		}
	}
	return values, nil
}

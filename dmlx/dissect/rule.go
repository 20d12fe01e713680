package dissect

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// Embeddings are a batch on the host, and Triplet one of its triplets with what a rule makes of it.
type (
	Embeddings = dmlx.Embeddings
	Triplet    = dmlx.Triplet
)

// Dissection is the gradient of a batch under a rule and what it is made of. Matrices are row by row.
type Dissection struct {
	Rule     dmlx.Rule
	N, Dim   int
	F        []float32 // The L2-normalized embeddings, [N, Dim].
	S        []float32 // Their similarities, [N, N].
	M        []float32 // The gradient matrix, [N, N].
	G        []float32 // The gradient at F, G = M F, [N, Dim].
	Raw      []float32 // The gradient at the un-normalized embeddings, [N, Dim].
	Triplets []Triplet // The valid triplets, in the order of their anchors, or as given.
}

// MaxRows is how many rows a batch may have, with a loss's proxies. Taking a loss of so many apart took 1.7 GB on the
// Go backend; memory grows with their square.
const MaxRows = 5120

// checkBatch names the first thing that is wrong with a batch. It sets an N that is left out.
func checkBatch(e *Embeddings) error {
	if e.N == 0 {
		e.N = len(e.Labels)
	}
	if e.N < 1 || e.Dim < 1 {
		return fmt.Errorf("embeddings: want at least one row and one column, not [%d, %d]", e.N, e.Dim)
	}
	if e.N > MaxRows {
		return fmt.Errorf("embeddings: %d rows: want at most %d, since a batch takes matrices [N, N]; take some of the rows",
			e.N, MaxRows)
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
			return fmt.Errorf("%s: row %d has the length %.3g, whose square float32 does not hold; scale it down", what, i,
				length)
		}
	}
	return nil
}

// runOn executes a graph of the embeddings and labels on a backend. What the graph's parts panic with is an error.
func runOn(b compute.Backend, e Embeddings, fn func(x, labels *Node) []*Node) (out []*tensors.Tensor, err error) {
	if err := checkBatch(&e); err != nil {
		return nil, err
	}
	return graphs.Run(b, func(in []*Node) []*Node { return fn(in[0], in[1]) },
		tensors.FromFlatDataAndDimensions(e.Values, e.N, e.Dim), tensors.FromFlatDataAndDimensions(e.Labels, e.N))
}

// Rule composes the gradient of a rule for a batch: the triplets of each anchor's nearest positive and negative
// (EPHN), or e.Triplets, and all that [dmlx.Compose] makes of them. A batch without any valid triplet has a zero
// gradient and no triplets. Embeddings that are not finite, labels that do not match, triplets outside the batch and a
// part of the rule that fails are errors; so is a rule that gives a gradient that is not finite. For many batches or
// options, use [Compile].
func Rule(b compute.Backend, e Embeddings, r dmlx.Rule) (*Dissection, error) {
	c := once(b, r)
	defer c.Close()
	return c.Rule(e, r.Options)
}

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

// Agreement says how a rule's composed gradient G relates to the gradient of a loss by autodiff, at the normalized
// embeddings of a batch.
type Agreement struct {
	Constant float64 // The c for which c·G is nearest to the loss's gradient, by least squares.
	Error    float64 // The largest |∂L/∂f − c·G| over the largest |∂L/∂f|.
	Cosine   float64 // Of the angle between the two gradients, each as one long vector.
	Skew     float64 // How far M is from a matrix that a loss on S has: ‖M−Mᵀ‖ / (2‖M‖), 0 to 1.
}

// Compare differentiates a loss of Table 1 on a batch by machine and holds it against its rule's composed gradient.
func Compare(b compute.Backend, e Embeddings, l dmlx.Loss, o dmlx.Options) (*Agreement, error) {
	r, err := dmlx.ParseRule(cmp.Or(l.RuleName, l.Name))
	if err != nil {
		return nil, fmt.Errorf("loss %s: no rule of its name in Table 1: %w", l.Name, err)
	}
	r.Options = o
	if err := checkBatch(&e); err != nil {
		return nil, fmt.Errorf("loss %s: %w", l.Name, err)
	}
	p := programs{backend: b}
	defer p.Close()
	out, err := p.run(nil, func(in []*Node) []*Node {
		f := dmlx.Normalize(in[0])
		c := dmlx.Compose(ruleBatch(f, in, o), r)
		loss := l.Of(c.Batch, f, MatMul(f, Transpose(f, 0, 1)))
		return []*Node{c.G, Gradient(loss, f)[0], c.M}
	}, batchArguments(e))
	if err != nil {
		return nil, fmt.Errorf("loss %s: %w", l.Name, err)
	}
	g, d := graphs.Floats(out[0]), graphs.Floats(out[1])
	a := agreement(float64s(g), float64s(d), graphs.Floats(out[2]), e.N)
	if a == nil {
		return nil, fmt.Errorf("loss %s: the batch gives no gradient to compare; it needs two images of a class and "+
			"two classes", l.Name)
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

// Weights evaluates the parts of a rule on similarities alone, as a triplet diagram needs them: P₊ (the mask applied),
// P₋ and T at each S_ap, S_an. There is no batch around these triplets: 𝒫 and 𝒩 are empty, and a part of the user's own
// that looks at F or S is an error, a *dmlx.PartError.
func Weights(b compute.Backend, r dmlx.Rule, sap, san []float32) (positive, negative, triplet []float32, err error) {
	c := once(b, r.Traced())
	defer c.Close()
	return c.Weights(r.Options, sap, san)
}

package heads

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"gonum.org/v1/gonum/mat"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// # How a head is trained from its start
//
// Of the start's coordinates z the K directions in which they are largest, t = Vᵀ z, are trained: by A [K, K] with the
// identity for a start, z' = z + V (A − I) t, or by a hidden layer, z' = z + V C ReLU(B t + b) with C = 0 for a start.
// A rate says by what share of √K, the length of the identity, the block moves in the first step, which fits all rules
// and losses and features of any size.

// Block are the features of a split in the coordinates of a start, those that are trained first.
type Block struct {
	K, Width int           // Trained coordinates, and all.
	Data     *samples.Data // The coordinates [N, Width], with their classes.

	hidden     int // Units of the hidden layer, 0 without one.
	features   int
	start      headStart
	scale      float64    // By which the start's coordinates are divided.
	directions *mat.Dense // V, [F, K or the dimension if that is cut].
	top        mat.Dense  // Vᵀ L⁻¹, [K or the dimension, F], once it is needed.
	cut        bool       // Whether there are fewer coordinates than features.
}

// blockDirections is K, the most directions that are trained.
const blockDirections = 64

// newBlock returns the coordinates of training rows by a start.
func newBlock(a *algebra, start headStart, rows featureRows, o Options) (*Block, error) {
	b := &Block{features: rows.cols, start: start, K: min(blockDirections, rows.cols, o.Dim), cut: o.Dim < rows.cols,
		hidden: o.Hidden}
	z := start.apply(a, rows.matrix)
	for i := range z.rows {
		sum := 0.0
		for _, v := range z.row(i) {
			sum += float64(v) * float64(v)
		}
		b.scale += math.Sqrt(sum) / float64(z.rows)
	}
	if !(b.scale > 0) || math.IsInf(b.scale, 0) {
		return nil, errors.New("all features are zero, or their squares overflow: scale them")
	}
	directions := b.K
	if b.cut {
		directions = o.Dim
	}
	b.directions = leading(a, z, directions)
	coordinates := b.coordinates(a, z)
	b.Width = coordinates.cols
	all := &samples.Array{Values: coordinates.values, Dims: []int{b.Width}, Classes: rows.labels}
	b.Data = &samples.Data{Name: "head", Train: all, Test: all}
	return b, nil
}

// Weight is a trained variable of a block, in the scope "block".
type Weight struct {
	Name string
	Dims []int
}

// Weights returns what is trained of a block: A, or B, b and C.
func (b *Block) Weights() []Weight {
	if b.hidden == 0 {
		return []Weight{{"weight", []int{b.K, b.K}}}
	}
	return []Weight{{"in", []int{b.hidden, b.K}}, {"bias", []int{b.hidden}}, {"out", []int{b.K, b.hidden}}}
}

// Identity identifies the graph of [Block.Embed].
func (b *Block) Identity() string { return fmt.Sprintf("block %d %d %d", b.K, b.Width, b.hidden) }

// Initial returns initial values of all weights, one after the other. The hidden layer keeps the length of its input,
// in the mean over B, which is drawn from a seed.
func (b *Block) Initial(seed uint64) []float32 {
	if b.hidden == 0 {
		return float32sOf(eye(b.K, b.K)).values
	}
	values := make([]float32, b.hidden*(2*b.K+1))
	rng := rand.New(rand.NewPCG(seed, 13))
	for i := range b.hidden * b.K {
		values[i] = float32(rng.NormFloat64() * math.Sqrt(2/float64(b.hidden)))
	}
	return values
}

// layer are the parts of the weights of a hidden layer.
func (b *Block) layer(weights []float32) (in matrix, bias []float32, out matrix) {
	n := b.hidden * b.K
	return matrix{weights[:n], b.hidden, b.K}, weights[n : n+b.hidden], matrix{weights[n+b.hidden:], b.K, b.hidden}
}

// Embed returns coordinates [B, Width] behind the block, whose weights it creates in the scope.
func (b *Block) Embed(scope *model.Scope, x *Node) *Node {
	var w []*Node
	for _, v := range b.Weights() {
		w = append(w, scope.At("block").VariableWithShape(v.Name, shapes.Make(dtypes.Float32, v.Dims...)).NodeValue(x))
	}
	first := Slice(x, AxisRange(), AxisRange(0, b.K))
	if b.hidden == 0 {
		first = MatMul(first, Transpose(w[0], 0, 1))
	} else {
		units := backbone.ReLU(Add(MatMul(first, Transpose(w[0], 0, 1)), ExpandAxes(w[1], 0)))
		first = Add(first, MatMul(units, Transpose(w[2], 0, 1)))
	}
	if b.K == b.Width {
		return first
	}
	return Concatenate([]*Node{first, Slice(x, AxisRange(), AxisRange(b.K, b.Width))}, 1)
}

// moved returns trained coordinates [N, K] behind the block.
func (b *Block) moved(a *algebra, first matrix, weights []float32) matrix {
	if b.hidden == 0 {
		return a.times(first, matrix{weights, b.K, b.K})
	}
	in, bias, out := b.layer(weights)
	units := a.times(first, in)
	for i := range units.rows {
		for j, v := range units.row(i) {
			units.row(i)[j] = max(v+bias[j], 0)
		}
	}
	moved := a.times(units, out)
	for i, v := range first.values {
		moved.values[i] += v
	}
	return moved
}

// coordinates returns Vᵀz and behind it what is left of z, unless that is cut off; all over the scale.
func (b *Block) coordinates(a *algebra, z matrix) matrix {
	t := a.times(z, float32sOf(b.directions.T()))
	rest := newMatrix(z.rows, 0)
	if !b.cut && b.K < z.cols {
		rest = a.times(t, float32sOf(b.directions))
		for i, v := range z.values {
			rest.values[i] = v - rest.values[i]
		}
	}
	out := newMatrix(z.rows, t.cols+rest.cols)
	for i := range z.rows {
		for j, v := range slices.Concat(t.row(i), rest.row(i)) {
			out.row(i)[j] = float32(float64(v) / b.scale)
		}
	}
	return out
}

// Layers returns the layers of the head with trained weights, for features x·scale + shift; nil stands for x. They are
// those of [Head.Embed]: "fc", and with a hidden layer "fc1" and "fc2".
func (b *Block) Layers(trained, scale, shift []float32) []onnx.Linear {
	// Where the head starts, [dim, F], and what takes trained coordinates to embeddings, [dim, K].
	base, into := b.start.weight, b.directions
	if base == nil {
		base = eye(b.features, b.features)
	}
	if b.top.IsEmpty() {
		b.top.Mul(b.directions.T(), base)
	}
	if b.cut {
		dim, _ := b.top.Dims()
		base, into = &b.top, eye(dim, b.K)
	}
	layer := func(name string, w *mat.Dense, bias []float32) onnx.Linear {
		out := float32sOf(w)
		for i := range out.rows {
			at := float64(bias[i])
			for j := range out.cols { // x = (x̂ − shift) / scale
				v := w.At(i, j) / b.scale
				if b.start.mean != nil {
					at -= v * b.start.mean[j]
				}
				if scale != nil {
					v /= float64(scale[j])
					at -= v * float64(shift[j])
				}
				out.row(i)[j] = float32(v)
			}
			bias[i] = float32(at)
		}
		return onnx.Linear{Name: name, Weight: out.values, Bias: bias}
	}
	dim, _ := base.Dims()
	top := b.top.Slice(0, b.K, 0, b.features)
	var w, last mat.Dense
	if b.hidden == 0 {
		change := denseOf(matrix{trained, b.K, b.K})
		change.Sub(change, eye(b.K, b.K))
		w.Product(into, change, top)
		w.Add(&w, base)
		return []onnx.Linear{layer("fc", &w, make([]float32, dim))}
	}
	in, bias, out := b.layer(trained)
	w.Mul(denseOf(in), top)
	last.Mul(into, denseOf(out))
	return []onnx.Linear{layer("fc", base, make([]float32, dim)), layer("fc1", &w, slices.Clone(bias)),
		{Name: "fc2", Weight: float32sOf(&last).values, Bias: make([]float32, dim)}}
}

// heldBlock are held-out rows in the coordinates of a block.
type heldBlock struct {
	*Block
	first, rest matrix // Those that are trained, [N, K], and the inner products by the others, [N, N].
	labels      []int64
}

func (b *Block) held(a *algebra, f fold) heldBlock {
	z := b.coordinates(a, b.start.apply(a, f.held.matrix))
	h := heldBlock{Block: b, first: newMatrix(z.rows, b.K), labels: f.held.labels}
	for i := range z.rows {
		copy(h.first.row(i), z.row(i))
		clear(z.row(i)[:b.K])
	}
	h.rest = a.gram(z)
	return h
}

// rank ranks the rows with trained weights.
func (h heldBlock) rank(a *algebra, weights []float32) scores {
	return rank(h.products(a, weights), h.labels)
}

// products are the inner products of the rows [N, N] with trained weights.
func (h heldBlock) products(a *algebra, weights []float32) matrix {
	products := a.gram(h.moved(a, h.first, weights))
	for i, v := range h.rest.values {
		products.values[i] += v
	}
	return products
}

// Proxies returns proxies [n·perClass, Width] at the means of classes, which are numbered from 0 to n−1; several of a
// class are at means of parts of it. Those of parts without a sample are taken from otherwise.
func (b *Block) Proxies(classes map[int64]int32, perClass int, otherwise []float32) []float32 {
	rows := b.Data.Train.(*samples.Array)
	values, count := make([]float32, len(otherwise)), make([]float32, len(classes)*perClass)
	seen := make(map[int64]int)
	for i, l := range rows.Classes {
		p := int(classes[l])*perClass + seen[l]%perClass
		seen[l]++
		count[p]++
		for j, v := range rows.Values[i*b.Width : (i+1)*b.Width] {
			values[p*b.Width+j] += v
		}
	}
	for i := range values {
		if n := count[i/b.Width]; n > 0 {
			values[i] /= n
		} else {
			values[i] = otherwise[i]
		}
	}
	return values
}

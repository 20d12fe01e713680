package heads

import (
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gradient-surgery/dml/dmlx/samples"
)

// # How a head is trained from its start
//
// Of the start's coordinates z the K directions in which they are largest are trained, by A [K, K] with the identity
// for a start: z' = z + V (A − I) Vᵀ z. A rate says by what share of its length A moves in the first step, which fits
// all rules and losses and features of any size.

// Block are the features of a split in the coordinates of a start, those that are trained first.
type Block struct {
	K, Width int           // Trained coordinates, and all.
	Data     *samples.Data // The coordinates [N, Width], with their classes.

	features   int
	start      headStart
	scale      float64    // By which the start's coordinates are divided.
	directions *mat.Dense // V, [F, K or the dimension if that is cut].
	top        mat.Dense  // Vᵀ L⁻¹, [K or the dimension, F].
	cut        bool       // Whether there are fewer coordinates than features.
}

// blockDirections is K, the most directions that are trained.
const blockDirections = 64

// newBlock returns the coordinates of training rows by a start.
func newBlock(a *algebra, start headStart, rows featureRows, dim int) (*Block, error) {
	b := &Block{features: rows.cols, start: start, K: min(blockDirections, rows.cols, dim), cut: dim < rows.cols}
	z, err := start.apply(a, rows.matrix)
	if err != nil {
		return nil, err
	}
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
		directions = dim
	}
	if b.directions, err = leading(a, z, directions); err != nil {
		return nil, err
	}
	coordinates, err := b.coordinates(a, z)
	if err != nil {
		return nil, err
	}
	b.Width = coordinates.cols
	all := &samples.Array{Values: coordinates.values, Dims: []int{b.Width}, Classes: rows.labels}
	b.Data = &samples.Data{Name: "head", Train: all, Test: all}
	return b, nil
}

// coordinates returns Vᵀz and behind it what is left of z, unless that is cut off; all over the scale.
func (b *Block) coordinates(a *algebra, z matrix) (matrix, error) {
	t, err := a.times(z, float32sOf(b.directions.T()))
	if err != nil {
		return t, err
	}
	rest := newMatrix(z.rows, 0)
	if !b.cut && b.K < z.cols {
		if rest, err = a.times(t, float32sOf(b.directions)); err != nil {
			return t, err
		}
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
	return out, nil
}

// Head returns weight [dim, F] and bias [dim] of the linear head with the trained matrix [K, K], for features x·scale +
// shift; nil stands for x.
func (b *Block) Head(trained, scale, shift []float32) (weight, bias []float32) {
	w, at := b.linear(trained)
	rows, _ := w.Dims()
	out := float32sOf(w)
	bias = make([]float32, rows)
	for i := range rows {
		for j, s := range scale { // x = (x̂ − shift) / scale
			v := w.At(i, j) / float64(s)
			out.row(i)[j] = float32(v)
			at[i] -= v * float64(shift[j])
		}
		bias[i] = float32(at[i])
	}
	return out.values, bias
}

// linear returns weight [dim, F] and bias [dim] of the head with the trained matrix [K, K], as float64.
func (b *Block) linear(block []float32) (weight *mat.Dense, bias []float64) {
	w := b.start.weight
	if w == nil {
		ones := make([]float64, b.features)
		floats.AddConst(1, ones)
		w = mat.DenseCopyOf(mat.NewDiagDense(b.features, ones))
	}
	if b.top.IsEmpty() {
		b.top.Mul(b.directions.T(), w)
	}
	change := mat.NewDense(b.K, b.K, nil)
	for i, v := range block {
		change.Set(i/b.K, i%b.K, float64(v))
	}
	var moved mat.Dense
	if b.cut {
		weight = mat.DenseCopyOf(&b.top)
		moved.Mul(change, b.top.Slice(0, b.K, 0, b.features))
		weight.Slice(0, b.K, 0, b.features).(*mat.Dense).Copy(&moved)
	} else {
		for i := range b.K {
			change.Set(i, i, change.At(i, i)-1)
		}
		moved.Mul(change, &b.top)
		weight = new(mat.Dense)
		weight.Mul(b.directions, &moved)
		weight.Add(weight, w)
	}
	weight.Scale(1/b.scale, weight)
	rows, _ := weight.Dims()
	bias = make([]float64, rows)
	for i := range bias {
		if b.start.mean != nil {
			bias[i] = -floats.Dot(weight.RawRowView(i), b.start.mean)
		}
	}
	return weight, bias
}

// IdentityMatrix is the matrix of a block at the start, [k, k].
func IdentityMatrix(k int) []float32 {
	values := make([]float32, k*k)
	for i := range k {
		values[i*k+i] = 1
	}
	return values
}

// heldBlock are held-out rows in the coordinates of a block.
type heldBlock struct {
	first, rest matrix // Those that are trained, [N, K], and the inner products by the others, [N, N].
	labels      []int64
}

func (b *Block) held(a *algebra, f fold) (h heldBlock, err error) {
	z, err := b.start.apply(a, f.held.matrix)
	if err != nil {
		return h, err
	}
	if z, err = b.coordinates(a, z); err != nil {
		return h, err
	}
	h = heldBlock{newMatrix(z.rows, b.K), z, f.held.labels}
	for i := range z.rows {
		copy(h.first.row(i), z.row(i))
		clear(z.row(i)[:b.K])
	}
	h.rest, err = a.times(z, z)
	return h, err
}

// rank ranks the rows with a matrix [K, K] as block.
func (h heldBlock) rank(a *algebra, block []float32) (scores, error) {
	moved, err := a.times(h.first, matrix{block, h.first.cols, h.first.cols})
	if err != nil {
		return scores{}, err
	}
	products, err := a.times(moved, moved)
	if err != nil {
		return scores{}, err
	}
	for i, v := range h.rest.values {
		products.values[i] += v
	}
	return rank(products, h.labels)
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

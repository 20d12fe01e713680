package formulas

import (
	"fmt"
	"image"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// ImageBatch is a batch of a data set's training images, class by class.
type ImageBatch struct {
	Set     *datasets.Set
	Indices []int   // Of the images in Set.Train, [N].
	Labels  []int64 // Their classes, [N].
}

// DrawBatch draws a batch of classes with images of each as training does, but without augmentation. The batch
// depends on the data set and the seed alone.
func DrawBatch(set *datasets.Set, classes, images int, seed uint64) (*ImageBatch, error) {
	if classes < 1 || images < 1 {
		return nil, fmt.Errorf("a batch of %d classes with %d images each: want at least one class and one image",
			classes, images)
	}
	byLabel := make(map[int64][]int)
	var labels []int64
	for i, l := range set.Train.Labels {
		if byLabel[l] == nil {
			labels = append(labels, l)
		}
		byLabel[l] = append(byLabel[l], i)
	}
	if classes > len(labels) {
		return nil, fmt.Errorf("a batch of %d classes: %s has %d to train on", classes, set.Name, len(labels))
	}
	slices.Sort(labels)
	b := &ImageBatch{Set: set}
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, c := range rng.Perm(len(labels))[:classes] {
		own := byLabel[labels[c]]
		if images > len(own) {
			return nil, fmt.Errorf("a batch with %d images of a class: class %s of %s has %d", images,
				set.Train.Names[labels[c]], set.Name, len(own))
		}
		for _, i := range rng.Perm(len(own))[:images] {
			b.Indices, b.Labels = append(b.Indices, own[i]), append(b.Labels, labels[c])
		}
	}
	return b, nil
}

// Images returns the batch's images.
func (b *ImageBatch) Images() []image.Image {
	return slice.Map(b.Indices, func(i int) image.Image { return b.Set.Train.Thumbnail(i) })
}

// input returns the network's input, float32 [N, Size, Size, 3]: colors of mean 0 and variance 1 over the training
// set.
func (b *ImageBatch) input() *tensors.Tensor {
	size := b.Set.Train.Size
	values := make([]float32, 0, len(b.Indices)*size*size*3)
	for _, i := range b.Indices {
		for k, v := range b.Set.Train.At(i) {
			values = append(values, (float32(v)/255-b.Set.Mean[k%3])/b.Set.Std[k%3])
		}
	}
	return tensors.FromFlatDataAndDimensions(values, len(b.Indices), size, size, 3)
}

func (b *ImageBatch) labels() *tensors.Tensor {
	return tensors.FromFlatDataAndDimensions(b.Labels, len(b.Labels))
}

// Network is the small network with the bundled weights and a last layer drawn from a seed: the start of a run of
// the quick preset. It must not be used by several goroutines at once.
type Network struct {
	backend compute.Backend
	weights *model.Store
	dim     int
	embed   *model.Exec // Compiled once: its graph depends on the batch's shape alone.
}

// FirstStep returns the network with an embedding of dim dimensions before its first training step.
func FirstStep(b compute.Backend, dim int, seed uint64) (*Network, error) {
	n := &Network{backend: b, weights: model.NewStore(), dim: dim}
	_, err := backbone.DecodeWeights(backbone.Pretrained(), n.weights,
		backbone.LoadOptions{Arch: backbone.Small, WithoutHead: true})
	if err == nil {
		err = backbone.InitHead(n.weights, backbone.Small, dim, seed)
	}
	if err != nil {
		n.weights.Finalize()
		return nil, err
	}
	return n, nil
}

// Close frees what the backend holds for the network.
func (n *Network) Close() {
	if n.embed != nil {
		n.embed.Finalize()
	}
	n.weights.Finalize()
}

// Embed returns the batch's embeddings as in a training step: batch normalization by the batch's own statistics, not
// yet L2-normalized.
func (n *Network) Embed(batch *ImageBatch) (e dissect.Embeddings, err error) {
	if n.embed == nil {
		n.embed, err = model.NewExec(n.backend, n.weights, func(scope *model.Scope, images *Node) *Node {
			return backbone.Small.Embed(scope, images, n.dim, backbone.Pass{Training: true})
		})
		if err != nil {
			return e, err
		}
	}
	out, err := n.embed.Call1(batch.input())
	if err != nil {
		return e, err
	}
	values, err := tensors.CopyFlatData[float32](out)
	return dissect.Embeddings{Values: values, N: len(batch.Indices), Dim: n.dim, Labels: batch.Labels}, err
}

// GradientSource returns a scalar of the embeddings [B, D], before normalization, and the labels [B]. Its gradient
// with respect to the network's weights is what training would descend.
type GradientSource func(embeddings, labels *Node) *Node

// BySurgery takes the gradient from the op: the rule's composed gradient at the normalized embeddings.
func BySurgery(r dmlx.Rule) GradientSource {
	return func(embeddings, labels *Node) *Node {
		f, _ := dmlx.Surgery(embeddings, labels, r)
		return ReduceAllSum(f)
	}
}

// ByLoss takes the gradient of a loss by autodiff.
func ByLoss(l dmlx.Loss, o dmlx.Options) GradientSource {
	return func(embeddings, labels *Node) *Node {
		f := dmlx.Normalize(embeddings)
		return l.Of(dmlx.NewBatch(f, labels, o), f, MatMul(f, Transpose(f, 0, 1)))
	}
}

// ByGradient takes a given gradient g, [B, D], at the normalized embeddings: that of the scalar Σ f·g.
func ByGradient(g []float32) GradientSource {
	return func(embeddings, _ *Node) *Node {
		f := dmlx.Normalize(embeddings)
		return ReduceAllSum(Mul(f, Reshape(Const(f.Graph(), g), f.Shape().Dimensions...)))
	}
}

// Stages are the parts of the small network from its input on, as in [WeightGradient.Norms].
var Stages = []string{"stem", "layer1", "layer2", "layer3", "layer4", "fc"}

// WeightGradient is the gradient of all weights of a network.
type WeightGradient struct {
	Norms  []float64 // The length of each of the [Stages]' own gradient.
	Values []float32 // All of them.
}

// Difference returns the largest |a − c·b| over the largest |a|: 0 if a is c times b.
func (a *WeightGradient) Difference(b *WeightGradient, c float64) float64 {
	return largestDifference(a.Values, b.Values, c)
}

// largestDifference returns the largest |a − c·b| over the largest |a|, and 0 if both are zero.
func largestDifference(a, b []float32, c float64) float64 {
	worst, largest := 0.0, 0.0
	for i, v := range a {
		worst, largest = max(worst, math.Abs(float64(v)-c*float64(b[i]))), max(largest, math.Abs(float64(v)))
	}
	if worst == 0 {
		return 0
	}
	return worst / largest
}

// Backpropagate returns the gradient of the network's weights for a source. The weights do not change.
func (n *Network) Backpropagate(batch *ImageBatch, source GradientSource) (g *WeightGradient, err error) {
	variables := backbone.Trainable(n.weights)
	exec, err := model.NewExec(n.backend, n.weights, func(scope *model.Scope, images, labels *Node) []*Node {
		scalar := source(backbone.Small.Embed(scope, images, n.dim, backbone.Pass{Training: true}), labels)
		nodes := slice.Map(variables, func(v *model.Variable) *Node { return v.NodeValue(images) })
		gradients := Gradient(scalar, nodes...)
		for i, g := range gradients {
			gradients[i] = ConvertDType(Reshape(g, -1), dtypes.Float32)
		}
		return gradients
	})
	if err != nil {
		return nil, err
	}
	defer exec.Finalize()
	out, err := exec.Call(batch.input(), batch.labels())
	if err != nil {
		return nil, err
	}
	g = &WeightGradient{Norms: make([]float64, len(Stages))}
	for i, t := range out {
		values, err := tensors.CopyFlatData[float32](t)
		if err != nil {
			return nil, err
		}
		g.Values = append(g.Values, values...)
		stage := stageOf(variables[i].Path())
		for _, v := range values {
			g.Norms[stage] += float64(v) * float64(v)
		}
	}
	for i, square := range g.Norms {
		g.Norms[i] = math.Sqrt(square)
	}
	return g, nil
}

// stageOf returns the index in [Stages] of a variable by its path; variables outside the layers belong to the stem.
func stageOf(path string) int {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return max(slices.Index(Stages, first), 0)
}

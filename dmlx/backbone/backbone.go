// Package backbone holds the networks that embed images: ResNet-18 and ResNet-50 as torchvision defines them (v1.5: the
// stride of a bottleneck sits in its 3×3 convolution) and a small residual network for CPUs, their initialization, and
// their weights as safetensors files with PyTorch's names and layout; files of torch.save are read too.
//
// Variables live at a [model.Store]'s root under torchvision's names: "layer1.0.conv1.weight" on file is the variable
// "weight" of the scope "/layer1/0/conv1". A convolution's kernel is [KH, KW, C, O] in memory and [O, C, KH, KW] on
// file.
//
//	err := backbone.Init(store, backbone.Small, 32, seed)
//	exec, err := model.NewExec(b, store, func(scope *model.Scope, images *Node) *Node {
//		return backbone.Small.Embed(scope, images, 32, backbone.Pass{})
//	})
//
// Functions that build graphs panic on impossible shapes, as GoMLX's do; all others return errors.
package backbone

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
)

// Arch names a network.
type Arch string

const (
	// Small is for 32×32 images and CPUs: a 5×5/2 stem and four basic blocks of 16, 32, 64 and 128 channels;
	// 0.31 million parameters with a 32-dimensional embedding.
	Small Arch = "small"
	// ResNet18 is torchvision's resnet18: 11.2 million parameters without its classifier.
	ResNet18 Arch = "resnet18"
	// ResNet50 is torchvision's resnet50 (v1.5): 23.5 million parameters without its classifier.
	ResNet50 Arch = "resnet50"
)

// network says how a residual network differs from the others of its family (He et al. 2016, table 1).
type network struct {
	stem       int  // Kernel of the first convolution, of stride 2 and padding stem/2.
	pool       bool // 3×3/2 maximum behind the stem.
	width      int  // Channels of the stem and of the first stage; each later stage doubles them.
	bottleneck bool
	blocks     [4]int
}

var networks = map[Arch]network{
	Small:    {stem: 5, width: 16, blocks: [4]int{1, 1, 1, 1}},
	ResNet18: {stem: 7, pool: true, width: 64, blocks: [4]int{2, 2, 2, 2}},
	ResNet50: {stem: 7, pool: true, width: 64, bottleneck: true, blocks: [4]int{3, 4, 6, 3}},
}

// Arches lists the networks, smallest first.
func Arches() []string { return []string{string(Small), string(ResNet18), string(ResNet50)} }

// ParseArch reads the name of a network; the error lists those there are.
func ParseArch(name string) (Arch, error) {
	a := Arch(strings.ToLower(strings.TrimSpace(name)))
	if _, ok := networks[a]; !ok {
		return "", errs.NoSuch(fmt.Sprintf("no network %q", name), name, Arches())
	}
	return a, nil
}

// Width is the number of features F in front of the embedding; 0 for a network that there is not.
func (a Arch) Width() int { return networks[a].features() }

func (n network) features() int { return n.width * 8 * n.expansion() }

// expansion is how many times its inner width a block gives out.
func (n network) expansion() int {
	if n.bottleneck {
		return 4
	}
	return 1
}

// convolution is a convolution without bias, followed by batch normalization: conv and norm are their names.
type convolution struct {
	conv, norm      string
	kernel, in, out int
	stride          int
}

// block is a residual block: convolutions in a row, and one beside them where the shapes differ.
type block struct {
	main       []convolution
	downsample *convolution
	last       bool // Of the network: no convolution reads it.
}

// layers lists the network: its stem and its blocks, in order, with torchvision's names.
func (n network) layers() (stem convolution, blocks []block) {
	stem = convolution{"conv1", "bn1", n.stem, 3, n.width, 2}
	in := n.width
	for stage, count := range n.blocks {
		width := n.width << stage
		for i := range count {
			stride := 1
			if i == 0 && stage > 0 {
				stride = 2
			}
			name := fmt.Sprintf("layer%d.%d.", stage+1, i)
			out := width * n.expansion()
			var b block
			if n.bottleneck {
				b.main = []convolution{
					{name + "conv1", name + "bn1", 1, in, width, 1},
					{name + "conv2", name + "bn2", 3, width, width, stride},
					{name + "conv3", name + "bn3", 1, width, out, 1},
				}
			} else {
				b.main = []convolution{
					{name + "conv1", name + "bn1", 3, in, width, stride},
					{name + "conv2", name + "bn2", 3, width, out, 1},
				}
			}
			if stride != 1 || in != out {
				b.downsample = &convolution{name + "downsample.0", name + "downsample.1", 1, in, out, stride}
			}
			blocks = append(blocks, b)
			in = out
		}
	}
	blocks[len(blocks)-1].last = true
	return stem, blocks
}

// Pass says what a network is run for. The zero value is inference: batch normalization takes its running averages.
type Pass struct {
	// Training takes the batch's statistics instead, and moves the running averages towards them.
	Training bool
	// Again leaves the running averages where they are: these images have been in a pass of training already.
	Again bool
	// Frozen normalizes by the running averages in training, too, and leaves them where they are: PyTorch's
	// BatchNorm2d.eval. Scale and shift still have their gradients.
	Frozen bool
	// Recompute computes each residual block a second time when its gradient is asked for (gradient checkpointing, Chen
	// et al. 2016): between the passes only the blocks' inputs are kept, at the cost of another forward pass. See
	// recompute.go.
	Recompute bool
}

// Features computes the network's features [N, F], float32, of images [N, H, W, 3] that are already normalized by the
// data set's mean and standard deviation.
//
// The images' type is that of the computation: of float32, or of bfloat16 images, for which convolutions and what goes
// between them are bfloat16. Weights, their gradients, the statistics of batch normalization and the features stay
// float32.
func (a Arch) Features(scope *model.Scope, images *Node, pass Pass) *Node {
	_, ok := networks[a]
	if !ok {
		exceptions.Panicf("backbone: no network %q", a)
	}
	images.AssertRank(4)
	images.AssertDims(-1, -1, -1, 3)
	return a.Through(scope, images, pass, 0, a.Stages())
}

// Stages is the number of stages of a network: the stem, the blocks, and the average pooling.
func (a Arch) Stages() int {
	_, blocks := networks[a].layers()
	return len(blocks) + 2
}

// Through computes the stages from, …, to−1 of a network, of what the stages before give.
func (a Arch) Through(scope *model.Scope, x *Node, pass Pass, from, to int) *Node {
	n := networks[a]
	stem, blocks := n.layers()
	own := ownWeights(x.Graph())
	for stage := from; stage < to; stage++ {
		switch {
		case stage == 0:
			if x = stem.activated(scope, own, x, pass); n.pool {
				x = MaxPooling(x, 3, 2, 1)
			}
		case stage > len(blocks):
			x = GlobalAveragePooling(ConvertDType(x, dtypes.Float32))
		case pass.Recompute && pass.Training:
			x = blocks[stage-1].recomputed(scope, x, pass)
		default:
			x = blocks[stage-1].apply(scope, own, x, pass)
		}
	}
	return x
}

// Frozen returns how many stages at the start have no weights that are trained.
func (a Arch) Frozen(trained func(name string) bool) (int, error) {
	n, ok := networks[a]
	if !ok {
		_, err := ParseArch(string(a))
		return 0, err
	}
	stem, blocks := n.layers()
	stages := [][]convolution{{stem}}
	for _, b := range blocks {
		all := slices.Clone(b.main)
		if b.downsample != nil {
			all = append(all, *b.downsample)
		}
		stages = append(stages, all)
	}
	for i, convolutions := range stages {
		for _, c := range convolutions {
			if trained(c.conv+".weight") || trained(c.norm+".weight") || trained(c.norm+".bias") {
				return i, nil
			}
		}
	}
	return a.Stages(), nil
}

// ShapeAt returns the shape of what the first stages give for an image of a size.
func (a Arch) ShapeAt(stages, size int) (shape []int, err error) {
	n := networks[a]
	if stages == a.Stages() {
		return []int{n.features()}, nil
	}
	stem, blocks := n.layers()
	size, channels := outputSize(size, stem.kernel, stem.stride, stem.kernel/2), n.width
	if n.pool {
		size = outputSize(size, 3, 2, 1)
	}
	for _, b := range blocks[:stages-1] {
		for _, c := range b.main {
			size, channels = outputSize(size, c.kernel, c.stride, c.kernel/2), c.out
		}
	}
	if size < 1 {
		return nil, fmt.Errorf("images are too small for %s", a)
	}
	return []int{size, size, channels}, nil
}

// Embed computes the embeddings [N, dim] of images [N, H, W, 3]: [Arch.Features] and the linear layer "fc". They are
// not normalized.
func (a Arch) Embed(scope *model.Scope, images *Node, dim int, pass Pass) *Node {
	embeddings := Linear(at(scope, "fc"), a.Features(scope, images, pass))
	embeddings.AssertDims(-1, dim)
	return embeddings
}

// apply is the block: [N, H, W, in] → [N, ⌈H/stride⌉, ⌈W/stride⌉, out].
func (b block) apply(scope *model.Scope, w lookup, x *Node, pass Pass) *Node {
	shortcut := x
	if b.downsample != nil {
		shortcut = b.downsample.apply(scope, w, x, pass)
	}
	end := len(b.main) - 1
	for _, c := range b.main[:end] {
		x = c.activated(scope, w, x, pass)
	}
	x = Add(b.main[end].apply(scope, w, x, pass), shortcut)
	if b.last {
		return relu(x, nil, true)
	}
	return relu(x, b.main[end].shift(scope, w, pass), true)
}

// activated is [convolution.apply] and [ReLU].
func (c convolution) activated(scope *model.Scope, w lookup, x *Node, pass Pass) *Node {
	return relu(c.apply(scope, w, x, pass), c.shift(scope, w, pass), false)
}

// shift is the shift β [out] of the batch normalization, for [once]. At inference, where a value is read by one kernel,
// it is nil.
func (c convolution) shift(scope *model.Scope, w lookup, pass Pass) *Node {
	if !pass.Training {
		return nil
	}
	return w(at(scope, c.norm), "bias")
}

// apply convolves and normalizes: [N, H, W, in] → [N, ⌈H/stride⌉, ⌈W/stride⌉, out].
func (c convolution) apply(scope *model.Scope, w lookup, x *Node, pass Pass) *Node {
	kernel := ConvertDType(w(at(scope, c.conv), "weight"), x.DType())
	return batchNorm(at(scope, c.norm), w, Convolution(x, kernel, c.stride, c.kernel/2), pass)
}

// lookup gives the node of a scope's trainable variable.
type lookup func(scope *model.Scope, name string) *Node

// ownWeights are the variables' own values.
func ownWeights(g *Graph) lookup {
	return func(scope *model.Scope, name string) *Node { return variable(scope, name).NodeValue(g) }
}

// at is the scope under a dotted name.
func at(scope *model.Scope, name string) *model.Scope {
	for part := range strings.SplitSeq(name, ".") {
		scope = scope.At("%s", part)
	}
	return scope
}

// variable is an existing variable of the scope: none is made up while a graph is built.
func variable(scope *model.Scope, name string) *model.Variable {
	v := scope.GetVariable(name)
	if v == nil {
		exceptions.Panicf("backbone: no variable %q in %q: Init or DecodeWeights comes first", name, scope.Scope())
	}
	return v
}

// Trainable lists the variables of the store that a gradient step changes, by path.
func Trainable(store *model.Store) []*model.Variable {
	var out []*model.Variable
	for v := range store.IterVariables() {
		if v.Trainable {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b *model.Variable) int { return strings.Compare(a.Path(), b.Path()) })
	return out
}

// WithoutNormalization returns the variables of a store that are not the scale or the shift of a [BatchNorm].
func WithoutNormalization(store *model.Store, variables []*model.Variable) []*model.Variable {
	var out []*model.Variable
	for _, v := range variables {
		scope := strings.TrimSuffix(v.Path(), v.Name())
		if store.GetVariable(scope+"running_mean") == nil {
			out = append(out, v)
		}
	}
	return out
}

package backbone

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/sampling"
)

// Param is one tensor of a network as PyTorch knows it.
type Param struct {
	Name  string // torchvision's, as "layer1.0.conv1.weight".
	Shape []int  // PyTorch's: a convolution's is [O, C, KH, KW], a linear layer's [O, F].
	// Trainable is false for the running averages of batch normalization.
	Trainable bool
}

// Parameters lists the network's tensors in torchvision's order (without num_batches_tracked); dim is the size of the
// embedding, and 0 leaves out the linear layer "fc". It is empty for a network that there is not.
func (a Arch) Parameters(dim int) []Param {
	n, ok := networks[a]
	if !ok {
		return nil
	}
	var out []Param
	add := func(c convolution) {
		out = append(out, Param{c.conv + ".weight", []int{c.out, c.in, c.kernel, c.kernel}, true})
		for _, name := range []string{"weight", "bias", "running_mean", "running_var"} {
			out = append(out, Param{c.norm + "." + name, []int{c.out}, !strings.HasPrefix(name, "running")})
		}
	}
	stem, blocks := n.layers()
	add(stem)
	for _, b := range blocks {
		for _, c := range b.main {
			add(c)
		}
		if b.downsample != nil {
			add(*b.downsample)
		}
	}
	if dim > 0 {
		out = append(out, Param{"fc.weight", []int{dim, n.features()}, true}, Param{"fc.bias", []int{dim}, true})
	}
	return out
}

// Size is the number of values of the parameter.
func (p Param) Size() int {
	size := 1
	for _, d := range p.Shape {
		size *= d
	}
	return size
}

// Init creates, or overwrites, all variables of the network with a linear layer "fc" of dim outputs: convolutions by
// He et al.'s normal distribution on the fan out, "fc" as PyTorch's Linear, batch normalization as the identity.
//
// Values are drawn on the host and depend on the seed and the parameter's name alone, not on the backend nor on the
// other parameters.
func Init(store *model.Store, a Arch, dim int, seed uint64) error {
	return initialize(store, a, dim, seed, func(string) bool { return true })
}

// InitHead creates, or overwrites, only the linear layer "fc" of dim outputs, by the rule of [Init]: a fresh head on a
// pretrained network. If dim changes the layer's size, graphs that were compiled with the old one are void.
func InitHead(store *model.Store, a Arch, dim int, seed uint64) error {
	return initialize(store, a, dim, seed, isHead)
}

// InitLinear creates, or overwrites, a linear layer of the given name, by the rule of [Init].
func InitLinear(store *model.Store, name string, in, out int, seed uint64) error {
	for _, p := range []Param{{Name: name + ".weight", Shape: []int{out, in}, Trainable: true},
		{Name: name + ".bias", Shape: []int{out}, Trainable: true}} {
		if err := set(store, p, sampling.Linear(p.Name, in, p.Size(), seed)); err != nil {
			return err
		}
	}
	return nil
}

func isHead(name string) bool { return strings.HasPrefix(name, "fc.") }

func initialize(store *model.Store, a Arch, dim int, seed uint64, which func(name string) bool) error {
	if _, err := ParseArch(string(a)); err != nil {
		return err
	}
	if dim < 1 {
		return fmt.Errorf("embedding of %d dimensions: want at least 1", dim)
	}
	for _, p := range a.Parameters(dim) {
		if which(p.Name) {
			if err := set(store, p, p.draw(a, seed)); err != nil {
				return err
			}
		}
	}
	return nil
}

// draw gives the parameter's initial values in PyTorch's layout.
func (p Param) draw(a Arch, seed uint64) []float32 {
	if isHead(p.Name) {
		return sampling.Linear(p.Name, a.Width(), p.Size(), seed) // torch.nn.Linear, weight and bias alike.
	}
	values, rng := make([]float32, p.Size()), sampling.Named(p.Name, seed)
	switch {
	case len(p.Shape) == 4:
		// torchvision's ResNet: kaiming_normal_(mode="fan_out", nonlinearity="relu").
		std := math.Sqrt(2 / float64(p.Shape[0]*p.Shape[2]*p.Shape[3]))
		for i := range values {
			values[i] = float32(std * rng.NormFloat64())
		}
	case strings.HasSuffix(p.Name, ".weight"), strings.HasSuffix(p.Name, ".running_var"):
		for i := range values {
			values[i] = 1
		}
	}
	return values
}

// path is the variable's path of a parameter's name.
func path(name string) string { return "/" + strings.ReplaceAll(name, ".", "/") }

// set puts values, in PyTorch's layout, into the parameter's variable, which is created if it is not there.
func set(store *model.Store, p Param, values []float32) (err error) {
	defer errs.Catch(&err)
	dims := p.Shape
	if len(dims) == 4 {
		o, c, h, w := dims[0], dims[1], dims[2], dims[3]
		values, dims = permuted(values, [4]int{o, c, h, w}, [4]int{2, 3, 1, 0}), []int{h, w, c, o}
	}
	if v := store.GetVariable(path(p.Name)); v != nil && !slices.Equal(v.Shape().Dimensions, dims) {
		// A head of another size: a variable does not change its shape.
		if err := store.DeleteVariable(path(p.Name)); err != nil {
			return err
		}
	}
	return SetVariable(store, path(p.Name), values, dims, p.Trainable)
}

// get reads the parameter's values, in PyTorch's layout, from its variable; nil if there is none.
func get(store *model.Store, p Param) (values []float32, err error) {
	defer errs.Catch(&err)
	v := store.GetVariable(path(p.Name))
	if v == nil {
		return nil, nil
	}
	if values, err = Values(v); err != nil {
		return nil, err
	}
	if len(values) != p.Size() {
		return nil, fmt.Errorf("variable %s has shape %s, want PyTorch's %v", path(p.Name), v.Shape(), p.Shape)
	}
	if len(p.Shape) == 4 {
		values = permuted(values, [4]int{p.Shape[2], p.Shape[3], p.Shape[1], p.Shape[0]}, [4]int{3, 2, 0, 1})
	}
	return values, nil
}

// permuted moves a tensor's axes: axis i of the result is axis order[i] of the given.
func permuted(values []float32, dims, order [4]int) []float32 {
	var stride [4]int
	step := 1
	for i := 3; i >= 0; i-- {
		stride[i] = step
		step *= dims[i]
	}
	out := make([]float32, 0, len(values))
	for a := range dims[order[0]] {
		for b := range dims[order[1]] {
			for c := range dims[order[2]] {
				at := a*stride[order[0]] + b*stride[order[1]] + c*stride[order[2]]
				for range dims[order[3]] {
					out = append(out, values[at])
					at += stride[order[3]]
				}
			}
		}
	}
	return out
}

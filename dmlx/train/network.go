package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/samples"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

// WithNetwork returns the config with a network of an ONNX file in place of a backbone, with the weights of the file
// and a linear layer "fc" from its features to embeddings behind it; see package [onnx] and `dmlx help onnx`. Model is
// set to the name of the file and its SHA-256. Images are normalized by the mean and standard deviation that the file
// names.
func (c Config) WithNetwork(path string) (Config, error) {
	file, err := filepath.Abs(path)
	if err != nil {
		return c, err
	}
	n, err := weights.OpenNetwork(file)
	if err != nil {
		return c, err
	}
	c = c.withoutNetwork()
	c.Model, c.NetworkFile = networkIdentity(file, n), file
	c.Weights, c.WeightsDigest, c.weightsFile = Pretrained, n.Digest()[:12], ""
	return c, nil
}

// withoutNetwork returns the config without a network.
func (c Config) withoutNetwork() Config {
	c.Arch, c.Model, c.model, c.NetworkFile, c.Head, c.HeadStart = "", "", nil, "", "", ""
	return c
}

func networkIdentity(file string, n *onnx.Network) string {
	return filepath.Base(file) + "#" + n.Digest()
}

// opened returns the network of the file of the config.
func (c Config) opened() (*onnx.Network, error) {
	n, err := weights.OpenNetwork(c.NetworkFile)
	if err != nil {
		return nil, fmt.Errorf("the network %s: %w", c.Network(), err)
	}
	if networkIdentity(c.NetworkFile, n) != c.Model {
		return nil, fmt.Errorf("the network %s: %s has another SHA-256 now, %s: want the file that the run is of",
			c.Network(), c.NetworkFile, n.Digest())
	}
	return n, nil
}

// Preprocessing returns how images are prepared for the network of a file, and nothing without one. Crop is the side of
// an image in pixels, 0 if any will do, and Interpolation what they are scaled by, a [datasets.Filter].
func (c Config) Preprocessing() (p backbone.Preprocessing) {
	if c.NetworkFile == "" {
		return p
	}
	if n, err := c.opened(); err == nil {
		p, _ = n.Preprocessing() // validateNetwork reports the errors.
	}
	return p
}

// validateNetwork reports what is wrong with the network of a file.
func (c Config) validateNetwork() error {
	n, err := c.opened()
	if err != nil {
		return err
	}
	if _, err := n.Preprocessing(); err != nil {
		return fmt.Errorf("%s: %w", c.NetworkFile, err)
	}
	switch {
	case c.Arch != "":
		return fmt.Errorf("the network is both the backbone %s and the file %s: want one of them", c.Arch, c.NetworkFile)
	case c.Weights != Pretrained:
		return fmt.Errorf("weights %q: a network of a file has the weights of the file, or those of a .safetensors file",
			c.Weights)
	case slices.ContainsFunc(n.Variables(), func(path string) bool { return strings.HasPrefix(path, headScope) }):
		return fmt.Errorf("%s: it has weights named fc, as the layer of embeddings is: export it without its classifier",
			c.NetworkFile)
	case c.Recompute:
		return errors.New("recomputed blocks are those of residual networks: use --micro-batch for the network of a file")
	case c.FreezeBN != "" && !n.Normalizes():
		return fmt.Errorf("%s: it has no batch normalization to freeze: leave freeze_bn out", c.NetworkFile)
	}
	return nil
}

// prepared returns the config with its model for the samples of a data set, and the data set as the network takes it:
// a head has the dimension of the features, and images are normalized as the network of a file wants them.
func (c Config) prepared(data *samples.Data) (Config, *samples.Data, error) {
	if c.tail != nil {
		return c, data, nil
	}
	if c.Head != "" {
		c, err := c.withHeadFor(data)
		return c, data, err
	}
	if c.NetworkFile == "" {
		return c, data, c.fitsModel(data)
	}
	n, err := c.opened()
	if err != nil {
		return c, nil, err
	}
	shape := data.Train.Shape()
	if shape.Rank() != 3 || shape.Dim(2) != 3 {
		return c, nil, fmt.Errorf("%s: samples have the shape %v, but the network %s embeds images, [size, size, 3]",
			data.Name, shape.Dimensions, c.Network())
	}
	size := [2]int{shape.Dim(0), shape.Dim(1)}
	for i, d := range n.Size {
		if d != 0 && d != size[i] {
			return c, nil, fmt.Errorf("%s: images of %d × %d pixels, but %s is exported for %d × %d: want size = %d, or "+
				"export it for images of any size by `python export.py NAME FILE any` (dmlx help onnx)",
				data.Name, size[0], size[1], c.NetworkFile, n.Size[0], n.Size[1], n.Size[0])
		}
	}
	if _, err := n.Build(size); err != nil {
		return c, nil, fmt.Errorf("%s with images of %d × %d pixels: %w", c.NetworkFile, size[0], size[1], err)
	}
	p, err := n.Preprocessing()
	if err != nil {
		return c, nil, err
	}
	p.Resize, p.Crop = size[0], size[0]
	own := *data
	own.Scale, own.Shift, own.Metadata = nil, nil, p.Metadata()
	own.Normalize(p.Mean, p.Std)
	if c.model, err = c.networkModel(n, size[0]); err != nil {
		return c, nil, err
	}
	return c, &own, nil
}

// networkModel returns the model of the network of a file with a linear layer behind it.
func (c Config) networkModel(file *onnx.Network, size int) (*ownModel, error) {
	n, l, err := c.Adapt(file)
	if err != nil {
		return nil, err
	}
	dim := c.Dim
	m := &ownModel{dim: dim, identity: fmt.Sprintf("%s %d %d", c.Model, size, dim)}
	if n != file {
		m.identity += " " + c.LoRA
		m.metadata = map[string]string{backbone.LoRAAlpha: strconv.FormatFloat(l.Alpha, 'g', -1, 64)}
		if names := n.InOut(); names != nil {
			text, err := json.Marshal(names)
			if err != nil {
				return nil, err
			}
			m.identity += " in, out"
			m.metadata[backbone.LoRAInOut] = string(text)
		}
	}
	m.Name, m.Input = "network", []int{size, size, 3}
	m.paths = append(n.Variables(), headScope+"bias", headScope+"weight")
	m.Embed = func(scope *model.Scope, x *Node, pass backbone.Pass) *Node {
		return backbone.Linear(scope.At("fc"), n.Features(scope, x, pass))
	}
	m.draw = func(store *model.Store, seed uint64) error {
		if err := n.Init(store, nil); err != nil {
			return err
		}
		if n != file {
			if err := n.DrawLowRank(store, seed); err != nil {
				return err
			}
		}
		return backbone.InitLinear(store, "fc", n.Width, dim, seed)
	}
	return m, nil
}

// part is the part of a network that is trained.
type part struct{ only, freeze, lora *regexp.Regexp }

// part parses the patterns of the options.
func (o Options) part() (p part, err error) {
	for _, f := range []struct {
		what, pattern string
		to            **regexp.Regexp
	}{{"trained weights", o.TrainOnly, &p.only}, {"frozen weights", o.Freeze, &p.freeze}} {
		if f.pattern == "" {
			continue
		}
		if *f.to, err = regexp.Compile(f.pattern); err != nil {
			return p, fmt.Errorf("%s %q: want a regular expression on the names of weights, as in 'layer4|fc': %w", f.what,
				f.pattern, err)
		}
	}
	if o.LoRA != "" {
		l, err := onnx.ParseLoRA(o.LoRA)
		if err != nil {
			return p, err
		}
		p.lora = l.Weights
	}
	return p, nil
}

// trains reports whether a weight is trained. The last layer always is, and so are low-rank matrices, beside which
// other weights are trained if a pattern names them.
func (p part) trains(name string) bool {
	lowRank, _ := backbone.IsLowRank(name)
	if strings.HasPrefix(name, "fc.") || p.lora != nil && lowRank {
		return true
	}
	only := p.only == nil && p.lora == nil || p.only != nil && p.only.MatchString(name)
	return only && (p.freeze == nil || !p.freeze.MatchString(name))
}

// Trains returns whether a training with these options trains a weight, by its name.
func (o Options) Trains() (func(name string) bool, error) {
	p, err := o.part()
	return p.trains, err
}

// validatePart returns an error if a pattern matches no weight of the network.
func (c Config) validatePart() error {
	p, err := c.part()
	if err != nil || p == (part{}) {
		return err
	}
	if err := c.validateLoRA(p); err != nil {
		return err
	}
	var names []string
	switch {
	case c.NetworkFile != "":
		n, err := c.opened()
		if err != nil {
			return err
		}
		for _, w := range n.Parameters() {
			names = append(names, w.Name)
		}
		names = append(names, "fc.weight", "fc.bias")
	case c.Arch != "":
		for _, w := range backbone.Arch(c.Arch).Parameters(c.Dim) {
			names = append(names, w.Name)
		}
	default:
		return errors.New("trained and frozen weights are those of a backbone or of the network of a file")
	}
	for _, f := range []*regexp.Regexp{p.only, p.freeze} {
		if f != nil && !slices.ContainsFunc(names, f.MatchString) {
			return fmt.Errorf("the pattern %q matches none of the %d weights of %s, such as %s", f, len(names), c.Network(),
				strings.Join(names[:min(3, len(names))], ", "))
		}
	}
	return nil
}

// Adapt returns a network with the low-rank matrices of the options, and what these are; n itself without them.
func (o Options) Adapt(n *onnx.Network) (adapted *onnx.Network, l onnx.LoRA, err error) {
	if o.LoRA == "" {
		return n, l, nil
	}
	if l, err = onnx.ParseLoRA(o.LoRA); err == nil {
		adapted, err = n.WithLoRA(l)
	}
	return adapted, l, err
}

// validateLoRA reports what is wrong with the low-rank matrices.
func (c Config) validateLoRA(p part) error {
	switch {
	case p.lora == nil:
		return nil
	case c.NetworkFile == "":
		return errors.New("low-rank adapters are for the network of an ONNX file")
	case c.Freeze != "" && c.TrainOnly == "":
		return fmt.Errorf("frozen weights %q beside low-rank adapters, with which all other weights but the last layer's "+
			"are frozen: leave them out, or name those that are trained", c.Freeze)
	}
	n, err := c.opened()
	if err != nil {
		return err
	}
	for _, w := range n.Parameters() {
		if len(w.Shape) != 2 || !p.lora.MatchString(w.Name) {
			continue
		}
		if p.only != nil && p.only.MatchString(w.Name) {
			return fmt.Errorf("the weight %s is both trained, by %q, and has low-rank matrices beside it, by %q: want one of "+
				"them", w.Name, p.only, p.lora)
		}
		if p.freeze != nil && p.freeze.MatchString(w.Name) {
			return fmt.Errorf("the weight %s is both frozen, by %q, and changed by low-rank matrices, by %q: want one of them",
				w.Name, p.freeze, p.lora)
		}
	}
	if _, _, err := c.Adapt(n); err != nil {
		return fmt.Errorf("%s: %w", c.Network(), err)
	}
	return nil
}

// markTrained marks the variables of the network that are trained.
func (s *compiledStep) markTrained(o Options) error {
	p, err := o.part()
	if err != nil || p == (part{}) {
		return err
	}
	for _, v := range backbone.Trainable(s.weights) {
		v.SetTrainable(p.trains(backbone.TensorName(v.Path())))
	}
	return nil
}

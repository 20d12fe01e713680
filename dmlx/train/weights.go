package train

import (
	"cmp"
	"fmt"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

// The values of [Config].Weights.
const (
	Pretrained = "pretrained" // ImageNet or bundled weights, or those of a file; the last layer is random.
	Random     = "random"     // All layers are random.
)

// WithStart returns the config with another backbone and other initial weights; "" leaves either as it is. start is
// [Pretrained], [Random], or the path of a file with PyTorch's names, safetensors or a state dict (.pth), whose last
// layer is ignored. It reads the weights to set WeightsDigest.
//
// An arch that ends in .onnx is the path of a network; see [Config.WithNetwork].
func (c Config) WithStart(arch, start string) (_ Config, err error) {
	switch {
	case weights.IsNetwork(arch):
		if c, err = c.WithNetwork(arch); err != nil {
			return c, err
		}
		arch = ""
	case arch != "":
		c = c.withoutNetwork()
		c.Arch = arch
	}
	switch start {
	case "":
	case Pretrained, Random:
		c.Weights, c.weightsFile = start, ""
	default:
		c.Weights, c.weightsFile = Pretrained, start
	}
	if c.Model != "" || c.Head != "" {
		if err := c.validateModel(); err != nil {
			return c, err
		}
	} else if a, err := backbone.ParseArch(c.Arch); err != nil {
		return c, err
	} else {
		c.Arch = string(a)
	}
	if c.WeightsDigest = ""; c.Weights != Pretrained {
		return c, nil
	}
	if c.weightsFile != "" {
		raw, err := c.pretrained()
		if err != nil {
			return c, err
		}
		store := model.NewStore()
		defer store.Finalize()
		if err := c.loadStart(raw, store); err != nil {
			return c, fmt.Errorf("%s: %w", c.weightsFile, err)
		}
	} else if c.Model != "" && c.NetworkFile == "" {
		return c, fmt.Errorf("there are no pretrained weights of the model %s: use %s, or the path of a safetensors file",
			c.Model, Random)
	}
	c.WeightsDigest, err = c.StartDigest()
	return c, err
}

// loadStart sets weights from a safetensors file: all but those of the last layer of a backbone or of the network of a
// file. It creates the variables that the store lacks.
func (c Config) loadStart(raw []byte, store *model.Store) error {
	switch {
	case c.NetworkFile != "":
		n, err := c.opened()
		if err == nil {
			err = n.Init(store, nil)
		}
		if err != nil {
			return err
		}
		return backbone.DecodeVariables(raw, store, n.Variables(), 0, 0)
	case c.model != nil:
		return c.model.decode(raw, store, 0)
	}
	_, err := backbone.DecodeWeights(raw, store, backbone.LoadOptions{Arch: backbone.Arch(c.Arch), WithoutHead: true})
	return err
}

// WeightsPath returns the path of the file given to [Config.WithStart], or "" without one.
func (c Config) WeightsPath() string { return c.weightsFile }

// StartDigest returns the digest of the pretrained weights that the config starts from, as they are on this machine
// now.
func (c Config) StartDigest() (string, error) {
	return weights.Digest(backbone.Arch(c.Arch), cmp.Or(c.weightsFile, c.NetworkFile))
}

// pretrained returns the weights that a config with [Pretrained] starts from, as a safetensors file.
func (c Config) pretrained() (raw []byte, err error) {
	return weights.Read(backbone.Arch(c.Arch), cmp.Or(c.weightsFile, c.NetworkFile))
}

package train

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/internal/query"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// Head is a small network from frozen features to embeddings. [ParseHead] reads one from text.
type Head struct {
	// Hidden is the number of units of the hidden layer, with ReLU behind it; 0 for a linear layer alone.
	Hidden int
	// Start is [ChosenStart] or "", as [Config].HeadStart.
	Start string
}

const linearHead, mlpHead, mlpHidden, maxHidden = "linear", "mlp", 512, 1 << 14

// ParseHead reads a head: "linear", of which start and training are chosen on classes held out, "linear?start=random",
// or "mlp?hidden=256" with one hidden layer, of 512 units by default, which starts at random.
func ParseHead(text string) (Head, error) {
	name, options, asked := strings.Cut(text, "?")
	h := Head{}
	var known []query.Option
	switch name {
	case linearHead:
		h.Start = ChosenStart
		known = []query.Option{{Name: "start", Text: func(value string) error {
			switch value {
			case ChosenStart:
			case randomStart:
				h.Start = ""
			default:
				return fmt.Errorf("want %s or %s", ChosenStart, randomStart)
			}
			return nil
		}}}
	case mlpHead:
		h.Hidden = mlpHidden
		known = []query.Option{{Name: "hidden", Text: func(value string) (err error) {
			if h.Hidden, err = strconv.Atoi(value); err != nil || h.Hidden < 1 || h.Hidden > maxHidden {
				return fmt.Errorf("want a whole number from 1 to %d", maxHidden)
			}
			return nil
		}}}
	default:
		return h, fmt.Errorf("head %q: there is no %q; there are %s and %s, as in %s?hidden=256", text, name, linearHead,
			mlpHead, mlpHead)
	}
	if !asked {
		return h, nil
	}
	if err := query.Read("option", options, known); err != nil {
		return h, fmt.Errorf("head %q: %w", text, err)
	}
	return h, nil
}

// randomStart is the start of a linear head in its text form, "" in a config: that of former versions.
const randomStart = "random"

// String returns the canonical text, which [ParseHead] reads.
func (h Head) String() string {
	if h.Hidden == 0 && h.Start == "" {
		return linearHead + "?start=" + randomStart
	}
	return h.layersText()
}

// layersText is what [Config].Head says of the head: its layers, not its start.
func (h Head) layersText() string {
	switch h.Hidden {
	case 0:
		return linearHead
	case mlpHidden:
		return mlpHead
	}
	return mlpHead + "?hidden=" + strconv.Itoa(h.Hidden)
}

// head returns the head of a config, which has one.
func (c Config) head() (Head, error) {
	h, err := ParseHead(c.Head)
	h.Start = c.HeadStart
	return h, err
}

// WithHead returns the config with a head on frozen features in place of a backbone, as [ParseHead] reads it.
func (c Config) WithHead(text string) (Config, error) {
	h, err := ParseHead(text)
	if err != nil {
		return c, err
	}
	c.Arch, c.Weights, c.WeightsDigest, c.weightsFile = "", Random, "", ""
	c.Model, c.model, c.Head, c.HeadStart, c.Pad = "", nil, h.layersText(), h.Start, 0
	return c.withoutNetwork(), nil
}

// Network returns the network in a few words: its backbone, "head linear", or the model of the user's own.
func (c Config) Network() string {
	if h, err := c.head(); c.Head != "" && err == nil {
		return "head " + h.String()
	}
	if name, digest, found := strings.Cut(c.Model, "#"); found && len(digest) > 12 {
		return name + "#" + digest[:12]
	}
	return cmp.Or(c.Arch, c.Model)
}

// withHeadFor returns the config with the network of its head for the features of a data set, if it has a head.
func (c Config) withHeadFor(data *samples.Data) (Config, error) {
	if c.Head == "" {
		return c, nil
	}
	shape := data.Train.Shape()
	if shape.Rank() != 1 {
		return c, fmt.Errorf("%s: samples have the shape %v, but the head %s takes features, [features]", data.Name,
			shape.Dimensions, c.Head)
	}
	h, err := c.head()
	if err != nil {
		return c, err
	}
	if c.HeadStart != "" && c.Dim > shape.Dim(0) {
		return c, fmt.Errorf("%s has %d features: want a head of at most as many dimensions, not %d", data.Name, shape.Dim(0),
			c.Dim)
	}
	c.model = h.network(shape.Dim(0), c.Dim)
	return c, nil
}

// layer is a linear layer as PyTorch's: weight [out, in] and bias [out].
type layer struct {
	name    string
	in, out int
}

func (h Head) layers(features, dim int) []layer {
	if h.Hidden == 0 {
		return []layer{{"fc", features, dim}}
	}
	return []layer{{"fc1", features, h.Hidden}, {"fc2", h.Hidden, dim}}
}

// network returns the head as a model. Its variables have the names and layouts of PyTorch's Linear.
func (h Head) network(features, dim int) *ownModel {
	layers := h.layers(features, dim)
	m := &ownModel{dim: dim, identity: fmt.Sprintf("head %s %d %d", h.layersText(), features, dim)}
	m.Name, m.Input = "head", []int{features}
	for _, l := range layers {
		m.paths = append(m.paths, "/"+l.name+"/bias", "/"+l.name+"/weight")
	}
	m.Embed = func(scope *model.Scope, x *Node, _ backbone.Pass) *Node {
		for i, l := range layers {
			if i > 0 {
				x = backbone.ReLU(x)
			}
			x = backbone.Linear(scope.At("%s", l.name), x)
		}
		return x
	}
	m.draw = func(store *model.Store, seed uint64) error {
		for _, l := range layers {
			if err := l.draw(store, seed); err != nil {
				return err
			}
		}
		return nil
	}
	return m
}

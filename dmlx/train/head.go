package train

import (
	"cmp"
	"fmt"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/heads"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// head returns the head of a config, which has one.
func (c Config) head() (heads.Head, error) {
	h, err := heads.Parse(c.Head)
	h.Start = c.HeadStart
	return h, err
}

// WithHead returns the config with a head on frozen features in place of a backbone, as [heads.Parse] reads it.
func (c Config) WithHead(text string) (Config, error) {
	h, err := heads.Parse(text)
	if err != nil {
		return c, err
	}
	c = c.withoutNetwork()
	c.Weights, c.WeightsDigest, c.weightsFile = Random, "", ""
	c.Head, c.HeadStart, c.Pad = h.Layers(), h.Start, 0
	return c, nil
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

// withHeadFor returns the config with the network of its head for the features of a data set.
func (c Config) withHeadFor(data *samples.Data) (Config, error) {
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
	c.model = headModel(h, shape.Dim(0), c.Dim)
	return c, nil
}

// headModel returns a head as a model.
func headModel(h heads.Head, features, dim int) *ownModel {
	m := &ownModel{dim: dim, identity: h.Identity(features, dim), paths: h.Variables()}
	m.Name, m.Input = "head", []int{features}
	m.Embed = func(scope *model.Scope, x *Node, _ backbone.Pass) *Node { return h.Embed(scope, x) }
	m.draw = func(store *model.Store, seed uint64) error { return h.Init(store, features, dim, seed) }
	return m
}

package train

import (
	"cmp"
	"context"
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/heads"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// Reference is what a training is held against: the test set by features that were there before it.
type Reference struct {
	Name string `json:"name"` // "features", or "whitened features".
	Measures
}

// References measures the test set of a training by its features, see [heads.References]: those of its data, or,
// for images, what its network gives before the last layer with the weights that it starts from, computed on one
// device. Of the training it takes Config, Data and HeldOut.
func (t *Trainer) References(ctx context.Context, of Training) (out []Reference, err error) {
	without, err := samples.HeldOut(of.Data.Train.Labels(), of.HeldOut)
	if err != nil {
		return nil, err
	}
	measure := func(data *samples.Data) error {
		all, err := heads.References(ctx, t.Backend, data, without)
		if err != nil {
			return err
		}
		out = make([]Reference, len(all))
		for i, r := range all {
			out[i].Name = r.Name
			if err := out[i].measure(ctx, t, r.Queries, r.Gallery); err != nil {
				return fmt.Errorf("test set of %s: %w", data.Name, err)
			}
		}
		return nil
	}
	if of.Data.Train.Shape().Rank() > 1 {
		err = t.onFeatures(ctx, of, measure)
	} else {
		err = measure(of.Data)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// onFeatures calls do with the data set of what a network gives for images before its last layer, with its initial
// weights, computed on one device while do reads it, from what is kept of it where something is.
func (t *Trainer) onFeatures(ctx context.Context, of Training, do func(*samples.Data) error) error {
	one := New(t.Choice).Keeping(t.keepBytes)
	defer one.Close()
	of, done, err := one.divided(ctx, of)
	if err != nil {
		return err
	}
	defer done()
	k, err := one.upToLast(ctx, of)
	if err != nil {
		return err
	}
	defer k.close()
	return do(k.features())
}

// upToLast returns what computes a network up to its last layer, with its initial weights.
func (t *Trainer) upToLast(ctx context.Context, of Training) (*keeper, error) {
	c, data, err := of.prepared(of.Data)
	if err != nil {
		return nil, err
	}
	if c.Arch == "" && c.NetworkFile == "" {
		return nil, fmt.Errorf("%s has no features: want a backbone, or the network of a file", c.Network())
	}
	cut := c.tail
	if tail := cut; tail != nil {
		cut = &split{name: "after " + tail.name, body: func(scope *model.Scope, kept *Node) *Node {
			return tail.tail(scope, kept, backbone.Pass{})
		}}
		cut.width, err = c.FeatureWidth()
	} else {
		c.LoRA = "" // Its matrices are not there before the training.
		cut, err = c.splitBy(data.Train.Shape().Dim(0), func(string) bool { return false })
	}
	if err != nil || cut == nil {
		return nil, cmp.Or(err, fmt.Errorf("the features of %s are none for each image", c.Network()))
	}
	c.tail = cut
	return &keeper{ctx: ctx, trainer: t, training: of, config: c, data: data, cut: cut}, nil
}

// features returns the data set of what the network gives for the images.
func (k *keeper) features() *samples.Data {
	out := *k.data
	out.Scale, out.Shift = nil, nil
	for _, of := range []*samples.Split{&out.Train, &out.Test, &out.Gallery} {
		if *of != nil {
			*of = &bodySamples{*of, k}
		}
	}
	return &out
}

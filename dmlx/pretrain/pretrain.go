// Package pretrain computes features of images by the small network. Its tests have the recipe of the weights that the
// network starts from: cross-entropy, before any metric learning.
package pretrain

import (
	"context"
	"fmt"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// Features returns the features, [N, F], of the training and the test images of a data set by the small network with
// the given weights, for a head to be trained on; see [samples.Features]. The images are 32 × 32 pixels. Test features
// have no gallery: where images have one, it is part of the test set, whose images are all ranked against each other.
func Features(
	ctx context.Context, choice *backend.Choice, weights []byte, set *datasets.Set,
) (training, test *samples.Array, err error) {
	images := samples.Images(set)
	if training, err = features(ctx, choice, weights, images, images.Train); err == nil {
		test, err = features(ctx, choice, weights, images, images.Test)
	}
	if err != nil || images.Gallery == nil {
		return training, test, err
	}
	gallery, err := features(ctx, choice, weights, images, images.Gallery)
	if err == nil {
		test.Values, test.Classes = append(test.Values, gallery.Values...), slices.Concat(test.Classes, gallery.Classes)
	}
	return training, test, err
}

// features returns the features of a split of images by the small network with the given weights.
func features(
	ctx context.Context, choice *backend.Choice, weights []byte, images *samples.Data, of samples.Split,
) (out *samples.Array, err error) {
	defer errs.Catch(&err)
	store := model.NewStore()
	defer store.Finalize()
	const arch, rows = backbone.Small, 128
	if _, err := backbone.DecodeWeights(weights, store, backbone.LoadOptions{Arch: arch, WithoutHead: true}); err != nil {
		return nil, err
	}
	exec, err := model.NewExec(choice.Backend, store, func(scope *model.Scope, pixels, colors *Node) *Node {
		return arch.Features(scope, samples.Scaled(pixels, colors), backbone.Pass{})
	})
	if err != nil {
		return nil, err
	}
	defer exec.Finalize()
	out = &samples.Array{Dims: []int{arch.Width()}, Classes: of.Labels()}
	one := int(of.Shape().ByteSize())
	raw := make([]byte, rows*one)
	for some := range slices.Chunk(samples.All(of), rows) {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("stopped while images were embedded: %w", ctx.Err())
		}
		if err := of.Read(raw[:len(some)*one], some, nil); err != nil {
			return nil, err
		}
		pixels := tensors.FromFlatDataAndDimensions(raw, append([]int{rows}, of.Shape().Dimensions...)...)
		embedded, err := exec.Call1(pixels, images.Affine())
		if err != nil {
			return nil, err
		}
		out.Values = append(out.Values, graphs.Floats(embedded)[:len(some)*arch.Width()]...)
	}
	return out, nil
}

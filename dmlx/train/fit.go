package train

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomlx/compute/dtypes"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// Fitted is the result of [Fit].
type Fitted struct {
	Config   Config // With the defaults that were filled in.
	Measures        // Of the test set.
	Epochs   []Epoch
	// Test are the normalized embeddings of the test set, nil if the training diverged to NaN or Inf, and Weights are
	// those of the network, a safetensors file.
	Test    *retrieval.Embeddings
	Weights []byte
}

// Fit trains a network on a data set in memory, evaluates it and keeps nothing on disk. Fields of the config that are
// zero have defaults: the rule cos/con/con; a linear head for features, and the small backbone with its pretrained
// weights for images; embeddings of 64 dimensions, batches of 8 × 8 samples, or of what the classes have, 10 epochs of
// 30 steps and the learning rate 0.3. Train models and losses of your own by [Config.WithModel] and
// [objectives.ByLoss]. progress may be nil.
//
// It opens the backend that [Open] chooses. A Fit that ctx ends returns no part of the training and cannot go on: the
// next one begins anew. Package runs keeps trainings, resumes them and reads them again; [Training] says how a
// [Trainer] does.
func Fit(ctx context.Context, data *samples.Data, c Config, progress func(Progress)) (*Fitted, error) {
	if err := data.Check(); err != nil {
		return nil, err
	}
	c, err := c.withDefaults(data)
	if err != nil {
		return nil, err
	}
	for _, err := range []error{c.Validate(), c.HasTriplets(), c.Fits(data, 0)} {
		if err != nil {
			return nil, err
		}
	}
	trainer, err := Open()
	if err != nil {
		return nil, err
	}
	defer trainer.Close()
	dir, err := os.MkdirTemp("", "dmlx-fit-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out, err := trainer.Train(ctx, Training{Config: c, ID: "fit", Data: data, Dir: dir, Progress: progress})
	if err := ctx.Err(); out == nil && err != nil { // Whose own sentence would say that the run resumes.
		return nil, fmt.Errorf("stopped, and nothing of the training is kept: %w", err)
	}
	if err != nil {
		return nil, err
	}
	checkpoint, err := ReadCheckpoint(dir)
	if err != nil {
		return nil, err
	}
	fitted := &Fitted{Config: c, Measures: out.Measures, Epochs: checkpoint.Epochs}
	if fitted.Weights, err = durable.ReadFile(filepath.Join(dir, CheckpointDir, checkpoint.Weights)); err != nil {
		return nil, err
	}
	if out.Files[EmbeddingsFile] == "" {
		return fitted, nil
	}
	values, shape, err := npy.ReadFloat32(filepath.Join(dir, EmbeddingsFile))
	if err != nil {
		return nil, err
	}
	fitted.Test = &retrieval.Embeddings{Values: values, Dim: shape[1], Labels: data.Test.Labels()}
	return fitted, nil
}

// withDefaults fills in the fields that are zero.
func (c Config) withDefaults(data *samples.Data) (_ Config, err error) {
	if c.Rule == "" && c.Loss == "" {
		if c.Objective, err = objectives.ByRule(dmlx.Rule{}); err != nil {
			return c, err
		}
	}
	shape := data.Train.Shape()
	switch {
	case c.Arch != "" || c.Model != "" || c.Head != "":
	case shape.Rank() == 1:
		c, err = c.WithHead("linear?start=random")
	case shape.DType == dtypes.Uint8:
		c.Pad = cmp.Or(c.Pad, 2)
		c, err = c.WithStart(string(backbone.Small), cmp.Or(c.Weights, Pretrained))
	default:
		err = fmt.Errorf("%s: samples of shape %s have no default network: want Config.WithModel", data.Name, shape)
	}
	if err != nil {
		return c, err
	}
	count := make(map[int64]int)
	largest := 0
	for _, label := range data.Train.Labels() {
		count[label]++
		largest = max(largest, count[label])
	}
	c.Dim = cmp.Or(c.Dim, 64)
	c.ClassesPerBatch = cmp.Or(c.ClassesPerBatch, min(8, len(count)))
	c.ImagesPerClass = cmp.Or(c.ImagesPerClass, min(8, largest))
	c.Epochs, c.StepsPerEpoch = cmp.Or(c.Epochs, 10), cmp.Or(c.StepsPerEpoch, 30)
	c.LR = cmp.Or(c.LR, 0.3)
	return c, nil
}

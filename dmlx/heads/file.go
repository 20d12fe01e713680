package heads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// Trained is the head of a weight file: from features [N, Features], as they were given to the training, to
// embeddings [N, Dim] of length 1. [Read] reads one.
type Trained struct {
	Features, Dim int
	head          Head
	weights       []byte
	data          samples.Data // With what features are multiplied by, and what is added then.
	meta          map[string]string
}

// Read reads the weights of a head that was trained on features, a safetensors file. It returns nil for the weights
// of another network.
func Read(weights []byte) (*Trained, error) {
	meta, err := backbone.Metadata(weights)
	if err != nil {
		return nil, err
	}
	var text string
	t := &Trained{weights: weights, meta: meta}
	if n, _ := fmt.Sscanf(meta["model"], "head %s %d %d", &text, &t.Features, &t.Dim); n != 3 {
		return nil, nil
	}
	if t.head, err = parse(text, ""); err != nil {
		return nil, fmt.Errorf("metadata model: %w", err)
	}
	for _, l := range t.head.layers(t.Features, t.Dim) { // Before memory is taken for them.
		if most := len(weights) / 4; l.in < 1 || l.out < 1 || l.in > most || l.out > most/l.in {
			return nil, fmt.Errorf("metadata model %q: the file is too short for a layer of %d × %d weights", meta["model"],
				l.out, l.in)
		}
	}
	if err := t.readScale(); err != nil {
		return nil, err
	}
	store, err := t.variables()
	if err != nil {
		return nil, err
	}
	store.Finalize()
	return t, nil
}

// variables returns the weights as the network takes them. The caller finalizes them.
func (t *Trained) variables() (*model.Store, error) {
	store := model.NewStore()
	err := t.head.Init(store, t.Features, t.Dim, 1)
	if err == nil {
		err = backbone.DecodeVariables(t.weights, store, t.head.Variables(), 0, t.Dim)
	}
	if err != nil {
		store.Finalize()
	}
	return store, err
}

// readScale reads what [samples.Features] wrote into the metadata; a data set of another origin has nothing there.
func (t *Trained) readScale() error {
	text, there := t.meta["feature_mean"]
	if !there {
		return nil
	}
	var mean []float64
	if err := json.Unmarshal([]byte(text), &mean); err != nil || len(mean) != t.Features {
		return fmt.Errorf("metadata feature_mean: want the means of %d features, as a JSON array", t.Features)
	}
	std, err := strconv.ParseFloat(t.meta["feature_std"], 64)
	if err != nil || !(std > 0) || math.IsInf(std, 0) {
		return fmt.Errorf("metadata feature_std %q: want a number above 0", t.meta["feature_std"])
	}
	t.data.Standardize(mean, std)
	return nil
}

// ONNX returns the head as an ONNX file, from "features", float32 [N, Features], as they were given to the training, to
// "embeddings", float32 [N, Dim].
func (t *Trained) ONNX() ([]byte, error) {
	meta := map[string]string{}
	for _, key := range []string{"run", "data", "rule", "loss", "head_choice"} {
		if v, there := t.meta[key]; there {
			meta[key] = v
		}
	}
	store, err := t.variables()
	if err != nil {
		return nil, err
	}
	defer store.Finalize()
	var layers []onnx.Linear
	var skip *onnx.Linear
	for _, l := range t.head.layers(t.Features, t.Dim) {
		value := func(name string) []float32 {
			return tensors.MustCopyFlatData[float32](store.GetVariable("/" + l.name + "/" + name).MustValue())
		}
		layers = append(layers, onnx.Linear{Name: l.name, Weight: value("weight"), Bias: value("bias")})
	}
	if t.head.adds() {
		skip, layers = &layers[0], layers[1:]
	}
	return onnx.WriteLayers(t.Features, t.data.Scale, t.data.Shift, skip, layers, meta)
}

// Embed returns the embeddings [n, Dim] of features [n, Features]. It returns an error if one is not finite, or if
// features are so far from those of the training that float32 does not hold their squares.
func (t *Trained) Embed(ctx context.Context, b compute.Backend, features []float32) (out []float32, err error) {
	defer errs.Catch(&err)
	if len(features)%t.Features != 0 {
		return nil, fmt.Errorf("%d values: want rows of %d features", len(features), t.Features)
	}
	for i, v := range features {
		if j := i % t.Features; t.data.Scale != nil && math.Abs(float64(v*t.data.Scale[j]+t.data.Shift[j])) > 1e15 {
			return nil, fmt.Errorf("row %d, column %d is %g, and the standard deviation of the features of the training is "+
				"%.3g: want features of the same scale", i/t.Features, j, v, 1/t.data.Scale[j])
		}
	}
	store, err := t.variables()
	if err != nil {
		return nil, err
	}
	defer store.Finalize()
	exec, err := model.NewExec(b, store, func(scope *model.Scope, x, affine *Node) *Node {
		return dmlx.Normalize(t.head.Embed(scope, samples.Scaled(x, affine)))
	})
	if err != nil {
		return nil, err
	}
	defer exec.Finalize()
	const embedRows = 128 // At once, so that one compiled graph serves all.
	chunk := make([]float32, embedRows*t.Features)
	for len(features) > 0 {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		n := copy(chunk, features)
		clear(chunk[n:])
		features = features[n:]
		embedded, err := exec.Call1(tensors.FromFlatDataAndDimensions(chunk, embedRows, t.Features), t.data.Affine())
		if err != nil {
			return nil, err
		}
		rows := tensors.MustCopyFlatData[float32](embedded)[:n/t.Features*t.Dim]
		embedded.MustFinalizeAll()
		for i, v := range rows {
			if v-v != 0 {
				return nil, fmt.Errorf("row %d: its embedding is not finite: want finite features", len(out)/t.Dim+i/t.Dim)
			}
		}
		out = append(out, rows...)
	}
	if len(out) == 0 {
		return nil, errors.New("no features: want at least one row")
	}
	return out, nil
}

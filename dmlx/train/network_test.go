package train

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/samples"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

const testNetwork = "../onnx/testdata/efficientnet_lite0.onnx"

// networkConfig is a short training of the network of a file.
func networkConfig(t *testing.T, file string) Config {
	t.Helper()
	c, err := tinyConfig().WithNetwork(file)
	if err != nil {
		t.Fatal(err)
	}
	c.Dim, c.Pad = 8, 0
	o := c.Options
	o.Augment = "flip"
	if c, err = c.WithOptions(o); err != nil {
		t.Fatal(err)
	}
	return c
}

func networkData(t *testing.T, size int) *samples.Data {
	t.Helper()
	set, err := datasets.Open("minicar", datasets.Options{Size: size, TrainClasses: 4, TestClasses: 3})
	if err != nil {
		t.Fatal(err)
	}
	return samples.Images(set)
}

// TestNetwork trains the network of a file on each backend: whole, in part, in micro-batches, in bfloat16, and again
// from its checkpoint.
func TestNetwork(t *testing.T) {
	data := networkData(t, 32)
	for _, tr := range trainers() {
		for name, change := range map[string]func(c *Config){
			"whole":       func(*Config) {},
			"part":        func(c *Config) { c.TrainOnly, c.HeadLR = `blocks\.3|conv_head`, 0.02 },
			"frozen":      func(c *Config) { c.TrainOnly, c.FreezeBN = "fc", FreezeStatistics },
			"micro-batch": func(c *Config) { c.MicroBatch = 2 },
			"bf16":        func(c *Config) { c.Precision = BFloat16 },
			"freeze":      func(c *Config) { c.Freeze, c.Optimizer = `conv_stem|bn`, "adamw"; c.LR = 0.001 },
		} {
			t.Run(tr.Name+"/"+name, func(t *testing.T) {
				if testing.Short() && tr.Name != "go" {
					t.Skip("XLA takes seconds to compile it")
				}
				c := networkConfig(t, testNetwork)
				change(&c)
				if err := c.Validate(); err != nil {
					t.Fatal(err)
				}
				if err := c.Fits(data, 0); err != nil {
					t.Fatal(err)
				}
				tn := Training{Config: c, ID: "own", Data: data, Dir: t.TempDir()}
				out, err := tr.Train(t.Context(), tn)
				if err != nil {
					t.Fatal(err)
				}
				if out.Recall == nil || out.Diverged != "" {
					t.Errorf("%+v", out.Measures)
				}
				before, after := networkStores(t, c, data, tn.Dir)
				p, _ := c.part()
				for _, v := range backbone.Trainable(before) {
					old, new := tensors.MustCopyFlatData[float32](v.MustValue()),
						tensors.MustCopyFlatData[float32](after.GetVariable(v.Path()).MustValue())
					weight := backbone.TensorName(v.Path())
					// Normalization behind a convolution takes biases in front of it away.
					if trained, same := p.trains(weight), slices.Equal(old, new); same == trained &&
						!(same && strings.HasSuffix(weight, "bias")) {
						t.Errorf("%s: trained %v, changed %v", weight, trained, !same)
					}
				}
				file, dim, crop, err := weights.ExportNetwork(testNetwork, encoded(t, tn.Dir), true)
				if err != nil || dim != 8 || crop != 32 {
					t.Fatal(dim, crop, err)
				}
				if out, err := onnx.Read(file); err != nil || out.Width != 8 {
					t.Errorf("the trained network cannot be read: %v", err)
				}
				again, err := tr.Embed(t.Context(), c, encoded(t, tn.Dir), data, data.Test, samples.All(data.Test))
				if err != nil {
					t.Fatal(err)
				}
				first, _, err := npy.ReadFloat32(filepath.Join(tn.Dir, EmbeddingsFile))
				if err != nil || len(first) != len(again.Values) {
					t.Fatalf("%d embeddings, want %d (%v)", len(again.Values), len(first), err)
				}
				// Training computes the frozen part by itself, in other batches, so that products may be rounded otherwise.
				for i := range first {
					if math.Abs(float64(first[i]-again.Values[i])) > 1e-6 {
						t.Fatalf("value %d of the embeddings is %g, from the checkpoint %g", i, first[i], again.Values[i])
					}
				}
			})
		}
	}
}

func encoded(t *testing.T, dir string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, CheckpointDir, "weights-003.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// networkStores returns the initial weights of a training and those of its last checkpoint.
func networkStores(t *testing.T, c Config, data *samples.Data, dir string) (before, after *model.Store) {
	t.Helper()
	c, _, err := c.prepared(data)
	if err != nil {
		t.Fatal(err)
	}
	before, after = model.NewStore(), model.NewStore()
	if err := errors.Join(c.model.initialize(before, c.Seed), c.model.decode(encoded(t, dir), after, 0)); err != nil {
		t.Fatal(err)
	}
	return before, after
}

// TestNetworkRefused checks that what a network of a file cannot do is refused before a step.
func TestNetworkRefused(t *testing.T) {
	for want, change := range map[string]func(c *Config) error{
		"matches none":        func(c *Config) error { c.TrainOnly = "layer4"; return c.Validate() },
		"regular expression":  func(c *Config) error { c.Freeze = "("; return c.Validate() },
		"weights of the file": func(c *Config) error { c.Weights = Random; return c.Validate() },
		"residual networks":   func(c *Config) error { c.Recompute = true; return c.Validate() },
		"no such file":        func(c *Config) (err error) { *c, err = c.WithNetwork("missing.onnx"); return err },
		"not an ONNX file":    func(c *Config) (err error) { *c, err = c.WithNetwork("config.go"); return err },
		"another SHA-256": func(c *Config) error {
			c.NetworkFile = "../onnx/testdata/vit_tiny.onnx"
			return c.Validate()
		},
		"no batch normalization to freeze: leave freeze_bn out": func(c *Config) error {
			*c = networkConfig(t, "../onnx/testdata/vit_tiny.onnx")
			c.FreezeBN = FreezeStatistics
			return c.Validate()
		},
		"exported for 32 × 32": func(c *Config) error { return c.Fits(networkData(t, 24), 0) },
		"embeds images":        func(c *Config) error { return c.Fits(vectors(t), 0) },
	} {
		c := networkConfig(t, testNetwork)
		if err := change(&c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func vectors(t *testing.T) *samples.Data {
	t.Helper()
	a := &samples.Array{Values: []float32{1, 2, 3, 4, 5, 6, 7, 8}, Dims: []int{2}, Classes: []int64{0, 0, 1, 1}}
	d, err := samples.Arrays("vectors", a, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

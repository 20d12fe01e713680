package train

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"

	_ "github.com/gradient-surgery/dml/dmlx/backend/xla"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// perceptron is a network of a user's own, by GoMLX's layers and one variable of its own, with dropout.
func perceptron(input []int, hidden, dim int, drop float64) Model {
	return Model{Name: "perceptron", Input: input, Embed: func(scope *model.Scope, x *Node, _ backbone.Pass) *Node {
		x = Reshape(x, x.Shape().Dim(0), -1)
		x = Tanh(layers.Dense(scope.In("hidden"), x, true, hidden))
		if drop > 0 {
			x = layers.DropoutStatic(scope, x, drop)
		}
		w := scope.VariableWithShape("out", shapes.Make(dtypes.Float32, hidden, dim))
		return MatMul(x, w.NodeValue(x))
	}}
}

// blobs are points around the centers of classes.
func blobs(classes, perClass, dim int, seed uint64) *samples.Array {
	rng := rand.New(rand.NewPCG(seed, 1))
	a := &samples.Array{Dims: []int{dim}}
	for c := range classes {
		center := make([]float32, dim)
		for j := range center {
			center[j] = float32(rng.NormFloat64())
		}
		for range perClass {
			for j := range dim {
				a.Values = append(a.Values, center[j]+0.3*float32(rng.NormFloat64()))
			}
			a.Classes = append(a.Classes, int64(c)<<40-7) // Any int64 is a label.
		}
	}
	return a
}

// A model function of the user's trains on images and on arrays by the same trainer, on each backend, and resumes to
// the same weights.
func TestTrainOwnModel(t *testing.T) {
	set, err := datasets.Open("minicar", datasets.Options{Size: 16, TrainClasses: 4, TestClasses: 3})
	if err != nil {
		t.Fatal(err)
	}
	features, err := samples.Arrays("blobs", blobs(6, 5, 7, 1), blobs(4, 5, 7, 2))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range trainers() {
		for _, d := range []struct {
			data  *samples.Data
			model Model
			micro int
		}{
			{samples.Images(set), perceptron([]int{16, 16, 3}, 12, 8, 0.2), 0},
			{features, perceptron([]int{7}, 12, 8, 0.2), 0},
			{features, perceptron([]int{7}, 12, 8, 0), 2},
		} {
			t.Run(c.Name+" "+d.data.Name, func(t *testing.T) {
				t.Parallel()
				config := tinyConfig()
				config.MicroBatch = d.micro
				config, err := config.WithModel(d.model)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(config.Validate(), config.Fits(d.data, 0)); err != nil {
					t.Fatal(err)
				}
				straight := Training{Config: config, ID: "own", Data: d.data, Dir: t.TempDir()}
				out, err := c.Train(t.Context(), straight)
				if err != nil {
					t.Fatal(err)
				}
				if out.Recall[1] == 0 || out.Diverged != "" {
					t.Errorf("%+v", out.Measures)
				}
				stopped := straight
				stopped.Dir = t.TempDir()
				ctx, cancel := context.WithCancel(t.Context())
				stopped.Progress = func(p Progress) {
					if p.Step == config.StepsPerEpoch+1 {
						cancel()
					}
				}
				if _, err := c.Train(ctx, stopped); !errors.Is(err, context.Canceled) {
					t.Fatalf("not stopped: %v", err)
				}
				stopped.Progress = nil
				if _, err := c.Train(t.Context(), stopped); err != nil {
					t.Fatal(err)
				}
				for _, file := range []string{EmbeddingsFile, LabelsFile, filepath.Join(CheckpointDir,
					"weights-003.safetensors")} {
					a, errA := os.ReadFile(filepath.Join(straight.Dir, file))
					b, errB := os.ReadFile(filepath.Join(stopped.Dir, file))
					if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
						t.Errorf("%s differs after an interruption: %v", file, err)
					}
				}
			})
		}
	}
}

// A step of SGD on a model of the user's own moves its weights against the gradient that finite differences of its
// embeddings, times the rule's gradient, give, on the Go backend and on XLA.
func TestGradientsOfOwnModel(t *testing.T) {
	a := blobs(4, 3, 5, 3)
	own, err := newOwnModel(perceptron([]int{5}, 6, 4, 0))
	if err != nil {
		t.Fatal(err)
	}
	config := tinyConfig()
	config.Rule = "cos-orth/lin-ms/cir"
	obj, err := newObjective(config, 4)
	if err != nil {
		t.Fatal(err)
	}
	labels := make([]int32, 12)
	for i := range labels {
		labels[i] = int32(i / 3)
	}
	for _, c := range bothTrainers() {
		store := model.NewStore()
		if err := own.initialize(store, 3); err != nil {
			t.Fatal(err)
		}
		before := make(map[string][]float32)
		for _, path := range own.paths {
			before[path] = variableOf(t, store, path)
		}
		key := stepKey{backend: c.Backend, dim: 4, own: own, model: own.identity}
		embed, err := model.NewExec(c.Backend, store, func(scope *model.Scope, x *Node) *Node {
			return own.embed(scope, x, backbone.Pass{Training: true})
		})
		if err != nil {
			t.Fatal(err)
		}
		x := inputOf(a.Values, 12, 5)
		// L(w) = Σ v · embeddings(w), where v is the gradient of the rule at the embeddings with these weights.
		gradient, err := NewExec(c.Backend, func(raw, labels *Node) *Node {
			return Gradient(newLossGraph(store, obj, raw, batchInputs{labels: labels}).total, raw)[0]
		})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := embed.Call1(x)
		if err != nil {
			t.Fatal(err)
		}
		v := floatsOf(gradient.MustCall(raw, labels)[0])
		value := func() (sum float64) {
			y, err := embed.Call1(x)
			if err != nil {
				t.Fatal(err)
			}
			for i, f := range floatsOf(y) {
				sum += float64(f) * float64(v[i])
			}
			return sum
		}
		want := make(map[string][]float64)
		const h = 1. / 64
		for _, path := range own.paths {
			for i := range before[path] {
				values := append([]float32(nil), before[path]...)
				shifted := func(by float32) float64 {
					values[i] = before[path][i] + by
					setVariable(t, store, path, values)
					return value()
				}
				want[path] = append(want[path], (shifted(h)-shifted(-h))/(2*h))
			}
			setVariable(t, store, path, before[path])
		}
		const rate = 8
		settings := make([]float32, settingsSize)
		settings[networkRate] = rate
		step, err := model.NewExec(c.Backend, store, func(scope *model.Scope, in []*Node) *Node {
			_, out := stepGraph(scope, key, obj, stepInputs{samples: in[0], affine: in[1],
				batchInputs: batchInputs{labels: in[3], settings: in[2]}})
			return out
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := step.Call1(x, (&samples.Data{}).Affine(), settings, labels); err != nil {
			t.Fatal(err)
		}
		largest := 0.
		for _, path := range own.paths {
			for i, after := range variableOf(t, store, path) {
				got := float64(before[path][i]-after) / rate
				largest = max(largest, math.Abs(got))
				if math.Abs(got-want[path][i]) > 2e-4 {
					t.Errorf("%s %s[%d]: a step goes by %.6f, finite differences say %.6f", c.Name, path, i, got, want[path][i])
				}
			}
		}
		if largest < 1e-2 {
			t.Errorf("%s: the largest gradient is %g: the test shows nothing", c.Name, largest)
		}
	}
}

// The identity of a model is that of its graph: the same for the same function, another for any edit.
func TestModelIdentity(t *testing.T) {
	config := tinyConfig()
	identity := func(m Model) string {
		t.Helper()
		c, err := config.WithModel(m)
		if err != nil {
			t.Fatal(err)
		}
		return c.Model
	}
	seen := make(map[string]bool)
	for _, m := range []Model{
		perceptron([]int{7}, 12, 8, 0), perceptron([]int{7}, 12, 9, 0), perceptron([]int{7}, 13, 8, 0),
		perceptron([]int{8}, 12, 8, 0), perceptron([]int{7}, 12, 8, 0.2), perceptron([]int{7}, 12, 8, 0.21),
		{Name: "perceptron", Input: []int{7}, Embed: func(scope *model.Scope, x *Node, _ backbone.Pass) *Node {
			return MulScalar(layers.Dense(scope, x, true, 8), 0.5)
		}},
		{Name: "perceptron", Input: []int{7}, Embed: func(scope *model.Scope, x *Node, _ backbone.Pass) *Node {
			return MulScalar(layers.Dense(scope, x, true, 8), 0.25)
		}},
		{Name: "perceptron", Input: []int{7}, Embed: func(scope *model.Scope, x *Node, _ backbone.Pass) *Node {
			scope = scope.WithInitializer(func(g *Graph, shape shapes.Shape) *Node { return Ones(g, shape) })
			return MulScalar(layers.Dense(scope, x, true, 8), 0.25)
		}},
	} {
		id := identity(m)
		if seen[id] || id != identity(m) || !strings.HasPrefix(id, "perceptron#") {
			t.Errorf("identity %s, again %s, seen %v", id, identity(m), seen[id])
		}
		seen[id] = true
	}
	of := func(embed func(x *Node) *Node) Model {
		return Model{Name: "x", Input: []int{7}, Embed: func(_ *model.Scope, x *Node, _ backbone.Pass) *Node {
			return embed(x)
		}}
	}
	for want, m := range map[string]Model{
		"must not be empty":       {Input: []int{7}},
		"Embed is nil":            {Name: "x", Input: []int{7}},
		"no trainable variables":  of(func(x *Node) *Node { return x }),
		"want float32 [4, dim]":   of(ReduceAllSum),
		"nonsense":                of(func(x *Node) *Node { panic("nonsense") }),
		"want positive dimension": {Name: "x", Input: []int{-7}, Embed: perceptron(nil, 2, 2, 0).Embed},
		"graph, or draws other": {"x", []int{7}, func(scope *model.Scope, x *Node, _ backbone.Pass) *Node {
			return MulScalar(layers.Dense(scope, x, true, 8), rand.Float64())
		}},
	} {
		if _, err := config.WithModel(m); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want …%s…", err, want)
		}
	}
	own, err := config.WithModel(perceptron([]int{7}, 12, 8, 0))
	if err != nil {
		t.Fatal(err)
	}
	if same, err := own.WithStart("small", ""); err != nil || same.Model != "" || same.Validate() != nil {
		t.Errorf("back to a backbone: %+v, %v", same, err)
	}
	stored := own
	stored.model = nil // As it is read from a file.
	if err := stored.Validate(); err == nil || !strings.Contains(err.Error(), "Config.WithModel") {
		t.Errorf("without its function: %v", err)
	}
	if err := stored.WithValuesOf(own).Validate(); err != nil {
		t.Error(err)
	}
	set, err := datasets.Open("minicar", datasets.Options{Size: 16, TrainClasses: 4, TestClasses: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := own.Fits(samples.Images(set), 0); err == nil || !strings.Contains(err.Error(), "takes [7]") {
		t.Errorf("images for a model of features: %v", err)
	}
	features, err := samples.Arrays("blobs", blobs(6, 5, 7, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := config.Fits(features, 0); err == nil || !strings.Contains(err.Error(), "embeds images") {
		t.Errorf("features for a backbone: %v", err)
	}
}

// Initial weights of a file are those of the model alone.
func TestOwnModelStartsFromWeights(t *testing.T) {
	features, err := samples.Arrays("blobs", blobs(6, 5, 7, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := trainers()[0]
	config, err := tinyConfig().WithModel(perceptron([]int{7}, 12, 8, 0))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := c.Train(t.Context(), Training{Config: config, ID: "a", Data: features, Dir: dir}); err != nil {
		t.Fatal(err)
	}
	weights := filepath.Join(dir, CheckpointDir, "weights-003.safetensors")
	next, err := config.WithStart("", weights)
	if err != nil || next.WeightsDigest == "" || next.Validate() != nil {
		t.Fatalf("%+v, %v", next, err)
	}
	next.LR = 1e-30 // Changes nothing.
	if _, err := c.Train(t.Context(), Training{Config: next, ID: "b", Data: features, Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	other, err := tinyConfig().WithModel(perceptron([]int{7}, 13, 8, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.WithStart("", weights); err == nil || !strings.Contains(err.Error(), "want F32 [7 13]") {
		t.Errorf("weights of another model: %v", err)
	}
	if _, err := other.WithStart("", Pretrained); err == nil || !strings.Contains(err.Error(), "no pretrained weights") {
		t.Errorf("pretrained: %v", err)
	}
}

func TestArrays(t *testing.T) {
	good := blobs(3, 4, 2, 1)
	for want, c := range map[string][2]*samples.Array{
		"do not fit 11 labels": {{Values: good.Values, Dims: good.Dims, Classes: good.Classes[1:]}},
		"of one class":         {blobs(1, 4, 2, 1)},
		"no training samples":  {{Dims: []int{2}}},
		"want the same":        {good, blobs(3, 4, 3, 1)},
		"want finite values":   {good, {Values: []float32{1, nan(), 1, 2}, Dims: []int{2}, Classes: []int64{1, 1}}},
		"positive dimensions":  {{Values: good.Values, Dims: []int{-2}, Classes: good.Classes}},
	} {
		if _, err := samples.Arrays("a", c[0], c[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want …%s…", err, want)
		}
	}
}

func nan() float32 { return float32(math.NaN()) }

func inputOf(values []float32, dims ...int) *tensors.Tensor {
	return tensors.FromFlatDataAndDimensions(values, dims...)
}

func floatsOf(x *tensors.Tensor) []float32 { return tensors.MustCopyFlatData[float32](x) }

func setVariable(t *testing.T, store *model.Store, path string, values []float32) {
	t.Helper()
	v := store.GetVariable(path)
	if err := v.SetValue(inputOf(values, v.Shape().Dimensions...)); err != nil {
		t.Fatal(err)
	}
}

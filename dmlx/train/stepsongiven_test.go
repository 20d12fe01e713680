package train

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// Steps on the batches of a training end at its weights, bit by bit. The weights carry the preprocessing.
func TestStepsEndAtTheWeightsOfTraining(t *testing.T) {
	spec := tinyConfig()
	spec.Epochs = 1 // At one learning rate.
	for _, c := range trainers() {
		set := tinySet(t, 4)
		want := lastWeights(t, trainTiny(t, c, spec, set, 0))
		meta, err := backbone.Metadata(want)
		if err != nil {
			t.Fatal(err)
		}
		p, found, err := backbone.PreprocessingOf(meta)
		if err != nil || !found || p != (backbone.Preprocessing{Resize: 16, Crop: 16, Mean: set.Mean, Std: set.Std}) {
			t.Errorf("%s: preprocessing %v, %v, %v", c.Name, p, found, err)
		}
		for key, want := range map[string]string{
			"run": "tiny", "epoch": "1", "data": "minicar", "rule": "cos/con/con", "dim": "8",
		} {
			if meta[key] != want {
				t.Errorf("%s: metadata %v, want %s = %s", c.Name, meta, key, want)
			}
		}

		sampler, err := newSampler(set.Train.Labels, nil, spec.ClassesPerBatch, spec.ImagesPerClass, spec.Pad, spec.Seed)
		if err != nil {
			t.Fatal(err)
		}
		steps := Steps{
			Arch: backbone.Small, LR: spec.LR, Count: spec.Steps(), Batch: spec.Batch(), Size: 16, Mean: set.Mean, Std: set.Std,
		}
		for i := range spec.Steps() {
			b, err := sampler.load(samples.ImageSplit(set.Train), samples.NumberClasses(set.Train.Labels, nil), i)
			if err != nil {
				t.Fatal(err)
			}
			steps.Pixels = append(steps.Pixels, b.samples...)
			for _, l := range b.labels {
				steps.Labels = append(steps.Labels, int64(l)<<40) // Any int64 is a label.
			}
		}
		start := model.NewStore()
		if err := backbone.Init(start, backbone.Small, spec.Dim, spec.Seed); err != nil {
			t.Fatal(err)
		}
		if steps.Weights, err = backbone.EncodeWeights(start, backbone.Small, nil); err != nil {
			t.Fatal(err)
		}
		end, err := steps.Take(t.Context(), c.Choice)
		if err != nil {
			t.Fatal(err)
		}
		if n := spec.Steps() * spec.Batch() * spec.Dim; end.Dim != spec.Dim || len(end.Embeddings) != n {
			t.Fatalf("%s: %d embeddings of %d dimensions, want %d", c.Name, len(end.Embeddings), end.Dim, n)
		}
		a, b := values(t, end.Weights, spec.Dim), values(t, want, spec.Dim)
		moved := values(t, steps.Weights, spec.Dim)
		for name, v := range b {
			// XLA may fuse a graph with one more output in another way.
			tolerance := 0.0
			if c.Name != "go" {
				tolerance = 1e-5
			}
			for i := range v {
				if d := math.Abs(float64(v[i] - a[name][i])); d > tolerance {
					t.Fatalf("%s: %s[%d] ends at %g, the run's at %g", c.Name, name, i, a[name][i], v[i])
				}
			}
			if slices.Equal(v, moved[name]) {
				t.Errorf("%s: %s has not moved", c.Name, name)
			}
		}
	}
}

// values returns the tensors of the small network in a safetensors file, in GoMLX's layout, by path.
func values(t *testing.T, raw []byte, dim int) map[string][]float32 {
	t.Helper()
	store := model.NewStore()
	defer store.Finalize()
	if _, err := backbone.DecodeWeights(raw, store, backbone.LoadOptions{Arch: backbone.Small, Dim: dim}); err != nil {
		t.Fatal(err)
	}
	out := make(map[string][]float32)
	for v := range store.IterVariables() {
		value, err := v.Value()
		if err != nil {
			t.Fatal(err)
		}
		if out[v.Path()], err = tensors.CopyFlatData[float32](value); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// pytorchSteps is testdata/steps.json: steps in PyTorch, in float64, from [plainWeights]. parity.py --fixture of the
// command writes it.
type pytorchSteps struct {
	Steps, Batch, Size, Dim int
	Mean, Std               [3]float32
	Labels                  []int64
	Cases                   []struct {
		Rule       string
		LR         float64
		Embeddings []float64
		End        map[string][][2]float64 // Of each tensor in PyTorch's layout some indices and values.
	}
}

func readPyTorchSteps(t *testing.T) (f pytorchSteps, s Steps) {
	t.Helper()
	raw, err := os.ReadFile("testdata/steps.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	s = Steps{
		Arch: backbone.Small, LR: 0.1, Count: f.Steps, Batch: f.Batch, Size: f.Size,
		Labels: f.Labels, Mean: f.Mean, Std: f.Std,
	}
	// Noise on 4×4 coarse squares, which are the noise's own corner.
	noise := congruential(2, f.Steps*f.Batch*f.Size*f.Size*3)
	s.Pixels = make([]uint8, len(noise))
	one, row := f.Size*f.Size*3, f.Size*3
	for i := range noise {
		y, x, color := i%one/row, i%row/3, i%3
		square := i/one*one + y/(f.Size/4)*row + x/(f.Size/4)*3 + color
		s.Pixels[i] = uint8(noise[i]>>8/2 + noise[square]>>8/2)
	}
	s.Weights = plainWeights(t, f.Dim)
	return f, s
}

// congruential returns n numbers of 16 bits, the high bits of a linear congruential generator.
func congruential(x uint64, n int) []int {
	out := make([]int, n)
	for i := range out {
		x = (1103515245*x + 12345) % (1 << 31)
		out[i] = int(x >> 15)
	}
	return out
}

// plainWeights returns the weights of parity.py, multiples of a power of two, as a safetensors file.
func plainWeights(t *testing.T, dim int) []byte {
	t.Helper()
	header := make(map[string]any)
	var body []byte
	for _, p := range backbone.Small.Parameters(dim) {
		x := uint64(1)
		for _, c := range []byte(p.Name) {
			x += uint64(c)
		}
		scale, shift := 1.0, 0.0
		if len(p.Shape) > 1 {
			scale = math.Exp2(-math.RoundToEven(math.Log2(float64(p.Size()/p.Shape[0]))/2 - 1))
		} else if strings.HasSuffix(p.Name, "running_var") || strings.HasSuffix(p.Name, "weight") {
			shift = 1
		}
		begin := len(body)
		for _, n := range congruential(x, p.Size()) {
			v := math.Float32bits(float32((float64(n)/65536-0.5)*scale + shift))
			body = append(body, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
		}
		header[p.Name] = map[string]any{"dtype": "F32", "shape": p.Shape, "data_offsets": []int{begin, len(body)}}
	}
	head, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	size := make([]byte, 8)
	for i := range 4 {
		size[i] = byte(len(head) >> (8 * i))
	}
	return slices.Concat(size, head, body)
}

func TestStepsOfPyTorch(t *testing.T) {
	f, s := readPyTorchSteps(t)
	const tolerance = 5e-5
	for i, a := range f.Cases { // What one rule does differs from what another does by far more than that.
		for _, b := range f.Cases[:i] {
			far, last := 0.0, len(a.Embeddings)*(f.Steps-1)/f.Steps
			for k := last; k < len(a.Embeddings); k++ {
				far = max(far, math.Abs(a.Embeddings[k]-b.Embeddings[k]))
			}
			if far < 50*tolerance {
				t.Errorf("%s and %s are only %.1e apart", a.Rule, b.Rule, far)
			}
		}
	}
	for _, c := range trainers() {
		for _, want := range f.Cases {
			rule, err := objectives.Parse(want.Rule)
			if err != nil {
				t.Fatal(err)
			}
			s.Objective, s.LR = rule, want.LR
			got, err := s.Take(t.Context(), c.Choice)
			if err != nil {
				t.Fatal(err)
			}
			worst := 0.0
			for i, v := range want.Embeddings {
				worst = max(worst, math.Abs(float64(got.Embeddings[i])-v))
			}
			if worst > tolerance || len(got.Embeddings) != len(want.Embeddings) {
				t.Errorf("%s, %s: %d embeddings, %d of PyTorch's, %.1e apart",
					c.Name, rule, len(got.Embeddings), len(want.Embeddings), worst)
			}
			store := model.NewStore()
			load := backbone.LoadOptions{Arch: backbone.Small, Dim: f.Dim}
			if _, err := backbone.DecodeWeights(got.Weights, store, load); err != nil {
				t.Fatal(err)
			}
			for name, probes := range want.End {
				v, err := tensors.CopyFlatData[float32](store.GetVariable("/" + strings.ReplaceAll(name, ".", "/")).MustValue())
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(name, "conv") || strings.Contains(name, "downsample.0") {
					continue // In another layout; the embeddings of the next step tell.
				}
				for _, p := range probes {
					if d := math.Abs(float64(v[int(p[0])]) - p[1]); d > tolerance {
						t.Errorf("%s, %s: %s[%v] ends %.1e from PyTorch's", c.Name, rule, name, p[0], d)
					}
				}
			}
			store.Finalize()
		}
	}
}

// In bfloat16 embeddings are as far from PyTorch's float64 as eight bits are, and not as near as float32.
func TestStepsInBFloat16(t *testing.T) {
	f, s := readPyTorchSteps(t)
	want, err := f.Cases[0], error(nil)
	if s.Objective, err = objectives.Parse(want.Rule); err != nil {
		t.Fatal(err)
	}
	s.LR, s.Precision = want.LR, BFloat16
	for _, c := range trainers() {
		got, err := s.Take(t.Context(), c.Choice)
		if err != nil {
			t.Fatal(err)
		}
		worst := 0.0
		for i, v := range want.Embeddings[:len(want.Embeddings)/f.Steps] {
			worst = max(worst, math.Abs(float64(got.Embeddings[i])-v))
		}
		if worst < 1e-4 || worst > 0.1 {
			t.Errorf("%s: %.1e apart in the first step", c.Name, worst)
		}
	}
}

func TestBadSteps(t *testing.T) {
	_, good := readPyTorchSteps(t)
	for want, spoil := range map[string]func(s *Steps){
		"no network":        func(s *Steps) { s.Arch = "vgg" },
		"at least one":      func(s *Steps) { s.Count = 0 },
		"labels for":        func(s *Steps) { s.Labels = s.Labels[1:] },
		"values of pixels":  func(s *Steps) { s.Pixels = s.Pixels[1:] },
		"learning rate":     func(s *Steps) { s.LR = math.NaN() },
		`precision "fp8"`:   func(s *Steps) { s.Precision = "fp8" },
		"deviations":        func(s *Steps) { s.Std[1] = 0 },
		"not a safetensors": func(s *Steps) { s.Weights = s.Weights[:50] },
		"not the weights":   func(s *Steps) { s.Arch = backbone.ResNet18 },
		"step 2 is not finite": func(s *Steps) {
			s.LR = 1e30
		},
	} {
		s := good
		spoil(&s)
		out, err := s.Take(t.Context(), trainers()[0].Choice)
		if out != nil || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := good.Take(ctx, trainers()[0].Choice); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

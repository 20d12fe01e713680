package train

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// tinyConfig returns a config that trains in a second on any backend.
func tinyConfig() Config {
	return Config{
		Objective: objectives.Objective{Rule: "cos/con/con"}, Arch: "small", Weights: Random, Dim: 8,
		ClassesPerBatch: 2, ImagesPerClass: 2, Pad: 1,
		LR: 0.1, Epochs: 3, StepsPerEpoch: 3, Seed: 1,
	}
}

// by returns the config with an objective.
func (c Config) by(o objectives.Objective, err error) (Config, error) {
	c.Objective = o
	return c, err
}

// tinyHeldOut holds out one class in three, so that labels differ from class numbers.
const tinyHeldOut = 3

// tinyLossConfig returns tinyConfig with a loss, for six classes with some held out.
func tinyLossConfig(t *testing.T, loss string) Config {
	t.Helper()
	c, err := tinyConfig().by(objectives.ParseLoss(loss))
	if err != nil {
		t.Fatal(err)
	}
	c.ClassesPerBatch, c.ImagesPerClass = 3, 2
	if l, _ := losses.Parse(loss); losses.PerClass(l) > 0 {
		c.ProxyLR = 0.5
	}
	return c
}

func tinySet(t *testing.T, classes int) *datasets.Set {
	t.Helper()
	set, err := datasets.Open("minicar", datasets.Options{Size: 16, TrainClasses: classes, TestClasses: 3})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// trainTiny trains in a temporary folder and returns the folder.
func trainTiny(t *testing.T, trainer *Trainer, c Config, set *datasets.Set, heldOut int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	training := Training{Config: c, ID: "tiny", Data: samples.Images(set), HeldOut: heldOut, Dir: dir}
	if _, err := trainer.Train(t.Context(), training); err != nil {
		t.Fatal(err)
	}
	return dir
}

// lastWeights returns the file of the weights at the end of the training in a folder.
func lastWeights(t *testing.T, dir string) []byte {
	t.Helper()
	state, err := ReadCheckpoint(dir)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, CheckpointDir, state.Weights))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// A step changes the proxies and the bias of the last layer by the gradient of dissect.Loss times their learning rates.
func TestStepByLoss(t *testing.T) {
	for _, name := range []string{"proxy-anchor", "soft-triple?centers=2", "ms?beta=20"} {
		spec := tinyLossConfig(t, name)
		spec.Epochs, spec.StepsPerEpoch = 1, 1
		for _, c := range trainers() {
			if c.Name != "go" && name != "proxy-anchor" {
				continue
			}
			t.Run(name+" "+c.Name, func(t *testing.T) {
				set := tinySet(t, 6)
				dir := trainTiny(t, c, spec, set, tinyHeldOut)
				l, err := losses.Parse(name)
				if err != nil {
					t.Fatal(err)
				}
				perClass := losses.PerClass(l)
				without, err := samples.HeldOut(set.Train.Labels, tinyHeldOut)
				if err != nil {
					t.Fatal(err)
				}
				classes := samples.NumberClasses(set.Train.Labels, without)
				if len(classes) != 4 {
					t.Fatalf("classes %v, want 4 of 6", classes)
				}
				p := dissect.Proxies{}
				if perClass > 0 {
					p = dissect.Proxies{N: 4 * perClass, Dim: spec.Dim,
						Values: objectives.InitialProxies(4*perClass, spec.Dim, spec.Seed)}
					p.Classes = make([]int64, p.N)
					for i := range p.Classes {
						p.Classes[i] = int64(i / perClass)
					}
				}
				// The embeddings of the first batch, by the weights at the start.
				weights := model.NewStore()
				if err := backbone.Init(weights, backbone.Small, spec.Dim, spec.Seed); err != nil {
					t.Fatal(err)
				}
				sampler, err := newSampler(set.Train.Labels, without, spec.ClassesPerBatch, spec.ImagesPerClass, spec.Pad,
					spec.Seed)
				if err != nil {
					t.Fatal(err)
				}
				b, err := sampler.load(samples.ImageSplit(set.Train), classes, 0)
				if err != nil {
					t.Fatal(err)
				}
				bias := variableOf(t, weights, "/fc/bias")
				exec, err := model.NewExec(c.Backend, weights, func(scope *model.Scope, pixels, colors *Node) *Node {
					return backbone.Small.Embed(scope, samples.Scaled(pixels, colors), spec.Dim, backbone.Pass{Training: true})
				})
				if err != nil {
					t.Fatal(err)
				}
				defer exec.Finalize()
				size := set.Train.Size
				pixels := tensors.FromFlatDataAndDimensions(b.samples, len(b.labels), size, size, 3)
				x, err := exec.Call1(pixels, samples.Images(set).Affine())
				if err != nil {
					t.Fatal(err)
				}
				e := dissect.Embeddings{Values: tensors.MustCopyFlatData[float32](x), N: len(b.labels), Dim: spec.Dim}
				for _, label := range b.labels {
					e.Labels = append(e.Labels, int64(label))
				}
				d, err := dissect.Loss(c.Backend, e, p, l.Of)
				if err != nil {
					t.Fatal(err)
				}
				after := model.NewStore()
				load := backbone.LoadOptions{Arch: backbone.Small, Dim: spec.Dim, Proxies: p.N}
				if _, err := backbone.DecodeWeights(lastWeights(t, dir), after, load); err != nil {
					t.Fatal(err)
				}
				near := func(what string, got, want float64) {
					if math.Abs(got-want) > 2e-5*(1+math.Abs(want)) {
						t.Errorf("%s %g, want %g", what, got, want)
					}
				}
				gotBias, moved := variableOf(t, after, "/fc/bias"), 0.0
				for j := range spec.Dim {
					sum := 0.0
					for i := range e.N {
						sum += float64(d.Raw[i*spec.Dim+j])
					}
					near(fmt.Sprintf("bias %d", j), float64(gotBias[j]), float64(bias[j])-spec.LR*sum)
					moved += math.Abs(sum)
				}
				if moved == 0 {
					t.Error("nothing moved")
				}
				if p.N == 0 {
					if backbone.Proxies(after) != nil {
						t.Error("a loss without proxies has some")
					}
					return
				}
				moved = 0
				for i, v := range variableOf(t, after, "/proxies/weight") {
					g := float64(d.Raw[e.N*spec.Dim+i])
					near(fmt.Sprintf("proxy value %d", i), float64(v), float64(p.Values[i])-spec.ProxyLR*g)
					moved += math.Abs(g)
				}
				if moved == 0 {
					t.Error("no proxy moved")
				}
			})
		}
	}
}

// variableOf returns the values of a variable.
func variableOf(t *testing.T, weights *model.Store, path string) []float32 {
	t.Helper()
	v := weights.GetVariable(path)
	if v == nil {
		t.Fatalf("no variable %s", path)
	}
	return tensors.MustCopyFlatData[float32](v.MustValue())
}

// trainers returns a trainer on the Go backend, and one on the backend that GOMLX_BACKEND names, if any. XLA would take
// minutes to compile what these tests train.
func trainers() []*Trainer {
	if os.Getenv("GOMLX_BACKEND") == "" {
		return bothTrainers()[:1]
	}
	return bothTrainers()
}

// bothTrainers returns a trainer on the Go backend, and one on the backend that [backend.Open] chooses if that differs.
var bothTrainers = sync.OnceValue(func() []*Trainer {
	b, err := backend.Go()
	if err != nil {
		panic(err)
	}
	out := []*Trainer{New(&backend.Choice{Backend: b, Name: "go"})}
	if t, err := Open(); err == nil && t.Name != "go" {
		out = append(out, t)
	}
	return out
})

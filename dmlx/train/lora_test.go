package train

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/samples"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

func loraConfig(t *testing.T) Config {
	t.Helper()
	c := networkConfig(t, "../onnx/testdata/vit_tiny.onnx")
	c.LoRA, c.Optimizer, c.LR = `blocks\.1\.attn\.qkv\.weight@q,v:4:8`, "adamw", 0.002
	return c
}

// TestLoRATraining trains low-rank matrices, stops and goes on with the same bits, and exports the merged network,
// which gives the embeddings of the run.
func TestLoRATraining(t *testing.T) {
	data := networkData(t, 32)
	for _, tr := range trainers() {
		t.Run(tr.Name, func(t *testing.T) {
			if testing.Short() && tr.Name != "go" {
				t.Skip("XLA takes seconds to compile it")
			}
			c := loraConfig(t)
			if err := errors.Join(c.Validate(), c.Fits(data, 0)); err != nil {
				t.Fatal(err)
			}
			tn := Training{Config: c, ID: "own", Data: data, Dir: t.TempDir()}
			if _, err := tr.Train(t.Context(), tn); err != nil {
				t.Fatal(err)
			}
			again := tn
			again.Dir = t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			again.Progress = func(p Progress) {
				if p.Epoch == 1 {
					cancel()
				}
			}
			if _, err := tr.Train(ctx, again); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			again.Progress = nil
			if _, err := tr.Train(t.Context(), again); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(encoded(t, tn.Dir), encoded(t, again.Dir)) {
				t.Error("the training that went on has other weights")
			}
			before, after := networkStores(t, c, data, tn.Dir)
			changed := 0
			for _, v := range backbone.Trainable(before) {
				old, new := variableOf(t, before, v.Path()), variableOf(t, after, v.Path())
				trained := strings.Contains(v.Path(), "lora_") || strings.HasPrefix(v.Path(), "/fc/")
				if same := slices.Equal(old, new); same == trained {
					t.Errorf("%s: trained %v, changed %v", v.Path(), trained, !same)
				} else if trained {
					changed++
				}
			}
			if changed != 6 {
				t.Errorf("%d variables have changed, want A and B of q and v and the last layer", changed)
			}
			mergedFits(t, before, encoded(t, tn.Dir))
			want, _, err := npy.ReadFloat32(filepath.Join(tn.Dir, EmbeddingsFile))
			if err != nil {
				t.Fatal(err)
			}
			if apart := exportedApart(t, tr, encoded(t, tn.Dir), data, want); !(apart <= 1e-6) {
				t.Errorf("the merged network gives embeddings that are %.1e from those of the run", apart)
			}
		})
	}
}

// mergedFits compares the weights that a training's matrices are merged to with W + (α/r)·B·A by plain loops.
func mergedFits(t *testing.T, file *model.Store, trained []byte) {
	t.Helper()
	dir := t.TempDir()
	merged, err := backbone.MergeLowRank(trained)
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{"merged.safetensors": merged, "trained.safetensors": trained} {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	get := func(file, name string) []float32 {
		return tensors.MustCopyFlatData[float32](stored(t, filepath.Join(dir, file), name))
	}
	const layer, rank, alpha, in = "blocks.1.attn.qkv", 4, 8.0, 24
	w := variableOf(t, file, "/blocks/1/attn/qkv/weight")
	all := get("merged.safetensors", layer+".weight")
	for third, part := range []string{"q", "", "v"} {
		var a, b []float32
		if part != "" {
			name, name2 := backbone.LowRank(layer+".weight", part)
			a, b = get("trained.safetensors", name), get("trained.safetensors", name2)
		}
		for i := range in * in {
			sum := 0.0
			for k := range len(a) / in {
				sum += alpha / rank * float64(b[i/in*rank+k]) * float64(a[k*in+i%in])
			}
			at := third*in*in + i
			if got := float64(w[at]) + sum; !(math.Abs(got-float64(all[at])) <= 1e-6) || sum != 0 == (part == "") {
				t.Fatalf("want %g at row %d, merged is %g: k has no matrices", got, at/in, all[at])
			}
		}
	}
}

// TestLoRAMemory trains low-rank matrices in micro-batches, which differs by rounding, and in bfloat16.
func TestLoRAMemory(t *testing.T) {
	data, tr := networkData(t, 32), trainers()[0]
	c := loraConfig(t)
	c.Epochs = 1
	weights := func(m Memory) (all []float32) {
		c.Memory = m
		dir := t.TempDir()
		if _, err := tr.Train(t.Context(), Training{Config: c, ID: "own", Data: data, Dir: dir}); err != nil {
			t.Fatal(err)
		}
		state, err := ReadCheckpoint(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []string{"q.lora_A", "q.lora_B", "v.lora_A", "v.lora_B"} {
			of := stored(t, filepath.Join(dir, CheckpointDir, state.Weights), "blocks.1.attn.qkv."+m+".weight")
			all = append(all, tensors.MustCopyFlatData[float32](of)...)
		}
		return all
	}
	want := weights(Memory{})
	for most, m := range map[float64]Memory{1e-5: {MicroBatch: c.Batch() / 2}, 0.01: {Precision: BFloat16}} {
		worst := 0.0
		for i, v := range weights(m) {
			worst = max(worst, math.Abs(float64(v-want[i])))
		}
		t.Logf("%+v: %.1e apart", m, worst)
		if !(worst > 0 && worst <= most) {
			t.Errorf("%+v: %g apart", m, worst)
		}
	}
}

// exportedApart returns how far the embeddings of the test images by the exported network are from others.
func exportedApart(t *testing.T, tr *Trainer, raw []byte, data *samples.Data, want []float32) (apart float64) {
	t.Helper()
	file, dim, _, err := weights.ExportNetwork("../onnx/testdata/vit_tiny.onnx", raw, true)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(file, []byte("lora_")) {
		t.Error("the exported network has low-rank matrices")
	}
	n, err := onnx.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	store := model.NewStore()
	defer store.Finalize()
	if err := n.Init(store, nil); err != nil {
		t.Fatal(err)
	}
	p, err := n.Preprocessing()
	if err != nil {
		t.Fatal(err)
	}
	exec, err := model.NewExec(tr.Backend, store, func(scope *model.Scope, x *Node) *Node {
		return dmlx.Normalize(n.Features(scope, backbone.Normalized(x, p.Mean, p.Std), backbone.Pass{}))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Finalize()
	rows := len(data.Test.Labels())
	pixels := make([]byte, rows*32*32*3)
	if err := data.Test.Read(pixels, samples.All(data.Test), nil); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Call1(tensors.FromFlatDataAndDimensions(pixels, rows, 32, 32, 3))
	if err != nil {
		t.Fatal(err)
	}
	got := tensors.MustCopyFlatData[float32](out)
	if len(got) != len(want) || len(got) != rows*dim {
		t.Fatalf("%d values, want %d", len(got), len(want))
	}
	for i := range want {
		apart = max(apart, math.Abs(float64(got[i])-float64(want[i])))
	}
	return apart
}

func TestLoRARefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(c *Config){
		"canonical form":             func(c *Config) { c.LoRA = "qkv:4:4" },
		"there is no rank":           func(c *Config) { c.LoRA = "qkv" },
		"no positive whole number":   func(c *Config) { c.LoRA = "qkv:0" },
		"no positive number":         func(c *Config) { c.LoRA = "qkv:4:-1" },
		"missing closing":            func(c *Config) { c.LoRA = "(:4" },
		"there is no pattern":        func(c *Config) { c.LoRA = ":4" },
		"want q, k or v":             func(c *Config) { c.LoRA = "qkv@x:4" },
		"want parts that differ":     func(c *Config) { c.LoRA = "qkv@q,q:4" },
		"that 5 divides":             func(c *Config) { c.LoRA = "qkv@1of5:4" },
		"want a rank from 1 to 24":   func(c *Config) { c.LoRA = "qkv:25" },
		"blocks.0.attn.qkv.weight?":  func(c *Config) { c.LoRA = `atn\.qkv\.weight:4` },
		"such as blocks.0":           func(c *Config) { c.LoRA = "layer4:4" },
		"leave them out":             func(c *Config) { c.Freeze = "norm" },
		"is both frozen":             func(c *Config) { c.TrainOnly, c.Freeze = "mlp", "qkv" },
		"is both trained":            func(c *Config) { c.TrainOnly = `blocks\.1` },
		"network of an ONNX file":    func(c *Config) { *c = tinyConfig(); c.LoRA = "layer4:4" },
		"matches none of the 8 weig": func(c *Config) { c.LoRA = `norm\d:4` },
	} {
		c := loraConfig(t)
		if change(&c); c.NetworkFile == "" {
			c.Weights, c.Arch = Random, string(backbone.Small)
		}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c := loraConfig(t)
	o := c.Options
	o.LoRA = "qkv:4:4"
	if c, err := c.WithOptions(o); err != nil || c.LoRA != "qkv:4" {
		t.Errorf("%q, %v", c.LoRA, err)
	}
	raw, err := os.ReadFile("../onnx/testdata/vit_tiny.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if merged, err := backbone.MergeLowRank(raw); err != nil || !bytes.Equal(raw, merged) {
		t.Errorf("weights without low-rank matrices change: %v", err)
	}
}

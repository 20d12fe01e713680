package train

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/datasets"
)

// TestKept checks that a training which computes the frozen part of its network once has the same weights and
// embeddings as one that computes it in each step, also the second time, when it is read.
func TestKept(t *testing.T) {
	t.Setenv(datasets.CacheEnv, t.TempDir())
	data := networkData(t, 32)
	for name, config := range map[string]func(t *testing.T) Config{
		"small": func(t *testing.T) Config {
			c, err := tinyConfig().WithStart("small", Pretrained)
			if err != nil {
				t.Fatal(err)
			}
			c.Pad, c.Augment, c.TrainOnly = 0, "flip", "layer4|fc"
			return c
		},
		"file": func(t *testing.T) Config {
			c := networkConfig(t, testNetwork)
			c.TrainOnly = `blocks\.3|conv_head|^bn2`
			return c
		},
		"transformer": func(t *testing.T) Config {
			c := networkConfig(t, "../onnx/testdata/dinov3.onnx")
			c.TrainOnly, c.MicroBatch = `blocks\.1|^norm`, 2
			return c
		},
		"adapters": func(t *testing.T) Config {
			c := networkConfig(t, "../onnx/testdata/vit_tiny.onnx")
			c.LoRA = `blocks\.1\.attn\.qkv\.weight:4`
			return c
		},
		"last layer": func(t *testing.T) Config {
			c := networkConfig(t, "../onnx/testdata/vit_tiny.onnx")
			c.TrainOnly, c.Augment, c.Optimizer = `^fc`, "none", "adamw"
			return c
		},
	} {
		for _, tr := range bothTrainers() {
			t.Run(name+"/"+tr.Name, func(t *testing.T) {
				if testing.Short() && tr.Name != "go" {
					t.Skip("XLA takes seconds to compile it")
				}
				var dirs []string
				for _, limit := range []int64{0, 1 << 30, 1 << 30} {
					tn := Training{Config: config(t), ID: "own", Data: data, Dir: t.TempDir(), HeldOut: 2,
						Warn: func(m string) { t.Error(m) }}
					kept := 0
					tn.Progress = func(p Progress) { kept = max(kept, p.Kept) }
					if _, err := tr.Keeping(limit).Train(t.Context(), tn); err != nil {
						t.Fatal(err)
					}
					if computes := len(dirs) == 1; (kept > 0) != computes {
						t.Errorf("run %d: computed for %d images", len(dirs), kept)
					}
					dirs = append(dirs, tn.Dir)
				}
				for _, dir := range dirs[1:] {
					for _, file := range []string{EmbeddingsFile, MetricsFile, "checkpoint/weights-003.safetensors"} {
						want, err := os.ReadFile(filepath.Join(dirs[0], file))
						if err != nil {
							t.Fatal(err)
						}
						if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !bytes.Equal(got, want) {
							t.Errorf("%s differs (%v)", file, err)
						}
					}
				}
			})
		}
	}
}

// TestKeptNothing checks that a training says why nothing is kept.
func TestKeptNothing(t *testing.T) {
	t.Setenv(datasets.CacheEnv, t.TempDir())
	data := networkData(t, 32)
	for want, change := range map[string]func(c *Config) int64{
		"all of the network": func(*Config) int64 { return 1 << 30 },
		"cuts images":        func(c *Config) int64 { c.TrainOnly, c.Augment = "conv_head", "resized-crop"; return 1 << 30 },
		"more than":          func(c *Config) int64 { c.TrainOnly = "conv_head"; return 1000 },
		"computed in bf16":   func(c *Config) int64 { c.TrainOnly, c.Precision = "conv_head", BFloat16; return 1 << 30 },
	} {
		c, said := networkConfig(t, testNetwork), ""
		limit := change(&c)
		tn := Training{Config: c, ID: "own", Data: data, Warn: func(m string) { said = m }}
		_, done, err := trainers()[0].Keeping(limit).divided(t.Context(), tn)
		if err != nil || !strings.Contains(said, want) {
			t.Errorf("%v, said %q, want %q", err, said, want)
		}
		done()
	}
}

// TestKeptOnce checks that a training whose start is chosen computes the frozen part of its network once for each
// image, for all trainings that it chooses by and for the features that it is compared with, and chooses as without.
func TestKeptOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("trains eight times")
	}
	t.Setenv(datasets.CacheEnv, t.TempDir())
	tr := bothTrainers()[0]
	tn := startTraining(t, ChosenTraining, 1e-3, FreezeAll)
	tn.TrainOnly, tn.Augment, tn.Pad = "layer4|fc", "flip", 0
	want, err := tr.Train(t.Context(), tn)
	if err != nil {
		t.Fatal(err)
	}
	references, err := tr.References(t.Context(), tn)
	if err != nil {
		t.Fatal(err)
	}
	kept, last := 0, 0
	tn.Dir, tn.Progress = t.TempDir(), func(p Progress) {
		kept += max(0, p.Kept-last) // From 0 in each training.
		last = p.Kept
	}
	got, err := tr.Keeping(1<<30).Train(t.Context(), tn)
	if err != nil || !reflect.DeepEqual(got.Head, want.Head) {
		t.Errorf("chose %s (%v), without %s", got.Head, err, want.Head)
	}
	if all := 2*len(tn.Data.Train.Labels()) + len(tn.Data.Test.Labels()); kept != all {
		t.Errorf("computed for %d images, want each of %d once", kept, all)
	}
	tn.Progress = func(p Progress) { t.Errorf("computed anew for %d images", p.Kept) }
	measured, err := tr.Keeping(1<<30).References(t.Context(), tn)
	if err != nil || !reflect.DeepEqual(measured, references) {
		t.Errorf("%+v (%v), want %+v", measured, err, references)
	}
}

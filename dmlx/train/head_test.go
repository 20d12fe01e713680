package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// headConfigs are heads that train by different means, in a second.
func headConfigs(t *testing.T) map[string]Config {
	t.Helper()
	base := tinyConfig()
	base.Dim = 6
	out := make(map[string]Config)
	add := func(name, head string, with func(c Config) (Config, error)) {
		c, err := base.WithHead(head)
		if err == nil && with != nil {
			c, err = with(c)
		}
		if err == nil {
			err = c.Validate()
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = c
	}
	add("linear", "linear?start=random", nil)
	add("mlp by proxies and momentum", "mlp?hidden=9&start=random", func(c Config) (Config, error) {
		c, err := c.by(objectives.ParseLoss("proxy-anchor"))
		if err != nil {
			return c, err
		}
		c.ProxyLR = 0.2
		return c.WithOptions(Options{Optimizer: "sgd?momentum=0.9"})
	})
	add("linear by adam and noise", "linear?start=random", func(c Config) (Config, error) {
		c, err := c.by(objectives.ParseLoss("margin, miner distance"))
		if err != nil {
			return c, err
		}
		c.LR = 0.01
		return c.WithOptions(Options{Optimizer: "adam"})
	})
	add("model", "linear", func(c Config) (Config, error) { return c.WithModel(perceptron([]int{7}, 9, 6, 0)) })
	return out
}

// Trainings together end with the bits that each has alone, also if they were stopped, on both backends.
func TestTrainTogether(t *testing.T) {
	data, err := samples.Features("blobs", blobs(6, 5, 7, 1), blobs(4, 5, 7, 2))
	if err != nil {
		t.Fatal(err)
	}
	ids := func(c Config, dir func(seed uint64) string) (all []Training) {
		for _, seed := range []uint64{1, 2, 3} {
			c.Seed = seed
			all = append(all, Training{Config: c, ID: fmt.Sprint(seed), Data: data, Dir: dir(seed)})
		}
		return all
	}
	for name, config := range headConfigs(t) {
		trained := bothTrainers()
		if name != "linear" { // XLA compiles each for seconds.
			trained = trainers()
		}
		for _, c := range trained {
			t.Run(c.Name+" "+name, func(t *testing.T) {
				alone, beside, stopped := t.TempDir(), t.TempDir(), t.TempDir()
				in := func(dir string) func(uint64) string {
					return func(seed uint64) string {
						dir := filepath.Join(dir, fmt.Sprint(seed))
						if err := os.MkdirAll(dir, 0o777); err != nil {
							t.Fatal(err)
						}
						return dir
					}
				}
				var want []*Outcome
				for _, training := range ids(config, in(alone)) {
					out, err := c.Train(t.Context(), training)
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, out)
				}
				got, err := c.TrainTogether(t.Context(), ids(config, in(beside)))
				if err != nil {
					t.Fatal(err)
				}
				for i, o := range got {
					if fmt.Sprint(o.Measures) != fmt.Sprint(want[i].Measures) || fmt.Sprint(o.Files) != fmt.Sprint(want[i].Files) {
						t.Errorf("seed %d: %+v beside others, %+v alone", i+1, o, want[i])
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				all := ids(config, in(stopped))
				all[1].Progress = func(p Progress) {
					if p.Step == 5 {
						cancel()
					}
				}
				if _, err := c.TrainTogether(ctx, all); !errors.Is(err, context.Canceled) {
					t.Fatalf("not stopped: %v", err)
				}
				// One goes on alone, then all together.
				if _, err := c.Train(t.Context(), ids(config, in(stopped))[2]); err != nil {
					t.Fatal(err)
				}
				if _, err := c.TrainTogether(t.Context(), ids(config, in(stopped))); err != nil {
					t.Fatal(err)
				}
				for seed := 1; seed <= 3; seed++ {
					for _, file := range []string{EmbeddingsFile, MetricsFile, "checkpoint/weights-003.safetensors",
						"triplets/epoch-002.npy"} {
						read := func(dir string) []byte {
							raw, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(seed), file))
							if err != nil {
								t.Fatal(err)
							}
							return raw
						}
						if want := read(alone); !bytes.Equal(read(beside), want) || !bytes.Equal(read(stopped), want) {
							t.Errorf("seed %d: %s differs from that of a training alone", seed, file)
						}
					}
				}
			})
		}
	}
}

// A head whose chosen start is not trained, and that is stopped before its measures, goes on from its checkpoint.
func TestStoppedUntrainedHead(t *testing.T) {
	data, err := samples.Features("blobs", blobs(12, 8, 7, 1), blobs(6, 8, 7, 2))
	if err != nil {
		t.Fatal(err)
	}
	config, err := headConfigs(t)["linear"].WithHead("linear")
	if err != nil {
		t.Fatal(err)
	}
	c, dir := trainers()[0], t.TempDir()
	training := Training{Config: config, ID: "untrained", Data: data, Dir: dir, Warn: func(m string) { t.Error(m) }}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := training
	stopped.Progress = func(p Progress) {
		if p.Embedded > 0 {
			cancel()
		}
	}
	if _, err := c.Train(ctx, stopped); !errors.Is(err, context.Canceled) {
		t.Fatalf("not stopped: %v", err)
	}
	if saved, err := ReadCheckpoint(dir); err != nil || saved.Epoch != 0 {
		t.Fatalf("the chosen start was trained: %+v, %v", saved, err)
	}
	if _, err := c.Train(t.Context(), training); err != nil {
		t.Error(err)
	}
}

// Recall is measured while a head is trained, alone and beside others, and changes no weights.
func TestRecallDuringTraining(t *testing.T) {
	data, err := samples.Features("blobs", blobs(6, 5, 7, 1), blobs(4, 5, 7, 2))
	if err != nil {
		t.Fatal(err)
	}
	c := trainers()[0]
	config := headConfigs(t)["linear"]
	for _, heldOut := range []int{0, 2} {
		var sums []string
		for _, every := range []int{0, 2} {
			var all []Training
			for _, seed := range []uint64{1, 2} {
				config.Seed, config.Epochs = seed, 4
				all = append(all, Training{Config: config, ID: fmt.Sprint(seed), Data: data, Dir: t.TempDir(),
					HeldOut: heldOut, Every: every})
			}
			outs, err := c.TrainTogether(t.Context(), all)
			if err != nil {
				t.Fatal(err)
			}
			for i, out := range outs {
				delete(out.Files, MetricsFile)
				sums = append(sums, fmt.Sprint(out.Files))
				want := out.Recall[1]
				if heldOut > 0 {
					want = out.HeldOutRecall[1]
				}
				raw, err := os.ReadFile(filepath.Join(all[i].Dir, MetricsFile))
				if err != nil {
					t.Fatal(err)
				}
				for line := range bytes.Lines(raw) {
					var e Epoch
					if err := json.Unmarshal(line, &e); err != nil {
						t.Fatal(err)
					}
					if measured := every > 0 && e.Epoch%every == 0; (e.Recall > 0) != measured {
						t.Errorf("recall %g after epoch %d, measured every %d", e.Recall, e.Epoch, every)
					}
					if every > 0 && e.Epoch == config.Epochs && e.Recall != want {
						t.Errorf("held out %d: recall %g after the last epoch, at the end %g", heldOut, e.Recall, want)
					}
				}
			}
		}
		if !slices.Equal(sums[:2], sums[2:]) {
			t.Error("measuring changes the training")
		}
	}
}

// Options that belong to images contradict a head.
func TestHeadRefusesOptionsOfImages(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"heads are trained in float32":     func(c *Config) { c.Precision = BFloat16 },
		"no batch normalization to freeze": func(c *Config) { c.FreezeBN = FreezeAll },
		"start from random ones":           func(c *Config) { c.Weights = Pretrained },
		"want one of them":                 func(c *Config) { c.Arch = "small" },
		"not in canonical form":            func(c *Config) { c.Head = "mlp?hidden=512" },
		"there are linear and mlp":         func(c *Config) { c.Head = "tree" },
		"want a divisor of the batch of 4": func(c *Config) { c.MicroBatch = 3 },
	} {
		c := headConfigs(t)["linear"]
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want …%s…", err, want)
		}
	}
}

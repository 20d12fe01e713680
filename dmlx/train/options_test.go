package train

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

func TestBadOptions(t *testing.T) {
	for _, c := range []struct {
		options Options
		want    string
	}{
		{Options{Optimizer: "lion"}, `no "lion"; there are sgd, adam, adamw`},
		{Options{Optimizer: "sgd?beta1=0.9"}, `no option "beta1"; there are filter-bias-and-bn, momentum`},
		{Options{Optimizer: "sgd?momentum=1"}, "momentum is 1, want a number from 0 to below 1"},
		{Options{Optimizer: "sgd?nesterov"}, "nesterov needs a momentum"},
		{Options{Optimizer: "sgd?filter-bias-and-bn"}, "there is none"},
		{Options{Optimizer: "adam?epsilon=0"}, "epsilon is 0, want a positive number"},
		{Options{Optimizer: "adam?beta1=NaN"}, "finite number"},
		{Options{Optimizer: "adam?"}, "no option follows"},
		{Options{Optimizer: "adamw?weight-decay=-1"}, "weight-decay is -1"},
		{Options{Schedule: "poly"}, `no "poly"; there are constant, step, cosine`},
		{Options{Schedule: "step"}, "want either at="},
		{Options{Schedule: "step?at=0.5&epochs=2"}, "want either at="},
		{Options{Schedule: "step?at=0.8,0.5"}, "want rising shares"},
		{Options{Schedule: "step?epochs=1.5"}, "want rising numbers of epochs"},
		{Options{Schedule: "step?epochs=3"}, "the training has 3 epochs"},
		{Options{Schedule: "cosine?warmup=9"}, "the training has 9 steps"},
		{Options{Schedule: "cosine?warmup=0"}, "want a number of steps"},
		{Options{Schedule: "cosine?final=1"}, "final is 1"},
		{Options{HeadLR: -1}, "learning rate of the last layer is -1"},
		{Options{HeadLR: math.NaN()}, "learning rate of the last layer is NaN"},
		{Options{FreezeBN: "yes"}, "there are statistics, affine, all"},
		{Options{Augment: "cutout"}, `no "cutout"; there are none, flip, pad-crop and resized-crop`},
		{Options{Augment: "flip+flip"}, `no "flip"`},
		{Options{Augment: "pad-crop+blur"}, `"blur" follows the +; only flip can`},
		{Options{Augment: "none?pad=1"}, "none takes no options"},
		{Options{Augment: "pad-crop?pad=0"}, "want a number of pixels"},
		{Options{Augment: "resized-crop?scale=0.5"}, "want two shares"},
		{Options{Augment: "resized-crop?scale=0.5-1.5"}, "want two shares"},
		{Options{Augment: "resized-crop?ratio=2-1"}, "want the least and the largest width over height"},
	} {
		_, err := tinyConfig().WithOptions(c.options)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", c.options, err, c.want)
		}
	}
	for want, spoil := range map[string]func(c *Config){
		"not in canonical form: want \"adam\"":  func(c *Config) { c.Optimizer = "adam?beta1=0.9" },
		"not in canonical form: want \"\"":      func(c *Config) { c.Optimizer = "sgd" },
		"want the padding 0":                    func(c *Config) { c.Augment = "flip" },
		"want one of them; a schedule step?at=": func(c *Config) { c.Schedule, c.Decay = "cosine", 0.5 },
		"want \"step?at=0.5\"":                  func(c *Config) { c.Schedule = "step?at=.5" },
		"it chooses pairs":                      func(c *Config) { c.Miner = "ms" },
		"is not in canonical form":              func(c *Config) { c.Miner = "easy-positive" },
		"has no batch normalization":            func(c *Config) { c.Arch, c.Head, c.FreezeBN = "", "linear", FreezeAll },
		"is all that is trained":                func(c *Config) { c.Arch, c.Head, c.HeadLR = "", "linear", 1 },
		"the head linear is trained on": func(c *Config) {
			c.Arch, c.Head, c.Augment, c.Pad = "", "linear", "flip", 0
		},
	} {
		c := tinyConfig()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The augmentation of the paper has one form, whatever text names it.
func TestOptionsOfTheDefault(t *testing.T) {
	c := tinyConfig()
	for _, text := range []string{"", "pad-crop+flip", "pad-crop+flip?pad=1"} {
		same, err := c.WithOptions(Options{Augment: text, Optimizer: "sgd"})
		if err != nil || same.Options != (Options{}) || same.Pad != c.Pad {
			t.Errorf("%q: %+v, %v", text, same.Options, err)
		}
	}
	other, err := c.WithOptions(Options{Augment: "pad-crop+flip?pad=3"})
	if err != nil || other.Pad != 3 || other.Augment != "" {
		t.Errorf("%+v, %v", other, err)
	}
	if other, err = c.WithOptions(Options{Augment: "pad-crop"}); err != nil || other.Pad != 0 ||
		other.Augment != "pad-crop?pad=1" {
		t.Errorf("%+v, %v", other, err)
	}
}

// Rates by hand.
func TestSchedules(t *testing.T) {
	for text, want := range map[string][]float64{
		"constant":                     {1, 1, 1, 1, 1, 1, 1, 1},
		"constant?warmup=4":            {0.25, 0.5, 0.75, 1, 1, 1, 1, 1},
		"step?at=0.5,0.75":             {1, 1, 1, 1, 0.1, 0.1, 0.01, 0.01},
		"step?epochs=1,3&factor=0.5":   {1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25},
		"step?epochs=1&warmup=4":       {0.25, 0.5, 0.075, 0.1, 0.1, 0.1, 0.1, 0.1},
		"cosine":                       {1, 0.9619398, 0.8535534, 0.6913417, 0.5, 0.3086583, 0.1464466, 0.0380602},
		"cosine?warmup=4":              {0.25, 0.5, 0.75, 1, 1, 0.8535534, 0.5, 0.1464466},
		"cosine?final=0.5&warmup=4":    {0.25, 0.5, 0.75, 1, 1, 0.9267767, 0.75, 0.5732233},
		"step?at=0.0001":               {1, 1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1},
		"step?at=0.9999&factor=0.0001": {1, 1, 1, 1, 1, 1, 1, 1},
	} {
		c := tinyConfig()
		c.Epochs, c.StepsPerEpoch, c.LR, c.Schedule = 4, 2, 2, text
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
		for step, w := range want {
			if got := c.RateAt(step); math.Abs(got-2*w) > 1e-7 {
				t.Errorf("%s: the rate of step %d is %.7f, want %.7f", text, step, got, 2*w)
			}
		}
	}
}

// Every option that keeps state ends at the same bits after an interruption: without state, the last step would differ.
func TestStateResumesToTheSameBits(t *testing.T) {
	trainer := trainers()[0]
	for _, c := range []struct {
		loss, miner string
		options     Options
		memory      Memory
	}{
		{"", "distance", Options{Optimizer: "sgd?momentum=0.9&nesterov&weight-decay=0.001", Schedule: "cosine?warmup=4"},
			Memory{}},
		{"proxy-anchor", "", Options{Optimizer: "adamw?filter-bias-and-bn", HeadLR: 0.01, FreezeBN: FreezeStatistics,
			Augment: "resized-crop+flip"}, Memory{Recompute: true}},
		{"", "hard", Options{Optimizer: "adam", FreezeBN: FreezeAffine, Augment: "none"},
			Memory{MicroBatch: 2}},
		{"triplet", "distance", Options{Optimizer: "adam", FreezeBN: FreezeAll}, Memory{Precision: BFloat16}},
	} {
		config := tinyConfig()
		if c.loss != "" {
			config = tinyLossConfig(t, c.loss)
		}
		config.LR, config.Memory = 0.001, c.memory
		config, err := config.by(config.WithMiner(c.miner))
		if err == nil {
			config, err = config.WithOptions(c.options)
		}
		if err != nil {
			t.Fatal(err)
		}
		set := tinySet(t, 4)
		through := trainTiny(t, trainer, config, set, 0)
		want := lastWeights(t, through)

		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		training := Training{Config: config, ID: "tiny", Data: samples.Images(set), Dir: dir}
		training.Progress = func(p Progress) {
			if p.Step == 5 { // In the second epoch of three.
				cancel()
			}
		}
		if _, err := trainer.Train(ctx, training); err == nil {
			t.Fatal("not stopped")
		}
		files, err := filepath.Glob(filepath.Join(dir, CheckpointDir, "state-*.safetensors"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%+v: files of state %v, %v", c, files, err)
		}
		training.Progress = nil
		if _, err := trainer.Train(t.Context(), training); err != nil {
			t.Fatal(err)
		}
		if got := lastWeights(t, dir); !bytes.Equal(got, want) {
			t.Errorf("%+v: other weights after an interruption", c)
		}
		if same := equalFiles(t, filepath.Join(dir, CheckpointDir, "state-003.safetensors"),
			filepath.Join(through, CheckpointDir, "state-003.safetensors")); !same {
			t.Errorf("%+v: other state after an interruption", c)
		}
	}
}

func equalFiles(t *testing.T, a, b string) bool {
	t.Helper()
	x, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(x, y)
}

// A damaged file of state is found, and the training starts anew to the same weights.
func TestDamagedState(t *testing.T) {
	trainer, set := trainers()[0], tinySet(t, 4)
	config := tinyConfig()
	config.Optimizer = "sgd?momentum=0.9"
	dir := trainTiny(t, trainer, config, set, 0)
	want := lastWeights(t, dir)
	file := filepath.Join(dir, CheckpointDir, "state-003.safetensors")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-1] ^= 1
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	warned := ""
	training := Training{Config: config, ID: "tiny", Data: samples.Images(set), Dir: dir,
		Warn: func(s string) { warned = s }}
	if _, err := trainer.Train(t.Context(), training); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(warned, "the checksum of state-003.safetensors does not fit") {
		t.Errorf("warned %q", warned)
	}
	if !bytes.Equal(lastWeights(t, dir), want) {
		t.Error("other weights")
	}
}

// What is frozen stays, and everything else moves.
func TestFrozenNormalization(t *testing.T) {
	set := tinySet(t, 4)
	start := tinyConfig()
	for _, trainer := range trainers() {
		for _, freeze := range []string{"", FreezeStatistics, FreezeAffine, FreezeAll} {
			config := start
			config.FreezeBN, config.Epochs = freeze, 1
			end := values(t, lastWeights(t, trainTiny(t, trainer, config, set, 0)), config.Dim)
			for _, p := range backbone.Small.Parameters(config.Dim) {
				running := strings.Contains(p.Name, ".running_")
				affine := !running && (strings.HasPrefix(p.Name, "bn") || strings.Contains(p.Name, ".bn") ||
					strings.Contains(p.Name, "downsample.1"))
				other := FreezeAffine // What alone does not freeze this.
				if affine {
					other = FreezeStatistics
				}
				stays := (running || affine) && freeze != "" && freeze != other
				initial := float32(0)
				if strings.HasSuffix(p.Name, "var") || affine && strings.HasSuffix(p.Name, "weight") {
					initial = 1
				}
				moved := false
				for _, v := range end["/"+strings.ReplaceAll(p.Name, ".", "/")] {
					moved = moved || v != initial
				}
				if moved == stays {
					t.Errorf("%s, freeze %q: %s has moved: %v", trainer.Name, freeze, p.Name, moved)
				}
			}
		}
	}
}

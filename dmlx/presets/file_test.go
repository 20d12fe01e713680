package presets

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/train"
)

func writePreset(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mine.toml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A preset of a file has the specs of the preset that it is made from, but for what the file says.
func TestPresetFromAnotherFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"base.toml":  "seeds = [7]\n[learning_rates.minicar]\n\"cos/con/con\" = 0.5\n\"loss ms\" = 0.25\n",
		"rates.toml": "from = \"base.toml\"\n[learning_rates.minicar]\n\"cos/lin/con\" = 0.125\n\"loss circle\" = 2\n",
		"self.toml":  "from = \"self.toml\"\n",
		"lost.toml":  "from = \"none.toml\"\n",
		"page.toml":  "<!DOCTYPE html>\n<html></html>\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Load(filepath.Join(dir, "rates.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]float64{"cos/con/con": 0.5, "cos/lin/con": 0.125, "loss ms": 0.25,
		"loss circle": 2} {
		o, err := objectives.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := p.ObjectiveSpec("minicar", Objective{Objective: o}, p.Seeds[0])
		if err != nil || spec.LR != want || spec.Seed != 7 {
			t.Errorf("%s: rate %g, seed %d, %v; want %g", text, spec.LR, spec.Seed, err, want)
		}
	}
	if !p.Like("quick") || !strings.Contains(p.Origin, "base (quick with seed 7") {
		t.Errorf("like quick: %v, origin %q", p.Like("quick"), p.Origin)
	}
	for name, want := range map[string]string{"self.toml": "behind 8 others", "lost.toml": "no such file",
		"page.toml": "a page of HTML"} {
		if _, err := Load(filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", name, err, want)
		}
	}
}

// The rates of a search are counted, not listed, where a preset is named.
func TestManyRates(t *testing.T) {
	t.Parallel()
	p, err := Load(writePreset(t, "from = \"quick\"\n[learning_rates.minicar]\n\"cos/con/con\" = 1\n\"cos/lin/con\" = 1\n"+
		"\"loss ms\" = 1\n\"loss circle\" = 1\n"))
	if err != nil || !strings.Contains(p.Origin, "quick with 4 learning rates on minicar") {
		t.Errorf("%q, %v", p.Origin, err)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	p, err := Load(writePreset(t, `
from = "quick"
seeds = [4, 5]
batch = "4x8"
epochs = 2
options = "tau=2"
weights = "random"
precision = "bf16"
optimizer = "sgd?momentum=0.9"

[sets.minishop]
dim = 64
train_classes = 12
images_per_class = 2

[learning_rates.minicar]
"cos/lin/cir" = 0.5
"loss ms" = 0.125
`))
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "mine" || !p.Like("quick") || !slices.Equal(p.Seeds, []uint64{4, 5}) || p.FileName() != "mine" ||
		!strings.HasPrefix(p.String(), "mine (quick with seeds 4, 5, 2 epochs, batches of 32, ") {
		t.Errorf("%q, %q, seeds %v", p.Name, p, p.Seeds)
	}
	cir, err := dmlx.ParseRule("cos/lin/cir")
	if err != nil {
		t.Fatal(err)
	}
	car, err := p.Spec("minicar", cir, 4)
	if err != nil || car.Rule != "cos/lin/cir?tau=2" || car.LR != 0.5 || car.ClassesPerBatch != 4 || car.Epochs != 2 ||
		car.ImagesPerClass != 8 || car.Weights != "random" || car.WeightsDigest != "" || car.Precision != "bf16" ||
		car.Optimizer != "sgd?momentum=0.9" ||
		car.Dim != 32 {
		t.Errorf("%s, %v", car.Canonical(), err)
	}
	shop, err := p.Spec("minishop", dmlx.Rule{}, 4)
	if err != nil || shop.Rule != "cos/con/con" || shop.LR != 1.2 || shop.Dim != 64 || shop.TrainClasses != 12 ||
		shop.ClassesPerBatch != 16 || shop.ImagesPerClass != 2 || !p.Has(shop) || !p.Has(car) {
		t.Errorf("%s, %v", shop.Canonical(), err)
	}
	if flags, err := p.With(Settings{Batch: 24}); err != nil || flags.Sets["minishop"].Batch != 24 {
		t.Errorf("%+v, %v", flags, err)
	}
	if loss, err := p.ObjectiveSpec("minicar", lossOf(t, "ms"), 1); err != nil || loss.LR != 0.125 {
		t.Errorf("%s, %v", loss.Canonical(), err)
	}
	if loss, err := p.ObjectiveSpec("minishop", lossOf(t, "ms"), 1); err != nil || loss.LR == 0.125 || loss.LR <= 0 {
		t.Errorf("%s, %v", loss.Canonical(), err)
	}
	for _, name := range Names() { // The presets of this package are as before.
		q, err := Parse(name)
		if err != nil || q.Sets["minishop"].Dim == 64 {
			t.Errorf("%+v, %v", q, err)
		}
	}
}

// What is wrong with a file is said with its place and what would be right.
func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"epoch = 3":                      `no key "epoch"; did you mean epochs?`,
		"[sets.minicar]\ndims = 3":       "did you mean dim?",
		"optimum = 1":                    "there are allow_partial",
		"epochs = 0":                     "0: want a positive whole number",
		"dim = 1.5":                      "1.5: want a positive whole number",
		"lr = 0":                         "want a positive number as a learning rate",
		"lr = nan":                       "want a positive number as a learning rate",
		"head_lr = 0":                    "want a positive number as a learning rate",
		"batch = \"8x\"":                 "as in 8x8",
		"batch = [8]":                    "want a number of images",
		"epochs = \n":                    "line 1",
		"from = \"huge\"":                "smoke, quick, full, paper",
		"name = \"quick\"":               "none of smoke, quick",
		"name = \"../x\"":                "want letters",
		"optimizer = \"adamm\"":          "adam",
		"miner = \"none\"":               "none of that name",
		"options = \"tao=2\"":            "tau",
		"arch = \"vgg\"":                 "resnet18",
		"weights = \"none.safetensors\"": "no such file",
		"seeds = [1, 1]":                 "each once",
		"seeds = []":                     "at least one seed",
		"seeds = [-1]":                   "whole numbers from 0",
		"\n[options]\ntau = 2":           "line 2 (last key \"options\")",
		"arch = 3":                       "TOML value has type int64; destination has type string",
		"recompute = \"yes\"":            "TOML value has type string; destination has type bool",
		"rates = [true]":                 "line 1 (last key \"rates\")",
		"sets = 3":                       "sets: want a table, as in [sets.minicar]",
		"[sets]\nminicar = 3":            "line 2 (last key \"sets.minicar\")",
		"[learning_rates]\nminicar = 1":  "learning_rates.minicar: want a table",
		"coarse_grained = \"minicar\"":   "want two data sets",
		"[learning_rates.minicar]\n\"cos/lin\" = 1":     "learning_rates.minicar",
		"[learning_rates.minicar]\n\"loss nix\" = 1":    "none of that name",
		"[sets.minicar]\nbatch = 9\nimages_per_class=2": "sets.minicar: a batch of 9 images with 2 of each class",
	} {
		p, err := Load(writePreset(t, text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "mine.toml") {
			t.Errorf("%s: %v, %v, want …%s…", text, p, err, want)
		}
	}
	if _, err := Load("none.toml"); err == nil || !strings.Contains(err.Error(), "none.toml: no such file") {
		t.Error(err)
	}
	if _, err := Load(filepath.Dir(writePreset(t, ""))); err == nil || !strings.Contains(err.Error(), "smoke, quick") {
		t.Error(err)
	}
}

// A preset may name a network's file, which lies beside it, and says so; the images are of the network's size.
func TestPresetOfNetwork(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../onnx/testdata/vit_tiny.onnx")
	if err != nil {
		t.Fatal(err)
	}
	path := writePreset(t, "from = \"full\"\narch = \"net.onnx\"\nlora = 'qkv@q,v:4'\n")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "net.onnx\": no such file") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "net.onnx"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Origin; !strings.HasPrefix(s, "full with net.onnx#") || p.Base.Preprocessing().Crop != 32 {
		t.Errorf("%s: images of %d pixels", s, p.Base.Preprocessing().Crop)
	}
	// A size that a file gives stays.
	small, err := Load(writePreset(t, "from = \"quick\"\nsize = 24\n"))
	if err != nil {
		t.Fatal(err)
	}
	for want, of := range map[int]Preset{32: p, 24: small} {
		of, err := of.With(Settings{Arch: filepath.Join(filepath.Dir(path), "net.onnx")})
		spec, failed := of.ObjectiveSpec("minicar", Objective{}, 1)
		if err != nil || failed != nil || spec.Size != want {
			t.Errorf("images of %d pixels, want %d; %v, %v", spec.Size, want, err, failed)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("from = \"quick\"\nbatch = \"4x8\"\n[sets.minishop]\ndim = 64\n[learning_rates.minicar]\n\"ours\" = 1")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Load(writePreset(t, text))
		if err == nil && len(p.Seeds) == 0 {
			t.Errorf("%q: no seeds and no error", text)
		}
	})
}

// Settings change what they name, and a setting that is the preset's own is no change.
func TestWith(t *testing.T) {
	t.Parallel()
	quick, err := Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	p, err := quick.With(Settings{Seeds: []uint64{1, 2, 3}, Dim: 32, Size: 32, Arch: "small", Weights: "pretrained"})
	if err != nil || len(p.Changes) != 0 || p.String() != "quick" || p.FileName() != "quick" {
		t.Errorf("%q, %v", p.Changes, err)
	}
	p, err = quick.With(Settings{LR: 0.25, Batch: 32, ImagesPerClass: 4, Dim: 64, StepsPerEpoch: 3, Size: 24,
		RuleOptions: "tau=2&sum"})
	if err != nil {
		t.Fatal(err)
	}
	want := "quick with learning rate 0.25, images of 24 pixels, 64 dimensions, 3 steps per epoch, batches of 32, " +
		"4 images per class, tau=2, sum"
	if p.String() != want || p.FileName() != "quick-learning-rate-0.25-images-of-24-pixels-64-dimensions-3-steps-per-"+
		"epoch-batches-of-32-4-images-per-class-tau-2-sum" {
		t.Errorf("%s\n%s", p, p.FileName())
	}
	for _, loss := range []string{"", "contrastive"} {
		o := Objective{Objective: objectives.Objective{Loss: loss}}
		s, err := p.ObjectiveSpec("minishop", o, 7)
		if err != nil || s.LR != 0.25 || s.ClassesPerBatch != 8 || s.ImagesPerClass != 4 || s.Dim != 64 ||
			s.Steps() != 60 || s.Size != 24 || s.Seed != 7 || s.Rule != map[string]string{"": "cos/con/con?sum"}[loss] {
			t.Errorf("%s, %v", s.Canonical(), err)
		}
	}
	if rates := p.SweepRates(6, "minicar", "cos/con/con"); !slices.Equal(rates, []float64{0.25}) {
		t.Errorf("sweep at %v", rates)
	}
	saved := quick // What a change does not name stays.
	for _, m := range []train.Memory{{Precision: train.BFloat16}, {MicroBatch: 8}, {}} {
		if saved, err = saved.With(Settings{Memory: m}); err != nil {
			t.Fatal(err)
		}
	}
	if saved.Memory != (train.Memory{Precision: train.BFloat16, MicroBatch: 8}) || len(saved.Changes) != 2 {
		t.Errorf("%+v, %q", saved.Memory, saved.Changes)
	}
	odd, err := quick.With(Settings{Batch: 60})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := odd.Spec("minicar", dmlx.Rule{}, 1); err == nil ||
		!strings.Contains(err.Error(), "want a multiple of 8") {
		t.Errorf("a batch of 60 with 8 of each class: %v", err)
	}
	if s, err := odd.Spec("minishop", dmlx.Rule{}, 1); err != nil || s.ClassesPerBatch != 15 {
		t.Errorf("a batch of 60 with 4 of each class: %s, %v", s.Canonical(), err)
	}
	for want, bad := range map[string]Settings{
		"learning rate is -1": {LR: -1}, "each once": {Rates: []float64{1, 1}}, "epochs is -3": {Epochs: -3},
		"no option": {RuleOptions: "x=1"}, "at least one": {Seeds: []uint64{}}, "two data sets": {FineGrained: "minishop"},
	} {
		if _, err := quick.With(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want …%s…", bad, err, want)
		}
	}
}

// The scale that a loss of the user's own would be measured by is near the sizes that the rates of the published losses
// are taken from.
func TestScaleOfLosses(t *testing.T) {
	t.Parallel()
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	for name := range recordedSizes {
		l := must(losses.Parse(name))
		scale, err := dissect.LossScale(b, l.Of, losses.PerClass(l))
		if ratio := scale / (recordedSizes[name] / ruleSize); err != nil || ratio < 1./6 || ratio > 2 {
			t.Errorf("%s: %g times its size, %v", name, ratio, err)
		}
	}
}

// A preset says which part of a network is trained, and on one data set alone if it is to. Rates on a folder of images
// are found by its name. What is embedded is read as a file is.
func TestPresetOfPartOnOneSet(t *testing.T) {
	t.Parallel()
	p, err := LoadFS(fstest.MapFS{
		"base.toml": {Data: []byte("fine_grained = \"minishop\"\ncoarse_grained = \"none\"\narch = \"resnet18\"\n" +
			"weights = \"random\"\ntrain_only = \"layer4\"\nfreeze = \"bn\"\nlora = \"fc:4\"\nlr = 0.5\n")},
		"rates.toml": {Data: []byte("from = \"base.toml\"\n[learning_rates.cars]\n\"cos/con/con\" = 0.125\n")},
	}, "rates.toml")
	if err != nil {
		t.Fatal(err)
	}
	if p.FineGrained != "minishop" || p.CoarseGrained != "" || p.Rate("/elsewhere/cars", "cos/con/con") != 0.125 ||
		p.Rate("minicar", "cos/con/con") == 0.125 {
		t.Errorf("%q and %q, rates %g and %g", p.FineGrained, p.CoarseGrained, p.Rate("/elsewhere/cars", "cos/con/con"),
			p.Rate("minicar", "cos/con/con"))
	}
	spec, err := p.Spec(p.FineGrained, dmlx.Rule{}, 1)
	if err != nil || spec.TrainOnly != "layer4" || spec.Freeze != "bn" || spec.LoRA != "fc:4" || spec.LR != 0.5 {
		t.Errorf("%+v, %v", spec, err)
	}
}

// Set takes the keys of a preset's file, with the same errors.
func TestSet(t *testing.T) {
	t.Parallel()
	quick, err := Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	p, err := quick.Set("epochs=3", "batch=8x4", "train-only=layer4", "seeds=1-3,7", "rates=0.1,0.3", "recompute",
		"optimizer=adam", "epochs=2", "skip_bad")
	if err != nil || !slices.Equal(p.Seeds, []uint64{1, 2, 3, 7}) || !slices.Equal(p.Rates, []float64{0.1, 0.3}) ||
		!p.Memory.Recompute || !p.Reading.SkipBad {
		t.Fatalf("%+v, %v", p, err)
	}
	s, err := p.ObjectiveSpec("minicar", Objective{}, 1)
	if err != nil || s.Epochs != 2 || s.Batch() != 32 || s.ImagesPerClass != 4 || s.TrainOnly != "layer4" ||
		s.Optimizer != "adam" {
		t.Errorf("%s, %v", s.Canonical(), err)
	}
	for setting, want := range map[string]string{
		"epochs=x": "epochs: x: want a positive whole number", "epochs=0": "want a positive whole number",
		"epochs": "want a positive whole number", "lr=-1": "lr: -1: want a positive number as a learning rate",
		"seeds=-1": "want numbers and ranges", "epoch=3": "did you mean epochs?", "from=quick": `no key "from"`,
		"recompute=x": "want true or false", "batch=8y": "as in 8x8", "optimizer=adamm": "adam", "rates=1,x": "want numbers",
	} {
		if _, err := quick.Set(setting); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want …%s…", setting, err, want)
		}
	}
}

func TestParseNumbers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]uint64{"3": {3}, "1-3": {1, 2, 3}, "1,3-4, 9": {1, 3, 4, 9}, "0-0": {0},
		"18446744073709551615": {18446744073709551615}} {
		if got, err := ParseNumbers(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "3-1", "1-", "-1", "1,,2", "1-99999999", "0.5"} {
		if got, err := ParseNumbers(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

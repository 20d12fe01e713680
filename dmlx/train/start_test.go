package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// startTraining is a short training with a start that is chosen, of a network whose batch normalization has running
// averages that are far off. Training corrects them, unless they are frozen, and so has much to gain.
func startTraining(t *testing.T, start string, lr float64, freeze string) Training {
	t.Helper()
	set, err := datasets.Open("minicar", datasets.Options{Size: 16, TrainClasses: 12, TestClasses: 6})
	if err != nil {
		t.Fatal(err)
	}
	c, err := tinyConfig().WithStart("small", Pretrained)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := c.pretrained()
	if err != nil {
		t.Fatal(err)
	}
	store := model.NewStore()
	defer store.Finalize()
	if err := errors.Join(backbone.Init(store, backbone.Small, 8, 1), c.loadStart(raw, store)); err != nil {
		t.Fatal(err)
	}
	for v := range store.IterVariables() {
		if v.Name() != "running_mean" {
			continue
		}
		values, err := backbone.Values(v)
		for i := range values {
			values[i] += 0.5 * float32(i%3-1)
		}
		if err = errors.Join(err, backbone.SetVariable(store, v.Path(), values, v.Shape().Dimensions, false)); err != nil {
			t.Fatal(err)
		}
	}
	if raw, err = backbone.EncodeWeights(store, backbone.Small, nil); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "small.safetensors")
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	if c, err = c.WithStart("small", file); err != nil {
		t.Fatal(err)
	}
	if c.Dim, err = c.FeatureWidth(); err != nil {
		t.Fatal(err)
	}
	c.ClassesPerBatch, c.ImagesPerClass, c.Epochs, c.StepsPerEpoch, c.LR, c.Start = 4, 4, 5, 5, lr, start
	c.FreezeBN = freeze
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return Training{Config: c, ID: "start", Data: samples.Images(set), Dir: t.TempDir()}
}

// A network that training made better on held-out classes is returned as it was trained, and any other one as it was,
// behind the start that was chosen.
func TestChosenTraining(t *testing.T) {
	for name, test := range map[string]struct {
		start  string
		lr     float64
		freeze string
		gains  bool
	}{
		"gained":         {ChosenStart, 1e-3, "", true},
		"nothing gained": {ChosenStart, 1e-9, FreezeAll, false},
		"made worse":     {ChosenStart, 1e6, FreezeStatistics, false},
		"rate":           {ChosenTraining, 1e-3, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := bothTrainers()[0]
			tn := startTraining(t, test.start, test.lr, test.freeze)
			out, err := tr.Train(t.Context(), tn)
			if err != nil {
				t.Fatal(err)
			}
			n := out.Head.Network
			if gained := n.Gain() > 0; gained != test.gains || gained != (out.Head.Steps > 0) {
				t.Fatalf("%s: want a gain: %v", out.Head, test.gains)
			}
			if text := out.Head.String(); strings.Contains(text, "the trained network is returned") != test.gains {
				t.Error(text)
			}
			if test.start == ChosenStart && (n.LR != test.lr || n.Epochs != tn.Epochs) || n.Classes != 3 {
				t.Errorf("%+v", n)
			}
			if _, err := os.Stat(trialsDir(tn.Dir)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the trials are left: %v", err)
			}
			state, err := ReadCheckpoint(tn.Dir)
			if err != nil || state.Epoch != out.Head.Steps/tn.StepsPerEpoch {
				t.Fatalf("epoch %d, %v", state.Epoch, err)
			}
			// What is returned is what everything reads from the checkpoint.
			embedded, err := tr.Embed(t.Context(), tn.Config, lastWeights(t, tn.Dir), tn.Data, tn.Data.Test, nil)
			if err != nil {
				t.Fatal(err)
			}
			m, err := retrieval.Evaluate(t.Context(), tr.Backend, embedded, nil, []int{1})
			if err != nil || m.Recall[1] != out.Recall[1] {
				t.Errorf("Recall@1 %g, of the checkpoint %g, %v", out.Recall[1], m.Recall[1], err)
			}
			before, after := trunk(t, pretrainedOf(t, tn)), trunk(t, lastWeights(t, tn.Dir))
			if same := reflect.DeepEqual(before, after); same == test.gains {
				t.Errorf("the network before its last layer is as it was: %v", same)
			}
		})
	}
}

// pretrainedOf returns the weights that a training starts from.
func pretrainedOf(t *testing.T, of Training) []byte {
	t.Helper()
	raw, err := of.pretrained()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// trunk returns the weights of a file before the last layer, by their paths.
func trunk(t *testing.T, raw []byte) map[string][]float32 {
	t.Helper()
	store, out := model.NewStore(), make(map[string][]float32)
	defer store.Finalize()
	options := backbone.LoadOptions{Arch: backbone.Small, WithoutHead: true}
	if _, err := backbone.DecodeWeights(raw, store, options); err != nil {
		t.Fatal(err)
	}
	for v := range store.IterVariables() {
		values, err := backbone.Values(v)
		if err != nil {
			t.Fatal(err)
		}
		out[v.Path()] = values
	}
	return out
}

// A training that is stopped, while it is chosen or later, ends with the same choice and the same weights.
func TestChosenTrainingResumes(t *testing.T) {
	if testing.Short() {
		t.Skip("trains several times")
	}
	t.Parallel()
	tr := bothTrainers()[0]
	tn := startTraining(t, ChosenTraining, 1e-3, "")
	whole, err := tr.Train(t.Context(), tn)
	if err != nil {
		t.Fatal(err)
	}
	want := lastWeights(t, tn.Dir)
	tn.Dir = t.TempDir()
	for _, trial := range []bool{true, false} {
		ctx, stop := context.WithCancel(t.Context())
		steps := 0
		tn.Progress = func(p Progress) {
			if steps++; p.Trial == trial && p.Embedded == 0 && steps > 12 {
				stop()
			}
		}
		if _, err := tr.Train(ctx, tn); !errors.Is(err, context.Canceled) {
			t.Fatalf("stopped: %v", err)
		}
		stop()
	}
	tn.Progress = nil
	again, err := tr.Train(t.Context(), tn)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.Head, whole.Head) || !bytes.Equal(lastWeights(t, tn.Dir), want) {
		t.Errorf("%s, whole %s; equal weights: %v", again.Head, whole.Head, bytes.Equal(lastWeights(t, tn.Dir), want))
	}

	// A stranger's checkpoint may say less.
	c, err := ReadCheckpoint(tn.Dir)
	if err != nil {
		t.Fatal(err)
	}
	c.Head.Network = nil
	c.Sum = c.Checksum()
	raw, err := json.Marshal(c)
	if err == nil {
		err = os.WriteFile(filepath.Join(tn.Dir, CheckpointDir, CheckpointFile), raw, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	warned := ""
	tn.Warn = func(message string) { warned = message }
	if _, err := tr.Train(t.Context(), tn); err != nil || !strings.Contains(warned, "does not say what was chosen") ||
		!bytes.Equal(lastWeights(t, tn.Dir), want) {
		t.Errorf("%v, %q", err, warned)
	}
}

// A start that cannot be chosen is refused before a step.
func TestChosenStartRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Training) error{
		"random weights: want start=random": func(t *Training) error { t.Weights = Random; return t.Validate() },
		"at most as many dimensions":        func(t *Training) error { t.Dim = 4096; return t.Validate() },
		"9 are left to train on":            func(t *Training) error { t.ClassesPerBatch = 10; return t.Fits(t.Data, 0) },
		"want more classes":                 func(t *Training) error { return t.Fits(t.Data, 1) },
		`no start "choosen"`: func(t *Training) (err error) {
			_, err = t.WithOptions(Options{Start: "choosen"})
			return err
		},
	} {
		tn := startTraining(t, ChosenStart, 0.1, "")
		if err := change(&tn); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A network whose training on all classes diverges, though it gained on a part of them, is returned as it was, also by
// a training that was stopped in between.
func TestChosenTrainingDiverged(t *testing.T) {
	t.Parallel()
	tr, tn := bothTrainers()[0], startTraining(t, ChosenStart, 1e-3, "")
	trained, err := tr.Train(t.Context(), tn)
	if err != nil {
		t.Fatal(err)
	}
	state, err := ReadCheckpoint(tn.Dir)
	if err != nil || trained.Head.Steps == 0 {
		t.Fatal(trained.Head, err)
	}
	state.Diverged = "not finite from step 23 on"
	state.Sum = state.Checksum()
	if err := durable.WriteJSON(filepath.Join(tn.Dir, CheckpointDir, CheckpointFile), state); err != nil {
		t.Fatal(err)
	}
	var recalls []float64
	for range 2 { // The second one reads what the first one left.
		out, err := tr.Train(t.Context(), tn)
		if err != nil || out.Diverged != "" || out.Head.Steps != 0 || !strings.Contains(out.Head.String(),
			"as it was, behind this start: its training on all classes diverged (not finite from step 23 on)") {
			t.Fatal(out, err)
		}
		if !reflect.DeepEqual(trunk(t, pretrainedOf(t, tn)), trunk(t, lastWeights(t, tn.Dir))) {
			t.Error("the network before its last layer is not as it was")
		}
		recalls = append(recalls, out.Recall[1])
	}
	if recalls[0] != recalls[1] || recalls[0] == trained.Recall[1] {
		t.Error(recalls, trained.Recall[1])
	}
}

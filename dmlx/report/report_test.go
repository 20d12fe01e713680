package report

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/train"
)

func TestOverall(t *testing.T) {
	var fraction float64
	var text string
	show := Overall(func(f float64, s string) { fraction, text = f, s })
	for _, p := range []runs.Progress{
		{Run: 1, Runs: 4, Progress: train.Progress{Step: 5, Steps: 10}},
		{Run: 2, Runs: 4, Progress: train.Progress{Step: 1, Steps: 10}},
		{Run: 1, Runs: 4, Progress: train.Progress{Step: 10, Steps: 10}},
	} {
		show(p)
	}
	if math.Abs(fraction-1.1/4) > 1e-12 || !strings.HasPrefix(text, "run 1/4") || !strings.HasSuffix(text, " left") {
		t.Errorf("%v %q", fraction, text)
	}
	for want, p := range map[string]runs.Progress{
		"7 of 8 images decoded":  {Runs: 4, Progress: train.Progress{Decoded: 7, Images: 8}},
		"8 of 8 images embedded": {Runs: 4, Progress: train.Progress{Embedded: 8, Images: 8}},
	} {
		if show(p); !strings.Contains(text, want) {
			t.Errorf("%q, want %s", text, want)
		}
	}
	show(runs.Progress{Progress: train.Progress{Step: 1}}) // A run of its own that does not know its length.
}

// An hour before the first step, of images or of a frozen part, and a minute of compilation are not taken for the pace
// of runs.
func TestOverallCountsSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text string
		show := Overall(func(_ float64, s string) { text = s })
		for step := range 4 {
			show(runs.Progress{Run: 1, Runs: 2, Progress: train.Progress{Step: step, Steps: 10}})
			time.Sleep([]time.Duration{time.Hour, time.Minute, 2 * time.Second, 0}[step])
			if step < 3 && strings.HasSuffix(text, " left") {
				t.Errorf("%q after %d steps, of which the first two may compile", text, step)
			}
		}
		if !strings.HasSuffix(text, ", 34s left") {
			t.Errorf("%q after 3 of 20 steps, the last in two seconds", text)
		}
	})
}

// The scores of bundled runs are their measures, and say whose, on what and in which setting they are.
func TestStored(t *testing.T) {
	t.Parallel()
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if none, err := Stored(store, false); err != nil || none != nil {
		t.Errorf("an empty store: %d scores, %v", len(none), err)
	}
	all, err := Stored(store, true)
	if err != nil {
		t.Fatal(err)
	}
	bundled, err := runs.Bundled()
	if err != nil || len(all.Values(scores.Run.Of)) != len(bundled) {
		t.Errorf("%d of %d runs, %v", len(all.Values(scores.Run.Of)), len(bundled), err)
	}
	recall := all.Select(scores.Row{Data: "minicar", Preset: "quick", Rule: "cos/lin/con", Measure: Recall(1), Batch: 64})
	fixed := recall.Where(func(r scores.Row) bool { return r.Protocol == "" })
	if len(fixed) < 3 || len(recall) == len(fixed) {
		t.Fatalf("%d runs of a rule, %d without classes held out", len(recall), len(fixed))
	}
	for _, r := range fixed {
		if want := 100 * bundled[r.Run].Recall[1]; r.Value.Mean != want || r.Setting != scores.Drawn ||
			r.Whose != scores.Ours || r.Direction != "cos" || r.Pair != "lin" || r.Seed != bundled[r.Run].Spec.Seed {
			t.Errorf("%+v, want %v", r, want)
		}
	}
	if settings := all.Values(scores.Setting.Of); len(settings) != 2 || settings[0] == settings[1] {
		t.Errorf("the settings %q", settings)
	}
}

// Rows of two machines in one table are said to be so.
func TestProvenanceOfTwoMachines(t *testing.T) {
	t.Parallel()
	bundled := &runs.Result{Bundled: true, Machine: "there", Backend: "go"}
	const note = "--no-bundled trains them here"
	for _, c := range []struct {
		beside *runs.Result
		want   bool
	}{{&runs.Result{Machine: "here", Backend: "go"}, true}, {&runs.Result{Machine: "there", Backend: "go"}, false},
		{&runs.Result{Bundled: true, Machine: "here", Backend: "go"}, false}} {
		p := Provenance{Runs: 2, Results: []*runs.Result{bundled, c.beside}}
		if got := strings.Contains(p.String(), note); got != c.want {
			t.Errorf("%v: %s", c.want, p)
		}
	}
}

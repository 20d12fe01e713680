package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
)

// tinyStudy has one rule over two seeds, in two cells that share their runs.
func tinyStudy(t *testing.T) (Study, Preset) {
	p, err := ParsePreset("smoke")
	if err != nil {
		t.Fatal(err)
	}
	adjust := func(s *Spec) {
		seed := s.Seed
		*s = tiny()
		s.Seed = seed
	}
	c := Cell{Data: "minicar", Rule: "cos/con/con", Row: "a", Column: "1", Adjust: adjust}
	d := c
	d.Row = "b"
	return Study{Name: "tiny", Cells: func(Preset) []Cell { return []Cell{c, d} }}, p
}

func noBackend() (*Trainer, error) { return nil, errors.New("a backend was opened") }

func TestMadeElsewhere(t *testing.T) {
	study, p := tinyStudy(t)
	here, _ := testStore(t)
	want, err := Reproduce(t.Context(), func() (*Trainer, error) { return goBackend(), nil }, here, study, p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := testStore(t)
	calls := 0
	o := Options{Elsewhere: func(ctx context.Context, jobs []Job) error {
		calls++
		if len(jobs) != 2 || jobs[0].Portrait {
			t.Errorf("jobs %+v", jobs)
		}
		for _, j := range jobs {
			raw, err := json.Marshal(j) // As it travels.
			if err != nil {
				return err
			}
			var read Job
			if err := errors.Join(j.Check(), json.Unmarshal(raw, &read)); err != nil {
				return err
			}
			if done, err := read.Done(s); done || err != nil {
				t.Errorf("done before: %v", err)
			}
			if err := read.Make(ctx, goBackend(), s, nil); err != nil {
				return err
			}
			if done, err := read.Done(s); !done || err != nil {
				t.Errorf("not done: %v", err)
			}
		}
		return nil
	}}
	got, err := Reproduce(t.Context(), noBackend, s, study, p, o)
	if err != nil {
		t.Fatal(err)
	}
	if got.Ran != 2 || got.Runs != 4 || !reflect.DeepEqual(got.Cells[1].Recall(1), want.Cells[1].Recall(1)) {
		t.Errorf("made elsewhere %+v, here %+v", got, want)
	}
	if _, _, err := Portraits(t.Context(), noBackend, s, study, p, Options{Elsewhere: func(ctx context.Context, jobs []Job) error {
		if len(jobs) != 2 || !jobs[1].Portrait {
			t.Errorf("jobs %+v", jobs)
		}
		for _, j := range jobs {
			if err := j.Make(ctx, goBackend(), s, nil); err != nil {
				return err
			}
		}
		return nil
	}}); err != nil {
		t.Error(err)
	}
	if _, err := Reproduce(t.Context(), noBackend, s, study, p, o); err != nil || calls != 1 {
		t.Errorf("nothing is missing: %d calls, %v", calls, err)
	}
	empty, _ := testStore(t)
	o.Elsewhere = func(context.Context, []Job) error { return nil }
	if _, err := Reproduce(t.Context(), noBackend, empty, study, p, o); err == nil || !strings.Contains(err.Error(), "was to be made elsewhere") {
		t.Errorf("what was not made passes: %v", err)
	}
	wrong := errors.New("no")
	o.Elsewhere = func(context.Context, []Job) error { return wrong }
	if _, err := Reproduce(t.Context(), noBackend, empty, study, p, o); !errors.Is(err, wrong) {
		t.Error(err)
	}
}

func TestJobsThatCannotTravel(t *testing.T) {
	rule := dmlx.Rule{Pair: dmlx.PairWeight{Name: "own", Of: dmlx.PairWeights[0].Of}}
	own, err := tiny().WithRule(rule)
	if err != nil {
		t.Fatal(err)
	}
	weights := filepath.Join(t.TempDir(), "w.safetensors")
	if raw, ok := backbone.Pretrained(); !ok || os.WriteFile(weights, raw, 0o600) != nil {
		t.Fatal("no weights to write")
	}
	file, err := tiny().WithStart("", weights)
	if err != nil {
		t.Fatal(err)
	}
	for want, spec := range map[string]Spec{"from its spec alone": own, "w.safetensors": file} {
		if err := Jobs(spec)[0].Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

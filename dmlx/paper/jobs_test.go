package paper

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/runstest"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// tinyStudy has one rule over two seeds, in two cells that share their runs.
func tinyStudy(t *testing.T) (Study, presets.Preset) {
	p, err := presets.Parse("smoke")
	if err != nil {
		t.Fatal(err)
	}
	adjust := func(s *runs.Spec) {
		seed := s.Seed
		*s = runstest.Tiny()
		s.Seed = seed
	}
	c := Cell{Data: "minicar", Objective: presets.Named("cos/con/con"), Row: "a", Column: "1", Adjust: adjust}
	d := c
	d.Row = "b"
	study := listed(c, d)
	study.Name = "tiny"
	return study, p
}

func noBackend() (*train.Trainer, error) { return nil, errors.New("a backend was opened") }

func TestMadeElsewhere(t *testing.T) {
	study, p := tinyStudy(t)
	here, _ := runstest.Store(t)
	want, err := Reproduce(t.Context(), func() (*train.Trainer, error) { return runstest.Go(), nil }, here, study, p,
		runs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := runstest.Store(t)
	calls := 0
	o := runs.Options{Devices: 1, Submit: func(ctx context.Context, jobs []runs.Job) error {
		calls++
		if len(jobs) != 2 || jobs[0].Histograms {
			t.Errorf("jobs %+v", jobs)
		}
		for _, j := range jobs {
			raw, err := json.Marshal(j) // As it travels.
			if err != nil {
				return err
			}
			var read runs.Job
			if err := errors.Join(j.Check(), json.Unmarshal(raw, &read)); err != nil {
				return err
			}
			if done, err := read.Done(s); done || err != nil {
				t.Errorf("done before: %v", err)
			}
			if err := read.Run(ctx, runstest.Go(), s, nil); err != nil {
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
	if _, _, err := histogramsOfStudy(t, noBackend, s, study, p,
		runs.Options{Submit: func(ctx context.Context, jobs []runs.Job) error {
			if len(jobs) != 2 || !jobs[1].Histograms {
				t.Errorf("jobs %+v", jobs)
			}
			for _, j := range jobs {
				if err := j.Run(ctx, runstest.Go(), s, nil); err != nil {
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
	empty, _ := runstest.Store(t)
	o.Submit = func(context.Context, []runs.Job) error { return nil }
	if _, err := Reproduce(t.Context(), noBackend, empty, study, p, o); err == nil ||
		!strings.Contains(err.Error(), "its task has failed, or another process still trains it") {
		t.Errorf("what was not made passes: %v", err)
	}
	wrong := errors.New("no")
	o.Submit = func(context.Context, []runs.Job) error { return wrong }
	if _, err := Reproduce(t.Context(), noBackend, empty, study, p, o); !errors.Is(err, wrong) {
		t.Error(err)
	}
}

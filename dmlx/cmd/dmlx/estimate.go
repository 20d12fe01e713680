package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/bench"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// estimation says how long it takes here to make what tables lack: the steps of their runs, times what a few such steps
// were measured to take.
type estimation struct {
	lines []*estimated
	seen  map[string]bool // Runs by hash: tables share some.
}

// estimated are the runs of a table on one data set whose steps take equally long.
type estimated struct {
	Study  string  `json:"study"`
	Data   string  `json:"data"`
	Batch  string  `json:"batch"`
	Runs   int     `json:"runs"`
	Steps  int     `json:"steps"` // Of all runs together.
	StepMS float64 `json:"step_ms"`
	Hours  float64 `json:"hours"`

	spec runs.Spec // Of one of them.
}

// add takes the runs that a table lacks and no table before it does.
func (e *estimation) add(study string, jobs []runs.Job) {
	if e.seen == nil {
		e.seen = make(map[string]bool)
	}
	for _, j := range jobs {
		hash := j.Spec.Hash()
		if e.seen[hash] || j.Histograms { // A portrait is no steps.
			continue
		}
		e.seen[hash] = true
		line := e.line(study, j.Spec)
		line.Runs++
		line.Steps += j.Spec.Steps()
	}
}

// line is the one that a run belongs to.
func (e *estimation) line(study string, spec runs.Spec) *estimated {
	batch := bench.StepText(spec)
	for _, l := range e.lines {
		if l.Study == study && l.Data == spec.Data && l.Batch == batch {
			return l
		}
	}
	l := &estimated{Study: study, Data: spec.Data, Batch: batch, spec: spec}
	e.lines = append(e.lines, l)
	return l
}

// print measures the steps and prints the hours.
func (e *estimation) print(ctx context.Context, a *app, open func() (*train.Trainer, error)) error {
	if len(e.lines) == 0 {
		return a.print(map[string]any{"lines": []estimated{}, "hours": 0}, "no run is missing")
	}
	choice, err := open()
	if err != nil {
		return err
	}
	measured := make(map[string]float64)
	hours := 0.
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "table\tdata\ta step\ttakes\truns\tsteps in all\thours")
	for i, l := range e.lines {
		ms, known := measured[l.Batch]
		if !known {
			a.line.show("measuring some steps of %s, %d of %d", l.Batch, i+1, len(e.lines))
			ms, err = bench.StepTime(ctx, choice.Choice, l.spec)
			a.line.end()
			if err != nil {
				return fmt.Errorf("some steps of %s: %w", l.Batch, err)
			}
			measured[l.Batch] = ms
		}
		l.StepMS, l.Hours = ms, ms*float64(l.Steps)/float64(time.Hour.Milliseconds())
		hours += l.Hours
		fmt.Fprintf(w, "%s\t%s\t%s\t%.3g s\t%d\t%d\t%.3g\n", l.Study, l.Data, l.Batch, ms/1000, l.Runs, l.Steps, l.Hours)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&text, "\n%.3g hours in all on %s, a run at a time; images are decoded and recall is measured beside "+
		"that", hours, choice.Name)
	return a.print(map[string]any{"lines": e.lines, "hours": hours, "backend": choice.Name}, text.String())
}

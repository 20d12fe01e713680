// Package estimate estimates how long this machine would take to train the missing runs of tables: the number of their
// steps times the measured time of a few such steps.
package estimate

import (
	"context"
	"fmt"
	"time"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/bench"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// Estimate collects the missing runs of tables. The zero value has none.
type Estimate struct {
	Lines []*Line
	Hours float64 // Of all lines; set by [Estimate.Measure].

	seen map[string]bool // Runs by hash, since tables share runs.
}

// Line is the runs of a table on one data set whose steps take equally long.
type Line struct {
	Study  string  `json:"study"`
	Data   string  `json:"data"`
	Batch  string  `json:"batch"`
	Runs   int     `json:"runs"`
	Steps  int     `json:"steps"` // Of all runs together.
	StepMS float64 `json:"step_ms"`
	Hours  float64 `json:"hours"`

	spec runs.Spec // Of one of the runs.
}

// Add adds the missing runs of a table, except those of earlier tables.
func (e *Estimate) Add(study string, jobs []runs.Job) {
	if e.seen == nil {
		e.seen = make(map[string]bool)
	}
	for _, j := range jobs {
		hash := j.Spec.Hash()
		if e.seen[hash] || j.Histograms { // Similarity histograms of a trained run take no steps.
			continue
		}
		e.seen[hash] = true
		line := e.line(study, j.Spec)
		line.Runs++
		line.Steps += j.Spec.Steps()
	}
}

// line returns the line of a run, a new one if there is none yet.
func (e *Estimate) line(study string, spec runs.Spec) *Line {
	batch := bench.StepText(spec)
	for _, l := range e.Lines {
		if l.Study == study && l.Data == spec.Data && l.Batch == batch {
			return l
		}
	}
	l := &Line{Study: study, Data: spec.Data, Batch: batch, spec: spec}
	e.Lines = append(e.Lines, l)
	return l
}

// Measure measures a few steps of each kind and sets the hours. It calls show before each measurement.
func (e *Estimate) Measure(ctx context.Context, c *backend.Choice, show func(text string)) error {
	measured := make(map[string]float64)
	for i, l := range e.Lines {
		ms, known := measured[l.Batch]
		if !known {
			show(fmt.Sprintf("measuring some steps of %s, %d of %d", l.Batch, i+1, len(e.Lines)))
			var err error
			if ms, err = bench.StepTime(ctx, c, l.spec); err != nil {
				return fmt.Errorf("some steps of %s: %w", l.Batch, err)
			}
			measured[l.Batch] = ms
		}
		l.StepMS, l.Hours = ms, ms*float64(l.Steps)/float64(time.Hour.Milliseconds())
		e.Hours += l.Hours
	}
	return nil
}

// Text returns the estimate as a table. backend is the name of the backend on which the steps were measured, and keep
// the bytes of [runs.Options], since the runs may start from kept maps, which the measured steps do not.
func (e *Estimate) Text(backend string, keep int64) string {
	rows := []string{"table\tdata\tstep\ttime of a step\truns\tsteps of all runs\thours"}
	for _, l := range e.Lines {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%.3g s\t%d\t%d\t%.3g", l.Study, l.Data, l.Batch, l.StepMS/1000,
			l.Runs, l.Steps, l.Hours))
	}
	out := text.Table(rows...) + fmt.Sprintf("\n\n%.3g hours in total on %s, with one run at a time. The time to decode "+
		"images and to measure recall is not included.", e.Hours, backend)
	if keep > 0 {
		out += " The steps are measured as without --keep: with it they can be several times as fast."
	}
	return out
}

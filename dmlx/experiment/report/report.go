// Package report hands what experiment measured to figures, and its progress to whatever shows one: the command and the
// notebooks show the same tables by the same code.
package report

import (
	"fmt"
	"sync"
	"time"

	"github.com/gradient-surgery/dml/dmlx/experiment"
	"github.com/gradient-surgery/dml/figures"
)

// Compare sets a table beside the paper's: Recall@1 in percent, mean and sample standard deviation over seeds.
func Compare(t *experiment.Table) (*figures.Comparison, error) {
	return figures.Compare(t.Study, entries(t), t.Provenance())
}

func entries(t *experiment.Table) []figures.Entry {
	out := make([]figures.Entry, len(t.Cells))
	for i, c := range t.Cells {
		s := c.Recall(1)
		out[i] = figures.Entry{Rule: c.Rule, Data: c.Data, Paper: c.PaperData,
			Score: figures.Score{Mean: 100 * s.Mean, Std: 100 * s.Std, N: s.N, Diverged: s.Diverged}}
	}
	return out
}

// Overall makes a progress function for experiment.Reproduce of one that shows how far all runs together are, from 0
// to 1, with a line of text: the run under way and the time that all still need.
func Overall(show func(fraction float64, text string)) func(experiment.Progress) {
	var mu sync.Mutex
	var started time.Time
	share := make(map[int]float64) // Of each run.
	resumed := 0.0                 // What was done before: it says nothing about the pace.
	return func(p experiment.Progress) {
		mu.Lock()
		defer mu.Unlock()
		if started.IsZero() {
			started = time.Now()
		}
		part := float64(p.Step) / float64(max(p.Steps, 1))
		if _, known := share[p.Run]; !known {
			resumed += max(0, part-1/float64(max(p.Steps, 1)))
		}
		share[p.Run] = part
		done := 0.0
		for _, s := range share {
			done += s
		}
		runs := float64(max(p.Runs, 1))
		text := fmt.Sprintf("run %d/%d: %s on %s, seed %d, epoch %d/%d, %.0f steps/s, violations %.0f %%",
			p.Run, max(p.Runs, 1), p.Spec.Rule, p.Spec.Data, p.Spec.Seed, p.Epoch, p.Epochs, p.StepRate, 100*p.ViolationRate)
		if made := done - resumed; made > 0 {
			left := time.Duration(float64(time.Since(started)) / made * (runs - done))
			text += fmt.Sprintf(", %s left", left.Round(time.Second))
		}
		show(done/runs, text)
	}
}

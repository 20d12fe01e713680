package runs

import (
	"math"
	"strings"
	"time"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// MeanOf returns the mean of a measure over runs with different seeds. Diverged runs are counted but not averaged; NaN
// is left out.
func MeanOf(runs []*Result, measure func(*Result) float64) stats.Mean {
	var values []float64
	diverged := 0
	for _, r := range runs {
		if r.Diverged != "" {
			diverged++
		} else {
			values = append(values, measure(r))
		}
	}
	s := stats.MeanOf(values)
	s.Diverged = diverged
	return s
}

// MeanRecall returns the mean Recall@K, a fraction, over the runs that measured it.
func MeanRecall(runs []*Result, k int) stats.Mean {
	return MeanOf(runs, func(r *Result) float64 {
		if v, measured := r.Recall[k]; measured {
			return v
		}
		return math.NaN()
	})
}

// Provenance returns one line with the backends, the machines and the dates of results.
func Provenance(results []*Result) string {
	var backends, machines []string
	var first, last time.Time
	for _, r := range results {
		backends, machines = slice.AddNew(backends, r.BackendText()), slice.AddNew(machines, r.Machine)
		if first.IsZero() || r.Date.Before(first) {
			first = r.Date
		}
		if r.Date.After(last) {
			last = r.Date
		}
	}
	const day = "2006-01-02"
	dates := first.Format(day)
	if to := last.Format(day); to != dates {
		dates += " to " + to
	}
	return strings.Join([]string{strings.Join(backends, ", "), strings.Join(machines, "; "), dates}, " · ")
}

// Package report has what tables and inspections hand out, and the scores of runs.
package report

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// Measures of a run that are no Recall@K.
const (
	MAPAtR  = "MAP@R"
	Overlap = "overlap" // Of the histograms of nearest-positive and nearest-negative similarities.
	Compact = "compact" // The share of anchors with both above 0.9.
	HeldOut = "held-out R@1"
)

// ks are the K of Recall@K that runs measure, as far as their test sets are large enough.
var ks = []int{1, 2, 4, 8, 10, 20, 30, 40, 100, 1000}

// Recall names the measure Recall@K.
func Recall(k int) string { return fmt.Sprintf("R@%d", k) }

// Scores returns the measures of finished runs, a row for each, in percent.
func Scores(results ...*runs.Result) scores.Table {
	var out scores.Table
	for _, r := range results {
		row := Planned(r.Spec)
		row.Run = r.Hash
		add := func(measure string, value float64) {
			if row.SetMeasure(measure, value); r.Diverged != "" {
				row.SetMeasure(measure, math.NaN())
				row.Value = stats.Mean{Mean: math.NaN(), Diverged: 1}
			}
			out = append(out, row)
		}
		for _, k := range ks {
			if v, measured := r.Recall[k]; measured || r.Diverged != "" {
				add(Recall(k), v)
			}
		}
		if r.Recall != nil || r.Diverged != "" {
			add(MAPAtR, r.MAPAtR)
			add(Overlap, r.Overlap)
			add(Compact, r.Compact)
		}
		if v, measured := r.HeldOutRecall[1]; measured || r.Diverged != "" && r.Spec.HeldOut > 0 {
			add(HeldOut, v)
		}
	}
	return out
}

// Finished returns all finished runs of a store by their hash, and those that are bundled with the program.
func Finished(store *runs.Store, alsoBundled bool) (map[string]*runs.Result, error) {
	entries, err := store.List()
	if err != nil {
		return nil, err
	}
	all := make(map[string]*runs.Result)
	if alsoBundled {
		bundled, err := runs.Bundled()
		if err != nil {
			return nil, err
		}
		maps.Copy(all, bundled)
	}
	for _, e := range entries {
		if e.Result != nil && e.Bad == "" {
			all[e.Hash] = e.Result
		}
	}
	return all, nil
}

// Stored returns the scores of all finished runs of a store, and of those that are bundled with the program.
func Stored(store *runs.Store, alsoBundled bool) (scores.Table, error) {
	all, err := Finished(store, alsoBundled)
	if err != nil {
		return nil, err
	}
	var out scores.Table
	for _, hash := range slices.Sorted(maps.Keys(all)) {
		out = append(out, Scores(all[hash])...)
	}
	return out, nil
}

// Planned returns what is known of a run before it is trained, as a score without a measure.
func Planned(s runs.Spec) scores.Row {
	r := scores.Row{Whose: scores.Ours, Data: s.DataName(), Preset: presets.Of(s), Network: s.Network(), Dim: s.Dim,
		Batch: s.Batch(), Exchange: s.Exchange, Epochs: s.Epochs, Steps: s.Steps(), LR: s.LR, Seed: s.Seed,
		Value: scores.Missing()}
	r.SetRule(s.Objective.String())
	switch {
	case slices.Contains(datasets.Names(), s.Data):
		r.Setting = scores.Drawn
	case !runs.IsPublished(s.Data): // The user's own images or features, which bear on no claim.
	case r.Preset == "paper":
		r.Setting = scores.PapersOwn
	default:
		r.Setting = scores.Photographs
	}
	if s.HeldOut > 0 {
		r.Protocol = fmt.Sprintf("one training class in %d held out", s.HeldOut)
	}
	return r
}

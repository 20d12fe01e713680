package report

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

// Request says which preset, store and backend a table or figure is made with.
type Request struct {
	// Open returns the backend. It is called when the first run has to be trained or the first graph computed.
	Open   func() (*train.Trainer, error)
	Store  *runs.Store
	Preset presets.Preset
	// Rows are the user's own: rules and losses that stand beside those of a table or figure that takes some.
	Rows []presets.Objective
	runs.Options
}

// Report is a table, a figure or an inspection: its pictures and tables, and the runs that they are of.
type Report struct {
	Name, Title, Preset, Provenance string
	// Changes are the settings that differ from the preset's, in words.
	Changes   []string
	Runs, Ran int // How many runs it needs, and how many of them were trained for it now.
	// Parts are its pictures and tables, in order.
	Parts []Part
	// Results are its runs, as far as they are available. Histograms are the triplet densities that Figures 4 and 5
	// show.
	Results    []*runs.Result
	Histograms []*runs.Histograms
}

// Part is one picture or table of a report. The main one has an empty name.
type Part struct {
	Name string
	Of   figures.Output
}

// Part returns a part by its name, "" for the main one. An unknown name gives an output that fails when it is shown.
func (r *Report) Part(name string) figures.Output {
	var names []string
	for _, p := range r.Parts {
		if p.Name == name {
			return p.Of
		}
		names = append(names, fmt.Sprintf("%q", p.Name))
	}
	return figures.Failed(fmt.Errorf("%s has no part %q; there are %s", r.Name, name, strings.Join(names, ", ")))
}

// Overall returns a progress function for [Request]. It calls show with the share of all runs that is done, from 0
// to 1, and a line of text: the current run and the estimated time that all of them still need.
func Overall(show func(fraction float64, text string)) func(runs.Progress) {
	var mu sync.Mutex
	var pace train.Pace
	started := false
	share := make(map[int]float64) // Of each run.
	resumed := 0.0                 // Done before this call, so it says nothing about the pace.
	return func(p runs.Progress) {
		mu.Lock()
		defer mu.Unlock()
		part := float64(p.Step) / float64(max(p.Steps, 1))
		switch _, known := share[p.Run]; {
		case !started && p.Step > 0:
			started, resumed = true, part // What came before, once for all runs, is not their pace.
		case !known:
			resumed += max(0, part-1/float64(max(p.Steps, 1)))
		}
		share[p.Run] = part
		done := 0.0
		for _, s := range share {
			done += s
		}
		runs := float64(max(p.Runs, 1))
		text := fmt.Sprintf("run %d/%d: %s on %s, seed %d, %s", p.Run, max(p.Runs, 1), p.Spec.Objective.String(),
			p.Spec.DataName(), p.Spec.Seed, p.Stage())
		if started {
			if rate, left := pace.At(done-resumed, runs-resumed); rate > 0 {
				text += fmt.Sprintf(", %s left", left)
			}
		}
		show(done/runs, text)
	}
}

// Provenance is what is told of runs in one line.
type Provenance struct {
	Preset        string
	Data          []string // The data sets.
	Runs, Missing int      // How many runs are needed, and how many of them are not available.
	Results       []*runs.Result
}

// String returns the preset, the data, the seeds, the backends, machines and dates of the runs, and the bundled files
// that they come from with their digests.
func (p Provenance) String() string {
	var sets, seeds, bundles, elsewhere []string
	bundled, here := 0, false
	for _, r := range p.Results {
		seeds = slice.AddNew(seeds, fmt.Sprint(r.Spec.Seed))
		if r.Bundled {
			bundled++
			bundles, elsewhere = slice.AddNew(bundles, r.Bundle), slice.AddNew(elsewhere, r.BackendText()+r.Machine)
		}
	}
	for _, data := range p.Data {
		sets = slice.AddNew(sets, filepath.Base(data)) // A folder may tell whose it is.
	}
	line := "preset " + p.Preset
	if len(p.Results) > 0 {
		line += fmt.Sprintf(" · %s · seeds %s · %s", strings.Join(sets, ", "), strings.Join(seeds, ", "),
			runs.Provenance(p.Results))
	}
	if bundled > 0 {
		line += fmt.Sprintf(" · %d of %d runs bundled with the program (%s)", bundled, p.Runs,
			strings.Join(bundles, ", "))
	}
	for _, r := range p.Results {
		here = here || bundled > 0 && !slices.Contains(elsewhere, r.BackendText()+r.Machine)
	}
	if here {
		line += " · bundled runs are from another machine or backend, which rounds differently: --no-bundled trains them here"
	}
	if p.Missing > 0 {
		line += fmt.Sprintf(" · %d of %d runs not trained yet", p.Missing, p.Runs)
	}
	return line
}

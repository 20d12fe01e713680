package paper

import (
	"fmt"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// fullSeeds is the number of seeds that full.md fixed for the preset full.
const fullSeeds = 5

// FullPreset returns the preset full with the seeds that full.md fixed before the first run.
func FullPreset() presets.Preset {
	p, err := presets.Parse("full")
	if err != nil {
		panic(err) // It is one of the package's own.
	}
	p.Seeds = p.Seeds[:fullSeeds]
	return p
}

// join adds the cells and counts of another table, of the same preset or another.
func (t *Table) join(other *Table) {
	names := strings.Split(t.Preset, " and ")
	if t.Preset == "" {
		names = nil
	}
	t.Preset = strings.Join(slice.AddNew(names, other.Preset), " and ")
	t.Cells = append(t.Cells, other.Cells...)
	t.Runs, t.Ran, t.Missing = t.Runs+other.Runs, t.Ran+other.Ran, t.Missing+other.Missing
}

// Together returns the cells of several tables as one, for what is told about all their runs.
func Together(tables ...*Table) *Table {
	out := new(Table)
	for _, t := range tables {
		out.join(t)
	}
	return out
}

// Results returns the runs of the table's cells, each once.
func (t *Table) Results() []*runs.Result {
	seen := make(map[string]bool)
	var out []*runs.Result
	for _, c := range t.Cells {
		for _, r := range c.Runs {
			if !seen[r.Hash] {
				seen[r.Hash] = true
				out = append(out, r)
			}
		}
	}
	return out
}

// Longer returns a cell for once, twice, … the preset's epochs. The learning rate falls after the same share of them.
func Longer(c Cell, times ...int) []Cell {
	return slice.Map(times, func(n int) Cell {
		c.Column, c.Times, c.Adjust = fmt.Sprintf("%d×", n), n, func(s *runs.Spec) { s.Epochs *= n }
		return c
	})
}

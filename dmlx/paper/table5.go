package paper

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// table5 is the comparison with the state of the art: the paper's table as printed, and its own rows run on the preset's
// data sets. Of the paper's data sets those that are not here are left out, and notes say where to get them.
func table5(ctx context.Context, q Request) (*Report, error) {
	papers, err := figures.Table5()
	if err != nil {
		return nil, err
	}
	s := Table5()
	missing := MissingSets(s.Cells(q.Preset))
	for _, m := range missing {
		papers.Notes = append(papers.Notes, "Not run: "+m.Error()+".")
	}
	all := s.Cells
	s.Cells = func(p presets.Preset) []Cell {
		return slices.DeleteFunc(all(p), func(c Cell) bool { return len(MissingSets([]Cell{c})) > 0 })
	}
	r := &Report{Title: s.Title}
	if len(s.Cells(q.Preset)) == 0 {
		r.Provenance = "the paper's own numbers; nothing was run"
		papers.Provenance = r.Provenance
		r.Parts = []Part{{"", papers}}
		return r, nil
	}
	if q.Seeds == nil {
		q.Seeds = Table5Seeds(q.Preset)
	}
	t, err := Reproduce(ctx, q.Open, q.Store, s, q.Preset, q.Options)
	if err != nil {
		return nil, err
	}
	r.Provenance, r.Table = t.Provenance(), t
	r.add(t)
	entries, err := batchEntries(t)
	if err != nil {
		return nil, err
	}
	b, err := figures.CompareBatches(entries, r.Provenance)
	if err != nil {
		return nil, err
	}
	ours, err := b.Table()
	if err != nil {
		return nil, err
	}
	r.Parts = []Part{{"", ours}, {"picture", b.Plot()}, {"gains", b.Gains()}, {"paper", papers}}
	return r, nil
}

// batchEntries are the cells of Table 5 as figures takes them.
func batchEntries(t *Table) ([]figures.BatchEntry, error) {
	out := make([]figures.BatchEntry, len(t.Cells))
	for i, c := range t.Cells {
		e := figures.BatchEntry{Method: c.Row, Data: c.Data, Paper: c.PaperData, Recall: make(map[int]stats.Mean)}
		if _, err := fmt.Sscanf(strings.TrimPrefix(c.Column, "×"), "%d", &e.Times); err != nil {
			return nil, fmt.Errorf("column %q: want × and a number", c.Column)
		}
		e.Batch = c.Specs[0].Batch()
		for _, k := range []int{1, 2, 4, 10, 20, 100} {
			e.Recall[k] = c.Recall(k).Times(100)
		}
		out[i] = e
	}
	return out, nil
}

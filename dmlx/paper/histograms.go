package paper

import (
	"context"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// HistogramsOf is [Fill] for similarity histograms: it trains the missing runs of cells, and returns them as a table
// with the histograms of each cell's runs, in the order of its seeds; see [runs.AllHistograms].
func HistogramsOf(ctx context.Context, q report.Request, cells []Cell) (*Table, [][]*runs.Histograms, error) {
	t := &Table{Preset: q.Preset.String(), Cells: slices.Clone(cells)}
	var specs []runs.Spec
	for _, c := range cells {
		specs = append(specs, c.Specs...)
	}
	t.Runs = len(specs)
	histograms, ran, err := runs.AllHistograms(ctx, q.Open, q.Store, specs, q.Options)
	if err != nil {
		return nil, nil, err
	}
	t.Ran = ran
	out := make([][]*runs.Histograms, len(cells))
	for i := range t.Cells {
		c := &t.Cells[i]
		c.Runs = nil
		for _, p := range histograms[:len(c.Specs)] {
			if p != nil {
				out[i], c.Runs = append(out[i], p), append(c.Runs, p.Result)
			} else {
				t.Missing++
			}
		}
		histograms = histograms[len(c.Specs):]
	}
	return t, out, nil
}

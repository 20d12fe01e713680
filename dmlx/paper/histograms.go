package paper

import (
	"context"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// HistogramsOf returns a study's table and the similarity histograms of its runs, those of a cell in the order of its
// seeds; see [runs.AllHistograms].
func HistogramsOf(ctx context.Context, choose func() (*train.Trainer, error), store *runs.Store, study Study,
	preset presets.Preset, o runs.Options) (*Table, [][]*runs.Histograms, error) {
	cells, err := study.Specs(preset, o.Seeds)
	if err != nil {
		return nil, nil, err
	}
	t := &Table{Study: study.Name, Title: study.Title, Preset: preset.String(), Cells: cells}
	var specs []runs.Spec
	for _, c := range cells {
		specs = append(specs, c.Specs...)
	}
	t.Runs = len(specs)
	histograms, ran, err := runs.AllHistograms(ctx, choose, store, specs, o)
	if err != nil {
		return nil, nil, err
	}
	t.Ran = ran
	out := make([][]*runs.Histograms, len(cells))
	for i := range t.Cells {
		c := &t.Cells[i]
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

package nbruns

import (
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/notebooks/nb"
)

// TrainHistograms is [Train] for the similarity histograms of runs. It returns the cells as a table, and the histograms
// of each cell's runs.
func TrainHistograms(open func() (*backend.Choice, error), cells []paper.Cell,
	o runs.Options) (*paper.Table, [][]*runs.Histograms) {
	line := nb.NewProgress("Preset " + nb.Preset())
	o.Progress = report.Overall(line.Set)
	t, histograms, err := paper.HistogramsOf(nb.Context(), Request(choose(open, light(cells)), o), cells)
	nb.Check(err)
	line.Done(fmt.Sprintf("%d runs, %d of them computed now", t.Runs-t.Missing, t.Ran))
	return t, histograms
}

// HaveHistograms is [Have] for the similarity histograms of runs.
func HaveHistograms(cells []paper.Cell) (*paper.Table, [][]*runs.Histograms) {
	t, histograms, err := paper.HistogramsOf(nb.Context(),
		Request(backend.Open, runs.Options{CachedOnly: true}), cells)
	nb.Check(err)
	return t, histograms
}

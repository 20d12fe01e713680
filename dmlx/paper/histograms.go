package paper

import (
	"context"

	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// HistogramsOf is [Fill] for similarity histograms: it trains the missing runs of cells, and returns them as a table
// with the histograms of each cell's runs, in the order of its seeds; see [runs.AllHistograms].
func HistogramsOf(ctx context.Context, q report.Request, cells []Cell) (*Table, [][]*runs.Histograms, error) {
	return fill(ctx, q, cells, runs.AllHistograms, func(p *runs.Histograms) *runs.Result { return p.Result })
}

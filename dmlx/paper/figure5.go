package paper

import (
	"context"
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// figure5 draws triplet diagrams, rows euc and cos with constant weights: the triplets of the last five epochs of
// training, and those of nearest neighbors over the whole training set and the whole test set. The triplets of all
// seeds are drawn together. The paper's figure is of CAR; part "separated" is the same of the other data set. Rows of
// the user's own stand below.
func figure5(ctx context.Context, q report.Request) (*Report, error) {
	p, r, err := histogramsOf(ctx, "figure5", "Triplets by the Euclidean and by the cosine direction", q)
	if err != nil {
		return nil, err
	}
	columns := []ImagesOf{LastEpochs, WholeTrain, WholeTest}
	picture := func(data string) (*figures.Figure, error) {
		titles := make([]figures.Markup, len(columns))
		var rows []figures.DensityRow
		for _, r := range p.rows {
			runs := p.of[data][r.name]
			row := figures.DensityRow{Title: r.label}
			for j, images := range columns {
				titles[j] = images.Name
				row.Panels = append(row.Panels, DensityOf(runs, images))
			}
			rows = append(rows, row)
		}
		return figures.TripletDensities(data+" · con/con · "+r.Provenance, titles, rows...)
	}
	fine, err := picture(p.fine)
	if err != nil {
		return nil, err
	}
	r.Parts = []report.Part{{Of: fine}}
	if p.separate != "" {
		separated, err := picture(p.separate)
		if err != nil {
			return nil, err
		}
		r.Parts = append(r.Parts, report.Part{Name: "separated", Of: separated})
	}
	numbers := TripletNumbers(r.Provenance, columns, p.table.Cells, p.histograms)
	r.Parts = append(r.Parts, report.Part{Name: "numbers", Of: numbers})
	return r, nil
}

func edge(c runs.TripletDensity) float64       { return c.Edge }
func corner(c runs.TripletDensity) float64     { return c.Corner }
func spread(c runs.TripletDensity) float64     { return c.Spread }
func violations(c runs.TripletDensity) float64 { return c.Violations }

// TripletNumbers returns the table of all measures of the triplets of cells, by data set and by images. histograms has
// those of each cell's runs, as [HistogramsOf] returns them.
func TripletNumbers(provenance string, images []ImagesOf, cells []Cell,
	histograms [][]*runs.Histograms) *figures.Table {
	t := &figures.Table{
		Columns: []figures.Column{{Title: "Data", Left: true, Merged: true}, {Title: "Images", Left: true, Merged: true},
			{Title: "Rule", Left: true},
			{Title: "triplets a run"}, {Title: "median $S_{ap}$"}, {Title: "median $S_{an}$"}, {Title: "spread"},
			{Title: "$S_{ap}$ > 0.9, %"}, {Title: "both > 0.9, %"}, {Title: "$S_{an}$ > $S_{ap}$, %"}},
		Caption:    "Figure 5 in numbers: mean and sample standard deviation over seeds.",
		Notes:      []figures.Markup{"On a whole test set the last column is 100 − Recall@1, but for ties."},
		Provenance: provenance,
	}
	var sets []string
	for _, c := range cells {
		sets = slice.AddNew(sets, c.Data)
	}
	for _, data := range sets {
		for _, images := range images {
			for i, c := range cells {
				if c.Data == data {
					t.Rows = append(t.Rows, tripletNumbers(c, histograms[i], images))
				}
			}
		}
		t.Rules = append(t.Rules, len(t.Rows))
	}
	return t
}

// tripletNumbers returns a row of [TripletNumbers].
func tripletNumbers(c Cell, histograms []*runs.Histograms, images ImagesOf) []figures.Cell {
	of := func(m func(runs.TripletDensity) float64) stats.Mean { return OverSeeds(histograms, images, m) }
	triplets := "–"
	if s := of(func(d runs.TripletDensity) float64 { return float64(d.Triplets) }); s.N > 0 {
		triplets = fmt.Sprintf("%.0f", s.Mean)
	}
	return figures.Row(c.Data, images.Name, directionLabel(c), triplets, similarity(of(medianSap)),
		similarity(of(medianSan)), similarity(of(spread)), of(edge).Times(100), of(corner).Times(100),
		of(violations).Times(100))
}

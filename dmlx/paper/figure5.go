package paper

import (
	"context"
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// figure5 draws triplet diagrams, rows euc and cos with constant weights: the triplets of the last five epochs of
// training, and those of nearest neighbors over the whole training set and the whole test set. The triplets of all
// seeds are drawn together. The paper's figure is of CAR; part "separated" is the same of the other data set. Rows of
// the user's own stand below.
func figure5(ctx context.Context, q Request) (*Report, error) {
	p, r, err := histogramsOf(ctx, "figure5", "Triplets by the Euclidean and by the cosine direction", q)
	if err != nil {
		return nil, err
	}
	columns := []imagesOf{LastEpochs, wholeTrain, WholeTest}
	picture := func(data string) (*figures.Figure, error) {
		titles := make([]figures.Markup, len(columns))
		var rows []figures.DensityRow
		for _, r := range p.rows {
			runs := p.of[data][r.name]
			row := figures.DensityRow{Title: r.label}
			for j, images := range columns {
				titles[j] = images.Name
				row.Panels = append(row.Panels, figures.Density{Counts: Pooled(shown(runs, images)),
					Edge: overSeeds(runs, images, edge).Times(100), Corner: overSeeds(runs, images, corner).Times(100)})
			}
			rows = append(rows, row)
		}
		return figures.TripletDensities(data+" · con/con · "+r.Provenance, titles, rows...)
	}
	fine, err := picture(p.fine)
	if err != nil {
		return nil, err
	}
	separated, err := picture(p.separate)
	if err != nil {
		return nil, err
	}
	var groups []claimGroup
	for _, data := range []string{p.fine, p.separate} {
		groups = append(groups, claimGroup{p.setTitle(data),
			[2]claimSide{{figures.DirectionLabel("euc"), p.of[data]["euc"]},
				{figures.DirectionLabel("cos"), p.of[data]["cos"]}}})
	}
	claims := claimTable("What the paper says of Figure 5, the Euclidean direction against the cosine one, on our runs.",
		r.Provenance, figure5Claims, groups)
	claims.Notes = append(claims.Notes,
		"Pairs are those of the mined triplets. Right edge: $S_{ap}$ > 0.9. Top right corner: both similarities > 0.9. "+
			"Spread: root of var $S_{ap}$ + var $S_{an}$.")
	thresholds := claimTable("Figure 5 with other bounds for the right edge and the top right corner than 0.9.",
		r.Provenance, figure5Thresholds(), groups)
	r.Parts = []Part{{"", fine}, {"separated", separated}, {"numbers", p.numbers(columns, r.Provenance)},
		{"claims", claims}, {"thresholds", thresholds}}
	return r, nil
}

func edge(c runs.TripletDensity) float64       { return c.Edge }
func corner(c runs.TripletDensity) float64     { return c.Corner }
func spread(c runs.TripletDensity) float64     { return c.Spread }
func violations(c runs.TripletDensity) float64 { return c.Violations }
func positive(c runs.TripletDensity) float64   { return c.Above(0, 0) }

// Pooled returns the sum of the counts of several runs.
func Pooled(densities []runs.TripletDensity) []int {
	var sum []int
	for _, c := range densities {
		if sum == nil {
			sum = make([]int, len(c.Counts))
		}
		for i, count := range c.Counts {
			sum[i] += count
		}
	}
	return sum
}

// numbers returns the table of all measures of the densities.
func (p *histogramsReport) numbers(columns []imagesOf, provenance string) *figures.Table {
	t := &figures.Table{
		Columns: []figures.Column{{Title: "Data", Left: true, Merged: true}, {Title: "Images", Left: true, Merged: true},
			{Title: "Rule", Left: true},
			{Title: "triplets a run"}, {Title: "median $S_{ap}$"}, {Title: "median $S_{an}$"}, {Title: "spread"},
			{Title: "$S_{ap}$ > 0.9, %"}, {Title: "both > 0.9, %"}, {Title: "$S_{an}$ > $S_{ap}$, %"}},
		Caption:    "Figure 5 in numbers: mean and sample standard deviation over seeds.",
		Notes:      []figures.Markup{"On a whole test set the last column is 100 − Recall@1, but for ties."},
		Provenance: provenance,
	}
	for _, data := range []string{p.fine, p.separate} {
		for _, images := range columns {
			for _, r := range p.rows {
				results := p.of[data][r.name]
				of := func(m measure) stats.Mean { return overSeeds(results, images, m) }
				triplets := "–"
				if s := of(func(c runs.TripletDensity) float64 { return float64(c.Triplets) }); s.N > 0 {
					triplets = fmt.Sprintf("%.0f", s.Mean)
				}
				t.Rows = append(t.Rows, []figures.Cell{figures.Text(data), figures.Text(images.Name),
					figures.Text(r.label),
					figures.Text(triplets), figures.Text(similarity(of(medianSap))), figures.Text(similarity(of(medianSan))),
					figures.Text(similarity(of(spread))),
					figures.Scored(of(edge).Times(100)), figures.Scored(of(corner).Times(100)),
					figures.Scored(of(violations).Times(100))})
			}
		}
		t.Rules = append(t.Rules, len(t.Rows))
	}
	return t
}

// figure5Claims are the statements of §5.4 on the Euclidean direction against the cosine one.
var figure5Claims = []histogramClaim{
	{says: "most pairs in training have positive similarity", measured: "$S_{ap}$ and $S_{an}$ > 0, %",
		images: LastEpochs, of: positive, each: 0.5, percent: true},
	{says: "more triplets along the right edge", measured: "right edge, %", images: LastEpochs, of: edge, percent: true},
	{says: "same labels clustered more tightly", measured: "median $S_{ap}$", images: LastEpochs, of: medianSap},
	{says: "more triplets very close to the top right corner", measured: "top right corner, %", images: wholeTrain,
		of: corner, percent: true},
	{says: "more triplets very close to the top right corner", measured: "top right corner, %", images: WholeTest,
		of: corner, percent: true},
	{says: "cosine's triplets are more spread out", measured: "spread", images: wholeTrain, of: spread, less: true},
	{says: "cosine's triplets are more spread out", measured: "spread", images: WholeTest, of: spread, less: true},
	{says: "compressed, anchor-positive pairs", measured: "median $S_{ap}$", images: WholeTest, of: medianSap},
	{says: "compressed, anchor-negative pairs", measured: "median $S_{an}$", images: WholeTest, of: medianSan},
	{says: "features harder to distinguish", measured: "$S_{an}$ > $S_{ap}$, %", images: WholeTest, of: violations,
		percent: true},
}

// figure5Thresholds repeats the claims on the edge and the corner with other bounds than 0.9, which is our reading of
// "along the edge" and "very close to the corner".
func figure5Thresholds() []histogramClaim {
	var out []histogramClaim
	for _, part := range []struct {
		says   figures.Markup
		corner bool
		images imagesOf
	}{{"more along the right edge", false, LastEpochs}, {"more in the corner", true, wholeTrain},
		{"more in the corner", true, WholeTest}} {
		for _, bound := range []float64{0.8, 0.85, 0.9, 0.95, 0.98} {
			claim := histogramClaim{says: part.says, measured: fmt.Sprintf("$S_{ap}$ > %g, %%", bound), images: part.images,
				percent: true,
				of:      func(c runs.TripletDensity) float64 { return c.Above(bound, -1) }}
			if part.corner {
				claim.measured = fmt.Sprintf("both > %g, %%", bound)
				claim.of = func(c runs.TripletDensity) float64 { return c.Above(bound, bound) }
			}
			out = append(out, claim)
		}
	}
	return out
}

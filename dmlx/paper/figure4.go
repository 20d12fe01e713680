package paper

import (
	"context"
	"fmt"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/figures"
)

// figure4 draws the distributions of nearest-positive and nearest-negative similarities over whole test sets after
// training: the fine-grained data set beside the coarse-grained one. The paper does not say by which rule it trained,
// nor on which images it measured. Here the main picture is of cos/con/con and the test images; part "euc" is the same
// of euc/con/con, and part "overlap" has the numbers for both rules and also for the training images.
//
// On a test set with query and gallery images, as of In-shop and minishop, the anchors are the queries and their
// neighbors of either class are gallery images, as in retrieval.
func figure4(ctx context.Context, q report.Request) (*Report, error) {
	p, r, err := histogramsOf(ctx, "figure4", "Nearest-positive and nearest-negative similarities", q)
	if err != nil {
		return nil, err
	}
	picture := func(row, title string) (*figures.Figure, error) {
		var sets []figures.Distribution
		for _, data := range p.sets() {
			d, err := DistributionOf(p.setTitle(data), p.of[data][row], WholeTest, retrieval.SimilarityBins)
			if err != nil {
				return nil, err
			}
			sets = append(sets, d)
		}
		return figures.SimilarityDistributions(title+" · whole test sets · "+r.Provenance, sets...)
	}
	cos, err := picture("cos", "cos/con/con")
	if err != nil {
		return nil, err
	}
	euc, err := picture("euc", "euc/con/con")
	if err != nil {
		return nil, err
	}
	var rows scores.Table
	own := slices.DeleteFunc(slices.Clone(p.rows), func(r histogramsRow) bool { return !r.own })
	for _, r := range append([]histogramsRow{{name: "cos", label: figures.DirectionLabel("cos")},
		{name: "euc", label: figures.DirectionLabel("euc")}}, own...) {
		direction, label := r.name, r.label
		for _, images := range []ImagesOf{WholeTest, WholeTrain} {
			for _, data := range p.sets() {
				rows = append(rows, scores.Row{Label: label, Protocol: images.Name, Data: p.setTitle(data),
					Value: OverSeeds(p.of[data][direction], images, overlap).Times(100)})
			}
		}
	}
	overlaps, err := figures.Overlaps(rows, r.Provenance)
	if err != nil {
		return nil, err
	}
	r.Parts = []report.Part{{Of: cos}, {Name: "euc", Of: euc}, {Name: "overlap", Of: overlaps}}
	for i, row := range own {
		of, err := picture(row.name, row.name)
		if err != nil {
			return nil, err
		}
		name := "own"
		if i > 0 {
			name = fmt.Sprintf("own-%d", i+1)
		}
		r.Parts = append(r.Parts, report.Part{Name: name, Of: of})
	}
	return r, nil
}

func overlap(c runs.TripletDensity) float64   { return c.Overlap }
func medianSap(c runs.TripletDensity) float64 { return c.MedianSap }
func medianSan(c runs.TripletDensity) float64 { return c.MedianSan }

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
	var groups []ClaimGroup
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
		if r.own || p.separate == "" {
			continue
		}
		groups = append(groups, ClaimGroup{label, [2]ClaimSide{{p.fine, p.of[p.fine][direction]},
			{p.separate, p.of[p.separate][direction]}}})
	}
	overlaps, err := figures.Overlaps(rows, r.Provenance)
	if err != nil {
		return nil, err
	}
	r.Parts = []report.Part{{Of: cos}, {Name: "euc", Of: euc}, {Name: "overlap", Of: overlaps}}
	if groups != nil { // They compare the two data sets.
		claims := CheckHistograms("What the paper says of Figure 4, on our runs.", r.Provenance, Figure4Claims(), groups...)
		r.Parts = append(r.Parts, report.Part{Name: "claims", Of: claims})
	}
	for i, row := range own {
		of, err := picture(row.name, row.name)
		if err != nil {
			return nil, err
		}
		r.Parts = append(r.Parts, report.Part{Name: numbered("own", i), Of: of})
	}
	return r, nil
}

// numbered returns the name of the i-th part of a kind, counted from 0: "own", "own-2", "own-3".
func numbered(name string, i int) string {
	if i == 0 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, i+1)
}

func overlap(c runs.TripletDensity) float64   { return c.Overlap }
func medianSap(c runs.TripletDensity) float64 { return c.MedianSap }
func medianSan(c runs.TripletDensity) float64 { return c.MedianSan }

// Figure4Claims returns the statements of the caption of Figure 4, §5.2 and §5.3, on CAR against In-shop.
func Figure4Claims() []HistogramClaim {
	return []HistogramClaim{
		{Says: "on CAR the distributions are largely overlaid", Measured: "overlap above 50 %", Images: WholeTest,
			Of: overlap, Alone: 0.5, Percent: true},
		{Says: "on In-shop the overlay is much less", Measured: "overlap, %", Images: WholeTest, Of: overlap, Percent: true},
		{Says: "(the same on the train set)", Measured: "overlap, %", Images: WholeTrain, Of: overlap, Percent: true},
		{Says: "images of other classes look more similar on CAR", Measured: "median $S_{an}$", Images: WholeTest,
			Of: medianSan},
	}
}

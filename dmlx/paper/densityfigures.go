package paper

import (
	"context"
	"fmt"
	"math"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// histogramDirections are the directions of Figures 4 and 5; pair and triplet weights are constant.
var histogramDirections = []string{"euc", "cos"}

// histogramsReport holds the histograms of a report's runs by data set and direction, or by the name of a row of the
// user's own.
type histogramsReport struct {
	table          *Table
	histograms     [][]*runs.Histograms // Of the table's cells.
	fine, separate string               // The data sets, in the roles of CAR and In-shop; the latter may be "".
	of             map[string]map[string][]*runs.Histograms
	rows           []histogramsRow // The directions, then the user's own.
}

// histogramsRow is a rule or loss of Figures 4 and 5.
type histogramsRow struct {
	name  string // As in of.
	label figures.Markup
	own   bool
}

// histogramsStudy lists the runs of Figures 4 and 5: both data sets with the directions euc and cos.
func histogramsStudy(name, title string) Study {
	return Study{Name: name, Title: title, Expand: across, Rows: func(presets.Preset) []Cell {
		return ruleRows(Rules(histogramDirections, []string{"con"}, []string{"con"}), scores.Direction)
	}}
}

// histogramsOf reads or computes the histograms of the runs on both data sets with the directions euc and cos.
func histogramsOf(ctx context.Context, name, title string, q report.Request) (*histogramsReport, *Report, error) {
	study, err := histogramsStudy(name, title).With(q.Preset, q.Rows)
	if err != nil {
		return nil, nil, err
	}
	cells, err := study.Specs(q.Preset, q.Seeds)
	if err != nil {
		return nil, nil, err
	}
	t, histograms, err := HistogramsOf(ctx, q, cells)
	if err != nil {
		return nil, nil, err
	}
	t.Study, t.Title = study.Name, study.Title
	p := &histogramsReport{table: t, histograms: histograms, fine: q.Preset.FineGrained, separate: q.Preset.CoarseGrained,
		of: make(map[string]map[string][]*runs.Histograms)}
	for i, c := range t.Cells {
		if p.of[c.Data] == nil {
			p.of[c.Data] = make(map[string][]*runs.Histograms)
		}
		p.of[c.Data][c.Row] = histograms[i]
		p.rows = slice.AddNew(p.rows, histogramsRow{c.Row, directionLabel(c), c.own()})
	}
	r := &Report{Report: report.Report{Title: title, Provenance: t.Provenance()}, Table: t}
	r.add(t)
	for _, of := range histograms {
		r.Histograms = append(r.Histograms, of...)
	}
	return p, r, nil
}

// directionLabel returns the symbol of the direction that a cell's row is named by, or the row's name for another rule.
func directionLabel(c Cell) figures.Markup {
	if c.Rule == c.Row+"/con/con" {
		return figures.DirectionLabel(c.Row)
	}
	return c.Row
}

// sets lists the data sets.
func (p *histogramsReport) sets() []string {
	if p.separate == "" {
		return []string{p.fine}
	}
	return []string{p.fine, p.separate}
}

// setTitle returns the name of a data set with that of the paper's set in the same role.
func (p *histogramsReport) setTitle(data string) figures.Markup {
	return Cell{Data: data, PaperData: map[string]string{p.fine: "CAR", p.separate: "In-shop"}[data]}.DataTitle()
}

// DataTitle returns the name of the cell's data set, with that of the paper's set in the same role if there is one.
func (c Cell) DataTitle() figures.Markup {
	if c.PaperData == "" || c.Data == c.PaperData {
		return c.Data
	}
	return fmt.Sprintf("%s (in the role of %s)", c.Data, c.PaperData)
}

// ImagesOf selects the images whose triplets a density counts: [LastEpochs], [WholeTrain] or [WholeTest].
type ImagesOf struct {
	Name    string
	density func(*runs.Histograms) runs.TripletDensity
}

// The images of Figures 4 and 5: the mined triplets of the last five epochs of training, and each image of the train
// or test set with its nearest neighbors of either kind.
var (
	LastEpochs = ImagesOf{"last 5 epochs", func(p *runs.Histograms) runs.TripletDensity { return p.Last }}
	WholeTrain = ImagesOf{"whole train set", func(p *runs.Histograms) runs.TripletDensity { return p.Train }}
	WholeTest  = ImagesOf{"whole test set", func(p *runs.Histograms) runs.TripletDensity { return p.Test }}
)

// shown returns the densities of the runs that did not diverge.
func shown(histograms []*runs.Histograms, images ImagesOf) []runs.TripletDensity {
	var out []runs.TripletDensity
	for _, p := range histograms {
		if c := images.density(p); p.Result.Diverged == "" && c.Triplets > 0 {
			out = append(out, c)
		}
	}
	return out
}

// DistributionOf returns a panel of Figure 4: the similarity histograms of the runs of a cell that did not diverge, in
// a number of bins that divides [runs.DensityBins], with the mean overlap of the two kinds over seeds, Σ min(p, q) in
// percent. The overlap that a run records has 100 bins.
func DistributionOf(title figures.Markup, histograms []*runs.Histograms, images ImagesOf,
	bins int) (figures.Distribution, error) {
	d := figures.Distribution{Title: title}
	for _, c := range shown(histograms, images) {
		positive, negative, err := c.Histograms(bins)
		if err != nil {
			return d, err
		}
		d.Positive, d.Negative = append(d.Positive, positive), append(d.Negative, negative)
	}
	d.Overlap = OverSeeds(histograms, images, func(c runs.TripletDensity) float64 {
		positive, negative, _ := c.Histograms(bins) // The error is that of above.
		common := 0.0
		for i := range positive {
			common += min(positive[i], negative[i])
		}
		return common
	}).Times(100)
	return d, nil
}

// DensityOf returns a panel of Figure 5: the triplets of all runs of a cell that did not diverge, with the mean shares
// at the right edge and in the top right corner over seeds.
func DensityOf(histograms []*runs.Histograms, images ImagesOf) figures.Density {
	return figures.Density{Counts: runs.Pooled(shown(histograms, images)),
		Edge:   OverSeeds(histograms, images, edge).Times(100),
		Corner: OverSeeds(histograms, images, corner).Times(100)}
}

// OverSeeds returns the mean of a measure of triplets over the runs of a cell. Diverged runs are counted, not averaged.
func OverSeeds(histograms []*runs.Histograms, images ImagesOf, measure func(runs.TripletDensity) float64) stats.Mean {
	of := make(map[*runs.Result]runs.TripletDensity)
	var results []*runs.Result
	for _, p := range histograms {
		of[p.Result] = images.density(p)
		results = append(results, p.Result)
	}
	return runs.MeanOf(results, func(r *runs.Result) float64 {
		if c := of[r]; c.Triplets > 0 {
			return measure(c)
		}
		return math.NaN()
	})
}

// similarity formats a mean of similarities, with more digits than percents have.
func similarity(s stats.Mean) figures.Markup {
	switch {
	case s.N == 0:
		return s.Times(100).String()
	case s.N == 1:
		return fmt.Sprintf("%.3f", s.Mean)
	}
	return fmt.Sprintf("%.3f ± %.3f", s.Mean, s.Std)
}

// Measures of the triplets of runs in percent, beside those of package report; most are shares.
const (
	EdgeLast    = "edge, last"  // S_ap > 0.9, last five epochs of training.
	CornerTrain = "corner"      // S_ap and S_an > 0.9, whole train set; report.Compact is that of the test set.
	SpreadTrain = "spread"      // √(var S_ap + var S_an) times 100, whole train set.
	SpreadTest  = "spread test" // The same, whole test set.
	Positive    = "positive"    // Pairs with S > 0 in training, last five epochs.
)

// DensityScores returns these measures of the available runs of Figures 4 and 5, as of Table 2. It trains none.
func DensityScores(ctx context.Context, q report.Request) (scores.Table, error) {
	q.CachedOnly = true
	p, _, err := histogramsOf(ctx, "densities", "", q)
	if err != nil {
		return nil, err
	}
	pairs := func(c runs.TripletDensity) float64 { return (c.Above(0, -1) + c.Above(-1, 0)) / 2 }
	var out scores.Table
	for _, c := range p.table.Cells {
		for _, m := range []struct {
			name   string
			images ImagesOf
			of     func(runs.TripletDensity) float64
		}{
			{EdgeLast, LastEpochs, edge}, {Positive, LastEpochs, pairs}, {CornerTrain, WholeTrain, corner},
			{SpreadTrain, WholeTrain, spread}, {SpreadTest, WholeTest, spread},
		} {
			out = append(out, scores.Row{Table: 2, Whose: scores.Ours, Data: c.Data, Role: c.PaperData, Rule: c.Rule,
				Measure: m.name, Value: OverSeeds(p.of[c.Data][c.Row], m.images, m.of).Times(100)})
		}
	}
	return out, nil
}

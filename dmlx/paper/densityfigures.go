package paper

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// histogramDirections are the directions of Figures 4 and 5; pair and triplet weights are constant.
var histogramDirections = []string{"euc", "cos"}

// histogramsReport holds the histograms of a report's runs by data set and direction, or by the name of a row of the
// user's own.
type histogramsReport struct {
	table          *Table
	fine, separate string // The data sets, in the roles of CAR and In-shop.
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
	return Study{Name: name, Title: title, Own: ownOnBoth(across), Cells: func(p presets.Preset) []Cell {
		return setsAcross(p, histogramDirections, func(direction string) string { return direction + "/con/con" })
	}}
}

// histogramsOf reads or computes the histograms of the runs on both data sets with the directions euc and cos.
func histogramsOf(ctx context.Context, name, title string, q Request) (*histogramsReport, *Report, error) {
	study, err := histogramsStudy(name, title).With(q.Preset, q.Rows)
	if err != nil {
		return nil, nil, err
	}
	t, histograms, err := HistogramsOf(ctx, q.Open, q.Store, study, q.Preset, q.Options)
	if err != nil {
		return nil, nil, err
	}
	p := &histogramsReport{table: t, fine: q.Preset.FineGrained, separate: q.Preset.CoarseGrained,
		of: make(map[string]map[string][]*runs.Histograms)}
	for i, c := range t.Cells {
		if p.of[c.Data] == nil {
			p.of[c.Data] = make(map[string][]*runs.Histograms)
		}
		p.of[c.Data][c.Row] = histograms[i]
		row := histogramsRow{c.Row, figures.DirectionLabel(c.Row), false}
		if c.Objective != nil {
			row.label, row.own = c.Row, true
		}
		if !slices.Contains(p.rows, row) {
			p.rows = append(p.rows, row)
		}
	}
	r := &Report{Title: title, Provenance: t.Provenance(), Table: t}
	r.add(t)
	for _, of := range histograms {
		r.Histograms = append(r.Histograms, of...)
	}
	return p, r, nil
}

// setTitle returns the name of a data set with that of the paper's set in the same role.
func (p *histogramsReport) setTitle(data string) figures.Markup {
	paper := map[string]string{p.fine: "CAR", p.separate: "In-shop"}[data]
	if data == paper {
		return data
	}
	return fmt.Sprintf("%s (in the role of %s)", data, paper)
}

// imagesOf selects the images whose triplets a density counts.
type imagesOf struct {
	Name    string
	density func(*runs.Histograms) runs.TripletDensity
}

var (
	LastEpochs = imagesOf{"last 5 epochs", func(p *runs.Histograms) runs.TripletDensity { return p.Last }}
	wholeTrain = imagesOf{"whole train set", func(p *runs.Histograms) runs.TripletDensity { return p.Train }}
	WholeTest  = imagesOf{"whole test set", func(p *runs.Histograms) runs.TripletDensity { return p.Test }}
)

// shown returns the densities of the runs that did not diverge.
func shown(histograms []*runs.Histograms, images imagesOf) []runs.TripletDensity {
	var out []runs.TripletDensity
	for _, p := range histograms {
		if c := images.density(p); p.Result.Diverged == "" && c.Triplets > 0 {
			out = append(out, c)
		}
	}
	return out
}

// measure is a number read off a triplet density.
type measure func(runs.TripletDensity) float64

// overSeeds returns a measure's mean over runs.
func overSeeds(histograms []*runs.Histograms, images imagesOf, m measure) stats.Mean {
	of := make(map[*runs.Result]runs.TripletDensity)
	var results []*runs.Result
	for _, p := range histograms {
		of[p.Result] = images.density(p)
		results = append(results, p.Result)
	}
	return runs.MeanOf(results, func(r *runs.Result) float64 {
		if c := of[r]; c.Triplets > 0 {
			return m(c)
		}
		return math.NaN()
	})
}

// histogramClaim is a sentence of the paper on triplet densities: a measure is larger on the first side than on the
// second.
type histogramClaim struct {
	says, measured figures.Markup
	images         imagesOf
	of             measure
	less           bool // The first side's is the smaller one.
	// Bounds that replace the comparison if they are not 0: the measure of the first side, or of each side, must be
	// larger.
	alone, each float64
	percent     bool
}

// claimSide is one side of a comparison, with its runs.
type claimSide struct {
	title      figures.Markup
	histograms []*runs.Histograms
}

// claimGroup is a column group of claims: two sides to be compared.
type claimGroup struct {
	title figures.Markup
	sides [2]claimSide
}

// claimTable checks claims on groups of runs: each run of one side against each of the other.
func claimTable(caption figures.Markup, provenance string, claims []histogramClaim,
	groups []claimGroup) *figures.Table {
	t := &figures.Table{
		Columns: []figures.Column{{Title: "The paper says", Left: true}, {Title: "measured as", Left: true},
			{Title: "images", Left: true}},
		Caption: caption,
		Notes: []figures.Markup{"Holds: for so many of all pairs of runs, one of each side; a claim about one side, " +
			"of its runs. Mean ± sample standard deviation over seeds."},
		Provenance: provenance,
	}
	for _, g := range groups {
		t.Columns = append(t.Columns, figures.Column{Group: g.title, Title: g.sides[0].title},
			figures.Column{Group: g.title, Title: g.sides[1].title},
			figures.Column{Group: g.title, Title: "holds"})
	}
	for _, c := range claims {
		row := []figures.Cell{figures.Text(c.says), figures.Text(c.measured), figures.Text(c.images.Name)}
		for _, g := range groups {
			row = append(row, c.value(g.sides[0]), c.value(g.sides[1]), figures.Text(c.holds(g)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (c histogramClaim) value(side claimSide) figures.Cell {
	s := overSeeds(side.histograms, c.images, c.of)
	if c.percent {
		return figures.Scored(s.Times(100))
	}
	return figures.Text(similarity(s))
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

// holds counts the pairs of runs, or the runs, for which the claim is true.
func (c histogramClaim) holds(g claimGroup) figures.Markup {
	held, all := 0, 0
	count := func(holds bool) {
		all++
		if holds {
			held++
		}
	}
	first, second := shown(g.sides[0].histograms, c.images), shown(g.sides[1].histograms, c.images)
	switch {
	case c.alone != 0:
		for _, a := range first {
			count(c.of(a) > c.alone)
		}
	case c.each != 0:
		for _, a := range slices.Concat(first, second) {
			count(c.of(a) > c.each)
		}
	default:
		for _, a := range first {
			for _, b := range second {
				count(c.of(a) > c.of(b) != c.less && c.of(a) != c.of(b))
			}
		}
	}
	if all == 0 {
		return "–"
	}
	return fmt.Sprintf("%d of %d", held, all)
}

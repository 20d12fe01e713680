package figures

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// length is a data set's Recall@1 by rule and number of training steps.
type length struct {
	title, beside string
	*scores.Pivot
	steps []int // Ascending.
}

// lengths lays sets of scores out by rule and number of steps. Rows of the user's own have their labels.
func lengths(sets []scores.Group) ([]length, error) {
	out := make([]length, len(sets))
	for i, set := range sets {
		beside, err := set.Beside()
		if err != nil {
			return nil, err
		}
		rows := slices.Clone(set.Rows)
		slices.SortStableFunc(rows, func(a, b scores.Row) int { return cmp.Compare(a.Steps, b.Steps) })
		p, err := rows.Pivot(func(r scores.Row) string { return cmp.Or(r.Label, r.Rule) }, scores.Steps.Of)
		if err != nil {
			return nil, err
		}
		out[i] = length{title: set.Key, beside: beside, Pivot: p}
		for _, r := range rows {
			if r.Steps < 1 {
				return nil, fmt.Errorf("%s on %s has %d steps: want a positive number", r.Rule, r.Data, r.Steps)
			}
			out[i].steps = append(out[i].steps, r.Steps)
		}
		out[i].steps = slices.Compact(out[i].steps)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("lengths: no data set, want at least one")
	}
	return out, nil
}

// orders returns the rank correlations of the rules at each length with those at the next, and with the paper's.
func (l length) orders(printed scores.Table) ([]Markup, error) {
	var out []Markup
	compare := func(steps string, other []stats.Mean, against string) error {
		a, err := stats.CompareRanks(l.Means(steps, l.Rows), other)
		out = append(out, fmt.Sprintf("Order on %s at %s steps against %s (Spearman): %s.", l.title, steps, against, a))
		return err
	}
	for j, next := range l.Columns[1:] {
		if err := compare(l.Columns[j], l.Means(next, l.Rows), "that at "+next); err != nil {
			return nil, err
		}
	}
	if l.beside == "" {
		return out, nil
	}
	var papers []stats.Mean
	for _, rule := range l.Rows {
		papers = append(papers, printed.Select(scores.Row{Data: l.beside, Rule: rule}).Mean())
	}
	for _, steps := range l.Columns {
		if err := compare(steps, papers, "the paper's on "+l.beside); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// LengthTable returns the table of Recall@1 of each rule by the number of steps, a set of scores after the other, with
// the rank correlations between the orders, and with the order of the printed numbers. It returns an error without
// sets, for two scores of one cell, and for a score without steps.
func LengthTable(sets []scores.Group, printed scores.Table, provenance string) (*Table, error) {
	laid, err := lengths(sets)
	if err != nil {
		return nil, err
	}
	t := &Table{
		Caption:    "Recall@1 in percent of rules trained for longer.",
		Columns:    []Column{{Title: "Data", Left: true, Merged: true}, {Title: "Rule", Left: true}},
		Provenance: provenance,
	}
	// The numbers of steps differ between data sets. Their ratios to the first are the same.
	most := slices.MaxFunc(laid, func(a, b length) int { return cmp.Compare(len(a.steps), len(b.steps)) }).steps
	for _, n := range most {
		t.Columns = append(t.Columns, Column{Title: fmt.Sprintf("%g×", math.Round(float64(n)/float64(most[0])))})
	}
	for _, l := range laid {
		for i, rule := range l.Rows {
			row := Row(l.title, rule)
			for j := range most {
				cell := Text("–")
				if j < len(l.steps) {
					cell = Scored(l.Cells[i][j].Mean())
				}
				row = append(row, cell)
			}
			t.Rows = append(t.Rows, row)
		}
		t.Rules = append(t.Rules, len(t.Rows))
		orders, err := l.orders(printed)
		if err != nil {
			return nil, err
		}
		t.Notes = append(t.Notes, orders...)
	}
	t.Notes = append(t.Notes, RankNote)
	return t, nil
}

// Lengths draws Recall@1 over the number of steps, with a panel for each set of scores and a line for each rule. It
// returns the errors of [LengthTable].
func Lengths(provenance string, sets ...scores.Group) (*Figure, error) {
	laid, err := lengths(sets)
	if err != nil {
		return nil, err
	}
	const labels = vg.Length(86) // Room for the names of the rules beside each panel.
	panels := make([]*plot.Plot, len(laid))
	var words []string
	for k, l := range laid {
		p := newPlot(l.title, "steps of training", "Recall@1, %")
		lines := make([]ParameterLine, len(l.Rows))
		for i, rule := range l.Rows {
			lines[i].Name = rule
			for j, cell := range l.Cells[i] {
				m := cell.Mean()
				lines[i].Values, lines[i].Recall = append(lines[i].Values, float64(l.steps[j])), append(lines[i].Recall, m)
				if !math.IsNaN(m.Mean) {
					words = append(words, fmt.Sprintf("%s, %s, %d steps: %s", Plain(l.title), rule, l.steps[j], m))
				}
			}
		}
		overValues(p, lines, labels-4, func(i int) look { // In the style of the rule's pair weight, solid.
			_, pair, _ := strings.Cut(l.Rows[i], "/")
			pair, _, _ = strings.Cut(pair, "/")
			drawn := pairLook(pair)
			drawn.dashes = nil
			return drawn
		})
		panels[k] = p
	}
	return &Figure{
		Width: besideWidth / 2 * vg.Length(len(panels)), Height: vg.Points(250), Provenance: provenance,
		Alt: "Recall@1 of rules over the number of steps they are trained for. " + strings.Join(words, "; ") + ".",
		panels: func(c draw.Canvas) {
			c.Max.X -= labels
			drawRow(c, panels, 10+labels)
		},
	}, nil
}

// lineNames writes the names of lines to the right of a plot at their last values, moved apart where they would
// overlap.
type lineNames []lineName

type lineName struct {
	value float64
	name  string
	color color.NRGBA
}

func (l lineNames) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	names := slices.SortedStableFunc(slices.Values(l), func(a, b lineName) int { return cmp.Compare(a.value, b.value) })
	places := make([]vg.Length, len(names))
	for i, n := range names {
		places[i] = y(n.value)
	}
	const apart = vg.Length(10)
	for range 20 { // Each of two names that are too close moves by half of the missing distance.
		for i := range len(names) - 1 {
			if d := places[i+1] - places[i]; d < apart {
				places[i] -= (apart - d) / 2
				places[i+1] += (apart - d) / 2
			}
		}
	}
	for i, n := range names {
		write(c, aligned(style(tickSize, n.color), text.XLeft, text.YCenter), c.Max.X+4, places[i], n.name)
	}
}

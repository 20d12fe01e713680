package figures

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Length holds the Recall@1 of rules on a data set after different numbers of training steps.
type Length struct {
	Data  string
	Rules []string
	Steps []int          // Ascending.
	Ours  [][]stats.Mean // Recall@1 in percent by number of steps and rule.
	// Paper are the paper's scores of the rules on PaperData, its data set in the same role; nil if there are none.
	PaperData string
	Paper     []stats.Mean
}

func (l Length) check() error {
	if len(l.Steps) == 0 || len(l.Rules) == 0 || len(l.Ours) != len(l.Steps) {
		return fmt.Errorf("lengths on %s: %d rules and %d numbers of steps, but scores of %d", l.Data, len(l.Rules),
			len(l.Steps), len(l.Ours))
	}
	if l.Paper != nil && len(l.Paper) != len(l.Rules) {
		return fmt.Errorf("lengths on %s: %d of the paper's scores for %d rules", l.Data, len(l.Paper), len(l.Rules))
	}
	for i, ours := range l.Ours {
		if len(ours) != len(l.Rules) {
			return fmt.Errorf("lengths on %s: %d steps have %d scores for %d rules", l.Data, l.Steps[i], len(ours), len(l.Rules))
		}
	}
	if !slices.IsSorted(l.Steps) || l.Steps[0] < 1 {
		return fmt.Errorf("lengths on %s: steps %d, want ascending positive numbers", l.Data, l.Steps)
	}
	return nil
}

func checkLengths(sets []Length) error {
	if len(sets) == 0 {
		return fmt.Errorf("lengths: no data set, want at least one")
	}
	for _, l := range sets {
		if err := l.check(); err != nil {
			return err
		}
	}
	return nil
}

// orders returns the rank correlations of the rules at each length with those at the next, and with the paper's.
func (l Length) orders() ([]Markup, error) {
	var out []Markup
	compare := func(j int, other []stats.Mean, against string) error {
		a, err := stats.CompareRanks(l.Ours[j], other)
		out = append(out, fmt.Sprintf("Order on %s at %d steps against %s (Spearman): %s.", l.Data, l.Steps[j], against, a))
		return err
	}
	for j := range len(l.Steps) - 1 {
		if err := compare(j, l.Ours[j+1], fmt.Sprintf("that at %d", l.Steps[j+1])); err != nil {
			return nil, err
		}
	}
	for j := range l.Steps {
		if l.Paper == nil {
			break
		}
		if err := compare(j, l.Paper, "the paper's on "+l.PaperData); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// LengthTable returns the table of Recall@1 of each rule by the number of steps, with the rank correlations between the
// orders. It returns an error without data sets, for steps that do not ascend, and unless each rule has a score for
// each number of steps.
func LengthTable(sets []Length, provenance string) (*Table, error) {
	if err := checkLengths(sets); err != nil {
		return nil, err
	}
	t := &Table{
		Caption:    "Recall@1 in percent of rules trained for longer.",
		Columns:    []Column{{Title: "Data", Left: true, Merged: true}, {Title: "Rule", Left: true}},
		Provenance: provenance,
	}
	most := 0
	for _, l := range sets {
		most = max(most, len(l.Steps))
	}
	for j := range most { // The numbers of steps differ between data sets. Their ratios to the first are the same.
		t.Columns = append(t.Columns, Column{Title: fmt.Sprintf("%g×",
			math.Round(float64(sets[0].Steps[j])/float64(sets[0].Steps[0])))})
	}
	for _, l := range sets {
		for i, rule := range l.Rules {
			row := Row(l.Data, rule)
			for j := range most {
				cell := Text("–")
				if j < len(l.Steps) {
					cell = Scored(l.Ours[j][i])
				}
				row = append(row, cell)
			}
			t.Rows = append(t.Rows, row)
		}
		t.Rules = append(t.Rules, len(t.Rows))
		orders, err := l.orders()
		if err != nil {
			return nil, err
		}
		t.Notes = append(t.Notes, orders...)
	}
	t.Notes = append(t.Notes, RankNote)
	return t, nil
}

// Lengths draws Recall@1 over the number of steps, with a panel for each data set and a line for each rule. It returns
// the errors of [LengthTable].
func Lengths(sets []Length, provenance string) (*Figure, error) {
	if err := checkLengths(sets); err != nil {
		return nil, err
	}
	panels := make([]*plot.Plot, len(sets))
	var words []string
	for k, l := range sets {
		p := newPlot(l.Data, "steps of training", "Recall@1, %")
		lines := make([]ParameterLine, len(l.Rules))
		for i, rule := range l.Rules {
			lines[i].Name = rule
			for j, ours := range l.Ours {
				lines[i].Values, lines[i].Recall = append(lines[i].Values, float64(l.Steps[j])), append(lines[i].Recall, ours[i])
				if !math.IsNaN(ours[i].Mean) {
					words = append(words, fmt.Sprintf("%s, %s, %d steps: %s", l.Data, rule, l.Steps[j], ours[i]))
				}
			}
		}
		overValues(p, lines, func(i int) look { // In the style of the rule's pair weight, solid.
			_, pair, _ := strings.Cut(l.Rules[i], "/")
			pair, _, _ = strings.Cut(pair, "/")
			drawn := pairLook(pair)
			drawn.dashes = nil
			return drawn
		})
		panels[k] = p
	}
	const labels = vg.Length(86) // Room for the names of the rules beside each panel.
	return &Figure{
		Width: vg.Points(330 * float64(len(sets))), Height: vg.Points(250), Provenance: provenance,
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

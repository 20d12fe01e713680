package figures

import (
	"fmt"
	"math"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

// GridVariance is the analysis of variance of a data set's grid.
type GridVariance struct {
	Data    string
	Effects []stats.Effect
	// Error has −1 degrees of freedom of a grid without gaps, which it does not have.
	Error stats.Effect
	Notes []Markup // Stand under the table.
}

// GridAnova returns the table of the analyses of variance of the grids of some data sets. Bold p-values are significant
// at 0.05 after Holm's correction over all tests of the table.
func GridAnova(sets []GridVariance, provenance string) *Table {
	t := &Table{
		Columns: []Column{{Title: "Data", Left: true, Merged: true}, {Title: "Source", Left: true}, {Title: "df"},
			{Title: "df of the full grid"}, {Title: "sum of squares"}, {Title: "mean square"}, {Title: "$F$"}, {Title: "$p$"},
			{Title: "partial $\\omega^2$ [95 %]"}},
		Caption:    "Analysis of variance of Recall@1, in points: main effects and interactions of the parts of a rule.",
		Provenance: provenance,
	}
	for _, s := range sets {
		for _, e := range append(s.Effects[:len(s.Effects):len(s.Effects)], s.Error) {
			row := Row(s.Data, e.Name, e.DF, e.Full, "–", "–", "–", "–", "–")
			if e.Full < 0 {
				row[3] = Text("–")
			}
			if e.DF > 0 {
				row[4], row[5] = Text(gridDigits(e.SS)), Text(gridDigits(e.MS))
			}
			if !math.IsNaN(e.F) {
				p := Tested(stats.Test{P: e.P}, scientific(e.P))
				if e.P < 1e-12 {
					p.Text = "< $10^{-12}$"
				}
				share := stats.Interval{Value: e.Omega, Low: e.Low, High: e.High}
				row[6], row[7], row[8] = Text(gridDigits(e.F)), p, Text(gridShare(share))
			}
			t.Rows = append(t.Rows, row)
		}
		for _, n := range s.Notes {
			t.Notes = append(t.Notes, s.Data+": "+n)
		}
	}
	t.Notes = append(t.Notes, "Sums of squares are of Type II: what an effect explains beyond all that do not contain "+
		"it. Where degrees of freedom are fewer than "+
		"those of the full grid, runs are missing, and the test is of the part that can be told.",
		"$\\omega^2$ is the effect's share of the variance of effect and error, with a 95 % interval by the noncentral "+
			"$F$ distribution.")
	t.RuleBlocks(1)
	t.MarkSignificant()
	return t
}

// gridDigits formats a number with about three digits, and NaN as "–".
func gridDigits(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// gridShare formats a share with its interval.
func gridShare(v stats.Interval) string {
	if math.IsNaN(v.Value) {
		return "–"
	}
	return fmt.Sprintf("%.2f [%.2f,\u00a0%.2f]", v.Value, v.Low, v.High)
}

// GridRule is a row of a table of rules of the grid.
type GridRule struct {
	Data, Rule string
	Name       Markup // Its role in the table: "best", "the paper's", …
	// Rank is the place by the first seed, from 1, and 0 without one. Tied rules share the places from Rank to Last.
	Rank, Last int
	// First is of the run with the seed that ranks the rules, Others of the runs with other seeds, in percent.
	First, Others stats.Mean
	Behind        stats.Test // Of the distance of Others to those of the best rule.
}

// gridRuleColumns returns the columns that all tables of rules share.
func gridRuleColumns() []Column {
	return []Column{{Title: "Data", Left: true, Merged: true}, {Title: "", Left: true, Merged: true}, {Title: "rank"},
		{Title: "Direction"}, {Title: "PairWeight"}, {Title: "TripletWeight"}, {Title: "first seed"}}
}

func (r GridRule) cells() ([]Cell, error) {
	direction, pair, triplet, err := RuleLabels(r.Rule)
	if err != nil {
		return nil, err
	}
	rank := "–"
	if r.Rank > 0 {
		rank = fmt.Sprint(r.Rank)
	}
	if r.Last > r.Rank {
		rank += fmt.Sprint("–", r.Last)
	}
	return Row(r.Data, r.Name, rank, direction, pair, triplet, r.First), nil
}

// GridEnds returns the table of the best and the worst rules by one seed, with their means over other seeds.
func GridEnds(rules []GridRule, notes []Markup, provenance string) (*Table, error) {
	t := &Table{Columns: append(gridRuleColumns(), Column{Title: "other seeds"}, Column{Title: "change"}),
		Tint: LeafGreen, Notes: notes, Provenance: provenance,
		Caption: "The best and the worst rules by one seed, and what they do with others: Recall@1 in percent."}
	shaded := make(map[string][]*Cell)
	for i, r := range rules {
		row, err := r.cells()
		if err != nil {
			return nil, err
		}
		t.Rows = append(t.Rows, append(row, Scored(r.Others), Text(stats.Point(r.Others.Mean-r.First.Mean).String())))
		last := t.Rows[i]
		shaded[r.Data] = append(shaded[r.Data], &last[6], &last[7])
	}
	for _, cells := range shaded {
		Shade(cells...)
	}
	t.RuleBlocks(2)
	return t, nil
}

// GridChoices returns the table of chosen rules and how far each is from the best of the grid.
func GridChoices(rules []GridRule, notes []Markup, provenance string) (*Table, error) {
	columns := gridRuleColumns()
	columns[1].Merged = false
	t := &Table{Columns: append(columns, Column{Title: "other seeds [95 %]"}, Column{Title: "behind the best [95 %]"}),
		Notes: notes, Provenance: provenance,
		Caption: "One part at a time against the whole grid: Recall@1 in percent, distances in points."}
	for _, r := range rules {
		row, err := r.cells()
		if err != nil {
			return nil, err
		}
		t.Rows = append(t.Rows, append(row, Text(r.Others.Interval().String()),
			Tested(r.Behind, r.Behind.Difference.String())))
	}
	t.RuleBlocks(1)
	t.MarkSignificant()
	return t, nil
}

// GridGap holds the differences between two directions with each pair weight, in points.
type GridGap struct {
	Data, Better, Worse string
	Pairs               []string
	Gaps                []stats.Test
	Over                []string // The triplet weights in the means.
}

// GridGaps returns the table of the gaps between directions by pair weight. It returns an error without gaps, and for
// gaps with different pair weights.
func GridGaps(gaps []GridGap, provenance string) (*Table, error) {
	t := &Table{Columns: []Column{{Title: "Data", Left: true, Merged: true}, {Title: "Gap", Left: true}},
		Provenance: provenance, Caption: "Gaps of Recall@1 between directions by pair weight, in points.",
		Notes: []Markup{"In brackets: 95 % by the error of the analysis of variance."}}
	if len(gaps) == 0 {
		return nil, fmt.Errorf("gaps: no gap, want at least one")
	}
	for _, pair := range gaps[0].Pairs {
		t.Columns = append(t.Columns, Column{Title: PairLabel(pair)})
	}
	t.Columns = append(t.Columns, Column{Title: "over", Left: true})
	for _, g := range gaps {
		if strings.Join(g.Pairs, " ") != strings.Join(gaps[0].Pairs, " ") || len(g.Gaps) != len(g.Pairs) {
			return nil, fmt.Errorf("gaps on %s: %d of %d pair weights, others have %v", g.Data, len(g.Gaps), len(g.Pairs),
				gaps[0].Pairs)
		}
		row := Row(g.Data, DirectionLabel(g.Better)+" − "+DirectionLabel(g.Worse))
		for _, v := range g.Gaps {
			row = append(row, Tested(v, v.Difference.String()))
		}
		over := "–"
		switch {
		case len(g.Over) == 1:
			over = TripletLabel(g.Over[0])
		case len(g.Over) > 1:
			over = fmt.Sprintf("%d triplet weights", len(g.Over))
		}
		t.Rows = append(t.Rows, append(row, Text(over)))
	}
	t.RuleBlocks(1)
	t.MarkSignificant()
	return t, nil
}

// GridCount is the number of available runs of the grid on a data set.
type GridCount struct {
	Data                   string
	Rules, First, Several  int // All rules of the grid, those with the first seed, and those with several seeds.
	Runs, Diverged, Broken int // Finite runs, diverged runs, and rules that diverged with the first seed.
	// Mean, Spread, Low and High are of the rules by the first seed, in percent. Noise is the standard deviation over
	// seeds, in points. Kept is the share of the variance between rules that is not noise. Unknown values are NaN.
	Mean, Spread, Low, High float64
	Noise, Kept             float64
}

// GridCounts returns the table of the available runs of the grid.
func GridCounts(counts []GridCount, notes []Markup, provenance string) *Table {
	t := &Table{Columns: []Column{{Title: "", Left: true}}, Notes: notes, Provenance: provenance,
		Caption: "What is there of the full grid, and how far it can be trusted: Recall@1 in percent."}
	lines := []struct {
		title Markup
		value func(GridCount) string
	}{
		{"rules with the first seed", func(c GridCount) string { return fmt.Sprintf("%d of %d", c.First, c.Rules) }},
		{"rules with several seeds", func(c GridCount) string { return fmt.Sprint(c.Several) }},
		{"runs that did not diverge", func(c GridCount) string { return fmt.Sprint(c.Runs) }},
		{"runs that diverged", func(c GridCount) string { return fmt.Sprint(c.Diverged) }},
		{"rules that diverged with the first seed", func(c GridCount) string { return fmt.Sprint(c.Broken) }},
		{"mean of the rules by the first seed", func(c GridCount) string { return stats.Point(c.Mean).String() }},
		{"from worst to best", func(c GridCount) string {
			if math.IsNaN(c.Low) {
				return "–"
			}
			return stats.Point(c.Low).String() + " to " + stats.Point(c.High).String()
		}},
		{"standard deviation between rules", func(c GridCount) string { return gridDigits(c.Spread) }},
		{"standard deviation between seeds", func(c GridCount) string { return gridDigits(c.Noise) }},
		{"share of the variance between rules that is not the seed's",
			func(c GridCount) string { return gridDigits(c.Kept) }},
	}
	for _, c := range counts {
		t.Columns = append(t.Columns, Column{Title: c.Data})
	}
	for _, l := range lines {
		row := []Cell{Text(l.title)}
		for _, c := range counts {
			row = append(row, Text(l.value(c)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

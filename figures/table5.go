package figures

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// Table5 returns the paper's Table 5 as it is printed, Recall@K in percent: rows from the literature, then the authors'
// own runs, with bold where the paper has it. A note on a number becomes a footnote of its cell.
func Table5(printed scores.Table, notes map[scores.Row]Markup) (*Table, error) {
	t := &Table{
		Columns: []Column{{Title: "Source", Left: true, Merged: true}, {Title: "Method", Left: true}},
		Caption: "Table 5. Recall@K in percent on four data sets, as the paper prints it: means, with no standard " +
			"deviations.",
		Notes: []Markup{"The rows above the line are copied from the literature by the paper, with other backbones, " +
			"batches and training; below it are its own runs with ResNet-50, 80 epochs, 3 seeds. Bold as printed."},
	}
	type place struct {
		data, metric string
	}
	var columns []place
	rows := 0
	for _, r := range printed {
		if p := (place{r.Data, r.Measure}); !slices.Contains(columns, p) {
			columns = append(columns, p)
			t.Columns = append(t.Columns, Column{Group: fmt.Sprintf("%s (dim=%d)", r.Data, r.Dim), Title: r.Measure})
		}
		rows = max(rows, r.Line)
	}
	t.Rows = make([][]Cell, rows)
	for i := range t.Rows {
		t.Rows[i] = slices.Repeat([]Cell{Text("–")}, len(t.Columns))
	}
	for _, r := range printed {
		if r.Line < 1 {
			return nil, fmt.Errorf("table 5: %s of %s has the line %d, want 1 or more", r.Measure, r.Method, r.Line)
		}
		row := t.Rows[r.Line-1]
		row[0], row[1] = Text("literature"), Text(r.Method)
		if r.Direction != "" {
			row[0], row[1] = Text("the paper's runs"), Text(fmt.Sprintf("%s (B%d)", r.Method, r.Batch))
		}
		cell := Scored(r.Value)
		cell.Bold, cell.Note = r.Bold, notes[r]
		row[2+slices.Index(columns, place{r.Data, r.Measure})] = cell
	}
	t.RuleBlocks(1)
	return t, nil
}

// Batches draws Table 5 with our rows beside the paper's.
type Batches struct {
	provenance string
	rows       []batchRow
	sets       []batchSet
}

// batchRow is a row with its name in the pivots.
type batchRow struct {
	name, method string
	times        int
	label        Markup
}

// batchSet has the scores of a data set by row and measure.
type batchSet struct {
	ComparedSet
	measures []string
}

// CompareBatches returns the drawings of our rows beside those that the paper prints: Recall@K by method and multiple
// of the smallest batch. A data set has the measures that the paper prints for its role, or all of ours without one.
// Rows and data sets keep the order of the scores. It returns an error without scores, for duplicates, and for a data
// set that the paper's table lacks.
func CompareBatches(ours, printed scores.Table, provenance string) (*Batches, error) {
	b := &Batches{provenance: provenance}
	ours = ours.Where(func(r scores.Row) bool { return strings.HasPrefix(r.Measure, "R@") })
	if len(ours) == 0 {
		return nil, fmt.Errorf("table 5: there are no results")
	}
	method := func(r scores.Row) string { return cmp.Or(r.Method, r.Label, r.Rule) }
	name := func(r scores.Row) string { return fmt.Sprintf("%s (×%d)", method(r), r.Times) }
	groups := ours.Group(name)
	same := !slices.ContainsFunc(groups, func(g scores.Group) bool { return len(g.Rows.Values(scores.Batch.Of)) > 1 })
	for _, g := range groups {
		r, label := g.Rows[0], g.Key
		if same {
			label = fmt.Sprintf("%s (B%d)", method(r), r.Batch)
		}
		b.rows = append(b.rows, batchRow{g.Key, method(r), r.Times, label})
	}
	for _, set := range ours.Group(scores.Data.Of) {
		beside, err := set.Beside()
		if err != nil {
			return nil, fmt.Errorf("table 5: %w", err)
		}
		s := batchSet{ComparedSet: ComparedSet{Data: set.Key, Beside: beside}, measures: set.Rows.Values(scores.Measure.Of)}
		if s.Ours, err = set.Rows.Pivot(name, scores.Measure.Of); err != nil {
			return nil, fmt.Errorf("table 5: %w", err)
		}
		if beside != "" {
			theirs := printed.Select(scores.Row{Data: beside})
			if s.measures = theirs.Values(scores.Measure.Of); s.measures == nil {
				return nil, fmt.Errorf("table 5 has no data set %s", beside)
			}
			theirs = theirs.Where(func(r scores.Row) bool { return r.Rule != "" })
			if s.Theirs, err = theirs.Pivot(name, scores.Measure.Of); err != nil {
				return nil, fmt.Errorf("table 5: %w", err)
			}
		}
		slices.SortFunc(s.measures, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
		b.sets = append(b.sets, s)
	}
	return b, nil
}

// lists calls add for our scores of each data set and then for those of the paper's, by the rows, of the first measure
// or of all.
func (b *Batches) lists(first bool, add func(group, measure string, scores []stats.Mean)) {
	for _, whose := range []string{"ours, ", "the paper's, "} {
		for _, s := range b.sets {
			data, p := s.Data, s.Ours
			if whose != "ours, " {
				data, p = s.Beside, s.Theirs
			}
			for i, m := range s.measures {
				if p != nil && (i == 0 || !first) {
					add(whose+data, m, b.means(p, m))
				}
			}
		}
	}
}

// means returns the means of a measure by row.
func (b *Batches) means(p *scores.Pivot, measure string) (out []stats.Mean) {
	for _, r := range b.rows {
		out = append(out, p.At(r.name, measure).Mean())
	}
	return out
}

// Table returns the table of our recalls and then those of the paper's own runs, the best of each column in bold.
func (b *Batches) Table() (*Table, error) {
	t := &Table{
		Columns: []Column{{Title: "Method", Left: true}},
		Caption: "Table 5. Recall@K in percent: ours, mean ± standard deviation over seeds, and the paper's own runs with " +
			"batches in the same proportion. Bold: the best of each column.",
		Provenance: b.provenance,
	}
	for i, r := range b.rows {
		t.Rows = append(t.Rows, []Cell{Text(r.label)})
		next := i+1 < len(b.rows) && r.method == b.rows[i+1].method
		if i > 0 && next && r.method != b.rows[i-1].method { // A method at several batches begins.
			t.Rules = append(t.Rules, i)
		}
	}
	b.lists(false, func(group, title string, scores []stats.Mean) {
		t.Columns = append(t.Columns, Column{Group: group, Title: title})
		best := math.Inf(-1)
		for _, s := range scores {
			best = max(best, rounded(s.Mean))
		}
		for i, s := range scores {
			c := Scored(s)
			c.Bold = rounded(s.Mean) == best
			t.Rows[i] = append(t.Rows[i], c)
		}
	})
	for _, s := range b.sets {
		if s.Theirs == nil {
			continue
		}
		a, err := stats.CompareRanks(b.means(s.Ours, s.measures[0]), b.means(s.Theirs, s.measures[0]))
		if err != nil {
			return nil, err
		}
		t.Notes = append(t.Notes, fmt.Sprintf("Order of %s on %s against the paper's on %s (Spearman): %s.", s.measures[0],
			s.Data, s.Beside, a))
	}
	if t.Notes != nil {
		t.Notes = append(t.Notes, RankNote)
	}
	return t, nil
}

// rounded returns a mean with the one decimal that tables show, or -Inf without a mean.
func rounded(mean float64) float64 {
	if math.IsNaN(mean) {
		return math.Inf(-1)
	}
	return math.Round(10*mean) / 10
}

// Gains returns the table of the differences of all rows to the first, in points. Ours have 95 % intervals by Welch's t
// over seeds. The paper's have none, because it prints no deviations.
func (b *Batches) Gains() *Table {
	t := &Table{
		Columns: []Column{{Title: "Method", Left: true}},
		Caption: fmt.Sprintf("Table 5 as differences of Recall@K to %s, in points.", b.rows[0].label),
		Notes: []Markup{welchNote + " The paper prints no standard deviations in this table, so its differences have no " +
			"interval."},
		Provenance: b.provenance,
	}
	for _, r := range b.rows {
		t.Rows = append(t.Rows, []Cell{Text(r.label)})
	}
	b.lists(true, func(group, title string, scores []stats.Mean) {
		t.Columns = append(t.Columns, Column{Group: group, Title: title})
		for i, s := range scores {
			c := Text(s.String())
			if i > 0 {
				c = gain(stats.Welch(s, scores[0]))
			}
			t.Rows[i] = append(t.Rows[i], c)
		}
	})
	t.MarkSignificant()
	return t
}

// Plot draws Recall@1 of the rows, ours and the paper's own, as [Comparison.Plot] does.
func (b *Batches) Plot() *Figure {
	first := b.sets[0].measures[0]
	c := Comparison{Alt: "Table 5 as a picture: ours and the paper's own runs.", Columns: []Line{{Name: first}},
		Provenance: b.provenance}
	for _, r := range b.rows {
		c.Rows = append(c.Rows, Line{Name: r.name, Label: r.label})
	}
	for _, s := range b.sets {
		c.Sets = append(c.Sets, s.ComparedSet)
	}
	return c.Plot()
}

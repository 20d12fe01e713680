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
	for i := 1; i < rows; i++ {
		if t.Rows[i][0].Text != t.Rows[i-1][0].Text {
			t.Rules = append(t.Rules, i)
		}
	}
	return t, nil
}

// Batches draws Table 5 with our rows beside the paper's.
type Batches struct {
	provenance string
	rows       []batchRow
	sets       []batchSet
}

type batchRow struct {
	method string
	times  int
	label  Markup
}

// batchSet holds the recalls on one data set by measure and row.
type batchSet struct {
	data, paper  string
	measures     []string
	ours, theirs [][]stats.Mean
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
	var names []string
	for _, g := range groups {
		r := g.Rows[0]
		label := g.Key
		if same {
			label = fmt.Sprintf("%s (B%d)", method(r), r.Batch)
		}
		names, b.rows = append(names, g.Key), append(b.rows, batchRow{method(r), r.Times, label})
	}
	for _, set := range ours.Group(scores.Data.Of) {
		beside, err := set.Beside()
		if err != nil {
			return nil, fmt.Errorf("table 5: %w", err)
		}
		s := batchSet{data: set.Key, paper: beside}
		theirs := printed.Where(func(r scores.Row) bool { return r.Data == s.paper && s.paper != "" })
		s.measures = theirs.Values(scores.Measure.Of)
		if s.paper == "" {
			s.measures = set.Rows.Values(scores.Measure.Of)
		} else if s.measures == nil {
			return nil, fmt.Errorf("table 5 has no data set %s", s.paper)
		}
		slices.SortFunc(s.measures, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
		pivot, err := set.Rows.Pivot(name, scores.Measure.Of)
		if err != nil {
			return nil, fmt.Errorf("table 5: %w", err)
		}
		papers, err := theirs.Where(func(r scores.Row) bool { return r.Rule != "" }).Pivot(name, scores.Measure.Of)
		if err != nil {
			return nil, fmt.Errorf("table 5: %w", err)
		}
		for _, m := range s.measures {
			s.ours, s.theirs = append(s.ours, pivot.Means(m, names)), append(s.theirs, papers.Means(m, names))
		}
		b.sets = append(b.sets, s)
	}
	return b, nil
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
	add := func(group, title string, scores []stats.Mean) {
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
	}
	for _, s := range b.sets {
		for i, k := range s.measures {
			add("ours, "+s.data, k, s.ours[i])
		}
	}
	for _, s := range b.sets {
		for i, k := range s.measures {
			if s.paper != "" {
				add("the paper's, "+s.paper, k, s.theirs[i])
			}
		}
	}
	for _, s := range b.sets {
		for i, k := range s.measures[:1] {
			if s.paper == "" {
				continue
			}
			a, err := stats.CompareRanks(s.ours[i], s.theirs[i])
			if err != nil {
				return nil, err
			}
			t.Notes = append(t.Notes, fmt.Sprintf("Order of %s on %s against the paper's on %s (Spearman): %s.", k, s.data,
				s.paper, a))
		}
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
	add := func(group, title string, scores []stats.Mean) {
		t.Columns = append(t.Columns, Column{Group: group, Title: title})
		for i, s := range scores {
			c := Text(s.String())
			if i > 0 {
				c = gain(stats.Welch(s, scores[0]))
			}
			t.Rows[i] = append(t.Rows[i], c)
		}
	}
	for _, s := range b.sets {
		add("ours, "+s.data, s.measures[0], s.ours[0])
	}
	for _, s := range b.sets {
		if s.paper != "" {
			add("the paper's, "+s.paper, s.measures[0], s.theirs[0])
		}
	}
	t.MarkSignificant()
	return t
}

package figures

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

// Table5 returns the paper's Table 5 as it is printed, Recall@K in percent: rows from the literature, then the authors'
// own runs, with bold where the paper has it. A note on a number becomes a footnote of its cell.
func Table5(notes map[PaperResult]Markup) (*Table, error) {
	results, err := PaperResults(5)
	if err != nil {
		return nil, err
	}
	t := &Table{
		Columns: []Column{{Title: "Source", Left: true, Merged: true}, {Title: "Method", Left: true}},
		Caption: "Table 5. Recall@K in percent on four data sets, as the paper prints it: means, with no standard " +
			"deviations.",
		Notes: []Markup{"The rows above the line are copied from the literature by the paper, with other backbones, " +
			"batches and training; below it are " +
			"its own runs with ResNet-50, 80 epochs, 3 seeds. Bold as printed."},
	}
	type place struct {
		data, metric string
	}
	var columns []place
	rows := 0
	for _, r := range results {
		if p := (place{r.Dataset, r.Metric}); !slices.Contains(columns, p) {
			columns = append(columns, p)
			t.Columns = append(t.Columns, Column{Group: fmt.Sprintf("%s (dim=%d)", r.Dataset, r.Dim), Title: r.Metric})
		}
		rows = max(rows, r.Row)
	}
	t.Rows = make([][]Cell, rows)
	for i := range t.Rows {
		t.Rows[i] = slices.Repeat([]Cell{Text("–")}, len(t.Columns))
	}
	for _, r := range results {
		if r.Row < 1 {
			return nil, fmt.Errorf("table 5: %s has the row %d, want 1 or more", r.describe(), r.Row)
		}
		row := t.Rows[r.Row-1]
		row[0], row[1] = Text("literature"), Text(r.Method)
		if r.Direction != "" {
			row[0], row[1] = Text("the paper's runs"), Text(fmt.Sprintf("%s (B%d)", r.Method, r.BatchSize))
		}
		cell := Scored(stats.Mean{Mean: r.Mean, N: 1})
		cell.Bold, cell.Note = r.Bold, notes[r]
		row[2+slices.Index(columns, place{r.Dataset, r.Metric})] = cell
	}
	for i := 1; i < rows; i++ {
		if t.Rows[i][0].Text != t.Rows[i-1][0].Text {
			t.Rules = append(t.Rules, i)
		}
	}
	return t, nil
}

// BatchEntry is a row of Table 5 on one data set, from our runs.
type BatchEntry struct {
	Method string // As in the paper: MS*, DR-MS* or Ours. Others have no row of the paper beside them.
	Batch  int    // Images.
	Times  int    // The batch as a multiple of the smallest one; the paper's smallest is 128.
	Data   string // Our data set.
	Paper  string // The paper's data set in the same role; empty if there is none.
	// Recall is Recall@K in percent by K. The table shows each K that the paper prints for its data set, or all of them
	// without a data set of the paper.
	Recall map[int]stats.Mean
}

// PaperBatch is the batch size of the rows MS* and DR-MS* of Table 5, and the smallest of Ours.
const PaperBatch = 128

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

// batchSet holds the recalls on one data set by K and row.
type batchSet struct {
	data, paper  string
	ks           []int
	ours, theirs [][]stats.Mean
}

// CompareBatches returns the drawings of our rows beside those of the paper's Table 5. Rows and data sets keep the
// order of the entries. It returns an error without entries, for duplicates, and for a data set that the paper's table
// lacks.
func CompareBatches(entries []BatchEntry, provenance string) (*Batches, error) {
	b := &Batches{provenance: provenance}
	if len(entries) == 0 {
		return nil, fmt.Errorf("table 5: there are no results")
	}
	same := true // Whether each row has the same batch on all data sets.
	sizes := make(map[batchRow]int)
	for _, e := range entries {
		key := batchRow{method: e.Method, times: e.Times}
		if !slices.Contains(b.rows, key) {
			b.rows = append(b.rows, key)
			sizes[key] = e.Batch
		}
		same = same && sizes[key] == e.Batch
		i := slices.IndexFunc(b.sets, func(s batchSet) bool { return s.data == e.Data })
		if i < 0 {
			i = len(b.sets)
			s, err := newBatchSet(e)
			if err != nil {
				return nil, err
			}
			b.sets = append(b.sets, s)
		}
		if b.sets[i].paper != e.Paper {
			return nil, fmt.Errorf("table 5: %s stands beside %q and beside %q", e.Data, b.sets[i].paper, e.Paper)
		}
	}
	for i := range b.sets {
		for range b.sets[i].ks {
			b.sets[i].ours = append(b.sets[i].ours, slices.Repeat([]stats.Mean{Missing}, len(b.rows)))
			b.sets[i].theirs = append(b.sets[i].theirs, slices.Repeat([]stats.Mean{Missing}, len(b.rows)))
		}
	}
	seen := make(map[string]bool)
	for _, e := range entries {
		row := slices.Index(b.rows, batchRow{method: e.Method, times: e.Times})
		s := &b.sets[slices.IndexFunc(b.sets, func(s batchSet) bool { return s.data == e.Data })]
		key := fmt.Sprint(e.Data, " ", row)
		if seen[key] {
			return nil, fmt.Errorf("table 5: %s ×%d on %s is there twice", e.Method, e.Times, e.Data)
		}
		seen[key] = true
		for i, k := range s.ks {
			if score, there := e.Recall[k]; there {
				s.ours[i][row] = score
			}
			if s.paper == "" {
				continue
			}
			r, err := Paper(PaperResult{Table: 5, Dataset: s.paper, Method: e.Method, BatchSize: PaperBatch * e.Times,
				Metric: fmt.Sprintf("R@%d", k)})
			if err == nil { // The paper lacks some rows.
				s.theirs[i][row] = stats.Mean{Mean: r.Mean, N: 1}
			}
		}
	}
	for i, r := range b.rows {
		b.rows[i].label = fmt.Sprintf("%s (×%d)", r.method, r.times)
		if same {
			b.rows[i].label = fmt.Sprintf("%s (B%d)", r.method, sizes[r])
		}
	}
	return b, nil
}

func newBatchSet(e BatchEntry) (batchSet, error) {
	s := batchSet{data: e.Data, paper: e.Paper}
	if e.Paper == "" {
		for k := range e.Recall {
			s.ks = append(s.ks, k)
		}
		slices.Sort(s.ks)
		return s, nil
	}
	results, err := PaperResults(5)
	if err != nil {
		return s, err
	}
	for _, r := range results {
		if r.Dataset != e.Paper {
			continue
		}
		k, err := strconv.Atoi(strings.TrimPrefix(r.Metric, "R@"))
		if err != nil {
			return s, fmt.Errorf("table 5: metric %q: want R@K", r.Metric)
		}
		if !slices.Contains(s.ks, k) {
			s.ks = append(s.ks, k)
		}
	}
	if s.ks == nil {
		return s, fmt.Errorf("table 5 has no data set %s", e.Paper)
	}
	slices.SortFunc(s.ks, cmp.Compare[int])
	return s, nil
}

// Table returns the table of our recalls and then those of the paper's own runs, the best of each column in bold.
func (b *Batches) Table() (*Table, error) {
	t := &Table{
		Columns: []Column{{Title: "Method", Left: true}},
		Caption: "Table 5. Recall@K in percent: ours, mean ± standard deviation over seeds, and the paper's own runs with " +
			"batches in the same proportion. " +
			"Bold: the best of each column.",
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
		for i, k := range s.ks {
			add("ours, "+s.data, fmt.Sprintf("R@%d", k), s.ours[i])
		}
	}
	for _, s := range b.sets {
		for i, k := range s.ks {
			if s.paper != "" {
				add("the paper's, "+s.paper, fmt.Sprintf("R@%d", k), s.theirs[i])
			}
		}
	}
	for _, s := range b.sets {
		for i, k := range s.ks[:1] {
			if s.paper == "" {
				continue
			}
			a, err := stats.CompareRanks(s.ours[i], s.theirs[i])
			if err != nil {
				return nil, err
			}
			t.Notes = append(t.Notes, fmt.Sprintf("Order of R@%d on %s against the paper's on %s (Spearman): %s.", k, s.data,
				s.paper, a))
		}
	}
	if t.Notes != nil {
		t.Notes = append(t.Notes, rankNote)
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
				c = gain(s, scores[0])
			}
			t.Rows[i] = append(t.Rows[i], c)
		}
	}
	for _, s := range b.sets {
		add("ours, "+s.data, fmt.Sprintf("R@%d", s.ks[0]), s.ours[0])
	}
	for _, s := range b.sets {
		if s.paper != "" {
			add("the paper's, "+s.paper, fmt.Sprintf("R@%d", s.ks[0]), s.theirs[0])
		}
	}
	t.MarkSignificant()
	return t
}

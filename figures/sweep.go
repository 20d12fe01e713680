package figures

import (
	"fmt"
	"image/color"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// SweepData is a sweep of the learning rate as [DrawSweep] draws it: our curves of Recall@1 in percent beside the
// paper's, with all that was computed from them.
type SweepData struct {
	Number   int    // Of the paper's table.
	Compared string // The things that the rows stand for, in the plural: "gradient directions".
	Tint     color.NRGBA
	// RowTitle heads the labels of the rows and BlockTitle those of the blocks. Without blocks it is empty.
	RowTitle, BlockTitle Markup
	Sets                 []SweepSet
	Rows                 []SweepRow // Rows of one block are adjacent.
	Notes                []Markup   // Stand under the table of protocols.
	Statements           []SweepStatement
	Provenance           string
}

// SweepSet is a data set of ours with the paper's data set beside it, which is empty if there is none.
type SweepSet struct{ Data, Paper string }

// SweepRow is a rule of a sweep.
type SweepRow struct {
	Rule         string // Direction, pair weight and triplet weight: "cos/con/con".
	Label, Block Markup // The symbols of the parts that the rows and the blocks vary.
	Cells        []SweepCell
}

// SweepCell is a rule on one data set.
type SweepCell struct {
	Ours, Theirs scores.Curve // Theirs is empty if the paper leaves the rule out.
	Choice       SweepChoice
}

// SweepChoice holds the rates that two protocols select for a rule, and the paper's.
type SweepChoice struct {
	// ByTest is selected by test recall, ByHeldOut by the recall on held-out classes. Both have the LR 0 if one of them
	// cannot be selected, and Lack says why. Paper may have a recall with the LR 0, whose rate the paper does not print.
	ByTest, ByHeldOut, Paper SelectedRate
	Optimism                 float64 // Test recall of ByTest minus that of ByHeldOut, in points.
	Lack                     Markup
}

// Chosen reports whether both protocols select a rate.
func (c SweepChoice) Chosen() bool { return c.ByTest.LR > 0 }

// SelectedRate is a learning rate with the recalls of its runs.
type SelectedRate struct {
	scores.AtRate
	AtEdge bool // Whether it is the lowest or the highest rate that was tried.
	Rank   int  // By test recall among the rules for which both protocols select a rate, from 0.
}

// SweepStatement is a statement of the paper on a sweep.
type SweepStatement struct {
	Says, Means Markup          // In the paper's words, and as a comparison of numbers.
	Decisions   []SweepDecision // One for each block.
}

// SweepDecision says by data set whether a statement holds, by the paper's numbers and by ours.
type SweepDecision struct {
	Block        Markup
	Theirs, Ours []Markup
}

// Sweep draws the tables and pictures of a sweep of the learning rate.
type Sweep struct{ SweepData }

// DrawSweep returns the drawings of a sweep. It returns an error without data sets or rows, and for rows or statements
// that do not have one entry for each data set.
func DrawSweep(d SweepData) (*Sweep, error) {
	if len(d.Sets) == 0 || len(d.Rows) == 0 {
		return nil, fmt.Errorf("sweep of table %d: %d data sets and %d rows, want some of each", d.Number, len(d.Sets),
			len(d.Rows))
	}
	for _, r := range d.Rows {
		if len(r.Cells) != len(d.Sets) {
			return nil, fmt.Errorf("sweep of table %d: %s has %d cells, want one for each of %d data sets", d.Number, r.Rule,
				len(r.Cells), len(d.Sets))
		}
	}
	for _, s := range d.Statements {
		for _, v := range s.Decisions {
			if len(v.Theirs) != len(d.Sets) || len(v.Ours) != len(d.Sets) {
				return nil, fmt.Errorf("sweep of table %d: %d and %d decisions on %q, want one for each of %d data sets", d.Number,
					len(v.Theirs), len(v.Ours), s.Says, len(d.Sets))
			}
		}
	}
	return &Sweep{d}, nil
}

const edgeNote = "The best rate is the lowest or the highest of its grid: a better one may lie outside."

// rateCell returns the cell of a selected rate, with a mark at the edge of its grid.
func rateCell(lr float64, atEdge bool) Cell {
	if atEdge {
		return Text(fmt.Sprintf("%g†", lr))
	}
	return Text(fmt.Sprintf("%g", lr))
}

// label returns a data set of ours with the paper's data set beside it.
func (s SweepSet) label() string {
	if s.Paper == "" {
		return s.Data
	}
	return s.Data + " beside " + s.Paper
}

// hasPaper reports whether a data set of the paper stands beside one of ours.
func (s *Sweep) hasPaper() bool {
	return slices.ContainsFunc(s.Sets, func(set SweepSet) bool { return set.Paper != "" })
}

// curve and paperCurve return our and the paper's curve of a row on a data set.
func curve(r SweepRow, set int) scores.Curve      { return r.Cells[set].Ours }
func paperCurve(r SweepRow, set int) scores.Curve { return r.Cells[set].Theirs }

// heads returns the columns that name a row, and labels returns their cells.
func (s *Sweep) heads() []Column {
	heads := []Column{{Title: s.RowTitle, Left: true}}
	if s.BlockTitle != "" {
		heads = append(heads, Column{Title: s.BlockTitle, Left: true})
	}
	return heads
}

func (s *Sweep) labels(r SweepRow) []Cell {
	cells := []Cell{Text(r.Label)}
	if s.BlockTitle != "" {
		cells = append(cells, Text(r.Block))
	}
	return cells
}

// blocks returns the rows block by block.
func (s *Sweep) blocks() [][]SweepRow {
	var out [][]SweepRow
	first := 0
	for i := 1; i <= len(s.Rows); i++ {
		if i == len(s.Rows) || s.Rows[i].Block != s.Rows[i-1].Block {
			out, first = append(out, s.Rows[first:i]), i
		}
	}
	return out
}

// Table returns the sweep in the paper's own layout, our rows above the paper's. It has a row for each rule, a line of
// rates where the grid changes, and the cells of each data set and block shaded around their median. The best rate of a
// row is bold.
func (s *Sweep) Table() *Table {
	t := &Table{Tint: s.Tint, Provenance: s.Provenance,
		Columns: append([]Column{{Title: "Data", Left: true, Merged: true}}, s.heads()...),
		Caption: fmt.Sprintf("Table %d. Recall@1 in percent of different %s with various learning rates (lr).", s.Number,
			s.Compared)}
	widest := make([]int, len(s.Sets))
	for _, r := range s.Rows {
		for i, c := range r.Cells {
			widest[i] = max(widest[i], len(c.Ours), len(c.Theirs))
		}
	}
	for i, n := range widest {
		for k := range n {
			t.Columns = append(t.Columns, Column{Group: s.Sets[i].label(), Title: fmt.Sprintf("rate %d", k+1)})
		}
	}
	s.addRows(t, "ours", widest, curve)
	if s.hasPaper() {
		s.addRows(t, "the paper's", widest, paperCurve)
	}
	t.Notes = []Markup{"Bold: the best rate of a row whose rates were all run. The lowest one of equals; none at which " +
		"a run diverged."}
	return t
}

// addRows adds our rows or the paper's to the table. It leaves out rules without a curve.
func (s *Sweep) addRows(t *Table, whose string, widest []int, curve func(r SweepRow, set int) scores.Curve) {
	before := ""
	for _, block := range s.blocks() {
		shaded := make([][]*Cell, len(s.Sets))
		for _, r := range block {
			rates := append([]Cell{Text(whose)}, make([]Cell, len(s.heads()))...)
			row := append([]Cell{Text(whose)}, s.labels(r)...)
			first := len(row)
			grid, known := "", false
			for set := range s.Sets {
				c := curve(r, set)
				best := c.Best()
				known = known || len(c) > 0
				for k := range widest[set] {
					var rate, recall Cell
					if k < len(c) {
						rate.Text = fmt.Sprintf("lr\u00a0%g", c[k].LR)
						recall = sweepScored(c[k].Test)
						if recall.Bold = k == best; recall.Bold && c.AtEdge(k) {
							recall.Note = edgeNote
						}
					}
					grid += rate.Text + "|"
					rates, row = append(rates, rate), append(row, recall)
				}
			}
			if !known {
				continue
			}
			for set, n := range widest {
				for k := range n {
					shaded[set] = append(shaded[set], &row[first+k])
				}
				first += n
			}
			if grid != before {
				t.Rows, before = append(t.Rows, rates), grid
			}
			t.Rows = append(t.Rows, row)
		}
		for _, cells := range shaded {
			ShadeAroundMedian(cells...)
		}
		t.Rules = append(t.Rules, len(t.Rows))
	}
}

// sweepScored returns the cell of a mean. If all runs diverged the cell itself says so, without a note.
func sweepScored(s stats.Mean) Cell {
	if s.N == 0 {
		return score(s)
	}
	return Scored(s)
}

// score returns the cell of a mean without a note.
func score(s stats.Mean) Cell { return Cell{Score: &s} }

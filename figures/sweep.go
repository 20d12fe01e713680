package figures

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

// SweepPoint is a configuration at one learning rate: Recall@1 in percent.
type SweepPoint struct {
	Rule  string // direction/pair/triplet.
	Data  string // The data set that ours is measured on.
	Paper string // The paper's data set that it stands beside; empty for none.
	LR    float64
	// Test is over the test classes, HeldOut over training classes that were not trained on, by the same runs. [Missing]
	// is what was not run.
	Test, HeldOut stats.Mean
}

// sweeps are the paper's sweeps of the learning rate: of its components' tables, two to four, one each.
var sweeps = []struct {
	name   string
	number int
	main   int // The table of the best rates.
	// rows are what is varied; blocks, the other part that is, stand one under the other.
	rows, blocks part
	compared     string // As the caption says it.
	tint         color.NRGBA
	statements   []sweepStatement
}{
	{"table6", 6, 2, direction, none, "gradient directions", Red, directionStatements},
	{"table7", 7, 3, pairWeight, direction, "pair weights", LeafGreen, pairStatements},
	{"table8", 8, 4, tripletWeight, pairWeight, "triplet weights", BrightSky, tripletStatements},
}

// Sweep is one of the paper's sweeps of the learning rate with ours beside its numbers. Rates of one are not those of
// the other: what can be compared is how a curve runs, in factors of the rate.
type Sweep struct {
	kind       int // In sweeps.
	provenance string
	sets       []string // Ours.
	papers     []string // The paper's, beside them; "" for none.
	rows       []sweepRow
}

// sweepRow is a configuration with its curves, by data set.
type sweepRow struct {
	rule, row, block string
	ours, theirs     []sweepCurve
	// main is the paper's number in the table of best rates, for rules that its sweep leaves out.
	main []stats.Mean
}

// sweepCurve is a configuration on a data set, by rising rate.
type sweepCurve []sweepValue

type sweepValue struct {
	lr            float64
	test, heldOut stats.Mean
}

// CompareSweep sets our runs beside one of the paper's sweeps: "table6" of the directions, "table7" of the pair
// weights, "table8" of the triplet weights. Rows and data sets stand in the order of the points. Points without a run
// count: a curve that lacks one has no best rate yet.
func CompareSweep(table string, points []SweepPoint, provenance string) (*Sweep, error) {
	s := &Sweep{kind: -1, provenance: provenance}
	var names []string
	for i, k := range sweeps {
		names = append(names, k.name)
		if k.name == table {
			s.kind = i
		}
	}
	if s.kind < 0 {
		return nil, fmt.Errorf("no sweep %q; there are %s", table, strings.Join(names, ", "))
	}
	if err := s.fill(points); err != nil {
		return nil, fmt.Errorf("%s: %w", table, err)
	}
	return s, nil
}

func (s *Sweep) fill(points []SweepPoint) error {
	if len(points) == 0 {
		return fmt.Errorf("there are no results")
	}
	for _, p := range points {
		switch i := slices.Index(s.sets, p.Data); {
		case i < 0:
			s.sets, s.papers = append(s.sets, p.Data), append(s.papers, p.Paper)
		case s.papers[i] != p.Paper:
			return fmt.Errorf("%s stands beside %q and beside %q", p.Data, s.papers[i], p.Paper)
		}
	}
	for _, p := range points {
		if !(p.LR > 0) || math.IsInf(p.LR, 0) {
			return fmt.Errorf("%s on %s has the learning rate %v; want a positive number", p.Rule, p.Data, p.LR)
		}
		at := slices.IndexFunc(s.rows, func(r sweepRow) bool { return r.rule == p.Rule })
		if at < 0 {
			row, err := s.newRow(p.Rule)
			if err != nil {
				return err
			}
			at = len(s.rows)
			s.rows = append(s.rows, row)
		}
		curve := &s.rows[at].ours[slices.Index(s.sets, p.Data)]
		k, found := slices.BinarySearchFunc(*curve, p.LR, func(v sweepValue, lr float64) int { return sign(v.lr - lr) })
		if found {
			return fmt.Errorf("%s on %s at the rate %g is there twice", p.Rule, p.Data, p.LR)
		}
		*curve = slices.Insert(*curve, k, sweepValue{p.LR, p.Test, p.HeldOut})
	}
	// Blocks in one piece, in the order in which they are met.
	var blocks []string
	for _, r := range s.rows {
		if !slices.Contains(blocks, r.block) {
			blocks = append(blocks, r.block)
		}
	}
	slices.SortStableFunc(s.rows, func(a, b sweepRow) int {
		return slices.Index(blocks, a.block) - slices.Index(blocks,
			b.block)
	})
	return nil
}

func sign(x float64) int {
	switch {
	case x < 0:
		return -1
	case x > 0:
		return 1
	}
	return 0
}

// newRow is the row of a rule with the paper's curves.
func (s *Sweep) newRow(rule string) (sweepRow, error) {
	kind := sweeps[s.kind]
	parts := append(strings.Split(rule, "/"), "") // And no part.
	if len(parts) != 4 {
		return sweepRow{}, fmt.Errorf("rule %q: want direction/pair/triplet", rule)
	}
	r := sweepRow{rule: rule, row: parts[kind.rows], block: parts[kind.blocks], ours: make([]sweepCurve, len(s.sets))}
	swept, err := PaperResults(kind.number)
	if err != nil {
		return sweepRow{}, err
	}
	best, err := PaperResults(kind.main)
	if err != nil {
		return sweepRow{}, err
	}
	for _, set := range s.papers {
		is := func(p PaperResult) bool {
			return set != "" && p.Dataset == set && p.Direction+"/"+p.Pair+"/"+p.Triplet == rule
		}
		var curve sweepCurve
		for _, p := range swept {
			if is(p) {
				curve = append(curve, sweepValue{p.LR, p.Score(), Missing})
			}
		}
		slices.SortFunc(curve, func(a, b sweepValue) int { return sign(a.lr - b.lr) })
		main := Missing
		if i := slices.IndexFunc(best, is); i >= 0 {
			main = best[i].Score()
		}
		r.theirs, r.main = append(r.theirs, curve), append(r.main, main)
	}
	return r, nil
}

func testOf(v sweepValue) stats.Mean    { return v.test }
func heldOutOf(v sweepValue) stats.Mean { return v.heldOut }

// made tells whether there is a result, also if the run diverged.
func made(s stats.Mean) bool { return !math.IsNaN(s.Mean) || s.Diverged > 0 }

// complete tells whether all rates of a curve were run.
func (c sweepCurve) complete() bool {
	return len(c) > 0 && !slices.ContainsFunc(c, func(v sweepValue) bool { return !made(v.test) })
}

// best is the place of the rate with the highest mean by a score, the lowest such rate; −1 where the curve is not
// complete or has no such rate. A rate at which a run diverged is never the best.
func (c sweepCurve) best(by func(sweepValue) stats.Mean) int {
	best := -1
	if !c.complete() {
		return best
	}
	for i, v := range c {
		if s := by(v); s.Diverged == 0 && !math.IsNaN(s.Mean) && (best < 0 || s.Mean > by(c[best]).Mean) {
			best = i
		}
	}
	return best
}

// edge tells whether a rate is the lowest or the highest of its grid: then the best of all rates may lie outside.
func (c sweepCurve) edge(i int) bool { return i == 0 || i == len(c)-1 }

const edgeNote = "The best rate is the lowest or the highest of its grid: a better one may lie outside."

// rate writes a rate, with the mark of a grid's edge.
func (c sweepCurve) rate(i int) Markup {
	if c.edge(i) {
		return fmt.Sprintf("%g†", c[i].lr)
	}
	return fmt.Sprintf("%g", c[i].lr)
}

// setLabel is a data set of ours and the one of the paper's that it stands beside.
func (s *Sweep) setLabel(set int) string {
	if s.papers[set] == "" {
		return s.sets[set]
	}
	return s.sets[set] + " beside " + s.papers[set]
}

// heads are the columns that name a row, labels their cells.
func (s *Sweep) heads() []Column {
	kind := sweeps[s.kind]
	heads := []Column{{Title: kind.rows.title(), Left: true}}
	if kind.blocks != none {
		heads = append(heads, Column{Title: kind.blocks.title(), Left: true})
	}
	return heads
}

func (s *Sweep) labels(r sweepRow) []Cell {
	kind := sweeps[s.kind]
	cells := []Cell{Text(kind.rows.label(r.row))}
	if kind.blocks != none {
		cells = append(cells, Text(kind.blocks.label(r.block)))
	}
	return cells
}

// blockEnds are the numbers of rows after which another block begins.
func (s *Sweep) blockEnds() []int {
	var ends []int
	for i := 1; i <= len(s.rows); i++ {
		if i == len(s.rows) || s.rows[i].block != s.rows[i-1].block {
			ends = append(ends, i)
		}
	}
	return ends
}

// Table is the sweep in the paper's own shape, ours above the paper's: a row for each configuration, a line of rates
// where the grid changes, each data set of a block shaded around its median. The best rate of a row is bold.
func (s *Sweep) Table() *Table {
	kind := sweeps[s.kind]
	t := &Table{Tint: kind.tint, Provenance: s.provenance,
		Columns: append([]Column{{Title: "Data", Left: true, Merged: true}}, s.heads()...),
		Caption: fmt.Sprintf("Table %d. Recall@1 in percent of different %s with various learning rates (lr).", kind.number,
			kind.compared)}
	widest := make([]int, len(s.sets))
	for _, r := range s.rows {
		for i := range s.sets {
			widest[i] = max(widest[i], len(r.ours[i]), len(r.theirs[i]))
		}
	}
	for i, n := range widest {
		for k := range n {
			t.Columns = append(t.Columns, Column{Group: s.setLabel(i), Title: fmt.Sprintf("rate %d", k+1)})
		}
	}
	s.lines(t, "ours", widest, func(r sweepRow) []sweepCurve { return r.ours })
	if slices.ContainsFunc(s.papers, func(set string) bool { return set != "" }) {
		s.lines(t, "the paper's", widest, func(r sweepRow) []sweepCurve { return r.theirs })
	}
	t.Notes = []Markup{"Bold: the best rate of a row whose rates were all run. The lowest one of equals; none at which " +
		"a run diverged."}
	return t
}

// lines adds the rows of ours or the paper's.
func (s *Sweep) lines(t *Table, whose string, widest []int, curves func(sweepRow) []sweepCurve) {
	grid := func(r sweepRow) Markup {
		var b strings.Builder
		for _, c := range curves(r) {
			for _, v := range c {
				fmt.Fprintf(&b, "%g ", v.lr)
			}
			b.WriteByte('|')
		}
		return b.String()
	}
	before := ""
	var shaded [][]*Cell // By data set.
	ends := s.blockEnds()
	first := 0
	for _, end := range ends {
		shaded = make([][]*Cell, len(s.sets))
		var rows [][]Cell
		for _, r := range s.rows[first:end] {
			if !slices.ContainsFunc(curves(r), func(c sweepCurve) bool { return c != nil }) {
				continue // The paper's sweep leaves some rules out.
			}
			if g := grid(r); g != before {
				head := append([]Cell{Text(whose)}, make([]Cell, len(s.heads()))...)
				for i, c := range curves(r) {
					for k := range widest[i] {
						cell := Cell{}
						if k < len(c) {
							cell.Text = fmt.Sprintf("lr\u00a0%g", c[k].lr)
						}
						head = append(head, cell)
					}
				}
				rows, before = append(rows, head), g
			}
			row := append([]Cell{Text(whose)}, s.labels(r)...)
			from := len(row)
			for i, c := range curves(r) {
				best := c.best(testOf)
				for k := range widest[i] {
					cell := Cell{}
					if k < len(c) {
						cell = sweepScored(c[k].test)
					}
					if k == best {
						cell.Bold = true
						if c.edge(k) {
							cell.Note = edgeNote
						}
					}
					row = append(row, cell)
				}
			}
			at := from
			for i := range curves(r) {
				for k := range widest[i] {
					shaded[i] = append(shaded[i], &row[at+k])
				}
				at += widest[i]
			}
			rows = append(rows, row)
		}
		for _, cells := range shaded {
			ShadeAroundMedian(cells...)
		}
		t.Rows = append(t.Rows, rows...)
		t.Rules = append(t.Rules, len(t.Rows))
		first = end
	}
}

// sweepScored returns a mean's cell; where all runs diverged the cell says so itself.
func sweepScored(s stats.Mean) Cell {
	if s.N == 0 {
		return score(s)
	}
	return Scored(s)
}

// score is a score's cell without a footnote.
func score(s stats.Mean) Cell { return Cell{Score: &s} }

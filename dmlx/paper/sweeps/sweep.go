// Package sweeps analyzes the sweeps of the learning rate, the paper's Tables 6 to 8 and our runs beside them.
//
// It selects a rate for each rule in two ways: by test recall, as the paper does, and by the recall on training classes
// that were held out. It then computes how much the first selection flatters, and how much recall other rates lose.
package sweeps

import (
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// kind describes one of the paper's sweeps.
type kind struct {
	number, main   int           // The numbers of its table, and of the table that has the recall at the best rates.
	varied, blocks scores.Column // The part that the rows vary, and the one that the blocks of rows vary, or "".
	compared       string
	tint           color.NRGBA
}

var kinds = []kind{
	{6, 2, scores.Direction, "", "gradient directions", figures.Red},
	{7, 3, scores.Pair, scores.Direction, "pair weights", figures.LeafGreen},
	{8, 4, scores.Triplet, scores.Pair, "triplet weights", figures.BrightSky},
}

// Sweep holds our sweep beside one of the paper's. The rates of the two are on different scales. The shapes of the
// curves, in factors of the rate, can be compared.
type Sweep struct {
	kind
	provenance string
	sets       []set
	rows       []*row // Rows of one block are adjacent.
}

// set is a data set of ours with the paper's data set beside it, "" without one.
type set struct{ data, paper string }

// row is a rule. Its id tells it from others: a row of the user's own may have the rule of one of the paper's, at other
// rates. Its name is the part that the rows vary, or the rule of a row of the user's own.
type row struct {
	id, name, block   string
	label, blockLabel figures.Markup
	cells             []cell // By data set.
}

// cell holds the curves of a rule on a data set; the paper's is empty if it leaves the rule out.
type cell struct {
	ours, theirs scores.Curve
	// byTest is selected by test recall, byHeldOut by the recall on held-out classes. Both have the LR 0 if one of them
	// cannot be selected, and lack says why. paper may have a recall with the LR 0, whose rate the paper does not print.
	byTest, byHeldOut, paper selected
	lack                     figures.Markup
}

// selected is a learning rate with the recalls of its runs.
type selected struct {
	scores.AtRate
	atEdge bool // Whether it is the lowest or the highest rate that was tried.
	rank   int  // By test recall among the rules for which both protocols select a rate, from 0.
}

// chosen reports whether both protocols select a rate.
func (c cell) chosen() bool { return c.byTest.LR > 0 }

// optimism is the test recall of byTest less that of byHeldOut, in points.
func (c cell) optimism() float64 { return c.byTest.Test.Mean - c.byHeldOut.Test.Mean }

// Read returns the sweep "table6" of the directions, "table7" of the pair weights or "table8" of the triplet weights,
// from Recall@1 on test and on held-out classes. Rows and data sets keep the order of the scores. A planned run counts
// too: its curve has no best rate yet. Read returns an error for another table, for duplicates, and for a learning rate
// that is not positive.
func Read(table string, all scores.Table, provenance string) (*Sweep, error) {
	at := slices.IndexFunc(kinds, func(k kind) bool { return table == fmt.Sprint("table", k.number) })
	if at < 0 {
		return nil, fmt.Errorf("no sweep %q: want one of table6, table7, table8", table)
	}
	s := &Sweep{kind: kinds[at], provenance: provenance}
	if err := s.fill(all); err != nil {
		return nil, fmt.Errorf("%s: %w", table, err)
	}
	for i := range s.sets {
		s.choose(i)
	}
	return s, nil
}

func byRate(a, b scores.AtRate) int { return cmp.Compare(a.LR, b.LR) }

func id(r scores.Row) string {
	if r.Own && r.Label != "" {
		return r.Rule + ", " + r.Label
	}
	return r.Rule
}

func (s *Sweep) fill(all scores.Table) error {
	recall := all.Select(scores.Row{Measure: report.Recall(1)})
	if len(recall) == 0 {
		return errors.New("there are no results")
	}
	for _, r := range recall {
		if !(r.LR > 0) || math.IsInf(r.LR, 0) {
			return fmt.Errorf("%s on %s has the learning rate %v; want a positive number", r.Rule, r.Data, r.LR)
		}
	}
	for _, of := range recall.Group(scores.Data.Of) {
		beside, err := of.Beside()
		if err != nil {
			return err
		}
		s.sets = append(s.sets, set{of.Key, beside})
	}
	for _, of := range all.Group(id) {
		ours, err := of.Rows.Select(scores.Row{Measure: report.Recall(1)}).Pivot(scores.Data.Of, scores.LR.Of)
		if err != nil {
			return err
		}
		r, err := s.newRow(of.Rows[0])
		if err != nil {
			return err
		}
		for i, set := range s.sets {
			c := &r.cells[i].ours
			for _, rate := range ours.Columns {
				if at := ours.At(set.data, rate); at != nil {
					held := of.Rows.Select(scores.Row{Data: set.data, LR: at[0].LR, Measure: report.HeldOut})
					*c = append(*c, scores.AtRate{LR: at[0].LR, Test: at.Mean(), HeldOut: held.Mean()})
				}
			}
			slices.SortFunc(*c, byRate)
		}
		s.rows = append(s.rows, r)
	}
	blocks := slice.Map(s.rows, func(r *row) string { return r.block })
	slices.SortStableFunc(s.rows, func(a, b *row) int {
		return cmp.Compare(slices.Index(blocks, a.block), slices.Index(blocks, b.block))
	})
	return nil
}

// newRow returns the row of a score with the paper's curves, and with empty ones for ours.
func (s *Sweep) newRow(of scores.Row) (*row, error) {
	if of.Direction == "" && !of.Own {
		return nil, fmt.Errorf("rule %q: want direction/pair/triplet", of.Rule)
	}
	r := &row{id: id(of), name: of.Rule, block: s.blocks.Of(of), label: figures.RowLabel(of, s.varied, s.blocks),
		cells: make([]cell, len(s.sets))}
	if s.blocks != "" {
		if r.blockLabel = "–"; r.block != "" { // A loss has no part.
			r.blockLabel = figures.PartLabel(s.blocks, r.block)
		}
	}
	// A rule that takes more to be told than its row and block is the user's own.
	own := of.Own || r.label != figures.PartLabel(s.varied, s.varied.Of(of))
	if !own {
		r.name = s.varied.Of(of)
	}
	if of.Own {
		r.label = cmp.Or(of.Label, r.label)
	}
	for i, set := range s.sets {
		var theirs scores.Table
		if !own && set.paper != "" {
			theirs = scores.Printed().Select(scores.Row{Rule: of.Rule, Data: set.paper})
		}
		c := &r.cells[i]
		for _, p := range theirs.Select(scores.Row{Table: s.number}) {
			c.theirs = append(c.theirs, scores.AtRate{LR: p.LR, Test: p.Value, HeldOut: scores.Missing()})
		}
		slices.SortFunc(c.theirs, byRate)
		c.paper.Test = theirs.Select(scores.Row{Table: s.main}).Mean()
	}
	return r, nil
}

// choose selects the rates of each row on a data set, by both protocols and by the paper.
func (s *Sweep) choose(set int) {
	var chosen []*cell
	for _, r := range s.rows {
		c := &r.cells[set]
		if best := c.theirs.Best(); best >= 0 {
			c.paper = selected{AtRate: c.theirs[best], atEdge: c.theirs.AtEdge(best)}
		}
		i, j := c.ours.Best(), c.ours.BestHeldOut()
		switch {
		case !c.ours.Complete():
			c.lack = fmt.Sprintf("%d of %d rates have been run.", c.ours.Ran(), len(c.ours))
		case i < 0:
			c.lack = "A run diverged at every rate."
		case j < 0:
			c.lack = "The runs hold no classes out."
		default:
			c.byTest = selected{AtRate: c.ours[i], atEdge: c.ours.AtEdge(i)}
			c.byHeldOut = selected{AtRate: c.ours[j], atEdge: c.ours.AtEdge(j)}
			chosen = append(chosen, c)
		}
	}
	for _, of := range []func(*cell) *selected{func(c *cell) *selected { return &c.paper },
		func(c *cell) *selected { return &c.byTest }, func(c *cell) *selected { return &c.byHeldOut }} {
		// Ties keep the order of the rows, so that each has a place of its own in the picture. NaN comes last.
		order := slices.Clone(chosen)
		slices.SortStableFunc(order, func(a, b *cell) int { return cmp.Compare(of(b).Test.Mean, of(a).Test.Mean) })
		for i, c := range order {
			of(c).rank = i
		}
	}
}

// Of returns our curve of a rule on a data set of ours, and the paper's on the data set in the same role. A curve that
// there is none of is empty.
func (s *Sweep) Of(data, rule string) (ours, papers scores.Curve) {
	i := slices.IndexFunc(s.sets, func(set set) bool { return set.data == data })
	at := slices.IndexFunc(s.rows, func(r *row) bool { return r.id == rule })
	if i < 0 || at < 0 {
		return nil, nil
	}
	return s.rows[at].cells[i].ours, s.rows[at].cells[i].theirs
}

// notes returns the notes on the protocols on a data set: the optimism of the first one, and the rank correlations of
// both orders with each other and with the paper's.
func (s *Sweep) notes(set int) []figures.Markup {
	var onTest, onHeldOut, papers []stats.Mean
	same, moved, edges, sum, most := 0, 0, 0, 0.0, 0.0
	for _, r := range s.rows {
		c := r.cells[set]
		if !c.chosen() {
			continue
		}
		onTest, onHeldOut = append(onTest, c.byTest.Test), append(onHeldOut, c.byHeldOut.Test)
		papers = append(papers, c.paper.Test)
		sum, most = sum+c.optimism(), max(most, c.optimism())
		if c.byTest.LR == c.byHeldOut.LR {
			same++
		}
		if c.byTest.rank != c.byHeldOut.rank {
			moved++
		}
		if c.byTest.atEdge {
			edges++
		}
	}
	data, n := s.sets[set], len(onTest)
	if n == 0 {
		return nil
	}
	out := []figures.Markup{
		fmt.Sprintf("On %s, %d of %d configurations: both choose the same rate for %d; optimism is %.1f points in the mean "+
			"and %.1f at most; %d change their rank; the rate chosen on test is at its grid's edge for %d.", data.data, n,
			len(s.rows), same, sum/float64(n), most, moved, edges),
		fmt.Sprintf("Order on %s (Spearman): one protocol against the other %s.", data.data,
			correlation(onTest, onHeldOut, false)),
	}
	if data.paper != "" {
		out = append(out, fmt.Sprintf("Order on %s against the paper's on %s: chosen on test %s; chosen on held-out "+
			"classes %s.", data.data, data.paper, correlation(onTest, papers, true), correlation(onHeldOut, papers, true)))
	}
	return out
}

// correlation formats the rank correlation of two lists of means. Both protocols read the same runs, so that the
// interval and the p-value, which assume independent lists, are left out for these.
func correlation(a, b []stats.Mean, independent bool) string {
	r, err := stats.CompareRanks(a, b)
	switch {
	case err != nil:
		return err.Error()
	case math.IsNaN(r.Rho) || independent:
		return r.String()
	}
	return fmt.Sprintf("ρ = %s, n = %d", strings.Replace(fmt.Sprintf("%.2f", r.Rho), "-", "−", 1), r.N)
}

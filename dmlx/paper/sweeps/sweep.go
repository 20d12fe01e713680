// Package sweeps analyzes the sweeps of the learning rate, the paper's Tables 6 to 8 and our runs beside them.
//
// It selects a rate for each rule in two ways: by test recall, as the paper does, and by the recall on training classes
// that were held out. It then computes how much the first selection flatters, how much recall other rates lose, and
// whether the paper's statements on the rates hold. Package figures draws the results.
package sweeps

import (
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// Point is one rule at one learning rate on one data set: Recall@1 in percent.
type Point struct {
	Rule  string // Direction, pair weight and triplet weight: "cos/con/con".
	Data  string // Our data set.
	Paper string // The paper's data set in the same role; empty if there is none.
	LR    float64
	// Test is on the test classes, HeldOut on training classes that were held out, both from the same runs.
	// [figures.Missing] stands for a point without a run.
	Test, HeldOut stats.Mean
	// Own marks a row of the user's own, which the paper does not have: any rule, or the name of a loss. Label names the
	// row; by default it is that of [figures.RowLabel].
	Own   bool
	Label figures.Markup
}

// id tells the rows of a sweep apart. A row of the user's own may have the rule of one of the paper's, at other rates.
func (p Point) id() string {
	if p.Own && p.Label != "" {
		return p.Rule + ", " + p.Label
	}
	return p.Rule
}

// part is one of the three parts of a rule.
type part struct {
	scores.Column
	title string
}

func (p part) label(name string) figures.Markup { return figures.PartLabel(p.Column, name) }

var (
	direction     = &part{scores.Direction, "Direction"}
	pairWeight    = &part{scores.Pair, "PairWeight"}
	tripletWeight = &part{scores.Triplet, "TripletWeight"}
)

// kind describes one of the paper's sweeps.
type kind struct {
	table        string
	number, main int   // The numbers of its table, and of the table that has the recall at the best rates.
	rows, blocks *part // The part that the rows vary, and the one that the blocks of rows vary, or nil.
	compared     string
	tint         color.NRGBA
	statements   []statement
}

var kinds = []kind{
	{"table6", 6, 2, direction, nil, "gradient directions", figures.Red, directionStatements},
	{"table7", 7, 3, pairWeight, direction, "pair weights", figures.LeafGreen, pairStatements},
	{"table8", 8, 4, tripletWeight, pairWeight, "triplet weights", figures.BrightSky, tripletStatements},
}

// Sweep holds our sweep beside one of the paper's. The rates of the two are on different scales. The shapes of the
// curves, in factors of the rate, can be compared.
type Sweep struct {
	kind kind
	sets []figures.SweepSet
	rows []row // Rows of one block are adjacent.
}

// row holds the curves of a rule by data set.
type row struct {
	figures.SweepRow
	name, block string
	main        []stats.Mean // From the paper's table of the best rates, for rules that its sweep leaves out.
}

// Read returns the sweep "table6" of the directions, "table7" of the pair weights or "table8" of the triplet weights.
// Rows and data sets keep the order of the points. A point without a run counts too: its curve has no best rate yet.
// Read returns an error for another table, for duplicate points, and for a learning rate that is not positive.
func Read(table string, points []Point) (*Sweep, error) {
	var names []string
	for _, k := range kinds {
		if k.table == table {
			s := &Sweep{kind: k}
			if err := s.fill(points); err != nil {
				return nil, fmt.Errorf("%s: %w", table, err)
			}
			return s, nil
		}
		names = append(names, k.table)
	}
	return nil, fmt.Errorf("no sweep %q: want one of %s", table, strings.Join(names, ", "))
}

func (s *Sweep) fill(points []Point) error {
	if len(points) == 0 {
		return errors.New("there are no results")
	}
	set := func(p Point) int {
		return slices.IndexFunc(s.sets, func(set figures.SweepSet) bool { return set.Data == p.Data })
	}
	for _, p := range points {
		switch i := set(p); {
		case i < 0:
			s.sets = append(s.sets, figures.SweepSet{Data: p.Data, Paper: p.Paper})
		case s.sets[i].Paper != p.Paper:
			return fmt.Errorf("%s stands beside %q and beside %q: want one of the paper's data sets", p.Data,
				s.sets[i].Paper, p.Paper)
		}
	}
	var blocks []string
	for _, p := range points {
		if !(p.LR > 0) || math.IsInf(p.LR, 0) {
			return fmt.Errorf("%s on %s has the learning rate %v; want a positive number", p.Rule, p.Data, p.LR)
		}
		at := slices.IndexFunc(s.rows, func(r row) bool { return r.Rule == p.id() })
		if at < 0 {
			r, err := s.newRow(p)
			if err != nil {
				return err
			}
			at = len(s.rows)
			s.rows, blocks = append(s.rows, r), append(blocks, r.block)
		}
		curve := &s.rows[at].Cells[set(p)].Ours
		k, found := slices.BinarySearchFunc(*curve, p.LR,
			func(v scores.AtRate, lr float64) int { return cmp.Compare(v.LR, lr) })
		if found {
			return fmt.Errorf("%s on %s occurs twice at the learning rate %g", p.Rule, p.Data, p.LR)
		}
		*curve = slices.Insert(*curve, k, scores.AtRate{LR: p.LR, Test: p.Test, HeldOut: p.HeldOut})
	}
	slices.SortStableFunc(s.rows, func(a, b row) int {
		return cmp.Compare(slices.Index(blocks, a.block), slices.Index(blocks, b.block))
	})
	return nil
}

// newRow returns the row of a point with the paper's curves, and with empty ones for ours.
func (s *Sweep) newRow(p Point) (row, error) {
	rule := p.Rule
	var score scores.Row
	score.SetRule(rule)
	if score.Direction == "" && !p.Own {
		return row{}, fmt.Errorf("rule %q: want direction/pair/triplet", rule)
	}
	var blocks scores.Column
	if s.kind.blocks != nil {
		blocks = s.kind.blocks.Column
	}
	r := row{name: rule, block: blocks.Of(score), SweepRow: figures.SweepRow{Rule: p.id(),
		Label: figures.RowLabel(score, s.kind.rows.Column, blocks), Cells: make([]figures.SweepCell, len(s.sets))}}
	if s.kind.blocks != nil {
		if r.Block = "–"; r.block != "" { // A loss has no part.
			r.Block = s.kind.blocks.label(r.block)
		}
	}
	// A rule that takes more to be told than its row and block is the user's own.
	own := p.Own || r.Label != s.kind.rows.label(s.kind.rows.Of(score))
	if !own {
		r.name = s.kind.rows.Of(score)
	}
	if p.Own && p.Label != "" {
		r.Label = p.Label
	}
	printed := scores.Printed().Select(scores.Row{Rule: rule})
	for i, set := range s.sets {
		var theirs scores.Table
		if !own && set.Paper != "" {
			theirs = printed.Select(scores.Row{Data: set.Paper})
		}
		curve := &r.Cells[i].Theirs
		for _, p := range theirs.Select(scores.Row{Table: s.kind.number}) {
			*curve = append(*curve, scores.AtRate{LR: p.LR, Test: p.Value, HeldOut: figures.Missing})
		}
		slices.SortFunc(*curve, func(a, b scores.AtRate) int { return cmp.Compare(a.LR, b.LR) })
		r.main = append(r.main, theirs.Select(scores.Row{Table: s.kind.main}).Mean())
	}
	return r, nil
}

// Curves returns our curve of a rule on a data set of ours, and the paper's on the data set in the same role. A curve
// that there is none of is empty.
func (s *Sweep) Curves(data, rule string) (ours, papers scores.Curve) {
	set := slices.IndexFunc(s.sets, func(set figures.SweepSet) bool { return set.Data == data })
	at := slices.IndexFunc(s.rows, func(r row) bool { return r.Rule == rule })
	if set < 0 || at < 0 {
		return nil, nil
	}
	return s.rows[at].Cells[set].Ours, s.rows[at].Cells[set].Theirs
}

// Figures returns the tables and pictures of the sweep.
func (s *Sweep) Figures(provenance string) (*figures.Sweep, error) {
	d := figures.SweepData{Number: s.kind.number, Compared: s.kind.compared, Tint: s.kind.tint,
		RowTitle: s.kind.rows.title, Sets: s.sets, Statements: s.statements(), Provenance: provenance}
	if s.kind.blocks != nil {
		d.BlockTitle = s.kind.blocks.title
	}
	choices := make([][]figures.SweepChoice, len(s.sets))
	for set := range s.sets {
		choices[set] = s.choices(set)
		d.Notes = append(d.Notes, s.notes(set, choices[set])...)
	}
	for i, r := range s.rows {
		for set := range s.sets {
			r.Cells[set].Choice = choices[set][i]
		}
		d.Rows = append(d.Rows, r.SweepRow)
	}
	return figures.DrawSweep(d)
}

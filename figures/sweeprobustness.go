package figures

import (
	"fmt"
	"math"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

// drop is how many points the curve is below its best where the rate is the best one times a factor; between two
// rates of the grid it is interpolated over the rate's logarithm. It is NaN beyond the grid and +Inf where a run
// diverged.
func (c sweepCurve) drop(factor float64) float64 {
	best := c.best(testOf)
	if best < 0 {
		return math.NaN()
	}
	lr := c[best].lr * factor
	value := func(v sweepValue) float64 {
		if v.test.Diverged > 0 {
			return math.Inf(-1)
		}
		return v.test.Mean
	}
	for i, v := range c {
		if math.Abs(math.Log2(v.lr/lr)) < 1e-6 {
			return c[best].test.Mean - value(v)
		}
		if i > 0 && c[i-1].lr < lr && lr < v.lr {
			f := math.Log(lr/c[i-1].lr) / math.Log(v.lr/c[i-1].lr)
			return c[best].test.Mean - (1-f)*value(c[i-1]) - f*value(v)
		}
	}
	return math.NaN()
}

// nearDrop is the larger of the drops at half and at twice the best rate, of those within the grid.
func (c sweepCurve) nearDrop() float64 {
	half, twice := c.drop(0.5), c.drop(2)
	switch {
	case math.IsNaN(half):
		return twice
	case math.IsNaN(twice):
		return half
	}
	return max(half, twice)
}

// spread is how many points the worst rate of the grid is below the best: +Inf where a run diverged.
func (c sweepCurve) spread() float64 {
	best := c.best(testOf)
	if best < 0 {
		return math.NaN()
	}
	worst := 0.0
	for _, v := range c {
		if v.test.Diverged > 0 {
			return math.Inf(1)
		}
		worst = max(worst, c[best].test.Mean-v.test.Mean)
	}
	return worst
}

// points writes a difference of recalls.
func points(d float64) string {
	switch {
	case math.IsNaN(d):
		return "–"
	case math.IsInf(d, 0):
		return "diverged"
	}
	return fmt.Sprintf("%.1f", d)
}

// Robustness is how much a configuration loses by a rate that is not its best: in points of test recall at half and
// at twice the best rate, and at the worst of its grid.
func (s *Sweep) Robustness() *Table {
	kind := sweeps[s.kind]
	t := &Table{Provenance: s.provenance, Tint: kind.tint,
		Columns: append([]Column{{Title: "Data", Left: true, Merged: true}}, s.heads()...),
		Caption: fmt.Sprintf("Table %d: points of Recall@1 that different %s lose by another rate than the best.",
			kind.number, kind.compared)}
	group := func(name string) {
		for _, title := range []Markup{"best lr", "at half", "at twice", "at the worst"} {
			t.Columns = append(t.Columns, Column{Group: name, Title: title})
		}
	}
	group("ours")
	withPapers := slices.ContainsFunc(s.papers, func(set string) bool { return set != "" })
	if withPapers {
		group("the paper's")
	}
	cells := func(c sweepCurve) []Cell {
		best := c.best(testOf)
		if best < 0 {
			return slices.Repeat([]Cell{Text("–")}, 4)
		}
		beyond := func(d float64) Cell {
			if math.IsNaN(d) {
				return Text("beyond")
			}
			return Text(points(d))
		}
		worst := Cell{Score: &stats.Mean{Mean: c.spread(), N: 1}}
		if math.IsInf(worst.Score.Mean, 0) {
			worst.Score = &stats.Mean{Mean: math.NaN(), Diverged: 1}
		}
		return []Cell{Text(c.rate(best)), beyond(c.drop(0.5)), beyond(c.drop(2)), worst}
	}
	for set := range s.sets {
		var ours, theirs []*Cell
		for _, r := range s.rows {
			row := slices.Concat([]Cell{Text(s.setLabel(set))}, s.labels(r), cells(r.ours[set]))
			if withPapers {
				row = append(row, cells(r.theirs[set])...)
				theirs = append(theirs, &row[len(row)-1])
			}
			ours = append(ours, &row[len(s.heads())+4])
			t.Rows = append(t.Rows, row)
		}
		Shade(ours...)
		Shade(theirs...)
		t.Rules = append(t.Rules, len(t.Rows))
	}
	t.Notes = []Markup{
		"†: the lowest or the highest rate of its grid. beyond: outside it; between two of its rates interpolated over " +
			"the logarithm.",
		"The worst of a grid depends on where the grid lies: compare it within a data set, among grids that are " +
			"equally wide.",
	}
	return t
}

// sweepStatement is something that the paper's text says of a sweep, as a comparison of two rows.
type sweepStatement struct {
	says  Markup // As the paper puts it.
	paper string // The paper's data set that it is said of; empty for all.
	a, b  string // Rows: that a is better than b.
	as    sweepMeasure
}

// sweepMeasure is by what a row is better than another.
type sweepMeasure int

const (
	byBest      sweepMeasure = iota // The recall at the best rate.
	everywhere                      // The recall at each rate.
	byWorst                         // The loss at the worst rate of the grid.
	byNearWorst                     // The loss at half or twice the best rate, whichever is more.
)

var (
	directionStatements = []sweepStatement{
		{`$\mathbf{e^{cos}}$ has better accuracy than $\mathbf{e^{euc}}$`, "", "cos", "euc", everywhere},
		{`$\mathbf{e^{cos}}$ has better accuracy than $\mathbf{e^{euc-orth}}$`, "", "cos", "euc-orth", everywhere},
		{`$\mathbf{e^{cos-orth}}$ improves on $\mathbf{e^{cos}}$`, "", "cos-orth", "cos", everywhere},
		{`$\mathbf{e^{cos-orth}}$ is relatively stable with respect to the learning rate`, "", "cos-orth", "euc", byWorst},
		{`$\mathbf{e^{cos-orth}}$ is relatively stable with respect to the learning rate`, "", "cos-orth", "cos", byWorst},
		{`$\mathbf{e^{cos-orth}}$ is relatively stable with respect to the learning rate`, "", "cos-orth", "euc-orth",
			byWorst},
	}
	pairStatements = []sweepStatement{
		{"$P^{lin-ms}$ is much more robust to different learning rates than $P^{sig-ms}$", "", "lin-ms", "sig-ms",
			byWorst},
		{"$P^{lin-ms}$ is much more robust to different learning rates than $P^{sig-ms}$", "", "lin-ms", "sig-ms",
			byNearWorst},
		{"$P^{lin-ms}$ gives better accuracy than $P^{sig-ms}$", "", "lin-ms", "sig-ms", byBest},
		{"$P^{lin-ms}$ performs better than $P^{lin}$ on CAR across different learning rates", "CAR", "lin-ms", "lin",
			everywhere},
		{"$P^{sig-ms}$ performs better than $P^{sig}$ on CAR across different learning rates", "CAR", "sig-ms", "sig",
			everywhere},
		{"$P^{sig-ms}$ is much worse than $P^{sig}$ on In-shop", "In-shop", "sig", "sig-ms", byBest},
	}
	tripletStatements = []sweepStatement{
		{"$T^{cir}$ shows stable improvement", "", "cir", "con", everywhere},
		{"$T^{cir}$ shows stable improvement", "", "cir", "con", byBest},
		{"$T^{cos}$ has a slight boost", "", "cos", "con", byBest},
		{"$T^{sc1}$ benefits sets with hard negatives", "CAR", "cos+sc1", "cos", byBest},
		{"$T^{sc2}$ benefits sets with hard negatives", "CAR", "cir+sc2", "cir", byBest},
		{"$T^{sc1}$ is not helpful where triplets separate easily", "In-shop", "cos", "cos+sc1", byBest},
		{"$T^{sc2}$ is not helpful where triplets separate easily", "In-shop", "cir", "cir+sc2", byBest},
	}
)

// of says what is compared.
func (m sweepMeasure) of(a, b Markup) Markup {
	switch m {
	case everywhere:
		return "R@1 at every rate, " + a + " > " + b
	case byWorst:
		return "lost at the worst rate, " + a + " < " + b
	case byNearWorst:
		return "lost at half or twice the best rate, " + a + " < " + b
	}
	return "R@1 at the best rate, " + a + " > " + b
}

// holds compares two curves, with the numbers. It is "–" where there is nothing to compare yet.
func (m sweepMeasure) holds(a, b sweepCurve) string {
	say := func(x, y float64, holds bool) string {
		if math.IsNaN(x) || math.IsNaN(y) {
			return "–"
		}
		return fmt.Sprintf("%s (%s,\u00a0%s)", map[bool]string{true: "holds", false: "fails"}[holds], points(x), points(y))
	}
	i, j := a.best(testOf), b.best(testOf)
	if i < 0 || j < 0 {
		return "–"
	}
	switch m {
	case byBest:
		return say(a[i].test.Mean, b[j].test.Mean, a[i].test.Mean > b[j].test.Mean)
	case byWorst:
		return say(a.spread(), b.spread(), a.spread() < b.spread())
	case byNearWorst:
		return say(a.nearDrop(), b.nearDrop(), a.nearDrop() < b.nearDrop())
	}
	better, of := 0, 0
	for _, v := range a {
		for _, w := range b {
			if v.lr == w.lr {
				of++
				if v.test.Mean > w.test.Mean || w.test.Diverged > 0 && v.test.Diverged == 0 {
					better++
				}
			}
		}
	}
	if of == 0 {
		return "– (no rate in common)"
	}
	return fmt.Sprintf("%s (%d\u00a0of\u00a0%d)", map[bool]string{true: "holds", false: "fails"}[better == of], better,
		of)
}

// Statements sets what the paper's text says of the sweep against its own numbers and against ours. A comparison of
// two means holds or fails by their values alone: how far noise decides it, the curves' deviations say.
func (s *Sweep) Statements() *Table {
	kind := sweeps[s.kind]
	t := &Table{Provenance: s.provenance,
		Caption: fmt.Sprintf("What the paper says of Table %d's rates, by its numbers and by ours.", kind.number),
		Columns: []Column{{Title: "The paper says", Left: true}, {Title: "taken as", Left: true}}}
	if kind.blocks != none {
		t.Columns = append(t.Columns, Column{Title: "with", Left: true})
	}
	for set, paper := range s.papers {
		if paper != "" {
			t.Columns = append(t.Columns, Column{Group: paper, Title: "the paper's"})
		}
		t.Columns = append(t.Columns, Column{Group: s.sets[set], Title: "ours"})
	}
	for _, st := range kind.statements {
		for _, end := range s.blockEnds() {
			block := s.rows[end-1].block
			find := func(name string) int {
				return slices.IndexFunc(s.rows, func(r sweepRow) bool { return r.row == name && r.block == block })
			}
			a, b := find(st.a), find(st.b)
			if a < 0 || b < 0 {
				continue
			}
			row := []Cell{Text(st.says), Text(st.as.of(kind.rows.label(st.a), kind.rows.label(st.b)))}
			if kind.blocks != none {
				row = append(row, Text(kind.blocks.label(block)))
			}
			for set, paper := range s.papers {
				theirs, ours := Cell{}, Cell{}
				if st.paper == "" || st.paper == paper {
					theirs, ours = Text(st.as.holds(s.rows[a].theirs[set], s.rows[b].theirs[set])),
						Text(st.as.holds(s.rows[a].ours[set], s.rows[b].ours[set]))
				}
				if paper != "" {
					row = append(row, theirs)
				}
				row = append(row, ours)
			}
			t.Rows = append(t.Rows, row)
		}
		t.Rules = append(t.Rules, len(t.Rows))
	}
	t.Notes = []Markup{
		"In brackets: the two numbers, or at how many of the rates that both were run at. A best rate at its grid's edge " +
			"has only one side that it can lose on.",
		"By the means alone: a difference of a point may be noise.",
	}
	return t
}

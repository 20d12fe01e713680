package figures

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// sweepChoice is what both protocols choose for a configuration on a data set.
type sweepChoice struct {
	row sweepRow
	// byTest and byHeldOut are the places of the rates in the curve; −1 where there is nothing to choose yet.
	byTest, byHeldOut int
	// onTest is the test recall at the rate chosen by itself, honest the one at the rate chosen on held-out classes,
	// and paper the best that the paper prints.
	onTest, honest, paper stats.Mean
}

func (c sweepChoice) made() bool { return c.byTest >= 0 && c.byHeldOut >= 0 }

func (s *Sweep) choices(set int) []sweepChoice {
	out := make([]sweepChoice, len(s.rows))
	for i, r := range s.rows {
		curve := r.ours[set]
		c := sweepChoice{row: r, byTest: curve.best(testOf), byHeldOut: curve.best(heldOutOf), onTest: Missing,
			honest: Missing, paper: r.main[set]}
		if k := r.theirs[set].best(testOf); k >= 0 {
			c.paper = r.theirs[set][k].test
		}
		if c.made() {
			c.onTest, c.honest = curve[c.byTest].test, curve[c.byHeldOut].test
		}
		out[i] = c
	}
	return out
}

// Protocols is the sweep under two protocols: the rate chosen by test recall, as in the paper, and the rate chosen
// on training classes that were held out; the test recall under each and by how much the first flatters; and how far
// the order of the configurations depends on it.
func (s *Sweep) Protocols() *Table {
	kind := sweeps[s.kind]
	t := &Table{Provenance: s.provenance, Columns: append([]Column{{Title: "Data", Left: true, Merged: true}},
		s.heads()...),
		Caption: fmt.Sprintf("Table %d under two protocols: Recall@1 in percent of different %s at the rate chosen for "+
			"each.", kind.number, kind.compared)}
	const onTest, honest, papers = "chosen on test", "chosen on held-out classes", "the paper's, chosen on test"
	t.Columns = append(t.Columns, Column{Group: onTest, Title: "lr"}, Column{Group: onTest, Title: "test R@1"},
		Column{Group: honest, Title: "lr"}, Column{Group: honest, Title: "held-out R@1"},
		Column{Group: honest, Title: "test R@1"},
		Column{Title: "optimism"}, Column{Group: papers, Title: "lr"}, Column{Group: papers, Title: "test R@1"})
	edges := false
	for set := range s.sets {
		for _, c := range s.choices(set) {
			row := append([]Cell{Text(s.setLabel(set))}, s.labels(c.row)...)
			if curve := c.row.ours[set]; c.made() {
				row = append(row, Text(curve.rate(c.byTest)), score(c.onTest), Text(curve.rate(c.byHeldOut)),
					score(curve[c.byHeldOut].heldOut), score(c.honest),
					Text(fmt.Sprintf("%.1f", c.onTest.Mean-c.honest.Mean)))
				edges = edges || curve.edge(c.byTest) || curve.edge(c.byHeldOut)
			} else {
				row = append(row, slices.Repeat([]Cell{Text("–")}, 6)...)
				row[len(row)-6].Note = curve.lack()
			}
			if k := c.row.theirs[set].best(testOf); k >= 0 {
				row = append(row, Text(c.row.theirs[set].rate(k)), score(c.paper))
				edges = edges || c.row.theirs[set].edge(k)
			} else {
				row = append(row, Text("–"), score(c.paper))
			}
			t.Rows = append(t.Rows, row)
		}
		t.Rules = append(t.Rules, len(t.Rows))
	}
	if edges {
		t.Notes = append(t.Notes, "†: the lowest or the highest rate of its grid; a better one may lie outside.")
	}
	t.Notes = append(t.Notes, "Optimism: test R@1 at the rate chosen on test less that at the rate chosen on held-out "+
		"classes. It is never negative.")
	for set := range s.sets {
		t.Notes = append(t.Notes, s.orders(set)...)
	}
	return t
}

// lack says what a curve lacks for a choice.
func (c sweepCurve) lack() Markup {
	n := 0
	for _, v := range c {
		if made(v.test) {
			n++
		}
	}
	switch {
	case n < len(c) || n == 0:
		return fmt.Sprintf("%d of %d rates have been run.", n, len(c))
	case c.best(testOf) < 0:
		return "A run diverged at every rate."
	}
	return "The runs hold no classes out."
}

// orders says how far the order of a data set's configurations depends on the protocol and agrees with the paper's.
func (s *Sweep) orders(set int) []Markup {
	var onTest, honest, papers []stats.Mean
	for _, c := range s.choices(set) {
		if c.made() {
			onTest, honest, papers = append(onTest, c.onTest), append(honest, c.honest), append(papers, c.paper)
		}
	}
	if onTest == nil {
		return nil
	}
	of := func(a, b []stats.Mean, independent bool) string {
		r, err := stats.CompareRanks(a, b)
		switch {
		case err != nil:
			return err.Error()
		case math.IsNaN(r.Rho) || independent:
			return r.String()
		}
		return strings.ReplaceAll(fmt.Sprintf("ρ = %.2f, n = %d", r.Rho, r.N), "-", "−")
	}
	out := s.optimism(set)
	out = append(out, fmt.Sprintf("Order on %s (Spearman): one protocol against the other %s.", s.sets[set],
		of(onTest, honest, false)))
	if s.papers[set] != "" {
		out = append(out, fmt.Sprintf("Order on %s against the paper's on %s: chosen on test %s; chosen on held-out "+
			"classes %s.", s.sets[set], s.papers[set],
			of(onTest, papers, true), of(honest, papers, true)))
	}
	return out
}

// optimism sums up what choosing on the test classes does on a data set.
func (s *Sweep) optimism(set int) []Markup {
	choices := s.ranked(set)
	if len(choices) == 0 {
		return nil
	}
	_, onTest, honest := sweepRanks(choices)
	same, places, edges, sum, most := 0, 0, 0, 0.0, 0.0
	for i, c := range choices {
		by := c.onTest.Mean - c.honest.Mean
		sum, most = sum+by, max(most, by)
		for _, count := range []struct {
			of   *int
			when bool
		}{{&same, c.byTest == c.byHeldOut}, {&places, onTest[i] != honest[i]}, {&edges, c.row.ours[set].edge(c.byTest)}} {
			if count.when {
				*count.of++
			}
		}
	}
	n := len(choices)
	return []Markup{fmt.Sprintf("On %s, %d of %d configurations: both choose the same rate for %d; optimism is %.1f "+
		"points in the mean and %.1f at most; %d change their rank; "+
		"the rate chosen on test is at its grid's edge for %d.", s.sets[set], n, len(s.rows), same, sum/float64(n), most,
		places, edges)}
}

// Orders draws the order of the configurations under both protocols, and the paper's: a panel for each data set with
// a line for each configuration that has its rates, from rank to rank.
func (s *Sweep) Orders() *Figure {
	kind := sweeps[s.kind]
	return &Figure{
		Width: vg.Points(330 * float64(len(s.sets))), Height: vg.Points(92 + 17*float64(len(s.rows))),
		Alt: fmt.Sprintf("Table %d: the order of different %s in the paper, at the rates chosen on test and at those "+
			"chosen on held-out classes.%s",
			kind.number, kind.compared, s.orderWords()),
		Provenance: s.provenance,
		panels: func(c draw.Canvas) {
			key(c, []keyed{{"same rank by either choice", Blue, dash{}}, {"another rank", Vermilion, dash{}}})
			c.Max.Y -= 18
			for i, part := range columns(c, 16, slices.Repeat([]float64{1}, len(s.sets))...) {
				s.bumps(part, i)
			}
		},
	}
}

// sweepRanks are the configurations of a data set by falling score under each protocol. Those without one come last.
func sweepRanks(choices []sweepChoice) (papers, onTest, honest []int) {
	by := func(score func(sweepChoice) stats.Mean) []int {
		order := make([]int, len(choices))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			x, y := score(choices[a]).Mean, score(choices[b]).Mean
			switch {
			case math.IsNaN(x) || math.IsNaN(y):
				return map[bool]int{true: 1}[math.IsNaN(x)] - map[bool]int{true: 1}[math.IsNaN(y)]
			}
			return sign(y - x)
		})
		rank := make([]int, len(choices))
		for r, i := range order {
			rank[i] = r
		}
		return rank
	}
	return by(func(c sweepChoice) stats.Mean { return c.paper }),
		by(func(c sweepChoice) stats.Mean { return c.onTest }),
		by(func(c sweepChoice) stats.Mean { return c.honest })
}

// ranked are the choices that were made.
func (s *Sweep) ranked(set int) []sweepChoice {
	return slices.DeleteFunc(s.choices(set), func(c sweepChoice) bool { return !c.made() })
}

func (s *Sweep) bumps(c draw.Canvas, set int) {
	choices := s.ranked(set)
	c.FillText(aligned(bold(style(titleSize, ink)), text.XCenter, text.YTop), vg.Point{X: c.Center().X, Y: c.Max.Y},
		s.setLabel(set))
	if len(choices) == 0 {
		c.FillText(aligned(style(labelSize, quiet), text.XCenter, text.YCenter), c.Center(),
			"no rate has been chosen on held-out classes yet")
		return
	}
	const side = vg.Length(84) // For the labels.
	xs := []vg.Length{c.Min.X + side, c.Center().X, c.Max.X - side}
	heads := aligned(style(noteSize, quiet), text.XCenter, text.YTop)
	papers, onTest, honest := sweepRanks(choices)
	for i, head := range []Markup{"the paper's", "chosen on test", "on held-out classes"} {
		if i > 0 || s.papers[set] != "" {
			c.FillText(heads, vg.Point{X: xs[i], Y: c.Max.Y - 18}, head)
		}
	}
	top := c.Max.Y - 40
	step := (top - c.Min.Y - 6) / vg.Length(max(len(s.rows)-1, 1))
	y := func(rank int) vg.Length { return top - step*vg.Length(rank) }
	const box = vg.Length(15) // Half the room of a number.
	for i, ch := range choices {
		if !math.IsNaN(ch.paper.Mean) {
			c.StrokeLine2(stroke(faint, 1.2), xs[0]+box, y(papers[i]), xs[1]-box, y(onTest[i]))
		}
	}
	for i := range choices {
		line := stroke(Blue, 1.2)
		if onTest[i] != honest[i] {
			line = stroke(Vermilion, 1.6)
		}
		c.StrokeLine2(line, xs[1]+box, y(onTest[i]), xs[2]-box, y(honest[i]))
	}
	number := aligned(style(tickSize, ink), text.XCenter, text.YCenter)
	for i, ch := range choices {
		label := sweeps[s.kind].rows.label(ch.row.row)
		if ch.row.block != "" {
			label += ", " + sweeps[s.kind].blocks.label(ch.row.block)
		}
		if !math.IsNaN(ch.paper.Mean) {
			c.FillText(number, vg.Point{X: xs[0], Y: y(papers[i])}, fmt.Sprintf("%.1f", ch.paper.Mean))
			c.FillText(aligned(style(tickSize, ink), text.XRight, text.YCenter), vg.Point{X: xs[0] - box, Y: y(papers[i])},
				label)
		}
		c.FillText(number, vg.Point{X: xs[1], Y: y(onTest[i])}, fmt.Sprintf("%.1f", ch.onTest.Mean))
		c.FillText(number, vg.Point{X: xs[2], Y: y(honest[i])}, fmt.Sprintf("%.1f", ch.honest.Mean))
		c.FillText(aligned(style(tickSize, ink), text.XLeft, text.YCenter), vg.Point{X: xs[2] + box, Y: y(honest[i])},
			label)
	}
}

// dash is a short line.
type dash struct{}

func (dash) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	c.StrokeLine2(stroke(s.Color, 1.6), at.X-2*s.Radius, at.Y, at.X+s.Radius, at.Y)
}

// orderWords reads the orders out.
func (s *Sweep) orderWords() string {
	var b strings.Builder
	for set := range s.sets {
		fmt.Fprintf(&b, " %s:", s.sets[set])
		choices := s.ranked(set)
		if len(choices) == 0 {
			b.WriteString(" no runs yet.")
		}
		for i, c := range choices {
			fmt.Fprintf(&b, " %s %.1f and %.1f", c.row.rule, c.onTest.Mean, c.honest.Mean)
			if !math.IsNaN(c.paper.Mean) {
				fmt.Fprintf(&b, " (paper: %.1f)", c.paper.Mean)
			}
			b.WriteString(map[bool]string{true: ".", false: ","}[i == len(choices)-1])
		}
	}
	return b.String()
}

package figures

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"gonum.org/v1/plot/vg"
)

// Very long names are cut: pictures of runs that are done are not refused for a label.
func TestLongNames(t *testing.T) {
	t.Parallel()
	row, word := strings.Repeat("a long label of mine, ", 4), strings.Repeat("Wörterbuchübersetzung", 4)
	named := func(names ...string) *Comparison {
		c := &Comparison{Alt: "A", Columns: []Line{{}}}
		var of scores.Table
		for i, name := range names {
			c.Rows = append(c.Rows, Line{Name: name, Label: name})
			of = append(of, scores.Row{Rule: name, Value: meanOf(70+float64(i), 1, 3, 0)})
		}
		p, err := of.Pivot(func(r scores.Row) string { return r.Rule }, func(scores.Row) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		c.Sets = []ComparedSet{{"minicar", "CAR", p, p}}
		return c
	}
	ours := scores.Curve{{LR: 0.1, Test: meanOf(60, 1, 3, 0)}, {LR: 0.2, Test: meanOf(63, 1, 3, 0)}}
	grid := GridSet{Data: "minicar", Directions: []string{"cos"}, Triplets: gridLevels[2], Scores: gridScores(70),
		Pairs: []string{"con", "own-weight", strings.Repeat("own-", 30)}}
	grids, err := GridMap([]GridSet{grid}, "")
	if err != nil {
		t.Fatal(err)
	}
	panels := [][]RatePanel{{{Title: row, Ours: ours}, {Title: word, Ours: ours}}}
	for name, f := range map[string]*Figure{"grid": grids, "rows": named(row, word).Plot(),
		"rates": RateCurves("a", []RateSet{{row, panels}}, "")} {
		if n := collisions(f); n > 0 {
			t.Errorf("%s: %d texts are cut or on others", name, n)
		}
	}
}

// A picture of no finite value has no color bar, whose range would be made up, and endless intervals end at the axis.
func TestNothingFinite(t *testing.T) {
	t.Parallel()
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	diagram, err := TripletDiagram(Diagram{Field: Field{Title: "$T$", Values: []float32{nan, inf, -inf, nan}}})
	if err != nil {
		t.Fatal(err)
	}
	grid, err := GridMap([]GridSet{{Data: "x", Directions: []string{"cos"}, Pairs: []string{"con"},
		Triplets: []string{"con"}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	densities, err := TripletDensities("", []Markup{"train"}, DensityRow{"none", make([]Density, 1)})
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*Figure{"diagram": diagram, "grid": grid, "densities": densities} {
		plain := *f
		plain.Alt = "" // It may have such numbers.
		svg := bytesOf(Bytes(&plain, "svg"))
		if len(svg) == 0 || bytes.Contains(svg, []byte("Inf")) || bytes.Contains(svg, []byte("NaN")) {
			t.Errorf("%s: %d bytes, or coordinates that are not finite", name, len(svg))
		}
	}
}

// A formula is cut with an ellipsis within it, and never within a command, which it would show.
func TestFittedFormula(t *testing.T) {
	t.Parallel()
	s, name := style(tickSize, ink), Markup(`costs \$5, $P_{+}^{e^{-S_{ap}}}$ of mine`)
	if got := fitted(s, PairLabel("own-weight-of-pairs"), 50); !strings.HasPrefix(got, "$P^{own-w") ||
		!strings.HasSuffix(got, "…}$") {
		t.Errorf("a long name of a pair weight became %q", got)
	}
	for width := vg.Length(5); width < s.Width(name)+10; width += 3 {
		cut := fitted(s, name, width)
		if got := Plain(cut); strings.Count(got, "$") > 1 || width > 10 && s.Width(cut) > width {
			t.Errorf("in %v: %q", width, got)
		}
	}
}

func bytesOf(data []byte, err error) []byte {
	if err != nil {
		return nil
	}
	return data
}

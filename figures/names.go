package figures

import (
	"fmt"
	"image/color"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/formula"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// DirectionLabel returns the paper's symbol for a direction, such as e^{cos-orth} for "cos-orth".
func DirectionLabel(name string) Markup { return fmt.Sprintf(`$\mathbf{e^{%s}}$`, name) }

// PairLabel returns the paper's symbol for a pair weight, such as P^{lin-ms} for "lin-ms".
func PairLabel(name string) Markup { return weightLabel("P", "P=", name) }

// weightLabel returns the symbol of a weight or a mask: T^{cir}, or equal to its formulas for one that is written as
// them.
func weightLabel(letter, equal, name string) Markup {
	formulas, own := formula.Labels(name)
	if formulas == nil {
		return fmt.Sprintf("$%s^{%s}$", letter, name)
	}
	text := strings.Join(formulas, `,\;`)
	if len(formulas) > 1 {
		text = "(" + text + ")"
	}
	return "$" + strings.Join(append([]string{equal + text}, own...), `,\;`) + "$"
}

// look is the style of a line and its points. Color, shape and dashes each suffice to tell two looks apart.
type look struct {
	color  color.NRGBA
	shape  draw.GlyphDrawer
	dashes []vg.Length
}

// pairLooks are the looks of the pair weights in all pictures. Weights relative to other pairs are dashed.
var pairLooks = map[string]look{
	"con":    {color: Black, shape: draw.CircleGlyph{}},
	"euc":    {color: Green, shape: diamond{}, dashes: []vg.Length{6, 2, 1.5, 2}},
	"lin":    {color: Blue, shape: draw.BoxGlyph{}},
	"lin-ms": {color: SkyBlue, shape: draw.SquareGlyph{}, dashes: []vg.Length{4, 2}},
	"sig":    {color: Orange, shape: draw.PyramidGlyph{}},
	"sig-ms": {color: Vermilion, shape: draw.TriangleGlyph{}, dashes: []vg.Length{4, 2}},
}

// pairLook returns the look of a pair weight. Names outside the paper share one look.
func pairLook(name string) look {
	if l, ok := pairLooks[name]; ok {
		return l
	}
	return look{color: Purple, shape: draw.CrossGlyph{}, dashes: []vg.Length{1.5, 1.5}}
}

// TripletLabel returns the paper's symbol for a triplet weight, with or without a mask: T^{cos} & T^{sc1} for
// "cos+sc1", as in the paper's Table 4.
func TripletLabel(name string) Markup {
	parts := formula.Split(name, "+")
	for i, p := range parts {
		equal := "T="
		if i > 0 {
			equal = `P_{+}=0\;\mathrm{for}\;`
		}
		parts[i] = weightLabel("T", equal, p)
	}
	return strings.Join(parts, " & ")
}

// RuleLabels returns the symbols of the three parts of a rule, direction/pair/triplet. Options after a question mark
// are ignored. Any other form is an error.
func RuleLabels(rule string) (direction, pair, triplet Markup, err error) {
	name, _, _ := strings.Cut(rule, "?")
	parts := formula.Split(name, "/")
	if len(parts) != 3 {
		return "", "", "", fmt.Errorf("rule %q: want direction/pair/triplet", rule)
	}
	return DirectionLabel(parts[0]), PairLabel(parts[1]), TripletLabel(parts[2]), nil
}

// parts are the parts of a rule, with their names, those of their columns, and the levels of cos/con/con.
var parts = [...]struct {
	column             scores.Column
	name, title, usual string
}{{scores.Direction, "direction", "Direction", "cos"}, {scores.Pair, "pair weight", "PairWeight", "con"},
	{scores.Triplet, "triplet weight", "TripletWeight", "con"}}

// RowLabel returns the label of a score in a table whose rows vary one part of cos/con/con and whose columns or blocks
// vary another: the symbol of the row's part, those of the other parts that differ, and the options. column is ""
// without such columns, and for a rule that stands in none of them. What is no rule is its own label.
func RowLabel(r scores.Row, row, column scores.Column) Markup {
	if r.Direction == "" {
		return r.Rule
	}
	label := []Markup{PartLabel(row, row.Of(r))}
	for _, part := range parts {
		if c := part.column; c != row && c != column && c.Of(r) != part.usual {
			label = append(label, PartLabel(c, c.Of(r)))
		}
	}
	if r.Options != "" {
		label = append(label, strings.Split(r.Options, "&")...)
	}
	return strings.Join(label, ", ")
}

// PartLabel returns the paper's symbol for a part of a rule by the column that has it.
func PartLabel(column scores.Column, name string) Markup {
	switch column {
	case scores.Direction:
		return DirectionLabel(name)
	case scores.Pair:
		return PairLabel(name)
	}
	return TripletLabel(name)
}

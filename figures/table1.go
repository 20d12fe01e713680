package figures

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
)

// LossRow is a row of Table 1: a loss, the rule it decomposes into, and a comparison of the gradient of the loss by
// autodiff with the rule's composed gradient G on one batch.
type LossRow struct {
	Loss string // A name of dmlx.Losses; other names are shown unchanged.
	Rule string // direction/pair/triplet.
	// Stated is the c in ∂L/∂f = c·G that follows from the formulas; 0 for none.
	Stated float64
	// Measured is the c that brings c·G closest. Error is the largest remaining difference relative to the largest
	// |∂L/∂f|. Cosine is the cosine of the angle between the two gradients.
	Measured, Error, Cosine float64
	Note                    Markup
}

// methods are the paper's names of losses.
var methods = map[string]Markup{
	"triplet-euc": "Triplet (Euclidean)", "triplet-cos": "Triplet (cosine)", "table1-circle": "Circle loss",
	"table1-binomial": "Binomial deviance", "table1-ms": "MS loss", "table1-ms-published": "MS loss, as published",
	"table1-dr-ms": "DR-MS loss", "table1-sct": "SC triplet loss", "table1-sct-published": "SC triplet loss, as published",
}

// Table1 returns Table 1: losses as direction, pair weight and triplet weight. It adds a check that the paper does
// not print: the gradient of each loss by autodiff against the composed gradient.
func Table1(rows []LossRow, provenance string) (*Table, error) {
	const equation = `$\partial L/\partial\mathbf{f} = c\,G$`
	t := &Table{
		Columns: []Column{{Title: "Method", Left: true}, {Title: "Direction"}, {Title: "PairWeight"},
			{Title: "TripletWeight"}, {Group: equation, Title: "$c$ stated"}, {Group: equation, Title: "$c$ measured"},
			{Group: equation, Title: "largest error"}, {Group: equation, Title: "cosine"}},
		Caption:    "Table 1. Each loss as a rule, and its gradient by autodiff against the rule's composed gradient $G$.",
		Provenance: provenance,
	}
	for _, r := range rows {
		direction, pair, triplet, err := RuleLabels(r.Rule)
		if err != nil {
			return nil, fmt.Errorf("table 1: %w", err)
		}
		stated := "none"
		if r.Stated != 0 {
			stated = number(r.Stated)
		}
		t.Rows = append(t.Rows, Row(Cell{Text: cmp.Or(methods[r.Loss], r.Loss), Note: r.Note}, direction, pair, triplet,
			stated, number(r.Measured), Scientific(r.Error), cosine(r.Cosine)))
	}
	return t, nil
}

// Scientific writes a small number with two digits, such as 1.2·10⁻⁶.
func Scientific(v float64) Markup {
	if v == 0 || math.IsNaN(v) || v >= 0.001 && v < 1000 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	exponent := int(math.Floor(math.Log10(math.Abs(v))))
	return fmt.Sprintf(`$%.1f\cdot 10^{%d}$`, v/math.Pow(10, float64(exponent)), exponent)
}

// cosine writes a cosine without rounding one that is below 1 to 1.
func cosine(v float64) string {
	if s := fmt.Sprintf("%.3f", v); s != "1.000" || v > 1-1e-6 {
		return s
	}
	return "> 0.999"
}

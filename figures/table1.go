package figures

import (
	"fmt"
	"math"
	"strconv"
)

// LossRow is a row of Table 1: a loss, the rule that it is taken apart into, and how the gradient of the loss by autodiff
// compares with the rule's composed gradient G on a batch.
type LossRow struct {
	Loss string // As dmlx.Losses name it; other names stand as they are.
	Rule string // direction/pair/triplet.
	// Stated is the c in ∂L/∂f = c·G that follows from the formulas; 0 if there is none.
	Stated float64
	// Measured is the c for which c·G is nearest, Error the largest remaining difference over the largest |∂L/∂f|, and
	// Cosine that of the angle between the two gradients.
	Measured, Error, Cosine float64
	Note                    Markup
}

var methods = map[string]Markup{
	"triplet-euc": "Triplet (Euclidean)", "triplet-cos": "Triplet (cosine)", "table1-circle": "Circle loss",
	"table1-binomial": "Binomial deviance", "table1-ms": "MS loss", "table1-ms-published": "MS loss, as published",
	"table1-dr-ms": "DR-MS loss", "table1-sct": "SC triplet loss", "table1-sct-published": "SC triplet loss, as published",
}

// Table1 is Table 1, losses taken apart into direction, pair weight and triplet weight, with what the paper does not
// show: the gradient of each loss by autodiff beside the composed gradient.
func Table1(rows []LossRow, provenance string) (*Table, error) {
	t := &Table{
		Columns: []Column{{Title: "Method", Left: true}, {Title: "Direction"}, {Title: "PairWeight"},
			{Title: "TripletWeight"},
			{Group: `$\partial L/\partial\mathbf{f} = c\,G$`, Title: "$c$ stated"},
			{Group: `$\partial L/\partial\mathbf{f} = c\,G$`, Title: "$c$ measured"},
			{Group: `$\partial L/\partial\mathbf{f} = c\,G$`, Title: "largest error"},
			{Group: `$\partial L/\partial\mathbf{f} = c\,G$`, Title: "cosine"}},
		Caption:    "Table 1. Each loss as a rule, and its gradient by autodiff against the rule's composed gradient $G$.",
		Provenance: provenance,
	}
	for _, r := range rows {
		direction, pair, triplet, err := RuleLabels(r.Rule)
		if err != nil {
			return nil, fmt.Errorf("table 1: %w", err)
		}
		name, ok := methods[r.Loss]
		if !ok {
			name = r.Loss
		}
		stated := "none"
		if r.Stated != 0 {
			stated = number(r.Stated)
		}
		t.Rows = append(t.Rows, []Cell{{Text: name, Note: r.Note}, Text(direction), Text(pair), Text(triplet),
			Text(stated), Text(number(r.Measured)), Text(scientific(r.Error)), Text(cosine(r.Cosine))})
	}
	return t, nil
}

// scientific is a small number with two digits, as 1.2·10⁻⁶.
func scientific(v float64) Markup {
	if v == 0 || math.IsNaN(v) || v >= 0.001 && v < 1000 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	exponent := int(math.Floor(math.Log10(math.Abs(v))))
	return fmt.Sprintf(`$%.1f\cdot 10^{%d}$`, v/math.Pow(10, float64(exponent)), exponent)
}

// cosine shows how near to one a cosine is, without rounding to one what is not.
func cosine(v float64) string {
	if s := fmt.Sprintf("%.3f", v); s != "1.000" || v > 1-1e-6 {
		return s
	}
	return "> 0.999"
}

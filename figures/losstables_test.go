package figures

import (
	"math"
	"testing"
)

func TestImpliedSummaries(t *testing.T) {
	rows := []ImpliedSummary{{Title: "N-pair", Anchors: 8, PairPositive: 1, PairNegative: 1, Weight: 0.03, Residual: 1e-8},
		{Title: "Contrastive", Anchors: 32, PairPositive: 1.5, PairNegative: 0.5, Weight: 0.0004, Residual: 0.0123,
			Lone: 0.01, Alone: 0.02}}
	table, err := ImpliedSummaries("a batch", rows)
	checkText(t, "impliedsummaries", table, err)
	rows[1].Alone = math.Inf(1)
	if _, err := ImpliedSummaries("", rows); err == nil {
		t.Error("Inf was set")
	}
}

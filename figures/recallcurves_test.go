package figures

import (
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

func TestRecallCurves(t *testing.T) {
	done := RecallGroup{Name: "cos/con/con", Curves: [][]float64{{70, 72}, {71, 73}},
		Recall: stats.MeanOf([]float64{72, 73})}
	begun := RecallGroup{Name: "cos/lin/cir", Curves: [][]float64{{69}, nil}, Recall: Missing}
	f, err := RecallCurves(2, 67, "the features", done, begun, RecallGroup{Name: "mine", Recall: Missing})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cos/con/con: 72.5 ± 0.7 %, 2 seeds.", "cos/lin/cir: 69.0 %, epoch 1 of 2.",
		"mine: waiting.",
		"the features: 67.0 %."} {
		if !strings.Contains(f.Alt, want) {
			t.Errorf("%q lacks %q", f.Alt, want)
		}
	}
	if _, err := Bytes(f, "png"); err != nil {
		t.Error(err)
	}
	begun.Curves[0][0] = math.NaN()
	if _, err := RecallCurves(2, math.NaN(), "", begun); err == nil || !strings.Contains(err.Error(), "[0][0] is NaN") {
		t.Errorf("NaN: %v", err)
	}
	if _, err := RecallCurves(2, math.NaN(), ""); err == nil {
		t.Error("a figure without groups")
	}
}

package figures

import (
	"strings"
	"testing"
)

func TestCosineMap(t *testing.T) {
	names := []string{"ms", "triplet", "info-nce"}
	cosines := [][]float64{{1, -0.2, 0.97}, {-0.2, 1, 0.1}, {0.97, 0.1, 1}}
	f, err := CosineMap(names, [][]string{{"ms", "info-nce"}, {"triplet"}}, cosines, "")
	checkGolden(t, "cosinemap", f, err)
	if !strings.Contains(f.Alt, "Groups: ms, info-nce.") {
		t.Error(f.Alt)
	}
	for _, groups := range [][][]string{{{"ms"}}, {{"ms", "triplet", "circle"}}} {
		if _, err := CosineMap(names, groups, cosines, ""); err == nil || !strings.Contains(err.Error(), "the same names") {
			t.Error(groups, err)
		}
	}
}

package paper

import (
	"strings"
	"testing"
)

// The runs of photographs.md can be named without its images and its network.
func TestPhotographsNeedNoImages(t *testing.T) {
	t.Parallel()
	cells, err := table2Study().Specs(PhotographsPreset(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cells) != 4 {
		t.Errorf("%d cells: want the four directions on one data set", len(cells))
	}
	for _, c := range cells {
		if c.Data != photographs || c.PaperData != "CAR" || len(c.Specs) != 5 {
			t.Errorf("%+v", c)
		}
		for _, s := range c.Specs {
			if s.DataDigest != photographsDigest || s.Model != photographsNetwork || !strings.Contains(s.TrainOnly, "blocks") {
				t.Errorf("%s", s.Canonical())
			}
		}
	}
}

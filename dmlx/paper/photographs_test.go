package paper

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/figures"
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

// The network without training stands in each of the tables.
func TestFrozenNetworkIsInTheTables(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"table2", "table3", "table4"} {
		q := request(t, "quick")
		q.Preset, q.CachedOnly = PhotographsPreset(), true
		r, err := Make(t.Context(), name, q)
		if err != nil {
			t.Fatal(err)
		}
		text, err := figures.Bytes(r.Part(""), "csv")
		notes := strings.Join(r.Part("").(*figures.Table).Notes, " ")
		if err != nil || !strings.Contains(notes, "frozen, whitened: no training") ||
			strings.Count(string(text), "frozen") < 2 || !strings.Contains(string(text), "36.5") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

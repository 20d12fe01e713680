package inspect

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/heads"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

// What the smoke preset's runs see, on a set that is its own gallery and on one with another.
func TestLookAndCompare(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	open := func() (*train.Trainer, error) {
		return train.New(&backend.Choice{Backend: b, Name: "go"}), nil
	}
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	preset, err := presets.Parse("smoke")
	if err != nil {
		t.Fatal(err)
	}
	o := runs.Options{IgnoreBundled: true}
	rules := []string{"euc/con/con", "cos/con/con"}
	var hashes []string
	for _, data := range []string{preset.CoarseGrained, preset.FineGrained} {
		of, seeds := rules, []uint64{1, 2}
		if data == preset.CoarseGrained { // Only looked at.
			of, seeds = rules[1:], seeds[:1]
		}
		hashes = nil
		for _, rule := range of {
			for _, seed := range seeds {
				spec, err := preset.ObjectiveSpec(data, presets.Named(rule), seed)
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := runs.RunAll(t.Context(), open, store, []runs.Spec{spec}, o); err != nil {
					t.Fatal(err)
				}
				hashes = append(hashes, spec.Hash())
			}
		}
		v, err := See(t.Context(), open, store, hashes[0])
		if err != nil {
			t.Fatal(err)
		}
		sheet, err := v.Sheet(runs.Spread(v.Found, 8, false))
		if err != nil {
			t.Fatal(err)
		}
		if picture, err := figures.Bytes(sheet, "png"); err != nil || len(picture) > 1_000_000 {
			t.Errorf("%s: %d bytes, %v", data, len(picture), err)
		}
		if !strings.Contains(sheet.Provenance, hashes[0]) || !strings.Contains(sheet.Provenance, "preset smoke") {
			t.Error(sheet.Provenance)
		}
	}
	compare := func(hashes ...string) (*report.Report, error) {
		c, err := Compare(store, hashes...)
		if err != nil {
			return nil, err
		}
		return c.Report()
	}
	r, err := compare(hashes...)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"metrics", "tests", "curves"} {
		if _, err := figures.Bytes(r.Part(name), r.Part(name).Formats()[0]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text := r.Part("tests").(*figures.Table).String(); strings.Count(text, "paired by seed, 2 pairs") != 2 {
		t.Error(text)
	}
	if one, err := compare(hashes[:2]...); err != nil || len(one.Parts) != 2 {
		t.Errorf("one group: %v", err)
	}
	if _, err := compare(); err == nil {
		t.Error("no runs were compared")
	}

	// Of shipped results there are measures and tests; what they lack says so.
	all, err := runs.Bundled()
	if err != nil {
		t.Fatal(err)
	}
	var shipped []string
	for _, hash := range slices.Sorted(maps.Keys(all)) {
		if s := all[hash].Spec; s.Data == "minicar" && s.HeldOut == 0 && presets.Of(s) == "quick" &&
			slices.Contains([]string{"euc/sig/con", "cos/sig/con"}, s.Rule) {
			shipped = append(shipped, hash)
		}
	}
	if r, err = compare(shipped...); err != nil {
		t.Fatal(err)
	}
	if text := r.Part("metrics").(*figures.Table).String(); !strings.Contains(text, "euc/sig/con") ||
		!strings.Contains(text, "±") {
		t.Error(text)
	}
	if err := figures.Failure(r.Part("curves")); err == nil || !strings.Contains(err.Error(), "has its epochs") {
		t.Errorf("curves of shipped results: %v", err)
	}
	if _, err := See(t.Context(), open, store, shipped[0]); err == nil ||
		!strings.Contains(err.Error(), "dmlx runs show "+shipped[0]) {
		t.Errorf("look into a shipped result: %v", err)
	}
}

func TestGroupNames(t *testing.T) {
	group := func(change func(*runs.Spec)) []*runs.Result {
		s := runs.Spec{Data: "minicar", Config: train.Config{Objective: objectives.Objective{Rule: "cos/con/con"}, LR: 0.3,
			Epochs: 24, Dim: 32}}
		change(&s)
		return []*runs.Result{{Hash: s.Hash(), Spec: s}}
	}
	same := group(func(*runs.Spec) {})
	for want, other := range map[string][]*runs.Result{
		"cos/con/con|euc/con/con":                 group(func(s *runs.Spec) { s.Rule = "euc/con/con" }),
		"cos/con/con, lr 0.3|cos/con/con, lr 0.6": group(func(s *runs.Spec) { s.LR = 0.6 }),
		"cos/con/con, on minicar, 24 epochs|cos/con/con, on birds, 48 epochs": group(func(s *runs.Spec) {
			s.Data,
				s.Epochs = "birds", 48
		}),
	} {
		if got := strings.Join(groupNames([][]*runs.Result{same, other}), "|"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	random := group(func(s *runs.Spec) { s.Head, s.Weights = "mlp", train.Random })
	chosen := group(func(s *runs.Spec) { s.Head, s.HeadStart, s.Weights = "mlp", heads.ChosenStart, train.Random })
	want := "cos/con/con, lr 0.3, head mlp?start=random|cos/con/con, lr chosen, head mlp"
	if got := strings.Join(groupNames([][]*runs.Result{random, chosen}), "|"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	padded := group(func(s *runs.Spec) { s.Pad = 7 })
	if got := groupNames([][]*runs.Result{same, padded}); got[0] == got[1] || !strings.Contains(got[0], same[0].Hash) {
		t.Errorf("not told apart: %v", got)
	}
}

func TestRowsOfTests(t *testing.T) {
	t.Parallel()
	of := func(value, low, high, p float64) stats.Test {
		return stats.Test{Difference: stats.Interval{Value: value, Low: low, High: high}, P: p}
	}
	for want, row := range map[string][]figures.Cell{
		"a|R@1|+5.71|+2.20 to\u00a0+9.20|0.020|paired": testRow("a", "R@1", of(5.714, 2.2, 9.2, 0.02), "paired", ""),
		"a|R@1|0.00|−0.40 to\u00a0+0.40|0.900|Welch":   testRow("a", "R@1", of(-0.001, -0.4, 0.4, 0.9), "Welch", ""),
		"a|R@1|−6.20|−9.00 to\u00a0−3.00|< 0.001|one":  testRow("a", "R@1", of(-6.2, -9, -3, 1e-5), "one", ""),
		"a|R@1|+6.20|–|–|one seed":                     testRow("a", "R@1", of(6.2, 0, 0, math.NaN()), "Welch", "one seed"),
	} {
		var cells []string
		for _, c := range row {
			cells = append(cells, c.Text)
		}
		if got := strings.Join(cells, "|"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if tested := row[2].Test != nil; tested != (row[4].Text != "–") {
			t.Errorf("%s: tested is %v", want, tested)
		}
	}
}

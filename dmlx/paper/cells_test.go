package paper

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

// A table is made step by step from a list of rules, to which a rule with formulas and a loss are added as text: both
// stand as rows without a number of the paper.
func TestStepByStep(t *testing.T) {
	p, err := presets.Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	const written = "cos-orth/[1-Sap, k*San, k=2]/con"
	rules := append(Rules([]string{"euc", "cos"}, []string{"con"}, []string{"con"}), written, "loss ms")
	if want := []string{"euc/con/con", "cos/con/con", written, "loss ms"}; !slices.Equal(rules, want) {
		t.Errorf("rules %q, want %q", rules, want)
	}
	cells, err := Specify(p, OnBothSets(p, rules...), []uint64{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	if c := cells[7]; len(cells) != 8 || c.Data != "minishop" || c.PaperData != "In-shop" || !c.own() ||
		c.Loss != "ms" || c.Row != "loss ms" || len(c.Specs) != 3 || c.LR <= 0 || c.Preset != "quick" {
		t.Errorf("%d cells, the last %+v", len(cells), c)
	}
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	q := report.Request{Open: openGo, Store: store, Options: runs.Options{CachedOnly: true}}
	table, err := Fill(t.Context(), q, cells)
	if err != nil {
		t.Fatal(err)
	}
	if table.Runs != 24 || table.Missing != 12 || table.Preset != "quick" {
		t.Errorf("%+v", table)
	}
	c, err := Compare(2, table.Scores(), table.Provenance())
	if err != nil {
		t.Fatal(err)
	}
	text, err := figures.Bytes(c.Table(), "md")
	for _, want := range []string{`| $\mathbf{e^{cos-orth}}$, $P=(1-S_{ap},\;k\cdot S_{an}),\;k=2$ | – | – | – | – |`,
		"| loss ms | – | – | – | – |"} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("no %q in %v\n%s", want, err, text)
		}
	}
	measured, err := figures.Bytes(table.Measured("R@2"), "md")
	for _, want := range []string{"| Data | Rule | lr | R@2 |", "| minicar | euc/con/con | 0.3 | 8",
		"| loss ms | 0.69 | – |"} {
		if err != nil || !strings.Contains(string(measured), want) {
			t.Errorf("no %q in %v\n%s", want, err, measured)
		}
	}
	if a, b := table.Of("minicar", "cos/con/con"), table.Of("minicar", "loss ms"); a.Recall(1).N != 3 ||
		a.Printed(2) != (stats.Mean{Mean: 75.5, Std: 0.2, N: 5}) || b.Loss != "ms" ||
		!math.IsNaN(b.Printed(2).Mean) || !math.IsNaN(a.Printed(9).Mean) {
		t.Errorf("%+v\n%+v", a, b)
	}
	if none := table.Of("minicar", "euc/lin/con"); none.Rule != "euc/lin/con" || !math.IsNaN(none.Recall(1).Mean) {
		t.Errorf("%+v", none)
	}
	for rule, want := range map[string]string{"cos/lin": "cos/lin", "loss nix": "none of that name", "": "rule"} {
		if _, err := Specify(p, OnBothSets(p, rule), []uint64{1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want …%s…", rule, err, want)
		}
	}
}

// A rule has the rates of its table and a loss those around its own; both hold classes out, but at the paper preset.
func TestAtRates(t *testing.T) {
	for _, c := range []struct {
		preset, rule string
		rates, held  int
	}{{"quick", "cos/con/con", 4, presets.SweepHeldOut}, {"quick", "loss ms", 4, presets.SweepHeldOut},
		{"smoke", "loss ms", 2, presets.SweepHeldOut}, {"paper", "cos/con/con", 4, 0}} {
		p, err := presets.Parse(c.preset)
		if err != nil {
			t.Fatal(err)
		}
		p.Base.Weights = train.Random
		cell := OnBothSets(p, c.rule)[0]
		rates, err := SweepRates(p, 6, cell)
		if err != nil {
			t.Fatal(err)
		}
		cells, err := Specify(p, AtRates(p, cell, rates...), []uint64{1})
		if err != nil || len(cells) != c.rates {
			t.Fatalf("%+v: %d cells, %v", c, len(cells), err)
		}
		for i, at := range cells {
			if s := at.Specs[0]; s.LR != rates[i] || s.HeldOut != c.held {
				t.Errorf("%+v: %+v", c, s)
			}
		}
	}
	p, err := presets.Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	if rates, err := SweepRates(p, 6, Cell{Data: "minicar", Objective: presets.Named("loss nix")}); err == nil {
		t.Errorf("an unknown loss has the rates %v", rates)
	}
}

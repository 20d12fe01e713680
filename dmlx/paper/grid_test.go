package paper

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/paper/fullgrid"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

// gridOf is the study "grid" at a preset with made-up runs: NaN diverged, and −1 is none.
func gridOf(t *testing.T, preset string, value func(parts []string, seed uint64) float64) fullgrid.Grids {
	t.Helper()
	study, err := ParseStudy("grid")
	if err != nil {
		t.Fatal(err)
	}
	p, err := presets.Parse(preset)
	if err != nil {
		t.Fatal(err)
	}
	cells, err := study.Cells(p)
	if err != nil {
		t.Fatal(err)
	}
	table := &Table{Preset: preset, Cells: cells}
	for i := range table.Cells {
		c := &table.Cells[i]
		c.LR = 0.3
		for _, seed := range p.Seeds {
			r := &runs.Result{Spec: runs.Spec{Data: c.Data, Config: train.Config{Seed: seed, LR: c.LR}}}
			switch v := value(strings.Split(c.Rule, "/"), seed); {
			case v == -1:
				continue
			case math.IsNaN(v):
				r.Diverged = "collapsed"
			default:
				r.Recall = map[int]float64{1: v}
			}
			c.Runs = append(c.Runs, r)
		}
	}
	grids, err := fullgrid.Read(table.Scores(), p.Seeds[0])
	if err != nil {
		t.Fatal(err)
	}
	return grids
}

// renderGrid writes every part in a format of its own.
func renderGrid(t *testing.T, parts []report.Part) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, p := range parts {
		format := p.Of.Formats()[0]
		data, err := figures.Bytes(p.Of, format)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		out[p.Name] = string(data)
	}
	if len(out) != 8 {
		t.Errorf("%d parts", len(out))
	}
	return out
}

func TestGridReport(t *testing.T) {
	directions := []string{"euc", "euc-orth", "cos", "cos-orth"}
	pairs := []string{"con", "euc", "lin", "lin-ms", "sig", "sig-ms"}
	full := func(parts []string, seed uint64) float64 {
		direction, pair := slices.Index(directions, parts[0]), slices.Index(pairs, parts[1])
		switch {
		case parts[0] == "euc" && parts[1] == "sig-ms" && parts[2] == "cos":
			return math.NaN()
		case seed > 1 && parts[0] == "euc-orth":
			return -1
		}
		return 0.6 + 0.04*float64(direction) + 0.01*float64(pair) +
			0.004*math.Sin(float64(7*pair+3*len(parts[2])+11*int(seed)))
	}
	out := renderGrid(t, gridOf(t, "quick", full).Draw("here"))
	for part, wants := range map[string][]string{
		"": {"<svg", "minicar: 167 of 168 rules", "1 diverged", "the best with seed 1, as shown: cos-orth/sig-ms/",
			"s choice: cos-orth/lin-ms/cir with"},
		"coverage": {"167 of 168", "Learning rates on minicar: 0.3 for P^con, P^euc"},
		"anova": {"direction × pair weight", "error: seeds", "3 diverged runs are left out",
			"main effects and two-way interactions"},
		"ends": {"10 best", "10 worst", "minicar: with other seeds the best change by"},
		"choices": {"best of 167 with the first seed", "the paper's, Ours", "our Tables 2–4", "the paper's Tables 2–4",
			"one part after the other: cos-orth/con/con, then cos-orth/sig-ms/con, then"},
		"gaps": {"7 triplet weights", "e^cos-orth − e^cos"},
	} {
		for _, want := range wants {
			if !strings.Contains(out[part], want) {
				t.Errorf("%q lacks %q:\n%.3000s", part, want, out[part])
			}
		}
	}
}

// With nothing there at all, and with a few rules, all parts that can be made are, and the others say what is missing.
func TestGridReportOfLittle(t *testing.T) {
	for name, value := range map[string]func([]string, uint64) float64{
		"nothing": func([]string, uint64) float64 { return -1 },
		"one rule": func(p []string, seed uint64) float64 {
			return map[bool]float64{true: 0.7, false: -1}[strings.Join(p, "/") == "cos/con/con"]
		},
		"diverged": func([]string, uint64) float64 { return math.NaN() },
	} {
		out := renderGrid(t, gridOf(t, "quick", value).Draw(""))
		if !strings.Contains(out[""], "<svg") || !strings.Contains(out["coverage"], "of 168") ||
			!strings.Contains(out["anova"], "analysis of variance: ") ||
			!strings.Contains(out["effects"], "no data set, want at least one") ||
			!strings.Contains(out["effects"], "Not computed") {
			t.Errorf("%s: %v", name, out)
		}
	}
}

// The paper's own Tables 2 to 4 choose, each part alone, its direction and its pair weight, and not its triplet weight.
func TestGridChoiceOfThePaper(t *testing.T) {
	for set, want := range map[string]string{"CAR": "cos-orth/lin-ms/cos+sc1", "In-shop": "cos-orth/lin-ms/cos"} {
		if rule, err := fullgrid.PaperOneAtATime(set); err != nil || rule != want {
			t.Errorf("%s: %s, %v", set, rule, err)
		}
	}
	if _, err := fullgrid.PaperOneAtATime("CUB"); err == nil {
		t.Error("the component tables have no CUB")
	}
}

// Without a backend, what the program comes with is shown, and what is missing counted.
func TestGridOfWhatIsThere(t *testing.T) {
	q := request(t, "quick")
	q.Open = func() (*train.Trainer, error) { t.Error("a backend was asked for"); return nil, context.Canceled }
	r, err := Make(context.Background(), "grid", q)
	if err != nil {
		t.Fatal(err)
	}
	if r.Ran != 0 || r.Runs < 84 || len(r.Results) != r.Runs || r.Table.Missing > 336-28 {
		t.Errorf("%d runs, %d results, %d missing", r.Runs, len(r.Results), r.Table.Missing)
	}
	out := renderGrid(t, r.Parts)
	if !strings.Contains(out["anova"], "direction × pair weight") || strings.Contains(r.Provenance, "1008") {
		t.Error(out["anova"], r.Provenance)
	}
}

package paper

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

// gridOf is the study "grid" at a preset with made-up runs: NaN diverged, and −1 is none.
func gridOf(t *testing.T, preset string, value func(parts []string, seed uint64) float64) []scores.Group {
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
	return table.Sets()
}

func TestGridTables(t *testing.T) {
	directions := []string{"euc", "euc-orth", "cos", "cos-orth"}
	pairs := []string{"con", "euc", "lin", "lin-ms", "sig", "sig-ms"}
	sets := gridOf(t, "quick", func(parts []string, seed uint64) float64 {
		direction, pair := slices.Index(directions, parts[0]), slices.Index(pairs, parts[1])
		switch {
		case parts[0] == "euc" && parts[1] == "sig-ms" && parts[2] == "cos":
			return math.NaN()
		case seed > 1 && parts[0] == "euc-orth":
			return -1
		}
		return 0.6 + 0.04*float64(direction) + 0.01*float64(pair) + 0.004*float64(seed) + 0.0001*float64(len(parts[2]))
	})
	best := GridBest(sets, 1, "here")
	if len(best.Rows) != 2*11 { // And the paper's choice.
		t.Fatalf("%d rows", len(best.Rows))
	}
	if text := best.String(); !strings.Contains(text, "21 of 167") || !strings.Contains(text, "76.0 [73.5") {
		t.Error(text)
	}
	means := GridMeans(sets, 1, "here")
	const note = "minicar: 12.1 points between directions (8.0 "
	if len(means.Rows) != 2*(4+6+7) || !strings.HasPrefix(means.Notes[0], note) {
		t.Errorf("%d rows, %q", len(means.Rows), means.Notes)
	}
	heat := GridSets(sets, 1)
	if got := heat[0]; len(got.Scores) != 168 || !strings.HasPrefix(got.Marks[0].Rule, "cos-orth/sig-ms/") ||
		got.Marks[1].Rule != paperChoice || got.Scores["euc/sig-ms/cos"].Diverged != 1 {
		t.Errorf("%d scores, marks %v", len(got.Scores), got.Marks)
	}
}

// With nothing there at all, and with a few rules, all parts are drawn.
func TestGridOfLittle(t *testing.T) {
	for name, value := range map[string]func([]string, uint64) float64{
		"nothing": func([]string, uint64) float64 { return -1 },
		"one rule": func(p []string, seed uint64) float64 {
			return map[bool]float64{true: 0.7, false: -1}[strings.Join(p, "/") == "cos/con/con"]
		},
		"diverged": func([]string, uint64) float64 { return math.NaN() },
	} {
		sets := gridOf(t, "quick", value)
		heat, err := figures.GridMap(GridSets(sets, 1), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range []figures.Output{heat, GridBest(sets, 1, ""), GridMeans(sets, 1, "")} {
			for _, format := range of.Formats() {
				if _, err := figures.Bytes(of, format); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
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
	if len(r.Parts) != 3 || strings.Contains(r.Provenance, "1008") {
		t.Error(len(r.Parts), r.Provenance)
	}
}

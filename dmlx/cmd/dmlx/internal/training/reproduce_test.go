package training

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

// A report is printed, and written in all formats.
func TestPresent(t *testing.T) {
	table := &figures.Table{Columns: []figures.Column{{Title: "R@1"}},
		Rows: [][]figures.Cell{{figures.Text("50.0 ± 0.0")}}}
	picture, err := figures.Directions(nil)
	if err != nil {
		t.Fatal(err)
	}
	cell := paper.Cell{Data: "minicar", Objective: presets.Named("cos/con/con"), Runs: []*runs.Result{
		{Hash: "a", Measures: train.Measures{Recall: map[int]float64{1: 0.5}}},
		{Hash: "b", Measures: train.Measures{Recall: map[int]float64{1: 0.5}}},
		{Hash: "c", Measures: train.Measures{Diverged: "NaN in epoch 1"}}}}
	r := &paper.Report{Table: &paper.Table{Cells: []paper.Cell{cell, {}}},
		Report: report.Report{Name: "table9", Preset: "quick", Runs: 3,
			Parts: []report.Part{{Of: table}, {Name: "picture", Of: picture}}}}
	out := filepath.Join(t.TempDir(), "new")
	set, text, err := present(new(app.App), r, out)
	if err != nil {
		t.Fatal(err)
	}
	if c := set.Cells[0]; len(set.Cells) != 2 || c.Data != "minicar" || *c.Mean != 0.5 || c.N != 2 || c.Diverged != 1 ||
		len(c.Runs) != 3 || c.HeldOut != nil {
		t.Errorf("%+v", set)
	}
	if raw, err := json.Marshal(set.Cells[1]); err != nil || !strings.Contains(string(raw), `"runs":[]`) {
		t.Errorf("a cell without runs: %s, %v", raw, err)
	}
	if !strings.Contains(text, "50.0 ± 0.0") || !strings.Contains(text, "3 runs, 0 of them trained now") {
		t.Error(text)
	}
	var want []string
	for _, name := range []string{"table9-quick.md", "table9-quick.csv", "table9-quick.html", "table9-quick.tex",
		"table9-quick-picture.svg",
		"table9-quick-picture.png", "table9-quick-picture.pdf"} {
		want = append(want, filepath.Join(out, name))
	}
	if !slices.Equal(set.Files, want) {
		t.Errorf("files %q, want %q", set.Files, want)
	}
	for _, path := range set.Files {
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%v", err)
		}
	}
	r.Parts = []report.Part{{Of: r.Part("gains")}}
	if _, _, err := present(new(app.App), r, ""); err == nil || !strings.Contains(err.Error(), `no part "gains"`) {
		t.Errorf("a part that is not there: %v", err)
	}
}

package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/paper"
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
	cell := paper.Cell{Data: "minicar", Rule: "cos/con/con", Runs: []*runs.Result{
		{Hash: "a", Measures: train.Measures{Recall: map[int]float64{1: 0.5}}},
		{Hash: "b", Measures: train.Measures{Recall: map[int]float64{1: 0.5}}},
		{Hash: "c", Measures: train.Measures{Diverged: "NaN in epoch 1"}}}}
	r := &paper.Report{Table: &paper.Table{Cells: []paper.Cell{cell, {}}},
		Report: report.Report{Name: "table9", Preset: "quick", Runs: 3,
			Parts: []report.Part{{Of: table}, {Name: "picture", Of: picture}}}}
	out := filepath.Join(t.TempDir(), "new")
	set, text, err := new(app).present(r, out)
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
	if _, _, err := new(app).present(r, ""); err == nil || !strings.Contains(err.Error(), `no part "gains"`) {
		t.Errorf("a part that is not there: %v", err)
	}
}

// Bundled runs are shown without training.
func TestReproduceShipped(t *testing.T) {
	v := object(t, "reproduce", "table2", "--store", atWork(t))
	table := v["tables"].([]any)[0].(map[string]any)
	if table["ran"] != 0.0 || table["runs"] != 24.0 || len(table["cells"].([]any)) != 8 {
		t.Errorf("%v", table)
	}
}

// The ledger's entries are selected by flags, and what none has is an error that lists what there is.
func TestReproduceLedgerFilter(t *testing.T) {
	store, out := atWork(t), t.TempDir()
	object(t, "reproduce", "ledger", "--store", store, "--out", out, "--table", "3", "--data", "minicar",
		"--evidence", "full")
	raw, err := os.ReadFile(filepath.Join(out, "ledger-quick-rows.csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")[1:]
	for _, line := range lines {
		if !strings.HasPrefix(line, "Table 3,") || !strings.Contains(line, "minicar") {
			t.Error(line)
		}
	}
	if len(lines) != 12 { // Six pair weights with two directions.
		t.Errorf("%d lines", len(lines))
	}
	for _, c := range [][]string{{"ledger", "--table", "9", "There are Table 2"},
		{"ledger", "--verdict", "x", "reproduced"}, {"ledger", "--data", "x", "minicar"},
		{"table2", "--table", "2", "want dmlx reproduce ledger"}} {
		code, _, stderr := invoke(t, "reproduce", c[0], c[1], c[2], "--store", store)
		if !failed(code) || !strings.Contains(stderr, c[3]) {
			t.Errorf("%q: code %d, %q", c, code, stderr)
		}
	}
}

// Output that cannot be written is an error before any run.
func TestReproduceOut(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ flag, path, want string }{
		{"--out", filepath.Join(file, "a", "b"), "cannot be a folder: " + file + " is a file"},
		{"--write-bundled", filepath.Join(dir, "none", "a.json"), "cannot be written: no such file or directory"},
		{"--write-bundled", dir, dir + " is a folder: want the name of a file"},
	} {
		code, stdout, stderr := invoke(t, "reproduce", "table3", "--preset", "smoke", "--no-bundled", "--store",
			filepath.Join(dir, "store"), c.flag, c.path)
		if !failed(code) || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s %s: code %d, %q, want …%s…", c.flag, c.path, code, stderr, c.want)
		}
	}
}

// A few steps are measured, and no run is trained.
func TestReproduceEstimate(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	store := atWork(t)
	v := object(t, "reproduce", "table2", "table3", "--preset", "smoke", "--no-bundled", "--store", store, "--estimate")
	lines := v["lines"].([]any)
	if len(lines) != 4 { // Two tables on two data sets.
		t.Fatalf("%v", v)
	}
	sum, runs := 0.0, 0.0
	for _, l := range lines {
		l := l.(map[string]any)
		hours := l["hours"].(float64)
		if want := l["step_ms"].(float64) * l["steps"].(float64) / 3.6e6; hours <= 0 || math.Abs(hours-want) > 1e-9 ||
			l["steps"] != 8*l["runs"].(float64) {
			t.Errorf("%v", l)
		}
		sum, runs = sum+hours, runs+l["runs"].(float64)
	}
	// Table 3 has the runs of Table 2's first and second row too: 2 data sets × 2 seeds × (4 directions + 2 × 5 pair
	// weights).
	if runs != 56 || math.Abs(v["hours"].(float64)-sum) > 1e-9 {
		t.Errorf("%v runs, %v", runs, v)
	}
	if made, err := filepath.Glob(filepath.Join(store, "*", "result.json")); err != nil || len(made) > 0 {
		t.Errorf("made %q, %v", made, err)
	}
	for _, also := range []string{"--cached-only", "--on=slurm", "--out=" + t.TempDir(), "--write-bundled=x.json"} {
		if code, _, stderr := invoke(t, "reproduce", "table2", "--estimate", also); !failed(code) ||
			!strings.Contains(stderr, "--estimate trains no runs") {
			t.Errorf("%s: code %d, %q", also, code, stderr)
		}
	}
	if code, _, stderr := invoke(t, "reproduce", "table2", "--estimate", "--devices", "2"); !failed(code) ||
		!strings.Contains(stderr, "--estimate measures steps on one device") {
		t.Errorf("--devices: code %d, %q", code, stderr)
	}
}

// A table on the user's own data sets instead of the paper's.
func TestReproduceOwnData(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	store := atWork(t)
	v := object(t, "reproduce", "table2", "--preset", "smoke", "--no-bundled", "--store", store,
		"--fine-grained", "minishop",
		"--separated", "minicar", "--estimate")
	lines := v["lines"].([]any)
	if len(lines) != 2 || lines[0].(map[string]any)["data"] != "minishop" ||
		lines[1].(map[string]any)["data"] != "minicar" {
		t.Errorf("%v", lines)
	}
	none := filepath.Join(t.TempDir(), "none")
	if code, _, stderr := invoke(t, "reproduce", "table2", "--preset", "smoke", "--separated", none); code != 1 ||
		!strings.Contains(stderr, none) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("code %d, %q", code, stderr)
	}
}

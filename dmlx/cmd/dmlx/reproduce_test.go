package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/experiment"
)

// Every table that can be reproduced is printed and written in all formats.
func TestPresent(t *testing.T) {
	preset, err := experiment.ParsePreset("quick")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range experiment.Studies() {
		study, err := experiment.ParseStudy(name)
		if err != nil {
			t.Fatal(err)
		}
		table := &experiment.Table{Study: name, Preset: preset.Name, Cells: study.Cells(preset)}
		for i := range table.Cells {
			recall := map[int]float64{1: 0.5 + float64(i)/100}
			table.Cells[i].Runs = []*experiment.Result{{Hash: "a", Recall: recall}, {Hash: "b", Recall: recall}, {Hash: "c", Diverged: "NaN in epoch 1"}}
			table.Runs += 3
		}
		out := filepath.Join(t.TempDir(), "new")
		set, text, err := present(table, out)
		if err != nil {
			t.Fatal(err)
		}
		if c := set.Cells[0]; len(set.Cells) != len(table.Cells) || c.Data != "minicar" || *c.Mean != 0.5 || c.N != 2 || c.Diverged != 1 || len(c.Runs) != 3 {
			t.Errorf("%s: %+v", name, set)
		}
		if !strings.Contains(text, "50.0 ± 0.0¹") || !strings.Contains(text, "runs, 0 of them made now") {
			t.Errorf("%s: %s", name, text)
		}
		if want := 11; len(set.Files) != want { // The table and its differences in four formats each, the picture in three.
			t.Errorf("%s: %q, want %d files", name, set.Files, want)
		}
		for _, path := range set.Files {
			if info, err := os.Stat(path); err != nil || info.Size() == 0 {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	unknown := &experiment.Table{Study: "table9"}
	if _, _, err := present(unknown, ""); err == nil || !strings.Contains(err.Error(), "table2") {
		t.Errorf("table 9: %v", err)
	}
}

// What came with the program is shown without training anything.
func TestReproduceShipped(t *testing.T) {
	v := object(t, "reproduce", "table2", "--store", atWork(t))
	table := v["tables"].([]any)[0].(map[string]any)
	if table["ran"] != 0.0 || table["runs"] != 24.0 || len(table["cells"].([]any)) != 8 {
		t.Errorf("%v", table)
	}
}

package nbruns

import (
	"errors"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// captured returns what f writes to standard error.
func captured(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = w
	f()
	os.Stderr = before
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRequest(t *testing.T) {
	t.Setenv("DMLX_PRESET", "smoke")
	t.Setenv("DMLX_STORE", t.TempDir())
	q := Request(backend.Open, runs.Options{CachedOnly: true})
	if q.Preset.Name != "smoke" || q.Store.Dir != os.Getenv("DMLX_STORE") || !q.CachedOnly || q.Open == nil {
		t.Errorf("%+v", q)
	}
}

// Train trains what is missing and Have reads it, also of another preset than the cell's.
func TestTrainAndHave(t *testing.T) {
	t.Setenv("DMLX_PRESET", "quick")
	t.Setenv("DMLX_STORE", t.TempDir())
	t.Setenv("GOMLX_BACKEND", "go")
	smoke, err := presets.Parse("smoke")
	if err != nil {
		t.Fatal(err)
	}
	cell := paper.Cell{Data: "minicar", Objective: presets.Named("cos/con/con")}
	cells, err := paper.Specify(smoke, []paper.Cell{cell}, []uint64{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	if before := Have(cells); before.Missing != 2 || before.Runs != 2 {
		t.Errorf("before: %+v", before)
	}
	for _, budget := range []time.Duration{0, 1} { // Too short for a step.
		said := captured(t, func() {
			if table := TrainWithin(budget, backend.Open, cells, runs.Options{}); table.Ran != 0 || table.Missing != 2 {
				t.Errorf("within %s: %+v", budget, table)
			}
		})
		want := map[bool]string{true: "stopped after 1ns", false: "0 of 2 runs"}[budget > 0]
		if !strings.Contains(said, want) {
			t.Errorf("within %s: said %q", budget, said)
		}
	}
	said := captured(t, func() {
		if table := Train(backend.Open, cells, runs.Options{}); table.Ran != 2 || table.Missing != 0 {
			t.Errorf("%+v", table)
		}
	})
	if !strings.Contains(said, "2 runs, 2 of them trained now") || !strings.Contains(said, "starting the backend") {
		t.Errorf("said %q", said)
	}
	after := Have(cells)
	if after.Missing != 0 || after.Preset != "smoke" || after.Cells[0].Recall(1).N != 2 {
		t.Errorf("after: %+v", after)
	}
}

// Decoding a folder of images shows its progress; a class that is left out is named once.
func TestOpening(t *testing.T) {
	t.Setenv("DMLX_PRESET", "smoke")
	t.Setenv("DMLX_STORE", t.TempDir())
	t.Setenv("DMLX_CACHE", t.TempDir())
	dir := t.TempDir()
	for _, name := range []string{"a/1", "a/2", "b/1", "b/2", "c/1", "c/2", "d/1", "d/2", "lonely/1"} {
		path := filepath.Join(dir, name+".png")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		file, err := os.Create(path)
		if err := errors.Join(err, png.Encode(file, image.NewGray(image.Rect(0, 0, 8, 8))), file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	said := captured(t, func() {
		for range 2 {
			if _, err := Preset().Spec(dir, dmlx.Rule{}, 1); err != nil {
				t.Error(err)
			}
		}
	})
	if !strings.Contains(said, "Decoding the images of "+dir+": 100 % ") || strings.Count(said, "warning: ") != 1 ||
		!strings.Contains(said, "lonely") {
		t.Errorf("said %q", said)
	}
}

// The bundled runs on photographs can be shown without the photographs and without a backend.
func TestPhotographsAreBundled(t *testing.T) {
	t.Setenv("DMLX_DATA", t.TempDir())
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	none := func() (*train.Trainer, error) { return nil, errors.New("a run is missing") }
	for name, runs := range map[string]int{"table2": 20, "table3": 60} {
		r, err := paper.Make(t.Context(), name, report.Request{Open: none, Store: store, Preset: paper.PhotographsPreset()})
		if err != nil || r.Runs != runs || len(r.Results) != runs || !strings.Contains(r.Provenance, "cars-160") {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestGuess sees that a guess has the paper's numbers only if a table of them is named, and ours in percent.
func TestGuess(t *testing.T) {
	t.Setenv("DMLX_STORE", t.TempDir())
	for table, want := range map[int]int{0: 1, 2: 2} {
		g := Guess("Which?", table, report.Recall(1), "euc/con/con", "cos/con/con")
		if len(g.Answers) != want || len(g.Items) != 2 {
			t.Fatalf("table %d: %+v; want %d answers on two rules", table, g, want)
		}
		if ours := g.Answers[want-1].Y; len(ours) != 2 || ours[0] < 50 || ours[1] < ours[0] {
			t.Errorf("table %d: ours are %v; want the euclidean rule below the cosine one, in percent", table, ours)
		}
	}
}

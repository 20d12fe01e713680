package playground

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

func tryForm(t *testing.T, store string, r dmlx.Rule) *form {
	t.Helper()
	s, err := runs.OpenStore(store)
	if err != nil {
		t.Fatal(err)
	}
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	return &form{TryIt: TryIt{Rule: r, Data: []string{"minishop"}, Preset: "smoke", Seeds: 2, Store: s}, ctx: t.Context(),
		choices: partsWith(r), board: board{filepath.Join(store, "tryit", "leaderboard.json")},
		check: func(r dmlx.Rule) (*dissect.Checked, error) { return dissect.Check(b, r) },
		trainer: sync.OnceValues(func() (*train.Trainer, error) {
			choice, err := backend.Open()
			return train.New(choice), err
		})}
}

// press draws the form after a press of a button and waits until nothing is trained.
func press(t *testing.T, f *form, button string, pairs ...string) view {
	t.Helper()
	p := f.page()
	e := changed(p, pairs...)
	e.Press = []string{button}
	if v := p.draw(e); v.Problem != "" {
		t.Fatal(v.Problem)
	}
	f.wait(time.Hour)
	e.Press = nil
	return p.draw(e)
}

func TestTryIt(t *testing.T) {
	if testing.Short() {
		t.Skip("trains")
	}
	store := t.TempDir()
	f := tryForm(t, store, parse(t, "cos/con/con"))
	if v := f.page().draw(f.page().first()); v.Problem != "" || !strings.Contains(v.Note, "press Train") ||
		v.Below != "" || v.More {
		t.Errorf("at first: %+v", v)
	}
	v := press(t, f, "train")
	if v.Problem != "" || !strings.Contains(v.Note, "done") || !strings.Contains(v.Alts["recall"], "cos/con/con: ") ||
		!strings.Contains(v.Alts["recall"], "2 seeds") || !strings.Contains(v.Alts["recall"], "the features, no head: ") {
		t.Fatalf("trained: %q, %q, %q", v.Note, v.Problem, v.Alts["recall"])
	}
	rows, err := f.board.read()
	if err != nil || len(rows) != 2 || len(rows[0].Curves) != 2 || len(rows[0].Recall) != 2 ||
		len(rows[0].Curves[1]) != 10 || rows[0].Curves[1][9] != rows[0].Recall[1] {
		t.Fatalf("leaderboard: %+v, %v", rows, err)
	}
	if !strings.Contains(string(v.Below), "cos-orth/lin-ms/cir") || !strings.Contains(string(v.Below), "leaderboard.csv") {
		t.Errorf("below: %.300s", v.Below)
	}
	// Another kernel finds the results and the features, and trains nothing.
	again := tryForm(t, store, parse(t, "cos/con/con"))
	start := time.Now()
	if v := press(t, again, "train"); !strings.Contains(v.Alts["recall"], "2 seeds") || time.Since(start) > 5*time.Second {
		t.Errorf("again: %q after %v", v.Alts["recall"], time.Since(start))
	}
	if v := press(t, again, "clear"); v.Below != "" || v.Problem != "" {
		t.Errorf("cleared: %q, %q", v.Below, v.Problem)
	}
	// A rule that cannot be trained: the check's sentence with the line.
	root := dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "root",
		Of: func(b *dmlx.Batch) *Node { return Sqrt(Sub(b.San, b.Sap)) }}}
	if v := press(t, tryForm(t, store, root), "train"); !strings.Contains(v.Problem, "root: on a random batch") ||
		!strings.Contains(v.Problem, "tryit_test.go, line ") {
		t.Errorf("a rule that gives NaN: %q", v.Problem)
	}
	if err := os.WriteFile(again.board.path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if v := again.draw(again.page().first()); !strings.Contains(v.Problem, "remove it to start a new one") {
		t.Errorf("a damaged leaderboard: %q", v.Problem)
	}
}

// The real network is trained on request, and its result joins those of the heads.
func TestTryTheNetwork(t *testing.T) {
	if testing.Short() {
		t.Skip("trains")
	}
	f := tryForm(t, t.TempDir(), parse(t, "cos/con/con"))
	f.Epochs = 1
	v := press(t, f, "train", "network", "yes")
	if v.Problem != "" || !strings.Contains(v.Note, "the network is trained") ||
		!strings.Contains(string(v.Below), "the network") {
		t.Fatalf("%q, %q, %.300s", v.Note, v.Problem, v.Below)
	}
	rows, err := f.board.read()
	if err != nil || len(rows) != 2 {
		t.Fatalf("%+v, %v", rows, err)
	}
	for _, row := range rows {
		entry := f.Store.Entry(row.Hash)
		if entry.Result == nil || entry.Spec.Epochs != 1 || entry.Spec.Arch != "small" || row.Seeds != 1 ||
			len(row.Recall) != 1 || row.Recall[0] != 100*entry.Result.Recall[1] {
			t.Errorf("%+v of %+v", row, entry)
		}
	}
}

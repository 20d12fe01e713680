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
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/page"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// ticked are rows of the tests' forms, one of them the rule itself.
var ticked = []string{"cos-orth/lin-ms/cir", "cos/con/con", "loss ms"}

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
	return &form{ctx: t.Context(), TryIt: TryIt{Rule: r, Rows: namedRows(), Ticked: ticked, Data: []string{"minishop"},
		Preset: "smoke", Seeds: 2, Store: s},
		parts: dmlx.PartsWith(r), board: board{filepath.Join(store, "tryit", "leaderboard.json")},
		check: func(r dmlx.Rule) (*dissect.Checked, error) { return dissect.Check(b, r) },
		trainer: sync.OnceValues(func() (*train.Trainer, error) {
			choice, err := backend.Open()
			return train.New(choice), err
		})}
}

// own is a loss of the user's own by a name.
func own(t *testing.T, name string) []presets.Objective {
	t.Helper()
	l, err := objectives.ByLoss(objectives.LossFunction{Name: name, Of: func(b *dmlx.LossBatch) *Node {
		return ReduceAllMean(Where(b.Positive, OneMinus(b.S), Where(b.Negative, Square(b.S), ZerosLike(b.S))))
	}})
	if err != nil {
		t.Fatal(err)
	}
	return []presets.Objective{{Objective: l}}
}

// rated is a loss of the user's own with a learning rate.
func rated(t *testing.T, lr float64) []presets.Objective {
	t.Helper()
	all := own(t, "pairs")
	all[0].LR = lr
	return all
}

// try asks the form as the page does.
func try(t *testing.T, f *form, press string, network bool) page.Object {
	t.Helper()
	out, err := f.try([]byte(inJSON(t, map[string]any{"rule": f.Rule.Name(), "rows": f.Ticked, "data": f.Data[0],
		"network": network, "press": press})))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// press presses a button, waits until nothing is trained, and asks again.
func press(t *testing.T, f *form, button string, network bool) page.Object {
	t.Helper()
	if v := try(t, f, button, network); v["problem"] != "" {
		t.Fatal(v["problem"])
	}
	f.wait(time.Hour)
	return try(t, f, "", network)
}

func TestTryIt(t *testing.T) {
	if testing.Short() {
		t.Skip("trains")
	}
	store := t.TempDir()
	f := tryForm(t, store, parse(t, "cos/con/con"))
	f.Own, f.Ticked = own(t, "pairs"), append([]string{"loss pairs"}, ticked...)
	if v := try(t, f, "", false); v["problem"] != "" || !strings.Contains(v["note"].(string), "press Train") ||
		v["below"] != "" || v["more"] != false {
		t.Errorf("at first: %+v", v)
	}
	v := press(t, f, "train", false)
	chart := v["chart"].(page.Object)
	groups := chart["groups"].([]page.Object)
	if v["problem"] != "" || !strings.Contains(v["note"].(string), "done") || len(groups) != 4 ||
		groups[1]["name"] != "loss pairs" || groups[2]["name"] != "cos-orth/lin-ms/cir" || groups[3]["name"] != "loss ms" ||
		len(groups[1]["curves"].([][]float64)[1]) != 10 ||
		!strings.Contains(chart["about"].(string), "2 seeds") || !(chart["reference"].(float64) > 0) {
		t.Fatalf("trained: %+v", v)
	}
	rows, err := f.board.read()
	if err != nil || len(rows) != 4 || len(rows[0].Curves) != 2 || len(rows[0].Recall) != 2 ||
		len(rows[0].Curves[1]) != 10 || rows[0].Curves[1][9] != rows[0].Recall[1] {
		t.Fatalf("leaderboard: %+v, %v", rows, err)
	}
	if below := v["below"].(string); !strings.Contains(below, "cos-orth/lin-ms/cir") ||
		!strings.Contains(below, "leaderboard.csv") {
		t.Errorf("below: %.300s", below)
	}
	// Another kernel finds the results and the features, and trains nothing.
	again := tryForm(t, store, parse(t, "cos/con/con"))
	start := time.Now()
	if v := press(t, again, "train", false); !strings.Contains(v["note"].(string), "done") ||
		time.Since(start) > 5*time.Second {
		t.Errorf("again: %q after %v", v["note"], time.Since(start))
	}
	if v := press(t, again, "clear", false); v["below"] != "" || v["problem"] != "" {
		t.Errorf("cleared: %q, %q", v["below"], v["problem"])
	}
	// Rows that the form cannot train are named before anything starts.
	again.Ticked = namedRows()[:mostTicked+1]
	if _, err := again.try([]byte(inJSON(t, map[string]any{"rule": "cos/con/con", "rows": again.Ticked,
		"press": "train"}))); err == nil || !strings.Contains(err.Error(), "want at most 6") {
		t.Errorf("too many rows: %v", err)
	}
	for _, wrong := range []TryIt{{Rows: []string{"cos/con"}}, {Ticked: []string{"loss nothing"}}, {Own: own(t, "ms")}} {
		wrong.Store, wrong.Open = again.Store, backend.Open
		if err := wrong.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "try it: ") {
			t.Errorf("%v, %v: %v", wrong.Rows, wrong.Ticked, err)
		}
	}
	// A rule that cannot be trained: the check's sentence with the line.
	root := dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "root",
		Of: func(b *dmlx.Batch) *Node { return Sqrt(Sub(b.San, b.Sap)) }}}
	if problem := press(t, tryForm(t, store, root), "train", false)["problem"].(string); !strings.Contains(problem,
		"root: on a random batch") || !strings.Contains(problem, "tryit_test.go, line ") {
		t.Errorf("a rule that gives NaN: %q", problem)
	}
	if err := os.WriteFile(again.board.path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := again.try([]byte(`{"rule": "cos/con/con"}`)); err == nil ||
		!strings.Contains(err.Error(), "remove it to start a new one") {
		t.Errorf("a damaged leaderboard: %v", err)
	}
}

// A training takes the place of those that were asked for before it, also of one that has not begun.
func TestTheLatestIsTried(t *testing.T) {
	if testing.Short() {
		t.Skip("trains")
	}
	f := tryForm(t, t.TempDir(), parse(t, "cos/con/con"))
	for _, rule := range []string{"cos/con/con", "cos/lin/con", "cos/sig/con"} {
		f.start(parse(t, rule), nil, "minishop", false)
	}
	if !f.busy() {
		t.Error("nothing runs")
	}
	f.wait(time.Hour)
	rows, err := f.board.read()
	if err != nil || len(rows) != 1 || rows[0].Rule != "cos/sig/con" || len(f.chart.groups) != 1 ||
		f.chart.groups[0].Name != "cos/sig/con" || f.problem != "" || f.note != "cos/sig/con on minishop: done" {
		t.Errorf("%+v, %v; %q, %q, %+v", rows, err, f.note, f.problem, f.chart)
	}
}

// The real network is trained on request, and its result joins those of the heads.
func TestTryTheNetwork(t *testing.T) {
	if testing.Short() {
		t.Skip("trains")
	}
	f := tryForm(t, t.TempDir(), parse(t, "cos/con/con"))
	f.Epochs, f.Own, f.Ticked = 1, own(t, "pairs"), []string{"loss pairs", "loss ms"}
	v := press(t, f, "train", true)
	if v["problem"] != "" || !strings.Contains(v["note"].(string), "the network is trained") ||
		!strings.Contains(v["below"].(string), "the network") {
		t.Fatalf("%+v", v)
	}
	rows, err := f.board.read()
	if err != nil || len(rows) != 3 {
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

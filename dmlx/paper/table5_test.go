package paper

import (
	"context"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

// request asks for what the program has at a preset, with an empty store.
func request(t *testing.T, preset string) report.Request {
	t.Helper()
	p, err := presets.Parse(preset)
	if err != nil {
		t.Fatal(err)
	}
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return report.Request{Store: store, Preset: p, Options: runs.Options{CachedOnly: true}}
}

// Without the paper's data sets its table still stands there, and says where to get each.
func TestTable5WithoutData(t *testing.T) {
	t.Setenv(datasets.DataEnv, t.TempDir())
	r, err := table5(context.Background(), request(t, "paper"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := figures.Bytes(r.Part(""), "txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Proxy-anchor", "Ours (B512)", "data set CUB", "data set CAR", "data set SOP",
		"data set In-shop"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if r.Runs != 0 || r.Table != nil {
		t.Errorf("%d runs", r.Runs)
	}
}

func TestTable5(t *testing.T) {
	r, err := table5(context.Background(), request(t, "quick"))
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 * 9 * 3; r.Runs != want {
		t.Errorf("%d runs, want %d", r.Runs, want)
	}
	for part, want := range map[string]string{"": "Ours (B256)", "gains": "differences", "paper": "literature"} {
		text, err := figures.Bytes(r.Part(part), "txt")
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: no %q in\n%s%v", part, want, text, err)
		}
	}
	one := Cell{Row: "Ours", Method: "Ours", Times: 3, Data: "minicar", PaperData: "CAR", Runs: []*runs.Result{{
		Spec:     runs.Spec{Config: train.Config{ClassesPerBatch: 24, ImagesPerClass: 8}},
		Measures: train.Measures{Recall: map[int]float64{1: 0.5, 2: 0.75}}}}}
	if r := one.Scores().Select(scores.Row{Measure: "R@2"}); len(r) != 1 || r[0].Times != 3 || r[0].Batch != 192 ||
		r[0].Method != "Ours" || r[0].Value.Mean != 75 {
		t.Errorf("%+v", r)
	}
}

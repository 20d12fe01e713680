package notebooks

import (
	"bytes"
	"fmt"
	"image/jpeg"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"gonum.org/v1/plot/cmpimg"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/paper/evidence"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
	"github.com/gradient-surgery/dml/notebooks/sample"
)

// TestGallery draws the README's pictures from the op, as the notebooks do, and compares them with those committed.
// With -regen they are written anew.
func TestGallery(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	parse := func(name string) dmlx.Rule {
		rule, err := dmlx.ParseRule(name)
		if err != nil {
			t.Fatal(err)
		}
		return rule
	}
	takeApart := func(e dissect.Embeddings, rule string) *dissect.Dissection {
		d, err := dissect.Rule(b, e, parse(rule))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	pull := func(rule string) (positive, triplet []float32) {
		sap, san := figures.SimilarityGrid(0, 1, 151)
		positive, _, triplet, err := dissect.Weights(b, parse(rule), sap, san)
		if err != nil {
			t.Fatal(err)
		}
		return positive, triplet
	}
	keep := func(name string, data []byte) {
		path := filepath.Join("..", "figures", "gallery", name)
		if *cmpimg.GenerateTestData {
			if err := durable.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		if runtime.GOARCH != "amd64" {
			return // Others round differently.
		}
		committed, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if unpacked(t, string(data)) != unpacked(t, string(committed)) {
			t.Errorf("%s is not what is drawn; if the change is meant: go test ./notebooks -run Gallery -regen", path)
		}
	}
	draw := func(name string, f *figures.Figure, err error) {
		if err != nil {
			t.Fatal(err)
		}
		data, err := figures.Bytes(f, "svg")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		keep(name+".svg", data)
	}

	for _, name := range datasets.Names() { // Six images of each of four classes.
		const classes, each = 4, 6
		set, err := datasets.Open(name, datasets.Options{Size: 64, TrainClasses: classes, TestClasses: 2, Cache: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		var indices []int
		for i := range classes * each {
			indices = append(indices, i/each*(set.Train.N/classes)+i%each)
		}
		var picture bytes.Buffer
		if err := jpeg.Encode(&picture, datasets.ContactSheet(set.Train, indices, 2*each),
			&jpeg.Options{Quality: 85}); err != nil {
			t.Fatal(err)
		}
		keep(name+".jpg", picture.Bytes())
	}

	pairs := sample.Pairs(25, 16, 1)
	euc, cos := takeApart(pairs, "euc/con/con"), takeApart(pairs, "cos/con/con")
	var points []figures.Projection
	for i, s := range sample.Strengths(euc) {
		points = append(points, figures.Projection{S: float64(euc.Triplets[i].Sap), Euc: s, Cos: sample.Strengths(cos)[i]})
	}
	f, err := figures.Directions(points)
	draw("figure2", f, err)

	_, tCos := pull("cos/con/cos")
	_, tCir := pull("cos/con/cir")
	sc1, _ := pull("cos/con/cos+sc1")
	sc2, _ := pull("cos/con/cos+sc2")
	f, err = figures.TripletWeights(figures.Field{Title: "$T^{cos}$", Values: tCos},
		figures.Field{Title: "$T^{cir}$", Values: tCir},
		figures.Masks{SC1: sc1, SC2: sc2})
	draw("figure3", f, err)

	batch := sample.Batch(8, 4, 32, 1, 1)
	var matrices []figures.Matrix
	for _, rule := range []string{"cos/con/con", "cos/lin/cir", "cos-orth/lin-ms/cir"} {
		matrices = append(matrices, figures.Matrix{Title: "$M$ of " + rule, Values: takeApart(batch, rule).M,
			Labels: batch.Labels})
	}
	f, err = figures.GradientMatrix(matrices...)
	draw("matrices", f, err)

	quick, err := presets.Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	for name, part := range map[string]string{"table2": "picture", "table3": "picture", "table4": "picture", "figure4": "",
		"figure5": "", "table6": "curves"} {
		data, err := figures.Bytes(shipped(t, name, quick).Part(part), "svg")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		keep(name+".svg", data)
	}
	picture, err := evidence.Picture(bundledLedger(t).Entries, "")
	if err != nil {
		t.Fatal(err)
	}
	data, err := figures.Bytes(picture, "svg")
	if err != nil {
		t.Fatal(err)
	}
	keep("ledger.svg", data)
	data, err = figures.Bytes(shipped(t, "table3", paper.LongPhotographsPreset()).Part("picture"), "svg")
	if err != nil {
		t.Fatal(err)
	}
	keep("photographs.svg", data)
}

// bundledLedger is the ledger by the results that come with the repository.
func bundledLedger(t *testing.T) *evidence.Ledger {
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	quick, err := presets.Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	l, err := evidence.Of(t.Context(), report.Request{Store: store, Preset: quick})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// shipped is a table or figure of the results that come with the repository; a missing run is an error.
func shipped(t *testing.T, name string, preset presets.Preset, own ...presets.Objective) *paper.Report {
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	missing := func() (*train.Trainer, error) {
		return nil, fmt.Errorf("results of %s at the quick preset are missing: train them by "+
			"dmlx reproduce %s --write-bundled FILE", name, name)
	}
	r, err := paper.Make(t.Context(), name, report.Request{Open: missing, Store: store, Preset: preset, Rows: own})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

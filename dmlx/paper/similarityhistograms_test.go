package paper

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/runstest"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// portraitStudy is a tiny study of two rules on both sets, one of which has a gallery.
func portraitStudy() (Study, presets.Preset) {
	p, _ := presets.Parse("smoke")
	p.Base.Weights, p.Base.Size = train.Random, 16
	p.Sets = map[string]presets.Size{"minicar": {TrainClasses: 4, TestClasses: 3, Batch: 4, ImagesPerClass: 2,
		Dim: 8, Epochs: 7, StepsPerEpoch: 2}, "minishop": {TrainClasses: 4, TestClasses: 3, Batch: 4,
		ImagesPerClass: 2, Dim: 8, Epochs: 1, StepsPerEpoch: 2}}
	return listed(Cell{Row: "cos", Objective: presets.Named("cos/con/con")},
		Cell{Row: "wild", Column: "minishop", Data: "minishop", Objective: presets.Objective{LR: 1e30}}), p
}

// histogramsOfStudy returns the histograms of a study's cells.
func histogramsOfStudy(t *testing.T, open func() (*train.Trainer, error), s *runs.Store, study Study,
	p presets.Preset, o runs.Options) (*Table, [][]*runs.Histograms, error) {
	cells, err := study.Specs(p, o.Seeds)
	if err != nil {
		return nil, nil, err
	}
	return HistogramsOf(t.Context(), report.Request{Open: open, Store: s, Preset: p, Options: o}, cells)
}

func TestPortraits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	s, warnings := runstest.Store(t)
	study, preset := portraitStudy()
	opened := 0
	choose := func() (*train.Trainer, error) { opened++; return runstest.Go(), nil }
	o := runs.Options{Jobs: 2, Seeds: []uint64{1, 2}}
	if table, portraits, err := histogramsOfStudy(t, choose, s, study, preset,
		runs.Options{CachedOnly: true}); err != nil || opened != 0 ||
		table.Missing != 3*len(preset.Seeds) || len(portraits[0]) != 0 {
		t.Errorf("with what is there: %+v, %v", table, err)
	}
	table, portraits, err := histogramsOfStudy(t, choose, s, study, preset, o)
	if err != nil {
		t.Fatal(err)
	}
	if table.Runs != 6 || table.Ran != 6 || opened != 1 || len(portraits) != 3 || len(portraits[0]) != 2 {
		t.Fatalf("%d runs, %d made, backend opened %d times, %d cells", table.Runs, table.Ran, opened, len(portraits))
	}
	for i, cell := range table.Cells[:2] {
		for k, p := range portraits[i] {
			r := cell.Runs[k]
			if p.Result != r || r.Hash != cell.Specs[k].Hash() {
				t.Fatal("a portrait of another run")
			}
			// What the run itself has measured is what its portrait shows.
			if p.Test.Triplets != r.Queries || p.Test.Overlap != r.Overlap || p.Test.Corner != r.Compact ||
				math.Abs(1-p.Test.Violations-r.Recall[1]) > 1e-12 {
				t.Errorf("%s: test set %+v, the run %+v", cell.Data, p.Test, r)
			}
			epochs, err := s.Metrics(r.Hash)
			if err != nil {
				t.Fatal(err)
			}
			trained := 0
			for _, e := range epochs[max(0, len(epochs)-5):] {
				trained += e.Triplets
			}
			if p.Last.Triplets != trained || trained == 0 {
				t.Errorf("%s: %d triplets of the last epochs, %d trained on", cell.Data, p.Last.Triplets, trained)
			}
		}
	}
	if p := portraits[2][0]; p.Result.Diverged == "" || p.Train.Triplets != 0 || p.Test.Triplets != 0 {
		t.Errorf("of a run that is not finite: %+v", p)
	}

	again, cached, err := histogramsOfStudy(t, choose, s, study, preset, o)
	if err != nil || again.Ran != 0 || opened != 1 || cached[0][1].Sum != portraits[0][1].Sum ||
		again.Provenance() != table.Provenance() {
		t.Errorf("again: %+v, opened %d times, %v", again, opened, err)
	}

	path := filepath.Join(s.Path(portraits[0][0].Result.Hash), "histograms.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(raw), `"edge":`, `"edge":1`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	_, mended, err := histogramsOfStudy(t, choose, s, study, preset, o)
	if err != nil || len(*warnings) != 1 || opened != 2 || mended[0][0].Sum != portraits[0][0].Sum {
		t.Errorf("a damaged portrait: %v, warnings %q, opened %d times", err, *warnings, opened)
	}

	file := filepath.Join(t.TempDir(), "portraits.json")
	if err := runs.WriteBundledHistograms(file, append(portraits[0], portraits[0]...)); err != nil {
		t.Fatal(err)
	}
	var list []json.RawMessage
	if raw, err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &list); err != nil || len(list) != 2 {
		t.Fatalf("%d shipped, %v", len(list), err)
	}
	for _, raw := range list {
		var p runs.Histograms
		if err := json.Unmarshal(raw, &p); err != nil {
			t.Error(err)
		} else if p.Result.Files != nil || p.Test.Triplets == 0 {
			t.Errorf("%+v", p)
		}
	}

	weights, err := filepath.Glob(filepath.Join(filepath.Dir(path), "checkpoint", "*.safetensors"))
	if err != nil || len(weights) != 1 {
		t.Fatal(weights, err)
	}
	if err := errors.Join(os.Remove(path), os.Remove(weights[0])); err != nil {
		t.Fatal(err)
	}
	if _, _, err := histogramsOfStudy(t, choose, s, study, preset, o); err == nil ||
		!strings.Contains(err.Error(), "dmlx runs remove") {
		t.Errorf("without the last weights: %v", err)
	}
	o.CachedOnly = true // As of a run that was imported without its weights: there is none, and that is no error.
	have, there, err := histogramsOfStudy(t, choose, s, study, preset, o)
	if err != nil || have.Missing != 1 || len(there[0]) != 1 || len(there[1]) != 2 {
		t.Errorf("what is there without the last weights: %+v, %v", have, err)
	}
	o.Seeds = []uint64{}
	if _, _, err := histogramsOfStudy(t, choose, s, study, preset, o); err == nil ||
		!strings.Contains(err.Error(), "no seeds") {
		t.Errorf("without seeds: %v", err)
	}
}

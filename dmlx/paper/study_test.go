package paper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/runstest"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// writeClasses makes a folder of n classes with images of one colour each, and noise.
func writeClasses(dir string, n, images int) error {
	for c := range n {
		sub := filepath.Join(dir, fmt.Sprintf("class-%d", c))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return err
		}
		for i := range images {
			im := image.NewRGBA(image.Rect(0, 0, 20, 18))
			for k := range im.Pix {
				im.Pix[k] = uint8(40*c + (k*(i+3))%31)
				if k%4 == 3 {
					im.Pix[k] = 255 // Nothing shines through.
				}
			}
			for x := range 20 {
				im.Set(x, i, color.White)
			}
			f, err := os.Create(filepath.Join(sub, fmt.Sprintf("%d.png", i)))
			if err != nil {
				return err
			}
			if err := png.Encode(f, im); err != nil {
				return err
			}
			if err := f.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	if err := writeClasses(dir, 6, 4); err != nil {
		t.Fatal(err)
	}
	p, _ := presets.Parse("smoke")
	p.Base.Weights, p.Size = train.Random, 16
	// Nothing in them: they are left out, and that is said.
	for _, name := range []string{"class-7/none", "class-8/none"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("DMLX_CACHE", t.TempDir()) // Where they are not decoded yet.
	ctx, stop := context.WithCancel(t.Context())
	var decoded []int
	var said []string
	p.DataOptions = runs.DataOptions{Context: ctx, Warn: func(m string) { said = append(said, m) },
		Decoded: func(data string, done, total int) {
			if data != dir || total != 24 {
				t.Errorf("%d of %d images of %s", done, total, data)
			}
			if decoded = append(decoded, done); done == 3 {
				stop()
			}
		}}
	if _, err := p.Spec(dir, dmlx.Rule{}, 1); !errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), "stopped while decoding the images of "+dir) || len(decoded) == 24 {
		t.Errorf("interrupted: %v, after %d images", err, len(decoded))
	}
	p.Context, said, decoded = t.Context(), nil, nil
	spec, err := p.Spec(dir, dmlx.Rule{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(decoded) != 24 || spec.Size != 16 || len(said) != 1 ||
		!strings.Contains(said[0], "left out, without images: class-7, class-8") {
		t.Errorf("%d images decoded, at %d pixels; said %q", len(decoded), spec.Size, said)
	}
	p.DataOptions = runs.DataOptions{}
	s, warnings := runstest.Store(t)
	r := runstest.Run(t, runstest.Go(), s, spec)
	if r.Spec.DataDigest == "" || r.Queries == 0 {
		t.Errorf("%+v", r)
	}
	if len(*warnings) != 0 || len(decoded) != 24 { // It is open, and what was left out has been said.
		t.Errorf("the run said %q and decoded %d images", *warnings, len(decoded)-24)
	}
	elsewhere := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(dir, elsewhere); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Inspect(r.Hash); err == nil || !strings.Contains(err.Error(),
		dir+", which does not exist: restore it") {
		t.Errorf("looked at without its images: %v", err)
	}
	if err := os.Rename(elsewhere, dir); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "class-0", "0.png")); err != nil {
		t.Fatal(err)
	}
	changed, err := p.Spec(dir, dmlx.Rule{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if changed.Hash() == spec.Hash() {
		t.Error("a changed folder is the same run")
	}
	if err := s.Remove(spec.Hash()); err != nil {
		t.Fatal(err)
	}
	if _, err := runs.Run(t.Context(), runstest.Go(), s, spec, nil); err == nil ||
		!strings.Contains(err.Error(), "have changed") {
		t.Errorf("trained on other images than the spec's: %v", err)
	}
	changed.ImagesPerClass = 4 // class-0 has three.
	if _, err := runs.Run(t.Context(), runstest.Go(), s, changed, nil); err != nil {
		t.Errorf("a class smaller than a batch takes of each: %v", err)
	}
	changed.ImagesPerClass = 5
	if _, err := runs.Run(t.Context(), runstest.Go(), s, changed, nil); err == nil ||
		!strings.Contains(err.Error(), "no class has the 5 images") {
		t.Errorf("all classes smaller: %v", err)
	}
}

// listed returns a study of some rows. Those with a data set are cells as they are.
func listed(rows ...Cell) Study {
	return Study{Name: "test", Rows: func(presets.Preset) []Cell { return rows },
		Expand: func(p presets.Preset, row Cell) ([]Cell, error) {
			if row.Data == "" {
				return across(p, row)
			}
			return []Cell{row}, nil
		}}
}

func TestReproduce(t *testing.T) {
	s, _ := runstest.Store(t)
	p, _ := presets.Parse("smoke")
	p.Base.Weights, p.Base.Size = train.Random, 16
	p.Sets = map[string]presets.Size{"minicar": {TrainClasses: 4, TestClasses: 3, Batch: 4, ImagesPerClass: 2,
		Dim: 8, Epochs: 1, StepsPerEpoch: 2}, "minishop": {TrainClasses: 4, TestClasses: 3, Batch: 4,
		ImagesPerClass: 2, Dim: 8, Epochs: 1, StepsPerEpoch: 2}}
	a := Cell{Row: "a", Objective: presets.Named("cos/con/con")}
	same := a
	same.Row = "a again"
	study := listed(a, same, Cell{Row: "wild", Column: "minicar", Data: "minicar", Objective: presets.Objective{LR: 1e30}})
	opened := 0
	choose := func() (*train.Trainer, error) { opened++; return runstest.Go(), nil }
	o := runs.Options{Jobs: 2, Seeds: []uint64{1, 2}, Progress: func(runs.Progress) {}}
	table, err := Reproduce(t.Context(), choose, s, study, p, o)
	if err != nil {
		t.Fatal(err)
	}
	if table.Runs != 10 || table.Ran != 6 || opened != 1 { // Equal cells share their runs.
		t.Errorf("%d runs, %d made, backend opened %d times", table.Runs, table.Ran, opened)
	}
	if c := table.At("minishop", "a", "minishop").Recall(1); c.N != 2 ||
		c != table.At("minishop", "a again", "minishop").Recall(1) {
		t.Errorf("%+v", c)
	}
	if c := table.At("minicar", "wild", "minicar").Recall(1); c.N != 0 || c.Diverged != 2 {
		t.Errorf("%+v", c)
	}
	again, err := Reproduce(t.Context(), choose, s, study, p, o)
	if err != nil || again.Ran != 0 || opened != 1 || again.Provenance() != table.Provenance() {
		t.Errorf("again: %+v, %v", again, err)
	}
	if line := table.Provenance(); !strings.Contains(line, "preset smoke") || !strings.Contains(line, "go") {
		t.Error(line)
	}
	a.Column, a.Data = "minicar", "minicar"
	held := a
	held.Adjust = func(s *runs.Spec) { s.HeldOut = 2 }
	sweep := listed(a, held)
	sweep.Sweep = true
	p.Sets["minicar"] = presets.Size{TrainClasses: 6, TestClasses: 3, Batch: 4, ImagesPerClass: 2, Dim: 8,
		Epochs: 1, StepsPerEpoch: 2}
	have, err := Reproduce(t.Context(), choose, s, sweep, p, runs.Options{CachedOnly: true})
	if err != nil || have.Missing != 2 || len(have.Cells[0].Runs) != 0 ||
		!strings.Contains(have.Provenance(), "2 of 2 runs not trained yet") {
		t.Errorf("none is there: %+v, %v", have, err)
	}
	swept, err := Reproduce(t.Context(), choose, s, sweep, p, runs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := swept.Cells; c[0].HeldOutRecall(1).N != 0 || c[1].HeldOutRecall(1).N != 1 ||
		c[1].Runs[0].Hash == c[0].Runs[0].Hash {
		t.Errorf("held-out recall %+v and %+v", c[0].HeldOutRecall(1), c[1].HeldOutRecall(1))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o.Seeds = []uint64{3}
	if _, err := Reproduce(ctx, choose, s, study, p, o); !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped study: %v", err)
	}
	path := filepath.Join(t.TempDir(), "shipped.json")
	if n, err := runs.WriteBundled(path, append(table.Cells[0].Runs, table.Cells[0].Runs...)); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) != 2 {
		t.Fatalf("%d results, %v", len(list), err)
	}
	for _, raw := range list {
		if err := json.Unmarshal(raw, new(runs.Result)); err != nil {
			t.Error(err)
		}
	}
}

func TestPresetsAndStudies(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	for _, name := range presets.Names() {
		p, err := presets.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, study := range studies() {
			cells, err := study.Specs(p, nil)
			if err != nil {
				t.Fatal(err)
			}
			seeds := p.Seeds
			if study.Sweep {
				seeds = p.SweepSeeds
			}
			hashes := make(map[string]bool)
			for _, c := range cells {
				for i, s := range c.Specs {
					hashes[s.Hash()] = true
					if s.Seed != seeds[i] || s.Rule != c.Rule || presets.Of(s) != name {
						t.Errorf("%s %s: %+v", name, study.Name, s)
					}
					if s.Arch == "small" {
						if err := s.Validate(); err != nil {
							t.Errorf("%s %s: %v", name, study.Name, err)
						}
					}
				}
			}
			want := map[string]int{"table2": 8, "table3": 24, "table4": 28, "table6": 32, "table7": 96, "table8": 80,
				"grid": 336}[study.Name]
			switch {
			case name != "smoke":
			case study.Name == "grid":
				want = 24
			case study.Sweep:
				want /= 2
			}
			if len(hashes) != want*len(seeds) {
				t.Errorf("%s %s: %d runs", name, study.Name, len(hashes))
			}
		}
		for _, rule := range GridRules() {
			for data := range p.Sets {
				if rate := p.Rate(data, rule); rate <= 0 {
					t.Errorf("%s: rate %g of %s on %s", name, rate, rule, data)
				}
			}
		}
	}
	if _, err := presets.Parse("huge"); err == nil || !strings.Contains(err.Error(), "smoke, quick, full, paper") {
		t.Error(err)
	}
	if _, err := ParseStudy("table9"); err == nil || !strings.Contains(err.Error(), "table2") {
		t.Error(err)
	}
	p, _ := presets.Parse("paper")
	s, err := p.Spec("CAR", dmlx.Rule{}, 1)
	if err != nil || s.LR != 0.1 || s.Batch() != 128 || s.Dim != 64 {
		t.Errorf("%+v, %v", s, err)
	}
	t.Setenv(datasets.DataEnv, t.TempDir())
	if _, err := runs.OpenData(s, runs.DataOptions{}); err == nil || !strings.Contains(err.Error(), "CARS196.zip") ||
		!strings.Contains(err.Error(), datasets.DataEnv) {
		t.Errorf("a missing data set: %v", err)
	}
	if _, err := p.Spec(t.TempDir()+"/no-such", dmlx.Rule{}, 1); err == nil {
		t.Error("a folder that is not there was taken")
	}
}

package experiment

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
)

// tiny is a spec that runs in a second on any backend.
func tiny() Spec {
	return Spec{Recipe: Recipe, Data: "minicar", Size: 16, TrainClasses: 4, TestClasses: 3, Config: Config{Rule: "cos/con/con", Arch: "small", Weights: Random, Dim: 8, ClassesPerBatch: 2, ImagesPerClass: 2, Pad: 1, LR: 0.1, Epochs: 3, StepsPerEpoch: 3, Seed: 1}}
}

func TestHash(t *testing.T) {
	s := tiny()
	// Results are found by these digits: if they change, all runs there are are lost. Raise Recipe instead.
	const want = "691e47cf3ab3"
	if got := s.Hash(); got != want {
		t.Errorf("hash %s, want %s of\n%s", got, want, s.Canonical())
	}
	v := reflect.ValueOf(&s).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if !f.IsExported() || f.Anonymous {
			continue
		}
		before, field := s.Hash(), v.FieldByIndex(f.Index)
		old := reflect.New(f.Type).Elem()
		old.Set(field)
		switch f.Type.Kind() {
		case reflect.String:
			field.SetString(old.String() + "x")
		case reflect.Float64:
			field.SetFloat(math.Nextafter(old.Float(), 1))
		case reflect.Uint64:
			field.SetUint(old.Uint() + 1)
		case reflect.Bool:
			field.SetBool(!old.Bool())
		default:
			field.SetInt(old.Int() + 1)
		}
		if s.Hash() == before {
			t.Errorf("%s does not change the hash", f.Name)
		}
		field.Set(old)
	}
	a, b := tiny(), tiny()
	a.Data, b.Data, a.DataDigest, b.DataDigest = "/here/birds", "/there/birds", "1", "1"
	if a.Hash() != b.Hash() {
		t.Error("a folder that was moved is another run")
	}
}

func TestValidate(t *testing.T) {
	if err := tiny().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Spec){
		"recipe 0":                             func(s *Spec) { s.Recipe = 0 },
		"no data set":                          func(s *Spec) { s.Data = "" },
		"con, euc, lin":                        func(s *Spec) { s.Rule = "cos/new/con" },
		"small, resnet18, resnet50":            func(s *Spec) { s.Arch = "vgg" },
		"there are pretrained, random":         func(s *Spec) { s.Weights = "imagenet" },
		"no pretrained weights of resnet50":    func(s *Spec) { s.Weights, s.Arch = Pretrained, "resnet50" },
		"embedding dimension is 0":             func(s *Spec) { s.Dim = 0 },
		"padding is -1":                        func(s *Spec) { s.Pad = -1 },
		"learning rate is NaN":                 func(s *Spec) { s.LR = math.NaN() },
		"learning rate is 0":                   func(s *Spec) { s.LR = 0 },
		"decay is 1.5, must be a share":        func(s *Spec) { s.Decay = 1.5 },
		"decay is NaN, must be a share":        func(s *Spec) { s.Decay = math.NaN() },
		"epochs is 0, must be at least 1":      func(s *Spec) { s.Epochs = 0 },
		"dimension 99999999, ":                 func(s *Spec) { s.Dim = 99999999 },
		"99999999 epochs of 99999999999 steps": func(s *Spec) { s.Epochs, s.StepsPerEpoch = 99999999, 99999999999 },
		"images per class is 0, must be at le": func(s *Spec) { s.ImagesPerClass = 0 },
	} {
		s := tiny()
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want …%s…", err, want)
		}
	}
}

func TestSchedule(t *testing.T) {
	s := tinyConfig()
	s.LR = 1
	for _, c := range []struct {
		epochs, first int
		decay         float64
	}{{60, 36, 0}, {3, 2, 0}, {2, 2, 0}, {1, 1, 0}, {24, 15, 0}, {24, 12, 0.5}, {24, 21, 0.85}, {6, 6, 1}} {
		s.Epochs, s.Decay = c.epochs, c.decay
		for e := range c.epochs {
			want := 1.0
			if e >= c.first {
				want = 0.1
			}
			if s.Rate(e) != want {
				t.Errorf("epoch %d of %d has rate %g", e, c.epochs, s.Rate(e))
			}
		}
	}
}

func TestCustomRuleInSpec(t *testing.T) {
	rule := func(power float64) dmlx.Rule {
		return dmlx.Rule{Pair: dmlx.PairWeight{Name: "mine", Of: func(b *dmlx.Batch) (p, n *graph.Node) {
			return graph.PowScalar(graph.OneMinus(b.Sap), power), graph.OnesLike(b.San)
		}}}
	}
	a, err := tiny().WithRule(rule(1))
	if err != nil {
		t.Fatal(err)
	}
	b, err := tiny().WithRule(rule(2))
	if err != nil {
		t.Fatal(err)
	}
	if a.Hash() == b.Hash() {
		t.Errorf("an edited rule keeps its hash; identity %s", a.Rule)
	}
	if _, err := a.TheRule(); err != nil {
		t.Error(err)
	}
	a = Spec{Config: Config{Rule: a.Rule}} // As it is read from a file.
	if _, err := a.TheRule(); err == nil {
		t.Errorf("%s was parsed", a.Rule)
	}
}

func TestSampler(t *testing.T) {
	var labels []int64
	for c := range 10 {
		for range 3 + c {
			labels = append(labels, int64(c))
		}
	}
	s, err := newSampler(labels, nil, 4, 3, 2, 7)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := newSampler(labels, nil, 4, 3, 2, 7)
	seen := make(map[int64]int)
	moves := make(map[[3]int]bool)
	for step := 99; step >= 0; step-- { // Backwards: a step does not depend on those before.
		b := s.batch(step)
		if len(b) != 12 {
			t.Fatalf("%d images", len(b))
		}
		classes, images := make(map[int64]int), make(map[int]bool)
		for _, d := range b {
			classes[labels[d.image]]++
			images[d.image] = true
			if d.dx < -2 || d.dx > 2 || d.dy < -2 || d.dy > 2 {
				t.Fatalf("moved by %d, %d", d.dx, d.dy)
			}
			flip := 0
			if d.flip {
				flip = 1
			}
			moves[[3]int{d.dx, d.dy, flip}] = true
		}
		if len(classes) != 4 || len(images) != 12 {
			t.Errorf("step %d: %d classes, %d images", step, len(classes), len(images))
		}
		for c, n := range classes {
			seen[c]++
			if n != 3 {
				t.Errorf("step %d: %d images of class %d", step, n, c)
			}
		}
	}
	for step := range 100 {
		if !slices.Equal(s.batch(step), other.batch(step)) {
			t.Fatalf("step %d is not the same again", step)
		}
	}
	if len(seen) != 10 || len(moves) != 50 {
		t.Errorf("%d classes, %d ways to augment", len(seen), len(moves))
	}
	different, _ := newSampler(labels, nil, 4, 3, 2, 8)
	if slices.Equal(s.batch(0), different.batch(0)) {
		t.Error("two seeds give one batch")
	}
	for want, c := range map[string][2]int{
		"needs as many train classes, there are 10":                                                   {11, 1},
		"no class has the 13 images per class of a batch, the largest has 12":                         {2, 13},
		"9 classes × 9 images cannot be filled: with at most 9 of each, the 10 train classes give 69": {9, 9},
	} {
		if _, err := newSampler(labels, nil, c[0], c[1], 0, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want …%s…", err, want)
		}
	}
}

// As in Stanford Online Products: classes of two to twelve images, four of each in a batch.
func TestSamplerOfSmallClasses(t *testing.T) {
	t.Parallel()
	var labels []int64
	sizes := []int{2, 2, 3, 4, 5, 12, 3, 2, 9, 4, 2} // With at most four of each 34 images, so two batches a pass.
	for c, n := range sizes {
		for range n {
			labels = append(labels, int64(c))
		}
	}
	s, err := newSampler(labels, nil, 4, 4, 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[int]bool)
	for pass := range 50 {
		ofPass := make(map[int64]int)
		for step := 2 * pass; step < 2*pass+2; step++ {
			b := s.batch(step)
			images := make(map[int]bool)
			alone := 0
			ofBatch := make(map[int64]int)
			for _, d := range b {
				images[d.image], seen[d.image] = true, true
				ofPass[labels[d.image]]++
				ofBatch[labels[d.image]]++
			}
			for _, n := range ofBatch {
				if n == 1 {
					alone++
				}
			}
			if len(b) != 16 || len(images) != 16 || alone > 2 { // The first class and the last one.
				t.Errorf("step %d: %d images, %d of them different, %d without another of their class", step, len(b), len(images), alone)
			}
		}
		for c, n := range ofPass {
			if n > min(4, sizes[c]) {
				t.Errorf("pass %d: %d images of class %d, which has %d", pass, n, c, sizes[c])
			}
		}
	}
	if len(seen) != len(labels) {
		t.Errorf("%d of %d images were drawn", len(seen), len(labels))
	}
}

func TestStat(t *testing.T) {
	at := func(v float64) *Result { return &Result{Measures: Measures{Recall: map[int]float64{1: v}}} }
	bad := &Result{Measures: Measures{Diverged: "not finite from step 3 on"}}
	collapsed := &Result{Measures: Measures{Diverged: "collapsed", Recall: map[int]float64{1: 0.01}}}
	s := Recall([]*Result{at(0.2), bad, at(0.5), collapsed, at(0.8)}, 1)
	if math.Abs(s.Mean-0.5) > 1e-12 || math.Abs(s.Std-0.3) > 1e-12 || s.N != 3 || s.Diverged != 2 {
		t.Errorf("%+v, want 0.5 ± 0.3 of 3, 2 diverged", s)
	}
	if s := Recall([]*Result{at(0.4)}, 1); s.Mean != 0.4 || s.Std != 0 || s.N != 1 {
		t.Errorf("one run: %+v", s)
	}
	if s := Recall([]*Result{bad}, 1); !math.IsNaN(s.Mean) || s.N != 0 || s.Diverged != 1 {
		t.Errorf("none: %+v", s)
	}
}

func TestOverlapAndCompactness(t *testing.T) {
	nan := float32(math.NaN())
	a, b := []float32{-1, 0.005, 0.005, 1, nan}, []float32{0.015, 0.0199, -0.5, 1}
	if got := Overlap(a, a); math.Abs(got-1) > 1e-12 {
		t.Errorf("with itself %g", got)
	}
	if got := Overlap(a, b); math.Abs(got-0.75) > 1e-12 { // 0 … 0.02 is a bin: two of each, and one of each at 1.
		t.Errorf("overlap %g, want 0.75", got)
	}
	if got := Overlap(a[:1], b); got != 0 {
		t.Errorf("of separate ones %g", got)
	}
	if got := Compactness([]float32{0.95, 0.95, 0.5, nan}, []float32{0.91, 0.9, 0.99, 0.99}); math.Abs(got-1./3) > 1e-12 {
		t.Errorf("compactness %g, want 1/3", got)
	}
}

func TestPresetsAndStudies(t *testing.T) {
	for _, name := range Presets() {
		p, err := ParsePreset(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, study := range studies {
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
					if s.Seed != seeds[i] || s.Rule != c.Rule || (PresetOf(s) != name && study.Name != "length") {
						t.Errorf("%s %s: %+v", name, study.Name, s)
					}
					if s.Arch == "small" {
						if err := s.Validate(); err != nil {
							t.Errorf("%s %s: %v", name, study.Name, err)
						}
					}
				}
			}
			want := map[string]int{"table2": 8, "table3": 24, "table4": 28, "table6": 32, "table7": 96, "table8": 80, "grid": 336, "length": 36, "losses": 64}[study.Name]
			switch {
			case name != "smoke":
			case study.Name == "grid":
				want = 24
			case study.Name == "length":
				want /= 3
			case study.Name == "losses":
				want /= 8
			case study.Sweep:
				want /= 2
			}
			if len(hashes) != want*len(seeds) {
				t.Errorf("%s %s: %d runs", name, study.Name, len(hashes))
			}
		}
		for _, r := range dmlx.Rules() {
			for data := range p.Sets {
				if rate := p.Rate(data, r.Name()); rate <= 0 {
					t.Errorf("%s: rate %g of %s on %s", name, rate, r, data)
				}
			}
		}
	}
	if _, err := ParsePreset("huge"); err == nil || !strings.Contains(err.Error(), "smoke, quick, full, paper") {
		t.Error(err)
	}
	if _, err := ParseStudy("table9"); err == nil || !strings.Contains(err.Error(), "table2") {
		t.Error(err)
	}
	p, _ := ParsePreset("paper")
	s, err := p.Spec("CAR", dmlx.Rule{}, 1)
	if err != nil || s.LR != 0.1 || s.Batch() != 128 || s.Dim != 64 {
		t.Errorf("%+v, %v", s, err)
	}
	t.Setenv(datasets.DataEnv, t.TempDir())
	if _, err := openSetWith(s, Opening{}); err == nil || !strings.Contains(err.Error(), "cars_annos.mat") || !strings.Contains(err.Error(), datasets.DataEnv) {
		t.Errorf("a missing data set: %v", err)
	}
	if _, err := p.Spec(t.TempDir()+"/no-such", dmlx.Rule{}, 1); err == nil {
		t.Error("a folder that is not there was taken")
	}
}

func TestHeldOut(t *testing.T) {
	labels := []int64{5, 5, 1, 1, 9, 9, 3, 3, 7} // Classes 1 3 5 7 9.
	got, err := heldOut(labels, 2)
	if err != nil || len(got) != 2 || !got[3] || !got[7] {
		t.Errorf("%v, %v", got, err)
	}
	if images := imagesOf(labels, got); !slices.Equal(images, []int{6, 7, 8}) {
		t.Errorf("images %v", images)
	}
	s, err := newSampler(labels, got, 2, 2, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for step := range 20 {
		for _, d := range s.batch(step) {
			if got[labels[d.image]] {
				t.Fatalf("step %d trains on a class that is held out", step)
			}
		}
	}
	if none, err := heldOut(labels, 0); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
	if _, err := heldOut(labels, 4); err == nil || !strings.Contains(err.Error(), "too little") {
		t.Errorf("one class held out: %v", err)
	}
}

// The sweeps try four rates for each of the paper's configurations; at the paper preset they are those it prints.
func TestSweepRates(t *testing.T) {
	for _, c := range []struct {
		preset, study, rule, data string
		want                      []float64
	}{
		{"quick", "table6", "cos-orth/con/con", "minicar", []float64{0.075, 0.15, 0.3, 0.6}},
		{"quick", "table7", "euc/sig-ms/con", "minishop", []float64{0.1, 0.2, 0.4, 0.8}},
		{"paper", "table6", "euc/con/con", "CAR", []float64{0.025, 0.05, 0.1, 0.2}},
		{"paper", "table7", "cos/lin/con", "CAR", []float64{0.05, 0.1, 0.2, 0.4}},
		{"paper", "table8", "cos/lin/cir+sc2", "CAR", []float64{0.2, 0.4, 0.6, 0.8}},
		{"paper", "table8", "cos/con/cir", "In-shop", []float64{0.5, 1, 2, 4}},
	} {
		preset, err := ParsePreset(c.preset)
		if err != nil {
			t.Fatal(err)
		}
		study, err := ParseStudy(c.study)
		if err != nil {
			t.Fatal(err)
		}
		cells, err := study.Specs(preset, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, cell := range cells {
			if cell.Rule == c.rule && cell.Data == c.data {
				got = append(got, cell.Specs[0].LR)
				if held := cell.Specs[0].HeldOut; (held != 0) != (c.preset == "quick") || len(cell.Specs) != len(preset.SweepSeeds) {
					t.Errorf("%s %s: held out %d, %d seeds", c.preset, c.study, held, len(cell.Specs))
				}
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %s of %s on %s: rates %v, want %v", c.preset, c.study, c.rule, c.data, got, c.want)
		}
	}
}

package runs

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// tiny is a spec that runs in a second on any backend.
func tiny() Spec {
	return Spec{Recipe: Recipe, Data: "minicar", Size: 16, TrainClasses: 4, TestClasses: 3,
		Config: train.Config{Objective: objectives.Objective{Rule: "cos/con/con"}, Arch: "small", Weights: train.Random,
			Dim: 8, ClassesPerBatch: 2, ImagesPerClass: 2, Pad: 1, LR: 0.1, Epochs: 3, StepsPerEpoch: 3, Seed: 1}}
}

// by returns the spec with an objective.
func (s Spec) by(o objectives.Objective, err error) (Spec, error) {
	s.Objective = o
	return s, err
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
		if of := "NetworkFile"; (s.Hash() == before) != (f.Name == of) { // Model has the digest of the file.
			t.Errorf("%s: the hash changed: %v; all but %s change it", f.Name, s.Hash() != before, of)
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
		"no pretrained weights of resnet50":    func(s *Spec) { s.Weights, s.Arch = train.Pretrained, "resnet50" },
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

func TestCustomRuleInSpec(t *testing.T) {
	rule := func(power float64) dmlx.Rule {
		return dmlx.Rule{Pair: dmlx.PairWeight{Name: "mine", Of: func(b *dmlx.Batch) (p, n *graph.Node) {
			return graph.PowScalar(graph.OneMinus(b.Sap), power), graph.OnesLike(b.San)
		}}}
	}
	a, err := tiny().by(objectives.ByRule(rule(1)))
	if err != nil {
		t.Fatal(err)
	}
	b, err := tiny().by(objectives.ByRule(rule(2)))
	if err != nil {
		t.Fatal(err)
	}
	if a.Hash() == b.Hash() {
		t.Errorf("an edited rule keeps its hash; identity %s", a.Rule)
	}
	if _, err := a.ParsedRule(); err != nil {
		t.Error(err)
	}
	a = Spec{Config: train.Config{Objective: objectives.Objective{Rule: a.Rule}}} // As it is read from a file.
	if _, err := a.ParsedRule(); err == nil {
		t.Errorf("%s was parsed", a.Rule)
	}
}

func TestStat(t *testing.T) {
	at := func(v float64) *Result { return &Result{Measures: train.Measures{Recall: map[int]float64{1: v}}} }
	bad := &Result{Measures: train.Measures{Diverged: "not finite from step 3 on"}}
	collapsed := &Result{Measures: train.Measures{Diverged: "collapsed", Recall: map[int]float64{1: 0.01}}}
	s := MeanRecall([]*Result{at(0.2), bad, at(0.5), collapsed, at(0.8)}, 1)
	if math.Abs(s.Mean-0.5) > 1e-12 || math.Abs(s.Std-0.3) > 1e-12 || s.N != 3 || s.Diverged != 2 {
		t.Errorf("%+v, want 0.5 ± 0.3 of 3, 2 diverged", s)
	}
	if s := MeanRecall([]*Result{at(0.4)}, 1); s.Mean != 0.4 || s.Std != 0 || s.N != 1 {
		t.Errorf("one run: %+v", s)
	}
	if s := MeanRecall([]*Result{bad}, 1); !math.IsNaN(s.Mean) || s.N != 0 || s.Diverged != 1 {
		t.Errorf("none: %+v", s)
	}
}

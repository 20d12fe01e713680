package presets

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// feasible returns why a spec cannot be trained on its data set.
func feasible(spec runs.Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	data, _, err := runs.TrainingData(spec, runs.DataOptions{})
	if err != nil {
		return err
	}
	return spec.Fits(data, spec.HeldOut)
}

func TestFeasible(t *testing.T) {
	p, err := Parse("smoke")
	if err != nil {
		t.Fatal(err)
	}
	good, err := p.Spec("minicar", dmlx.Rule{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := feasible(good); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*runs.Spec){
		"learning rate is 0": func(s *runs.Spec) { s.LR = 0 },
		"a batch of 9 classes needs as many training classes, there are 8": func(s *runs.Spec) { s.ClassesPerBatch = 9 },
		"a batch of 8 classes needs as many training classes, there are 6": func(s *runs.Spec) {
			s.ClassesPerBatch, s.HeldOut = 8, 4
		},
		"no class has the 17 images per class": func(s *runs.Spec) { s.ImagesPerClass = 17 },
		"leaves too few images to rank":        func(s *runs.Spec) { s.HeldOut = 7 },
	} {
		s := good
		change(&s)
		if err := feasible(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want …%s…", err, want)
		}
	}
}

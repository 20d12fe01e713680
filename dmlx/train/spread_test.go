package train_test

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/heads"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/samples"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// A head whose start was chosen on classes that vary in other directions than the test classes warns of it: held-out
// classes have nearly all right, and the test classes less than by the features.
func TestSpreadWarns(t *testing.T) {
	t.Parallel()
	trainer, err := train.Open()
	if err != nil {
		t.Fatal(err)
	}
	m := made{dim: 64, classes: 40, images: 16, center: 1, noise: 0.9, strong: 2.5}
	test := m.split(1, 1)
	for row := test.Values; len(row) > 0; row = row[m.dim:] { // Their noise is in the other half of the directions.
		for j := range m.dim / 2 {
			row[j], row[j+m.dim/2] = row[j+m.dim/2], row[j]
		}
	}
	for i := range test.Classes {
		test.Classes[i] += 1000
	}
	data, err := samples.Features("shifted", m.split(1, 0), test)
	if err != nil {
		t.Fatal(err)
	}
	references, err := trainer.References(t.Context(), data, 0)
	if err != nil {
		t.Fatal(err)
	}
	o, err := objectives.ParseLoss("contrastive")
	if err != nil {
		t.Fatal(err)
	}
	r := trainHead(t, trainer, data, references, "linear", o)
	if r.rows != 640 || !strings.Contains(r.choice, "held-out Recall@1 9") || r.recall > r.features-20 {
		t.Fatalf("%+v: want a head that loses", r)
	}
	c := heads.Choice{Start: "whitened", Shrinkage: 0.01, Folds: 5, StartRecall: 0.998}
	s, err := trainer.Spread(t.Context(), data, 0, &c)
	if err != nil || s.Test < 2*s.HeldOut || !strings.Contains(s.Warning, "held-out Recall@1 of 99.8 says little") {
		t.Errorf("%+v, %v", s, err)
	}
	for _, c := range []*heads.Choice{nil, {Start: "features"}} {
		if s, err := trainer.Spread(t.Context(), data, 0, c); s != nil || err != nil {
			t.Errorf("no choice: %+v, %v", s, err)
		}
	}
	c = heads.Choice{Start: "features", Folds: 5} // They lose nothing.
	if s, err := trainer.Spread(t.Context(), data, 4, &c); err != nil || s.Test != 1 || s.HeldOut != 1 || s.Warning != "" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := trainer.Spread(t.Context(), data, 1000, &c); err == nil {
		t.Error("no class is held out")
	}
	same, err := samples.Features("no variance", repeated(6, 2), repeated(6, 2))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := trainer.Spread(t.Context(), same, 0, &c); s != nil || err != nil {
		t.Errorf("no class varies: %+v, %v", s, err)
	}
}

// repeated has some copies of a sample for each class.
func repeated(classes, copies int) *samples.Array {
	a := &samples.Array{Dims: []int{2}}
	for c := range classes {
		for range copies {
			a.Values, a.Classes = append(a.Values, float32(c), float32(c%2)), append(a.Classes, int64(c))
		}
	}
	return a
}

// There is no warning where test classes vary as training classes do, by any kind of start.
func TestSpreadIsSilent(t *testing.T) {
	t.Parallel()
	trainer, err := train.Open()
	if err != nil {
		t.Fatal(err)
	}
	most, least := 0., 9.
	for _, set := range featureSets(t) {
		if set.kind == "frozen" && set.name != "minicar" || testing.Short() && set.name == "minicar" {
			continue // Its features are not here, or take long.
		}
		data, err := set.open()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []heads.Choice{{Start: "whitened", Shrinkage: 0.01}, {Start: "whitened", Shrinkage: 0.3},
			{Start: "PLDA", Shrinkage: 0.01, Between: 1}, {Start: "PLDA", Shrinkage: 1, Between: 0.03}} {
			c.Folds = 5
			s, err := trainer.Spread(t.Context(), data, 0, &c)
			if err != nil || s == nil || s.Warning != "" {
				t.Errorf("%s, %s: %+v, %v", set.name, c.Start, s, err)
				continue
			}
			most, least = max(most, s.Test/s.HeldOut), min(least, s.Test/s.HeldOut)
		}
	}
	t.Logf("test over held-out: %.2f to %.2f", least, most)
}

package paper

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

func TestTable5Cells(t *testing.T) {
	for _, name := range presets.Names() {
		p, err := presets.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		all := Table5()
		all.Present = false // Also on images that are not here.
		cells, err := all.Specs(p, Table5Seeds(p))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int{"smoke": 2 * (3 + 1 + 1), "paper": 4 * (3 + 3)}[name]
		if want == 0 {
			want = 2 * (3 + 3 + 3)
		}
		if len(cells) != want {
			t.Errorf("%s: %d cells, want %d", name, len(cells), want)
		}
		seen := make(map[string]bool)
		for _, c := range cells {
			if len(c.Specs) != min(3, len(p.Seeds)) {
				t.Fatalf("%s: %d seeds", name, len(c.Specs))
			}
			s := c.Specs[0]
			if seen[s.Hash()] {
				t.Errorf("%s: %s %s on %s is another cell's run", name, c.Row, c.Column, c.Data)
			}
			seen[s.Hash()] = true
			rule, err := dmlx.ParseRule(c.Rule)
			if err != nil {
				t.Fatal(err)
			}
			base, err := p.Spec(c.Data, rule, 1)
			if err != nil {
				t.Fatal(err)
			}
			factor := int(c.Column[len(c.Column)-1] - '0')
			if s.Batch() != factor*base.Batch() || s.ImagesPerClass != base.ImagesPerClass {
				t.Errorf("%s: %s on %s has batches of %d × %d, the preset of %d × %d", name, c.Column, c.Data,
					s.ClassesPerBatch, s.ImagesPerClass, base.ClassesPerBatch, base.ImagesPerClass)
			}
			if scaled := c.Row == ScaledRate; scaled != (c.LR != base.LR) || scaled && c.LR != float64(factor)*base.LR {
				t.Errorf("%s: %s %s has the rate %g, the preset %g", name, c.Row, c.Column, c.LR, base.LR)
			}
			switch name {
			case "paper": // Floor of the images over the batch, as the paper's one pass.
				if s.Arch != string(backbone.ResNet50) || s.Epochs != 80 || s.StepsPerEpoch != base.StepsPerEpoch/factor {
					t.Errorf("%s on %s: %s, %d × %d steps", c.Column, c.Data, s.Arch, s.Epochs, s.StepsPerEpoch)
				}
			case "quick": // The same number of images, to the last one.
				if s.Steps()*s.Batch() != base.Steps()*base.Batch() {
					t.Errorf("%s on %s sees %d images, the preset %d", c.Column, c.Data, s.Steps()*s.Batch(),
						base.Steps()*base.Batch())
				}
				if share := rateStep(s); share < 0.6 || share > 0.65 {
					t.Errorf("%s on %s: the rate falls after %g of the steps", c.Column, c.Data, share)
				}
				fallthrough
			default:
				set, err := runs.OpenData(s, runs.DataOptions{})
				if err != nil || set.TrainClasses < s.ClassesPerBatch {
					t.Errorf("%s: %s on %s wants %d classes of %d, %v", name, c.Column, c.Data, s.ClassesPerBatch, set.TrainClasses,
						err)
				}
			}
		}
	}
}

// rateStep is the share of the steps that are made at the full rate.
func rateStep(s runs.Spec) float64 {
	epoch := 0
	for s.RateAt(epoch*s.StepsPerEpoch) == s.LR {
		epoch++
	}
	return float64(epoch) / float64(s.Epochs)
}

func TestMissingSets(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(datasets.DataEnv, dir)
	p, err := presets.Parse("paper")
	if err != nil {
		t.Fatal(err)
	}
	of := func(p presets.Preset) []error {
		cells, err := Table5().Cells(p)
		if err != nil {
			t.Fatal(err)
		}
		return MissingSets(cells)
	}
	missing := of(p)
	if len(missing) != 4 {
		t.Fatalf("%d sets are missing: %v", len(missing), missing)
	}
	for i, name := range []string{"CUB", "CAR", "SOP", "In-shop"} {
		if text := missing[i].Error(); !strings.Contains(text, "data set "+name) || !strings.Contains(text, "https://") ||
			!strings.Contains(text, dir) {
			t.Errorf("%s", text)
		}
	}
	quick, err := presets.Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	if missing := of(quick); missing != nil {
		t.Errorf("%v", missing)
	}
}

package presets

import (
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// FeaturesName is the name of the presets of [OnFeatures].
const FeaturesName = "features"

// OnFeatures returns a preset for a head on frozen features, "linear" or "mlp?hidden=256": 300 steps on batches of
// 8 × 8 samples, embeddings of 64 dimensions, and ten seeds. It reads the files; the names of data sets that its
// methods are given do not matter.
//
// The learning rates are those of the quick preset.
func OnFeatures(files runs.Features, head string) (Preset, error) {
	p := Preset{
		Name: FeaturesName, FineGrained: files.Features,
		Seeds: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, SweepSeeds: []uint64{1, 2, 3},
		Sets: map[string]Size{"": {0, 0, 8, 8, 64, 10, 30}},
		Rate: headRate,
	}
	var err error
	if p.Base.Config, err = (train.Config{}).WithHead(head); err != nil {
		return p, err
	}
	p.Base, err = files.On(p.Base)
	return p, err
}

func headRate(_, rule string) float64 { return headRates[familyOf(rule)] }

var headRates = map[family]float64{constant: 0.3, linear: 0.75, sigmoidMulti: 0.12}

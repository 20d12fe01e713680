package presets

import (
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// FeaturesName is the name of the presets of [OnFeatures].
const FeaturesName = "features"

// OnFeatures returns a preset for a head on frozen features, as [heads.Parse] reads it, on batches of 8 × 8
// samples, with ten seeds. A head has as many dimensions as there are features, and at most 200 steps at a rate that is
// chosen. One that starts at random has 64 dimensions and 300 steps, at the learning rates of the quick preset. It
// reads the files; the names of data sets that its methods are given do not matter.
func OnFeatures(files runs.Features, head string) (Preset, error) {
	p := Preset{
		Name: FeaturesName, FineGrained: files.Features,
		Seeds: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, SweepSeeds: []uint64{1, 2, 3},
		Sets: map[string]Size{"": {0, 0, 64, 8, 64, 10, 30}},
		Rate: headRate,
	}
	var err error
	if p.Base.Config, err = (train.Config{}).WithHead(head); err != nil {
		return p, err
	}
	if p.Base, err = files.On(p.Base); err != nil || p.Base.HeadStart == "" {
		return p, err
	}
	data, _, err := runs.TrainingData(p.Base, runs.DataOptions{})
	if err != nil {
		return p, err
	}
	p.Sets[""] = Size{0, 0, 64, 8, data.Train.Shape().Dim(0), 10, 20}
	p.Rate = func(_, _ string) float64 { return 1 } // It is chosen.
	return p, nil
}

func headRate(_, rule string) float64 { return headRates[familyOf(rule)] }

var headRates = map[family]float64{constant: 0.3, linear: 0.75, sigmoidMulti: 0.12}

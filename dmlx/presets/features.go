package presets

import (
	"github.com/gradient-surgery/dml/dmlx/heads"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/samples"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// FeaturesName is the name of the presets of [OnFeatures].
const FeaturesName = "features"

// OnFeatures returns a preset for a head on frozen features, as [heads.Parse] reads it, with ten seeds, on batches of
// 8 × 8 samples, or fewer where the classes do not give so many. Every heldOut-th class, if not 0, is not trained on. A
// head has as many dimensions as there are features, and at most 200 steps at a rate that is chosen. One that starts at
// random has 64 dimensions and 300 steps, at the learning rates of the quick preset. It reads the files; the names of
// data sets that its methods are given do not matter.
func OnFeatures(files runs.Features, head string, heldOut int) (Preset, error) {
	p := Preset{
		Name: FeaturesName, FineGrained: files.Features,
		Seeds: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, SweepSeeds: []uint64{1, 2, 3},
		Sets: map[string]Size{}, Rate: headRate,
	}
	var err error
	if p.Base.Config, err = (train.Config{}).WithHead(head); err != nil {
		return p, err
	}
	if p.Base, err = files.On(p.Base); err != nil {
		return p, err
	}
	data, _, err := runs.TrainingData(p.Base, runs.DataOptions{})
	if err != nil {
		return p, err
	}
	without, err := samples.HeldOut(data.Train.Labels(), heldOut)
	if err != nil {
		return p, err
	}
	width := data.Train.Shape().Dim(0)
	classes, images := batchOf(data.Train.Labels(), without, width, p.Base.HeadStart != "")
	p.Sets[""] = Size{0, 0, classes * images, images, 64, 10, 30}
	if p.Base.HeadStart == "" {
		return p, nil
	}
	p.Sets[""] = Size{0, 0, classes * images, images, width, 10, 20}
	p.Rate = func(_, _ string) float64 { return 1 } // It is chosen.
	return p, nil
}

// batchOf returns the largest batch of up to 8 × 8 samples that the classes not in without give, and if a head is
// chosen those of each fold. It is 2 × 2 if there is none.
func batchOf(labels []int64, without map[int64]bool, width int, chosen bool) (classes, images int) {
	sizes := make(map[int64]int)
	for _, l := range labels {
		if !without[l] {
			sizes[l]++
		}
	}
	most := min(8, len(sizes))
	if _, trained := heads.Folds(len(sizes), width); chosen && trained > 0 {
		most = min(most, trained)
	}
	classes, images = 2, 2
	for n := 2; n <= 8; n++ {
		sum, whole := 0, false
		for _, size := range sizes {
			sum, whole = sum+min(size, n), whole || size >= n
		}
		if c := min(most, sum/n); whole && c > 1 && c*n >= classes*images {
			classes, images = c, n
		}
	}
	return classes, images
}

func headRate(_, rule string) float64 { return headRates[familyOf(rule)] }

var headRates = map[family]float64{constant: 0.3, linear: 0.75, sigmoidMulti: 0.12}

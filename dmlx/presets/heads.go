package presets

import (
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// HeadSpec returns the spec of a head on frozen features, trained by a rule; see [train.Config.WithHead]. It has 300
// steps on batches of 8 × 8 samples and embeddings of 64 dimensions. It reads the files for their digest.
//
// Set another objective by WithLoss or WithLossFunction of the result, and its other fields as needed.
func HeadSpec(files runs.Features, head string, rule dmlx.Rule, seed uint64) (runs.Spec, error) {
	spec := runs.Spec{Config: train.Config{
		Dim: 64, ClassesPerBatch: 8, ImagesPerClass: 8, Epochs: 10, StepsPerEpoch: 30, Seed: seed,
	}}
	var err error
	if spec.Config, err = spec.WithHead(head); err != nil {
		return spec, err
	}
	if spec, err = spec.WithRule(rule); err != nil {
		return spec, err
	}
	spec.LR = headRate(spec.Rule)
	return files.On(spec)
}

// headRate returns the learning rate of a rule on a head.
func headRate(rule string) float64 {
	return headRates[familyOf(rule)]
}

var headRates = map[family]float64{constant: 0.3, linear: 0.75, sigmoidMulti: 0.12}

package samples

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Features returns a data set of frozen features, [N, F] of train and test, as heads are trained on: the mean of
// each feature over the training samples is taken off, and all are divided by one number, the standard deviation of
// all of them. A nil test stands for classes of train, which is then divided as a folder of images is: the first half
// of the classes, in the order of their labels, is trained on, and the others are the test set. The metadata of the
// weights say what was taken off and divided by, as "feature_mean" and "feature_std".
//
// It fails if labels do not fit features, a value is NaN or Inf, there are too few classes, no test sample has another
// one of its class, or all training samples are equal.
func Features(name string, train, test *Array) (*Data, error) {
	if err := train.check("training"); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(train.Dims) != 1 {
		return nil, fmt.Errorf("%s: features of shape %v: want [N, F], a row of features for each sample", name,
			slices.Concat([]int{len(train.Classes)}, train.Dims))
	}
	if test == nil {
		classes := NumberClasses(train.Classes, nil)
		if len(classes) < 4 {
			return nil, fmt.Errorf("%s: there are %d classes, of which half would be the test set: want at least 4, or test "+
				"features of their own", name, len(classes))
		}
		half := int32(len(classes)+1) / 2
		train, test = train.of(func(label int64) bool { return classes[label] < half }),
			train.of(func(label int64) bool { return classes[label] >= half })
	}
	d, err := Arrays(name, train, test)
	if err != nil {
		return nil, err
	}
	if !d.HasMatch() {
		return nil, fmt.Errorf("%s: no test sample has another one of its class: want at least two samples per class", name)
	}
	width := train.Dims[0]
	mean, square := make([]float64, width), 0.0
	for i, v := range train.Values {
		mean[i%width] += float64(v) / float64(len(train.Classes))
	}
	for i, v := range train.Values {
		square += (float64(v) - mean[i%width]) * (float64(v) - mean[i%width])
	}
	std := math.Sqrt(square / float64(len(train.Values)))
	if !(std > 0) || math.IsInf(std, 0) || std < 1e-18 {
		return nil, fmt.Errorf("%s: the standard deviation of the training features is %g: want features that differ", name,
			std)
	}
	d.Standardize(mean, std)
	text, err := json.Marshal(mean)
	if err != nil {
		return nil, err
	}
	d.Metadata = map[string]string{
		"feature_mean": string(text), "feature_std": strconv.FormatFloat(std, 'g', -1, 64),
	}
	return d, nil
}

// of returns the samples with some labels.
func (a *Array) of(some func(label int64) bool) *Array {
	out := &Array{Dims: a.Dims}
	one := a.Shape().Size()
	for i, label := range a.Classes {
		if some(label) {
			out.Classes = append(out.Classes, label)
			out.Values = append(out.Values, a.Values[i*one:(i+1)*one]...)
		}
	}
	return out
}

// Standardize takes a mean off each feature and divides all by one number.
func (d *Data) Standardize(mean []float64, std float64) {
	for _, m := range mean {
		d.Scale = append(d.Scale, float32(1/std))
		d.Shift = append(d.Shift, float32(-m/std))
	}
}

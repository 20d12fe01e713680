package samples

import (
	"encoding/json"
	"errors"
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
// one of its class, all training samples are equal, or float32 does not hold what tells samples apart.
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
	if err := checkScale(train.Values, test.Values, mean, std); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
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

// checkScale returns an error if float32 would not hold what tells features x apart as x/std − mean/std.
func checkScale(train, test []float32, mean []float64, std float64) error {
	width := len(mean)
	var apart []float64 // Distances of rows from those before them, over √F.
	differs := make([]bool, width)
	for i := width; i < len(train); i += width {
		sum := 0.0
		for j, v := range train[i : i+width] {
			d := float64(v) - float64(train[i-width+j])
			differs[j] = differs[j] || d != 0
			sum += d * d
		}
		if sum > 0 {
			apart = append(apart, math.Sqrt(sum/float64(width)))
		}
	}
	slices.Sort(apart)
	offset, most := 0.0, 0 // Of the mean from 0, over √F; a column that is constant is rounded the same in all rows.
	for j, m := range mean {
		if differs[j] {
			offset = math.Hypot(offset, m/math.Sqrt(float64(width)))
			if !differs[most] || math.Abs(m) > math.Abs(mean[most]) {
				most = j
			}
		}
	}
	const ulp = 1.0 / (1 << 24)
	if len(apart) == 0 {
		return errors.New("all training features are the same: want features that differ")
	} else if std < 1e-18 {
		return fmt.Errorf("the standard deviation of the training features is %.3g: want features that differ by about 1",
			std)
	} else if typical := apart[len(apart)/2]; typical < 4*ulp*offset {
		return fmt.Errorf("training features differ by %.3g, and the mean of column %d is %.3g, beside which float32 does "+
			"not tell them apart: leave out rows that are far off, or take off the mean in float64", typical, most, mean[most])
	}
	for i, v := range test {
		if off := math.Abs(float64(v) - mean[i%width]); off > 1e15*std {
			return fmt.Errorf("row %d, column %d of the test features is %g, and the standard deviation of the training "+
				"features is %.3g: want features of the same scale", i/width, i%width, v, std)
		}
	}
	return nil
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

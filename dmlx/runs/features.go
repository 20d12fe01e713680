package runs

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// Features names the .npy files of a data set of frozen features, which any network may have computed: float [N, F],
// and a label for each row, integers or names [N] (see [npy.ReadLabels]). Without test files the second half of the
// classes, in the order of their labels, is the test set; see [samples.Features].
type Features struct{ Features, Labels, TestFeatures, TestLabels string }

// Open reads the files. It fails if labels do not fit features, labels are neither integers nor names, a value is not
// finite, or the classes do not suffice.
func (f Features) Open() (*samples.Data, error) {
	if f.Features == "" || f.Labels == "" {
		return nil, errors.New("features need a file of labels, and labels a file of features")
	}
	if (f.TestFeatures == "") != (f.TestLabels == "") {
		return nil, errors.New("test features and test labels: want both, or neither")
	}
	paths := []string{f.Labels}
	if f.TestLabels != "" {
		paths = append(paths, f.TestLabels)
	}
	labels, _, err := npy.ReadLabels(paths...)
	if err != nil {
		return nil, err
	}
	training, err := readFeatures(f.Features, f.Labels, labels[0])
	if err != nil {
		return nil, err
	}
	var test *samples.Array
	if f.TestFeatures != "" {
		if test, err = readFeatures(f.TestFeatures, f.TestLabels, labels[1]); err != nil {
			return nil, err
		}
	}
	return samples.Features(filepath.Base(f.Features), training, test)
}

// readFeatures reads features [N, F], of which the classes [N] are those in the file labels.
func readFeatures(features, labels string, classes []int64) (*samples.Array, error) {
	values, shape, err := npy.ReadFloat32(features)
	if err != nil {
		return nil, err
	}
	if len(shape) != 2 || shape[0] < 1 || shape[1] < 1 {
		return nil, fmt.Errorf("%s: has the shape %v, want [N, F], a row of features for each sample", features, shape)
	}
	if len(classes) != shape[0] {
		return nil, fmt.Errorf("%s: has %d labels, want [%d], a label for each row of %s", labels, len(classes), shape[0],
			features)
	}
	if err := errs.Finite(features+": ", values, shape[1]); err != nil {
		return nil, err
	}
	return &samples.Array{Values: values, Dims: shape[1:], Classes: classes}, nil
}

// On returns the spec with features as its data set, identified by the digest of their content.
func (f Features) On(s Spec) (Spec, error) {
	data, err := f.Open()
	if err != nil {
		return s, err
	}
	for _, path := range []*string{&f.Features, &f.Labels, &f.TestFeatures, &f.TestLabels} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return s, err
		}
	}
	s.Recipe, s.Data, s.DataDigest = cmp.Or(s.Recipe, Recipe), f.Features, data.Digest
	s.Labels, s.TestFeatures, s.TestLabels = f.Labels, f.TestFeatures, f.TestLabels
	s.Size, s.TrainClasses, s.TestClasses = 0, 0, 0
	s.Reading = datasets.Reading{}
	keepFeatures(s.features(), data)
	return s, nil
}

// HasFeatures reports whether the data set of a spec consists of features, not images.
func (s Spec) HasFeatures() bool { return s.Labels != "" }

func (s Spec) features() Features { return Features{s.Data, s.Labels, s.TestFeatures, s.TestLabels} }

// validateFeatures reports what is wrong with a spec of features, beside its config.
func (s Spec) validateFeatures() error {
	switch {
	case s.DataDigest == "":
		return errors.New("the spec has features without their digest: set them by Features.On")
	case s.Size != 0 || s.TrainClasses != 0 || s.TestClasses != 0 || s.Reading != (datasets.Reading{}):
		return errors.New("the spec has features: image size, limits of classes and options of images must be 0")
	case s.Head == "" && s.Model == "":
		return fmt.Errorf("the spec has features and the backbone %s, which embeds images: want a head "+
			"(Config.WithHead) or a model of your own", s.Arch)
	}
	return nil
}

// TrainingData opens the data set of a spec as a trainer reads it, images or features, and says how many images were
// left out. It returns an error if the samples do not have the digest of the spec.
func TrainingData(s Spec, how DataOptions) (data *samples.Data, skipped int, err error) {
	if !s.HasFeatures() {
		var set *datasets.Set
		if set, err = OpenData(s, how); err != nil {
			return nil, 0, err
		}
		return samples.Images(set), len(set.Skipped), nil
	}
	opened.Lock()
	if opened.data != nil && opened.of == s.features() && opened.data.Digest == s.DataDigest {
		data = opened.data
	}
	opened.Unlock()
	if data == nil {
		if data, err = s.features().Open(); err != nil {
			return nil, 0, err
		}
		keepFeatures(s.features(), data)
	}
	if data.Digest != s.DataDigest {
		return nil, 0, fmt.Errorf("the features of %s have changed since the spec was made: make a new spec", s.Data)
	}
	return data, 0, nil
}

// opened are the features that were read last, since the seeds of a command read the same.
var opened struct {
	sync.Mutex
	of   Features
	data *samples.Data
}

func keepFeatures(of Features, data *samples.Data) {
	opened.Lock()
	defer opened.Unlock()
	opened.of, opened.data = of, data
}

package runs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Recipe is the version of everything that a spec does not contain: the sampler, the augmentation's random numbers, the
// drawn data sets and the layers. Raise it when one of them changes its numbers, so that a new recipe never returns
// an old result.
const Recipe = 1

// Spec contains everything that decides the numbers of a run, except for the rounding of the backend. Its hash names
// the run.
type Spec struct {
	Recipe int `json:"recipe"`

	// Data is the name of a data set or the path of a folder of images. A folder is identified by DataDigest, the digest
	// of its content, and not by its path. So is a published set with a Reading of its own. Size is the side of the square
	// images in pixels. TrainClasses and TestClasses limit the number of classes; 0 is all.
	Data       string `json:"data"`
	DataDigest string `json:"data_digest,omitempty"`
	// Labels, TestFeatures and TestLabels are the paths of further files if Data is that of a file of features; see
	// [Features]. DataDigest identifies the content of all of them.
	Labels       string `json:"labels,omitempty"`
	TestFeatures string `json:"test_features,omitempty"`
	TestLabels   string `json:"test_labels,omitempty"`
	Size         int    `json:"size"`
	TrainClasses int    `json:"train_classes,omitempty"`
	TestClasses  int    `json:"test_classes,omitempty"`
	// HeldOut keeps every HeldOut-th training class out of training; 0 keeps none. At the end the held-out images are
	// ranked against each other, to choose a learning rate by. See [train.Measures].HeldOutRecall.
	HeldOut int `json:"held_out,omitempty"`
	datasets.Reading

	train.Config
}

// Hash returns the first 12 hexadecimal digits of the SHA-256 of [Spec.Canonical].
func (s Spec) Hash() string { return durable.Sum(s.Canonical())[:12] }

// Canonical returns the spec as one line of JSON with a fixed order of keys. A folder of images or a file of features
// is reduced to its base name.
func (s Spec) Canonical() []byte {
	if s = s.Portable(); s.DataDigest != "" {
		s.Labels, s.TestFeatures, s.TestLabels = "", "", "" // The digest covers them.
	}
	s.NetworkFile = "" // Model has its digest.
	out, err := json.Marshal(s)
	if err != nil { // JSON has no NaN or Inf. Validate rejects them, so this hash names no run.
		return fmt.Appendf(nil, "%+v", s)
	}
	return out
}

// Portable returns the spec with the base names of the user's files, without their folders, which may tell whose they
// are. The hash stays the same.
func (s Spec) Portable() Spec {
	if s.DataDigest != "" {
		for _, path := range []*string{&s.Data, &s.Labels, &s.TestFeatures, &s.TestLabels} {
			*path = baseName(*path)
		}
	}
	s.NetworkFile = baseName(s.NetworkFile)
	return s
}

// DataName returns the name of the data set for people to read: of a folder or a file, the base name.
func (s Spec) DataName() string { return s.Portable().Data }

func baseName(path string) string {
	if path == "" {
		return ""
	}
	return filepath.Base(path)
}

// Ready is [Spec.Validate] for a spec that is about to be trained on this machine. If both the weights and a published
// data set are missing, the error is about the data set, because it takes longer to get.
func (s Spec) Ready() error {
	err := s.Validate()
	if err != nil && IsPublished(s.Data) {
		if _, missing := datasets.Find(s.Data, ""); missing != nil {
			return missing
		}
	}
	return err
}

// Validate returns an error if the spec cannot be trained on any data. [Feasible] also checks the data set.
func (s Spec) Validate() error {
	if s.Recipe != Recipe {
		return fmt.Errorf("the spec has recipe %d, but this program trains with recipe %d", s.Recipe, Recipe)
	}
	if s.Data == "" {
		return errors.New("the spec has no data set")
	}
	if s.Reading != (datasets.Reading{}) && s.DataDigest == "" {
		return errors.New("the spec allows missing images or crops them but has no data_digest: make the spec from a " +
			"preset, which computes it")
	}
	least := 8
	if s.HasFeatures() {
		if err := s.validateFeatures(); err != nil {
			return err
		}
		least = 0
	}
	if err := cmp.Or(errs.AtLeast("image size", s.Size, least), errs.AtLeast("train classes", s.TrainClasses, 0),
		errs.AtLeast("test classes", s.TestClasses, 0), errs.AtLeast("held-out classes", s.HeldOut, 0)); err != nil {
		return errs.Invalid(err)
	}
	if s.Size > 1<<14 {
		return errs.Invalid(fmt.Errorf("image size %d: want at most %d pixels", s.Size, 1<<14))
	}
	if s.HeldOut == 1 {
		return errs.Invalid(errors.New("every training class is held out: hold out every second or fewer"))
	}
	return s.Config.Validate()
}

package runs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Recipe is the version of everything that a spec does not say: sampler, augmentation, schedule, the synthetic sets,
// the layers. It is raised when one of them changes its numbers, so that no old result is served for a new recipe.
const Recipe = 1

// Spec says all that decides a run's numbers, up to the backend's rounding. Its hash names the run.
type Spec struct {
	Recipe int `json:"recipe"`

	// Data is a data set's name or the path of a folder of images. A folder is known by its content's digest, not by
	// where it lies; so is a published set that AllowPartial lets differ from what was published, or of which SkipBad leaves
	// out images that cannot be read. Size is the side of the square images. TrainClasses and TestClasses, if not 0, take fewer classes.
	Data         string `json:"data"`
	DataDigest   string `json:"data_digest,omitempty"`
	Size         int    `json:"size"`
	TrainClasses int    `json:"train_classes,omitempty"`
	TestClasses  int    `json:"test_classes,omitempty"`
	// HeldOut, if not 0, keeps every so many-th training class out of training, to choose a learning rate by: its images
	// are ranked against each other at the end. See [Result.HeldOutRecall].
	HeldOut      int  `json:"held_out,omitempty"`
	AllowPartial bool `json:"allow_partial,omitempty"`
	SkipBad      bool `json:"skip_bad,omitempty"`

	train.Config
}

// Hash is 12 hexadecimal digits of the SHA-256 of the spec's canonical form, [Spec.Canonical].
func (s Spec) Hash() string {
	sum := sha256.Sum256(s.Canonical())
	return hex.EncodeToString(sum[:])[:12]
}

// Canonical is the spec as one line of JSON with its keys in a fixed order and a folder by its name alone.
func (s Spec) Canonical() []byte {
	if s.DataDigest != "" {
		s.Data = filepath.Base(s.Data)
	}
	out, err := json.Marshal(s)
	if err != nil { // Only a value that Validate rejects: NaN or Inf as a learning rate.
		return fmt.Appendf(nil, "%+v", s)
	}
	return out
}

// Ready is [Spec.Validate] for a spec that is to be run here: of weights and a published data set that are both missing, the
// data set, the longer errand, is told first.
func (s Spec) Ready() error {
	err := s.Validate()
	if err != nil && IsPublished(s.Data) {
		if _, missing := datasets.Find(s.Data, ""); missing != nil {
			return missing
		}
	}
	return err
}

// Validate tells what is wrong with a spec before any work is done. What depends on the data is found when it is open.
func (s Spec) Validate() error {
	if s.Recipe != Recipe {
		return fmt.Errorf("recipe %d: this program trains by recipe %d", s.Recipe, Recipe)
	}
	if s.Data == "" {
		return errors.New("no data set given")
	}
	if (s.AllowPartial || s.SkipBad) && s.DataDigest == "" {
		return errors.New("a data set that may lack images, without its digest: take a spec from a preset")
	}
	err := train.AtLeast([]train.Bound{
		{Name: "image size", Value: s.Size, Least: 8}, {Name: "train classes", Value: s.TrainClasses}, {Name: "test classes", Value: s.TestClasses},
		{Name: "held-out classes", Value: s.HeldOut},
	})
	if err != nil {
		return err
	}
	if s.Size > 1<<14 {
		return fmt.Errorf("images of %d pixels: want at most %d", s.Size, 1<<14)
	}
	if s.HeldOut == 1 {
		return errors.New("every training class is held out: hold out every second or fewer")
	}
	return s.Config.Validate()
}

// WithRule returns the spec with another rule, which may be the user's own; see [Config.WithRule].
func (s Spec) WithRule(r dmlx.Rule) (out Spec, err error) {
	out = s
	out.Config, err = s.Config.WithRule(r)
	return out, err
}

// WithLoss returns the spec with a loss in the place of its rule; see [Config.WithLoss].
func (s Spec) WithLoss(loss, miner string) (out Spec, err error) {
	out = s
	out.Config, err = s.Config.WithLoss(loss, miner)
	return out, err
}

// WithExchange returns the spec with parts of its loss exchanged; see [Config.WithExchange].
func (s Spec) WithExchange(parts string) (out Spec, err error) {
	out = s
	out.Config, err = s.Config.WithExchange(parts)
	return out, err
}

// WithStart returns the spec with another backbone or start of it; see [Config.WithStart].
func (s Spec) WithStart(arch, weights string) (out Spec, err error) {
	out = s
	out.Config, err = s.Config.WithStart(arch, weights)
	return out, err
}

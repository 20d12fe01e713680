// Package datasets holds the images that networks learn from: two drawn sets, minicar and minishop, and any folder with
// one sub-folder of images per class.
//
// A drawn set needs no download: each image comes from a random stream of its own, so a set is the same however many
// cores draw it and at whatever size; bit for bit on one kind of processor, to a rounding on another. Drawn and decoded
// sets are kept in a cache folder and read back in milliseconds.
package datasets

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// Set is a data set for metric learning: classes to train on and, as a rule, others to test on.
type Set struct {
	// Name is that of a drawn set, or a folder's last element.
	Name string
	// Train is what the network learns from; Test is what retrieval is measured on: every image a query against all
	// others, or against Gallery if that is not nil.
	Train, Test, Gallery *Images
	// Mean and Std are those of the training pixels, on the scale 0..1, by which colours are normalised.
	Mean, Std [3]float32
	// TrainClasses and TestClasses are how many classes the splits have.
	TrainClasses, TestClasses int
	// Digest is the SHA-256 of all sizes, labels, names and pixels, in hexadecimal.
	Digest string
}

// Options say how a set is opened. The zero value is a good one.
type Options struct {
	// Size is the side of the square images in pixels; 32 if 0.
	Size int
	// Cache is the folder of drawn and decoded images; [CacheDir] if empty.
	Cache string
	// TrainClasses and TestClasses, if not 0, keep the first so many classes only.
	TrainClasses, TestClasses int
	// Note, if not nil, is told in one line what a user may want to know and is no error: a damaged cache that was made
	// anew, a class that was left out.
	Note func(string)
}

const (
	defaultSize      = 32
	minSize, maxSize = 8, 1024
	minClasses       = 2 // less leaves nothing to tell apart
)

// drawnSets are the sets that need no files, in the order of [Names].
var drawnSets = []struct {
	name                      string
	trainClasses, testClasses int
	splits                    func(trainClasses, testClasses int) [][]part
}{
	{"minicar", carTrainClasses, carTestClasses, minicar},
	{"minishop", shopTrainClasses, shopTestClasses, minishop},
}

// Names lists the sets that [Open] knows by name.
func Names() []string {
	var names []string
	for _, s := range drawnSets {
		names = append(names, s.name)
	}
	return names
}

// Open gives a set by its name, one of [Names], or by the path of a folder, which
//   - has one sub-folder of JPEG or PNG files per class, whose classes are split by name, the first half to train; or
//   - has folders train and test, or train, query and gallery, each with one sub-folder of images per class.
//
// Images of a folder are scaled, the shorter side to Size, and cut to their middle square.
func Open(name string, o Options) (*Set, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	for _, s := range drawnSets {
		if s.name != name {
			continue
		}
		if err := o.limit(name, s.trainClasses, s.testClasses); err != nil {
			return nil, err
		}
		return openDrawn(name, &o, s.splits(o.TrainClasses, o.TestClasses))
	}
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		return openFolder(name, &o)
	}
	what := fmt.Sprintf("no data set %q", name)
	switch {
	case err == nil:
		what = fmt.Sprintf("%s is a file", name)
	case strings.ContainsRune(name, filepath.Separator) && os.IsNotExist(err):
		what = fmt.Sprintf("no folder %s", name)
	case !os.IsNotExist(err):
		what = err.Error()
	}
	return nil, fmt.Errorf("datasets: %s; want %s, or the path of a folder with one sub-folder of JPEG or PNG files per class",
		what, strings.Join(Names(), ", "))
}

// Pretraining is the labelled images that a network learns to classify before it is fine-tuned: blobs, cars and clothes
// of classes that neither minicar nor minishop has. TrainClasses, if not 0, bounds the classes of each of the three
// kinds; TestClasses is ignored.
func Pretraining(o Options) (*Images, error) {
	o.TestClasses = 0
	if err := o.complete(); err != nil {
		return nil, err
	}
	set, err := openDrawn("pretraining", &o, [][]part{pretraining(o.TrainClasses)})
	if err != nil {
		return nil, err
	}
	return set.Train, nil
}

// complete fills in what was left 0 and refuses what cannot be.
func (o *Options) complete() error {
	if o.Size == 0 {
		o.Size = defaultSize
	}
	if o.Size < minSize || o.Size > maxSize {
		return fmt.Errorf("datasets: image size %d; want %d to %d", o.Size, minSize, maxSize)
	}
	for _, n := range []int{o.TrainClasses, o.TestClasses} {
		if n != 0 && n < minClasses {
			return fmt.Errorf("datasets: %d classes; want at least %d, or 0 for all", n, minClasses)
		}
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	return nil
}

// limit refuses more classes than the set has.
func (o *Options) limit(name string, train, test int) error {
	if o.TrainClasses > train {
		return fmt.Errorf("datasets: %d training classes wanted; %s has %d", o.TrainClasses, name, train)
	}
	if o.TestClasses > test {
		return fmt.Errorf("datasets: %d test classes wanted; %s has %d", o.TestClasses, name, test)
	}
	return nil
}

func openDrawn(name string, o *Options, splits [][]part) (*Set, error) {
	return openCached(name, drawnKey(sources, name, o.Size, splits...), o, func() ([]*Images, error) {
		drawn := make([]*Images, len(splits))
		for k, parts := range splits {
			drawn[k] = drawParts(o.Size, parts...)
		}
		return drawn, nil
	})
}

// newSet puts splits (train; train, test; or train, query, gallery) together.
func newSet(name string, splits []*Images, digest string) *Set {
	s := &Set{Name: name, Train: splits[0], Digest: digest, TrainClasses: splits[0].classes()}
	if len(splits) > 1 {
		s.Test, s.TestClasses = splits[1], splits[1].classes()
	}
	if len(splits) > 2 {
		s.Gallery = splits[2]
	}
	s.Mean, s.Std = s.Train.Stats()
	for _, im := range splits {
		for k, m := range s.Mean {
			im.Pad[k] = uint8(math.Round(float64(m) * 255))
		}
	}
	return s
}

// Package datasets holds the images that networks learn from: two drawn sets, minicar and minishop; the paper's CUB,
// CAR, SOP and In-shop in the layouts they are published in; and any folder with one sub-folder of images per class.
//
// A drawn set needs no download. Each image has its own random stream, so the set does not depend on the number of
// cores or on the image size: pixels agree bit for bit on one kind of processor, and to a rounding on another. The
// published sets are found by [List], fetched by [Get] where that can be done, and checked against the counts of their
// papers. Image files are decoded once, as torchvision would. Drawn and decoded sets are kept in a cache folder and
// read back in milliseconds, large ones by mapping the file into memory.
package datasets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/gradient-surgery/dml/datasets/internal/drawn"
)

// Set is a data set for metric learning: classes to train on and, as a rule, others to test on.
type Set struct {
	// Name is that of a drawn or published set, or a folder's last element.
	Name string
	// Train is the split to train on. Test is the split for retrieval: each of its images is a query against all others,
	// or against Gallery if that is not nil.
	Train, Test, Gallery *Images
	// Mean and Std are those of the training pixels by channel, on the scale 0..1; they normalize the colors.
	Mean, Std [3]float32
	// TrainClasses and TestClasses are the numbers of classes of the splits.
	TrainClasses, TestClasses int
	// Digest is the SHA-256 of all sizes, labels, names and pixels, in hexadecimal.
	Digest string
	// Skipped are the paths of damaged images that were left out, as [Options.SkipBad] allows.
	Skipped []string

	unmap func() error // If Pixels are a file's.
}

// Close unmaps the Pixels of a large set, which are a read-only mapped file; they must not be used afterward. It does
// nothing for a small set.
func (s *Set) Close() error {
	if s.unmap == nil {
		return nil
	}
	unmap := s.unmap
	s.unmap = nil
	return unmap()
}

// Reading says which images of a set are read, and how. The zero value reads a set whole and as it was published.
type Reading struct {
	// AllowPartial opens a published set with the images that are there, although it differs from the published one.
	AllowPartial bool `json:"allow_partial,omitempty"`
	// SkipBad leaves out images that cannot be decoded, instead of returning an error; see [Set.Skipped].
	SkipBad bool `json:"skip_bad,omitempty"`
	// CropBoxes cuts each image to its published box and scales that to a square, whatever its shape. CUB has boxes, and
	// CAR in the forms with annotations.
	CropBoxes bool `json:"crop_boxes,omitempty"`
}

// Options say how a set is opened. The zero value opens a set whole, at 32 pixels.
type Options struct {
	// Size is the side of the square images in pixels; 32 if 0.
	Size int
	// Filter is what images of files are scaled by. Images of drawn sets are not scaled.
	Filter Filter
	// Cache is the folder of drawn and decoded images; [CacheDir] if empty.
	Cache string
	// TrainClasses and TestClasses, if not 0, keep only that many classes, the first ones.
	TrainClasses, TestClasses int
	// Root is where a published set lies; see [List].
	Root string
	Reading
	// Note, if not nil, is called with one line about each thing that a user may want to know and that is no error: a
	// damaged cache that was made anew, a class that was left out.
	Note func(string)
	// Progress, if not nil, is called after each decoded image, one call at a time.
	Progress func(done, total int)
	// Context, if not nil, stops the decoding when it is done; no partial cache file is left.
	Context context.Context

	mapFrom int64 // In place of the constant, if not 0.
}

const (
	defaultSize      = 32
	minSize, maxSize = 8, 1024
	minClasses       = 2 // with fewer there are no negatives
)

// Names returns the names of the drawn sets, which [Open] makes.
func Names() []string {
	var names []string
	for _, s := range drawn.Sets {
		names = append(names, s.Name)
	}
	return names
}

// Open returns the set of a name, one of [Names] or [Published], or of the path of a folder, which
//   - has one sub-folder of JPEG or PNG files per class: the first half of the classes by name is to train on; or
//   - has folders train and test, or train, query and gallery, each with one sub-folder of images per class.
//
// Images of files are scaled, the shorter side to Size, and cut to their middle square; see [ReadImage].
func Open(name string, o Options) (*Set, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if _, ok := PublishedName(name); o.CropBoxes && !ok {
		return nil, fmt.Errorf("datasets: %s has no published boxes to crop to; CUB and CAR have", name)
	}
	for _, s := range drawn.Sets {
		if s.Name != name {
			continue
		}
		if err := o.limit(name, s.TrainClasses, s.TestClasses); err != nil {
			return nil, err
		}
		return openDrawn(name, &o, s.Splits(o.TrainClasses, o.TestClasses))
	}
	if published, ok := PublishedName(name); ok {
		return openPublished(published, &o)
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
	names := append(Names(), Published()...)
	text := fmt.Sprintf(
		"datasets: %s; want %s, or the path of a folder with one sub-folder of JPEG or PNG files per class",
		what, strings.Join(names, ", "))
	if err == nil || strings.ContainsRune(name, filepath.Separator) {
		return nil, errors.New(text) // Of a path, not of a name.
	}
	return nil, &NameError{name, names, text}
}

// NameError is the error for a name that no data set has.
type NameError struct {
	Name  string   // The one that was given.
	Names []string // Those that would do.
	text  string
}

func (e *NameError) Error() string { return e.text }

// notPublished returns the error for a name that none of the published sets has.
func notPublished(name string) error {
	names := Published()
	for _, s := range publishedSets {
		if !strings.EqualFold(s.Alias, s.Name) {
			names = append(names, s.Alias)
		}
	}
	return &NameError{name, names, fmt.Sprintf("datasets: no published set %q; there are %s", name,
		strings.Join(Published(), ", "))}
}

// Pretraining returns the labeled images that a network learns to classify before it is fine-tuned: blobs, cars and
// clothes of classes that neither minicar nor minishop has. TrainClasses, if not 0, bounds the classes of each of the
// three kinds; TestClasses is ignored.
func Pretraining(o Options) (*Images, error) {
	o.TestClasses = 0
	if err := o.complete(); err != nil {
		return nil, err
	}
	set, err := openDrawn("pretraining", &o, [][]drawn.Part{drawn.Pretraining(o.TrainClasses)})
	if err != nil {
		return nil, err
	}
	return set.Train, nil
}

// complete fills in the defaults and refuses values out of range.
func (o *Options) complete() error {
	o.Size, o.mapFrom = cmp.Or(o.Size, defaultSize), cmp.Or(o.mapFrom, mapFrom)
	if o.Size < minSize || o.Size > maxSize {
		return fmt.Errorf("datasets: image size %d; want %d to %d", o.Size, minSize, maxSize)
	}
	if err := o.Filter.Check(); err != nil {
		return err
	}
	for _, n := range []int{o.TrainClasses, o.TestClasses} {
		if n != 0 && n < minClasses {
			return fmt.Errorf("datasets: %d classes; want at least %d, or 0 for all", n, minClasses)
		}
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	if o.Context == nil {
		o.Context = context.Background()
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

// newSet returns the set of the splits: train; train and test; or train, query and gallery.
func newSet(name string, m *made) *Set {
	s := &Set{Name: name, Train: m.splits[0], Digest: m.digest, TrainClasses: m.splits[0].classes(), Mean: m.mean,
		Std:     m.std,
		Skipped: m.skipped, unmap: m.unmap}
	if len(m.splits) > 1 {
		s.Test, s.TestClasses = m.splits[1], m.splits[1].classes()
	}
	if len(m.splits) > 2 {
		s.Gallery = m.splits[2]
	}
	for _, im := range m.splits {
		for k, m := range s.Mean {
			im.Pad[k] = uint8(math.Round(float64(m) * 255))
		}
	}
	return s
}

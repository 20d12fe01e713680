package runs

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/gradient-surgery/dml/datasets"
)

// PaperName returns the name of a data set as the paper writes it. Other names, and paths of folders, are returned
// unchanged.
func PaperName(data string) string {
	if name, ok := datasets.PublishedName(data); ok {
		return name
	}
	return data
}

// IsPublished reports whether a name is that of one of the paper's data sets, which cannot be part of this repository.
func IsPublished(data string) bool {
	name, ok := datasets.PublishedName(data)
	return ok && name == data
}

var (
	setsMu sync.Mutex
	sets   = make(map[string]*datasets.Set) // Sets that are open: a few megabytes each, or memory-mapped.
)

// DataOptions control how a data set is opened. Its images may have to be decoded first. The zero value works.
type DataOptions struct {
	// Context, if not nil, cancels the decoding. The next call decodes all images again.
	Context context.Context
	// Decoded, if not nil, is called with the number of decoded images and the number of all images, one call at a time.
	Decoded func(data string, done, total int)
	// Warn, if not nil, receives one-line messages about things that are no error but may be a mistake, such as a class or
	// an image that is left out.
	Warn func(message string)
}

// OpenData opens the data set of a spec. Data sets stay open for later calls; a folder is read again unless the spec
// has its digest. It returns an error if the images do not have the digest of the spec.
func OpenData(s Spec, how DataOptions) (*datasets.Set, error) {
	if s.HasFeatures() {
		return nil, fmt.Errorf("%s has features, not images", s.Data)
	}
	o := datasets.Options{Size: s.Size, Filter: datasets.Filter(s.Preprocessing().Interpolation),
		TrainClasses: s.TrainClasses, TestClasses: s.TestClasses, Reading: s.Reading, Context: how.Context, Note: how.Warn}
	if how.Decoded != nil {
		o.Progress = func(done, total int) { how.Decoded(s.Data, done, total) }
	}
	data, named := s.Data, IsPublished(s.Data) || slices.Contains(datasets.Names(), s.Data)
	if path, err := filepath.Abs(data); err == nil && !named {
		data = path
	}
	setsMu.Lock()
	defer setsMu.Unlock()
	key := fmt.Sprint(data, datasets.DataDir(), o.Size, o.Filter, o.TrainClasses, o.TestClasses, o.Reading)
	set := sets[key]
	if set == nil || !named && s.DataDigest != set.Digest {
		var err error
		if set, err = datasets.Open(s.Data, o); err != nil {
			if how.Context != nil && how.Context.Err() != nil {
				err = fmt.Errorf("stopped while decoding the images of %s; the next call decodes all of them again: %w", s.Data,
					how.Context.Err())
			}
			return nil, err
		}
		sets[key] = set
	}
	if s.DataDigest != "" && s.DataDigest != set.Digest {
		return nil, fmt.Errorf("the images of %s have changed since the spec was made: make a new spec", s.Data)
	}
	return set, nil
}

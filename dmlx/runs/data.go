package runs

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/gradient-surgery/dml/datasets"
)

// paperName is a data set as the paper writes it; another's name, or a folder's, is left.
func PaperName(data string) string {
	if name, ok := datasets.PublishedName(data); ok {
		return name
	}
	return data
}

// isPublished tells the paper's data sets, which cannot be part of this repository.
func IsPublished(data string) bool {
	name, ok := datasets.PublishedName(data)
	return ok && name == data
}

var (
	setsMu sync.Mutex
	sets   = make(map[string]*datasets.Set) // Named sets, by what decides them: a few megabytes each, or mapped.
)

// Opening says how a data set is opened, whose images may have to be decoded first. The zero value is a good one.
type DataOptions struct {
	// Context, if not nil, ends the decoding when it is done. It begins anew the next time.
	Context context.Context
	// Decoded, if not nil, is told how many of how many images of a data set are decoded, one call at a time.
	Decoded func(data string, done, total int)
	// Warn, if not nil, is told in one line what is no error and may not be meant: a class or an image that is left out.
	Warn func(message string)
}

// ForgetData closes the data sets that are kept open, so that they are read again: their files may have changed.
func ForgetData() {
	setsMu.Lock()
	defer setsMu.Unlock()
	clear(sets)
}

// openSetWith opens a spec's data set. Images that are not those of the spec are an error.
func OpenData(s Spec, how DataOptions) (*datasets.Set, error) {
	o := datasets.Options{Size: s.Size, TrainClasses: s.TrainClasses, TestClasses: s.TestClasses, AllowPartial: s.AllowPartial, SkipBad: s.SkipBad,
		Context: how.Context, Note: how.Warn}
	if how.Decoded != nil {
		o.Progress = func(done, total int) { how.Decoded(s.Data, done, total) }
	}
	key := ""
	if IsPublished(s.Data) || slices.Contains(datasets.Names(), s.Data) {
		setsMu.Lock()
		defer setsMu.Unlock()
		key = fmt.Sprint(s.Data, datasets.DataDir(), o.Size, o.TrainClasses, o.TestClasses, o.AllowPartial, o.SkipBad)
	}
	var set *datasets.Set
	if key != "" {
		set = sets[key]
	}
	if set == nil {
		var err error
		if set, err = datasets.Open(s.Data, o); err != nil {
			if how.Context != nil && how.Context.Err() != nil {
				err = fmt.Errorf("stopped while the images of %s were decoded; they are decoded from the first again: %w", s.Data, how.Context.Err())
			}
			return nil, err
		}
		if key != "" {
			sets[key] = set
		}
	}
	if s.DataDigest != "" && s.DataDigest != set.Digest {
		return nil, fmt.Errorf("the images of %s have changed since the spec was made: make it again", s.Data)
	}
	return set, nil
}

// Feasible tells why a spec could not be trained on its data set, before any training: classes or images too few for its
// batches, too few classes left to measure, or whatever [Spec.Validate] rejects.
func Feasible(spec Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	set, err := OpenData(spec, DataOptions{})
	if err != nil {
		return err
	}
	return spec.Config.Fits(set, spec.HeldOut)
}

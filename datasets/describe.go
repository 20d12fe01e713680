package datasets

import (
	"fmt"
	"path/filepath"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

// ListFolder lists a folder of images as [Open] would read it, without its pixels. note, if not nil, is called with a
// line about each thing that is left out.
func ListFolder(dir string, note func(string)) (*Listing, error) {
	o := Options{Note: note}
	if err := o.complete(); err != nil {
		return nil, err
	}
	dir = filepath.Clean(dir)
	splits, err := listSplits(dir, &o)
	if err != nil {
		return nil, fmt.Errorf("datasets: %w", err)
	}
	return folderListing(dir, splits)
}

// Doubles returns groups of paths with the same content, and how many of these are both in train and in another split.
// It reads each file once. Of o, only Progress and Context are used.
func (l *Listing) Doubles(o Options) (doubles [][]string, across int, err error) {
	if err := o.complete(); err != nil {
		return nil, 0, err
	}
	paths := l.paths()
	sums := make([]string, len(paths))
	progress := newCounter(len(paths), o.Progress)
	err = forEach(len(paths), func() func(int) error {
		return func(i int) (err error) {
			if err := o.Context.Err(); err != nil {
				return err
			}
			if sums[i], err = durable.FileSum(filepath.Join(l.Root, filepath.FromSlash(paths[i]))); err != nil {
				return fmt.Errorf("%s: %w", paths[i], err)
			}
			progress.add()
			return nil
		}
	})
	if err != nil {
		return nil, 0, fmt.Errorf("datasets: %w", err)
	}
	trained := len(l.Splits[0].Paths) // Numbers below it are of train.
	groups := map[string][]int{}
	for i, sum := range sums {
		groups[sum] = append(groups[sum], i)
	}
	for i, sum := range sums {
		group := groups[sum]
		if len(group) < 2 || group[0] != i {
			continue
		}
		var names []string
		for _, k := range group {
			names = append(names, paths[k])
		}
		doubles = append(doubles, names)
		if group[0] < trained && group[len(group)-1] >= trained {
			across++
		}
	}
	return doubles, across, nil
}

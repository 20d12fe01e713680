package datasets

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"image"
	_ "image/jpeg" // Their headers are read.
	_ "image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
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

// Description is what the files of a [Listing] are, beside their classes.
type Description struct {
	// Bytes is the size of all files.
	Bytes int64 `json:"bytes"`
	// Smallest and Largest are pictures by their number of pixels, and Median is the one in the middle: width and height.
	Smallest [2]int `json:"smallest"`
	Median   [2]int `json:"median"`
	Largest  [2]int `json:"largest"`
	// Doubles are groups of paths with the same content.
	Doubles [][]string `json:"doubles"`
	// Across counts the groups of Doubles that are both in train and in another split.
	Across int `json:"across"`
	// Unread are the paths whose header is not that of a JPEG or PNG.
	Unread []string `json:"unread"`
}

// Describe reads each file once, without decoding its picture. Of o, only Progress and Context are used.
func (l *Listing) Describe(o Options) (*Description, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	paths := l.paths()
	sizes, sums, bytes := make([][2]int, len(paths)), make([][sha256.Size]byte, len(paths)), make([]int64, len(paths))
	progress := newCounter(len(paths), o.Progress)
	err := forEach(len(paths), func() func(int) error {
		return func(i int) error {
			if err := o.Context.Err(); err != nil {
				return err
			}
			file, err := os.Open(filepath.Join(l.Root, filepath.FromSlash(paths[i])))
			if err != nil {
				return err
			}
			defer file.Close()
			h := newHash()
			if config, _, err := image.DecodeConfig(io.TeeReader(file, h)); err == nil {
				sizes[i] = [2]int{config.Width, config.Height}
			}
			if _, err := io.Copy(h, file); err != nil {
				return fmt.Errorf("%s: %w", paths[i], err)
			}
			bytes[i], _ = file.Seek(0, io.SeekCurrent) // Where the copy ended.
			h.Sum(sums[i][:0])
			progress.add()
			return nil
		}
	})
	if err != nil {
		return nil, fmt.Errorf("datasets: %w", err)
	}
	d := &Description{Doubles: [][]string{}, Unread: []string{}}
	trained := len(l.Splits[0].Paths) // Numbers below it are of train.
	groups := map[[sha256.Size]byte][]int{}
	var read [][2]int
	for i := range paths {
		d.Bytes += bytes[i]
		groups[sums[i]] = append(groups[sums[i]], i)
		if sizes[i] == [2]int{} {
			d.Unread = append(d.Unread, paths[i])
		} else {
			read = append(read, sizes[i])
		}
	}
	slices.SortFunc(read, func(a, b [2]int) int { return cmp.Compare(a[0]*a[1], b[0]*b[1]) })
	if n := len(read); n > 0 {
		d.Smallest, d.Median, d.Largest = read[0], read[n/2], read[n-1]
	}
	for i := range paths {
		group := groups[sums[i]]
		if len(group) < 2 || group[0] != i {
			continue
		}
		var names []string
		for _, k := range group {
			names = append(names, paths[k])
		}
		d.Doubles = append(d.Doubles, names)
		if group[0] < trained && group[len(group)-1] >= trained {
			d.Across++
		}
	}
	return d, nil
}

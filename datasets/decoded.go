package datasets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// openPublished returns the set that [List] finds.
func openPublished(name string, o *Options) (*Set, error) {
	l, err := List(name, o.Root)
	if err != nil {
		return nil, err
	}
	if err := l.Complete(); err != nil {
		if !o.AllowPartial {
			return nil, fmt.Errorf("%w (--set allow_partial takes it as it is)", err)
		}
		o.Note(err.Error())
	}
	for k, what := range []string{"train", "test"} {
		if n, _ := l.Splits[k].Count(); n < minClasses {
			return nil, fmt.Errorf("datasets: %s in %s has %s to %s on; want at least %d", name, l.Root, count(n, "class"),
				what, minClasses)
		}
	}
	if err := o.limit(name, len(l.Splits[0].Classes), len(l.Splits[1].Classes)); err != nil {
		return nil, err
	}
	l.limit(o.TrainClasses, o.TestClasses)
	if o.CropBoxes {
		for _, s := range l.Splits {
			if len(s.Boxes) != len(s.Paths) {
				return nil, fmt.Errorf("datasets: %s in %s has no boxes to crop to; want CUB's bounding_boxes.txt or the "+
					"annotations of CAR", name, l.Root)
			}
		}
	}
	set, err := openListing(name, l, o)
	if err != nil {
		return nil, fmt.Errorf("datasets: %s: %w", name, err)
	}
	return set, nil
}

// openListing returns the set of the listed images, decoded now or read from the cache. name begins the cache file's
// name.
func openListing(name string, l *Listing, o *Options) (*Set, error) {
	key, err := listingKey(decoders, l, o)
	if err != nil {
		return nil, err
	}
	splits := make([]*Images, len(l.Splits))
	for k, s := range l.Splits {
		splits[k] = &Images{N: len(s.Paths), Size: o.Size, Labels: s.Labels, Names: s.Classes}
	}
	c := cached{name: name, key: key, o: o, patient: true}
	set, err := c.openLarge(splits, func(put func(i int, pixels []uint8) error) ([]string, []bool, error) {
		return decodeAll(l, o, put)
	})
	if err != nil {
		return nil, err
	}
	if n := len(set.Skipped); n > 0 {
		what := fmt.Sprintf("%s of %s cannot be decoded: %s", count(n, "image"), l.Root, list(set.Skipped))
		if !o.SkipBad {
			_ = set.Close()
			return nil, fmt.Errorf("%s; repair them, or leave them out by --set skip_bad", what)
		}
		o.Note("datasets: left out: " + what)
	}
	return set, nil
}

// listingKey returns the cache key of decoded images: a hash of the decoding code, the labels, and the files' names,
// sizes and times. Hashing the files' contents would take as long as decoding them.
func listingKey(code fs.FS, l *Listing, o *Options) (string, error) {
	abs, err := filepath.Abs(l.Root)
	if err != nil {
		return "", err
	}
	h := newHash()
	hashSources(h, code)
	fmt.Fprintf(h, "%q %d\n", abs, o.Size)
	if o.Filter == Bicubic {
		fmt.Fprintln(h, o.Filter)
	}
	for _, s := range l.Splits {
		fmt.Fprintf(h, "%q\n", s.Classes)
		for i, name := range s.Paths {
			info, err := os.Stat(filepath.Join(l.Root, filepath.FromSlash(name)))
			if err != nil {
				return "", err
			}
			fmt.Fprintf(h, "%q %d %d %d\n", name, s.Labels[i], info.Size(), info.ModTime().UnixNano())
		}
		fmt.Fprintln(h)
		if o.CropBoxes {
			fmt.Fprintln(h, s.Boxes)
		}
	}
	return hexDigest(h), nil
}

// paths returns the paths of all splits, one after the other.
func (l *Listing) paths() []string {
	var all []string
	for _, s := range l.Splits {
		all = append(all, s.Paths...)
	}
	return all
}

// decodeAll decodes the images and puts each, a square of o.Size. A damaged image is an error, or with o.SkipBad is
// returned by path and marked.
func decodeAll(l *Listing, o *Options, put func(i int, pixels []uint8) error) (skipped []string, bad []bool,
	err error) {
	var boxes []Rectangle
	for _, s := range l.Splits {
		boxes = append(boxes, s.Boxes...)
	}
	paths := l.paths()
	bad = make([]bool, len(paths))
	err = l.decode(o, func() func(i int, raster *Raster, err error) error {
		square := make([]uint8, o.Size*o.Size*3)
		return func(i int, raster *Raster, err error) error {
			if err == nil && o.CropBoxes {
				raster, err = raster.crop(boxes[i])
			}
			switch {
			case err != nil && o.SkipBad && errors.As(err, new(damage)):
				bad[i] = true
				return nil
			case err != nil:
				return fmt.Errorf("%s: %w", filepath.Join(l.Root, paths[i]), err)
			case o.CropBoxes:
				raster.scale(square, o.Size, o.Size, 0, 0, o.Size, o.Filter)
			default:
				raster.square(square, o.Size, o.Size, o.Filter)
			}
			return put(i, square)
		}
	})
	for i, is := range bad {
		if is {
			skipped = append(skipped, paths[i])
		}
	}
	return skipped, bad, err
}

// Warned counts and names the images that were read though something is wrong with them, given the [Raster].Warning of
// each; "" without any.
func Warned(paths, warnings []string) string {
	var names []string
	for i, w := range warnings {
		if w != "" {
			names = append(names, fmt.Sprintf("%s (%s)", paths[i], w))
		}
	}
	if names == nil {
		return ""
	}
	return fmt.Sprintf("%s read all the same: %s", count(len(names), "image"), list(names))
}

// decode opens every listed image on all cores and has it used, or the error that it cannot be decoded for; each worker
// makes a use of its own. What is wrong with images that were read all the same is noted in the end.
func (l *Listing) decode(o *Options, worker func() (use func(i int, r *Raster, err error) error)) error {
	paths := l.paths()
	warnings := make([]string, len(paths))
	var mu sync.Mutex
	var done int
	err := forEach(len(paths), func() func(int) error {
		use := worker()
		return func(i int) error {
			if err := o.Context.Err(); err != nil {
				return err
			}
			raster, err := decodeFile(filepath.Join(l.Root, paths[i]))
			if err == nil {
				warnings[i] = raster.Warning
			}
			if err := use(i, raster, err); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done++
			o.Progress(done, len(paths))
			return nil
		}
	})
	if text := Warned(paths, warnings); text != "" && err == nil {
		o.Note("datasets: " + l.Root + ": " + text)
	}
	return err
}

// Damaged opens every listed image and returns a line for each that cannot be decoded, in order. Of o, only Progress,
// Note and Context are used.
func (l *Listing) Damaged(o Options) ([]string, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	paths := l.paths()
	wrong := make([]string, len(paths))
	err := l.decode(&o, func() func(int, *Raster, error) error {
		return func(i int, _ *Raster, err error) error {
			if err != nil {
				wrong[i] = fmt.Sprintf("%s: %v", paths[i], err)
			}
			return nil
		}
	})
	return slices.DeleteFunc(wrong, func(line string) bool { return line == "" }), err
}

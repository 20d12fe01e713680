package datasets

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

// class is a sub-folder: its name and its files' paths, sorted.
type class struct {
	name  string
	files []string
}

// openFolder returns the set of a folder's images, split by class or by its sub-folders.
func openFolder(dir string, o *Options) (*Set, error) {
	dir = filepath.Clean(dir)
	set, err := readFolder(dir, o)
	if err != nil {
		return nil, fmt.Errorf("datasets: %w", err)
	}
	return set, nil
}

func readFolder(dir string, o *Options) (*Set, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	splits, err := listSplits(dir, o)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range slices.Concat(splits...) {
		names = append(names, c.name)
	}
	if err := durable.Alike(names); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	l, err := folderListing(dir, splits)
	if err != nil {
		return nil, err
	}
	set, err := openListing("folder", l, o)
	if err != nil {
		return nil, err
	}
	set.Name = filepath.Base(abs)
	return set, nil
}

// folderListing numbers the classes. Queries and gallery share their numbers.
func folderListing(dir string, splits [][]class) (*Listing, error) {
	l := &Listing{Name: filepath.Base(dir), Root: dir}
	var names []string
	numbers := map[string]int64{}
	for k, classes := range splits {
		if k < 2 {
			names = nil
			clear(numbers)
		}
		s := Split{Name: []string{"train", "test", "gallery"}[k]}
		for _, c := range classes {
			label, known := numbers[c.name]
			if !known {
				label = int64(len(names))
				numbers[c.name] = label
				names = append(names, c.name)
			}
			for _, file := range c.files {
				below, err := filepath.Rel(dir, file)
				if err != nil {
					return nil, err
				}
				s.Paths = append(s.Paths, filepath.ToSlash(below))
				s.Labels = append(s.Labels, label)
			}
		}
		s.Classes = names
		l.Splits = append(l.Splits, s)
	}
	if len(l.Splits) == 3 {
		l.Splits[1].Name, l.Splits[1].Classes = "query", names
	}
	return l, nil
}

// listSplits returns the classes of train and test, or of train, query and gallery, and notes what it leaves out.
func listSplits(dir string, o *Options) ([][]class, error) {
	has := func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && info.IsDir()
	}
	var splits [][]class
	switch {
	case has("train") && has("test") && (has("query") || has("gallery")):
		return nil, fmt.Errorf("%s has a test folder and a query or gallery folder; want one or the other", dir)
	case has("train") && (has("test") || has("query") && has("gallery")):
		names := []string{"train", "test"}
		if !has("test") {
			names = []string{"train", "query", "gallery"}
		}
		for _, name := range names {
			classes, err := listClasses(filepath.Join(dir, name), o)
			if err != nil {
				return nil, err
			}
			splits = append(splits, classes)
		}
	default:
		classes, err := listClasses(dir, o)
		if err != nil {
			if has("train") {
				err = fmt.Errorf("%w; beside train there must be test, or query and gallery", err)
			}
			return nil, err
		}
		classes = dropLone(dir, classes, o)
		if len(classes) < 2*minClasses {
			return nil, fmt.Errorf("%s has %s with at least 2 images; want at least %d, half of them to test on", dir,
				count(len(classes), "class"), 2*minClasses)
		}
		half := len(classes) / 2
		splits = [][]class{classes[:half], classes[half:]}
	}

	// An image without another of its class has no positive and cannot be found. In a gallery it is still a distractor.
	splits[0] = dropLone(filepath.Join(dir, "train"), splits[0], o)
	if len(splits) == 2 {
		splits[1] = dropLone(filepath.Join(dir, "test"), splits[1], o)
	}
	for k, what := range []string{"train", "test"} {
		if n := len(splits[k]); n < minClasses {
			return nil, fmt.Errorf("%s has %s to %s on; want at least %d, each of at least 2 images", dir, count(n, "class"),
				what, minClasses)
		}
	}
	if err := o.limit(dir, len(splits[0]), len(splits[1])); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "datasets: "))
	}
	if o.TrainClasses > 0 {
		splits[0] = splits[0][:o.TrainClasses]
	}
	if o.TestClasses > 0 {
		splits[1] = splits[1][:o.TestClasses]
		if len(splits) == 3 {
			splits[2] = common(splits[2], splits[1])
		}
	}
	if both := common(splits[0], splits[1]); len(both) > 0 {
		o.Note(fmt.Sprintf("datasets: %s: %s both to train and to test on", dir, count(len(both), "class")))
	}
	if len(splits) == 3 && len(common(splits[1], splits[2])) == 0 {
		return nil, fmt.Errorf("%s: no class is in both query and gallery", dir)
	}
	return splits, nil
}

// listClasses lists dir's sub-folders that hold images, and notes what it leaves out.
func listClasses(dir string, o *Options) ([]class, error) {
	top, err := readTree(dir)
	if err != nil {
		return nil, err
	}
	var classes []class
	var empty, deeper []string
	for _, f := range top.folders {
		name := f.path
		for _, within := range f.folders {
			deeper = append(deeper, within.paths()...)
		}
		if len(f.images) == 0 {
			empty = append(empty, name)
			continue
		}
		c := class{name: name}
		for _, image := range f.images {
			c.files = append(c.files, filepath.Join(dir, name, image))
		}
		classes = append(classes, c)
	}
	left := top.leftOut()
	if len(classes) == 0 {
		fail := fmt.Sprintf("%s has no sub-folders with JPEG or PNG files; want one per class", dir)
		where := top.deeper(dir)
		switch {
		case where != "":
			return nil, fmt.Errorf("%s: %s", fail, where)
		case len(top.images) > 0:
			return nil, fmt.Errorf("%s has images but no sub-folders with images; want one sub-folder per class", dir)
		case len(left) > 0:
			return nil, fmt.Errorf("%s; it has %s", fail, endings(left))
		}
		return nil, errors.New(fail)
	}
	for _, n := range []struct{ what, names string }{
		{"without images", list(empty)}, {"in folders within classes", endings(deeper)},
		{unread, endings(left)}, {"in no class", endings(top.images)},
	} {
		if n.names != "" {
			o.Note(fmt.Sprintf("datasets: %s: left out, %s: %s", dir, n.what, n.names))
		}
	}
	return classes, nil
}

// dropLone leaves out classes of a single image.
func dropLone(dir string, classes []class, o *Options) []class {
	var kept []class
	var lone []string
	for _, c := range classes {
		if len(c.files) < 2 {
			lone = append(lone, c.name)
			continue
		}
		kept = append(kept, c)
	}
	if len(lone) > 0 {
		o.Note(fmt.Sprintf("datasets: %s: left out, with a single image: %s", dir, list(lone)))
	}
	return kept
}

// common returns the classes of a whose names b has too.
func common(a, b []class) []class {
	names := map[string]bool{}
	for _, c := range b {
		names[c.name] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(c class) bool { return !names[c.name] })
}

// count returns "1 class", "2 classes", "1 image", …
func count(n int, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "s"):
		what += "es"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// list returns the first names and the number of the others.
func list(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

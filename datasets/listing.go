package datasets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Listing is a data set as its folder and its lists describe it, before any image is opened.
type Listing struct {
	// Name is that of a published set, as in the paper, or a folder's last element.
	Name string
	// Root is the folder that paths start from.
	Root string
	// Splits are train and test, or train, query and gallery.
	Splits []Split
	// Missing are the images that the set's lists name and its folder lacks; they are in no split.
	Missing []string
	// Differs are the differences from the published set, a clause each. It is empty if there are none.
	Differs []string
}

// Split is a part of a [Listing]. Its order is that of the set's own lists, or of names in a folder.
type Split struct {
	Name    string   // train, test, query or gallery
	Classes []string // Names by label. A query and its gallery share them.
	Paths   []string // of the images, below Root and with slashes
	Labels  []int64  // of the images
	// Boxes are the published boxes of the objects, one for each of Paths, or nil if the set's files here have none.
	Boxes []Rectangle
}

// Count returns the number of classes that have images, and the number of images.
func (s *Split) Count() (classes, images int) {
	return distinct(s.Labels, len(s.Classes)), len(s.Labels)
}

// distinct returns how many of the labels 0 … n−1 occur.
func distinct(labels []int64, n int) int {
	seen := make([]bool, n)
	count := 0
	for _, l := range labels {
		if !seen[l] {
			seen[l] = true
			count++
		}
	}
	return count
}

// publishedSet is one of the paper's data sets, whose files have to be fetched.
type publishedSet struct {
	Source
	folders []string // in which its archives unpack, below where it lies
	counts  []counts // as published
	by      string   // whose counts these are
	// index tells whether dir holds the set's lists; list reads them.
	index func(dir string) bool
	list  func(dir string) (*Listing, error)
	// mistaken says what dir holds in place of the set, if that is known; else "".
	mistaken func(dir string) string
}

// counts are those of a split.
type counts struct {
	split           string
	classes, images int
}

// publishedSets are in the order of [Published]. Classes are split as Oh Song et al. (CVPR 2016, §5) do.
var publishedSets = []*publishedSet{&cub, &cars, &sop, &inshop}

// Published returns the paper's names of its data sets.
func Published() []string {
	names := make([]string, len(publishedSets))
	for i, s := range publishedSets {
		names[i] = s.Name
	}
	return names
}

// PublishedName returns the paper's name of a set, given that name or its short form (cub, cars, sop, inshop) in any
// case, and whether there is such a set.
func PublishedName(name string) (string, bool) {
	if s := published(name); s != nil {
		return s.Name, true
	}
	return "", false
}

func published(name string) *publishedSet {
	for _, s := range publishedSets {
		if strings.EqualFold(name, s.Name) || strings.EqualFold(name, s.Alias) {
			return s
		}
	}
	return nil
}

// DataEnv is the environment variable with the folder of the published sets. Without it, the folder is data.
const DataEnv = "DMLX_DATA"

// DataDir returns the folder of the published sets: the value of [DataEnv], else data.
func DataDir() string {
	if dir := os.Getenv(DataEnv); dir != "" {
		return dir
	}
	return "data"
}

// Find returns the folder of a published set below root, where [List] looks too. It reads no list, so it is quick.
func Find(name, root string) (string, error) {
	set := published(name)
	if set == nil {
		return "", notPublished(name)
	}
	if root == "" {
		root = DataDir()
	}
	dir, err := set.locate(root)
	if err != nil {
		return "", fmt.Errorf("datasets: %w", err)
	}
	return dir, nil
}

// List reads the lists of a published set and checks which of its images are there. The set lies in root, or below it
// in a folder with its name or its archive's; root is [DataDir] if empty. A set that differs from the published one is
// listed as it is, with the differences in Differs.
func List(name, root string) (*Listing, error) {
	dir, err := Find(name, root)
	if err != nil {
		return nil, err
	}
	set := published(name)
	l, err := set.read(dir)
	if err != nil {
		return nil, fmt.Errorf("datasets: %s: %w", set.Name, err)
	}
	return l, nil
}

// read is [List] of the set in the folder where it was located.
func (s *publishedSet) read(dir string) (*Listing, error) {
	l, err := s.list(dir)
	if err != nil {
		return nil, err
	}
	l.Name, l.Root = s.Name, dir
	l.Differs = append(l.Differs, s.compare(l)...)
	return l, nil
}

// Complete returns an error with all differences if a published set is not as it was published, else nil.
func (l *Listing) Complete() error {
	if len(l.Differs) == 0 {
		return nil
	}
	by := ""
	if set := published(l.Name); set != nil {
		by = " (" + set.by + ")"
	}
	return fmt.Errorf("datasets: %s in %s is not as published%s: %s", l.Name, l.Root, by, strings.Join(l.Differs, "; "))
}

// locate returns the set's folder: the first folder with one of its names that has its lists, or root itself.
func (s *publishedSet) locate(root string) (string, error) {
	var mistaken string
	var looked []string // Folders of the set's names without its lists.
	for _, base := range []string{s.Name, s.Alias, "."} {
		for _, folder := range append(slices.Clone(s.folders), ".") {
			dir := filepath.Join(root, base, folder)
			if info, err := os.Stat(dir); err != nil || !info.IsDir() {
				continue
			}
			if s.index(dir) {
				return dir, nil
			}
			if dir != filepath.Clean(root) && !slices.Contains(looked, dir) {
				looked = append(looked, dir)
			}
			if s.mistaken != nil && mistaken == "" {
				if what := s.mistaken(dir); what != "" {
					mistaken = fmt.Sprintf("%s holds %s; ", dir, what)
				}
			}
		}
	}
	what := fmt.Sprintf("the data set %s is not in the folder %s, as %s or under its archive's name: ", s.Name, root,
		s.Alias)
	if _, err := os.Stat(root); err != nil {
		what = fmt.Sprintf("the data set %s is not here, there is no folder %s: ", s.Name, root)
	}
	if len(looked) > 0 && mistaken == "" {
		mistaken = "its lists are not in " + list(looked) + "; "
	}
	return "", errors.New(what + mistaken + s.advice(root))
}

// compare returns the differences of a listing's counts from the published ones.
func (s *publishedSet) compare(l *Listing) (differs []string) {
	for i, want := range s.counts {
		classes, images := 0, 0
		if i < len(l.Splits) {
			classes, images = l.Splits[i].Count()
		}
		if classes != want.classes || images != want.images {
			differs = append(differs, fmt.Sprintf("%s has %s and %s, published are %d and %d", want.split,
				count(classes, "class"), count(images, "image"), want.classes, want.images))
		}
	}
	if len(l.Missing) > 0 {
		differs = append(differs, fmt.Sprintf(
			"%s of its lists %s not there (%s): the archive was unpacked in part, or elsewhere",
			count(len(l.Missing), "image"), isAre(len(l.Missing)), list(l.Missing)))
	}
	return differs
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// splitter builds a listing from entries in the order of a set's lists.
type splitter struct {
	l       Listing
	present map[string]map[string]bool // Names of the files of each folder.
	seen    map[string]bool            // Paths so far.
	numbers []map[string]int64         // Labels by class, of each split.
	boxes   map[string]Rectangle       // Boxes by path, if the set's files have them.
}

// newSplitter begins a listing with these splits; query and gallery share their labels.
func newSplitter(root string, splits ...string) *splitter {
	s := &splitter{l: Listing{Root: root}, present: map[string]map[string]bool{}, seen: map[string]bool{}}
	for _, name := range splits {
		s.l.Splits = append(s.l.Splits, Split{Name: name})
		s.numbers = append(s.numbers, map[string]int64{})
	}
	if len(splits) == 3 {
		s.numbers[2] = s.numbers[1]
	}
	return s
}

// add takes an image into a split, or counts it as missing. Labels are in the order in which classes come.
func (s *splitter) add(split int, class, name string) error {
	if !localPath(name) {
		return fmt.Errorf("image %q: want a path inside the data set's folder", name)
	}
	if s.seen[name] {
		return fmt.Errorf("image %s is listed twice", name)
	}
	s.seen[name] = true
	label, known := s.numbers[split][class]
	if !known {
		label = int64(len(s.numbers[split]))
		s.numbers[split][class] = label
		at := &s.l.Splits[split]
		if split > 0 { // Of query and gallery, query holds the names till the end.
			at = &s.l.Splits[1]
		}
		at.Classes = append(at.Classes, class)
	}
	there, err := s.there(name)
	if err != nil {
		return err
	}
	if !there {
		s.l.Missing = append(s.l.Missing, name)
		return nil
	}
	at := &s.l.Splits[split]
	at.Paths = append(at.Paths, name)
	at.Labels = append(at.Labels, label)
	if s.boxes != nil {
		at.Boxes = append(at.Boxes, s.boxes[name])
	}
	return nil
}

// there tells whether a file is in the set's folder. Folders are read once: a look at each file would take minutes on a
// network's disk.
func (s *splitter) there(name string) (bool, error) {
	dir := path.Dir(name)
	names, read := s.present[dir]
	if !read {
		entries, err := os.ReadDir(filepath.Join(s.l.Root, filepath.FromSlash(dir)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		names = make(map[string]bool, len(entries))
		for _, e := range entries {
			names[e.Name()] = !e.IsDir()
		}
		s.present[dir] = names
	}
	return names[path.Base(name)], nil
}

// listing returns the finished listing.
func (s *splitter) listing() *Listing {
	if len(s.l.Splits) == 3 {
		s.l.Splits[2].Classes = s.l.Splits[1].Classes
	}
	return &s.l
}

// localPath tells whether a path of a list stays in its folder, on every system.
func localPath(name string) bool {
	return fs.ValidPath(name) && name != "." && !strings.ContainsAny(name, `\:`) &&
		filepath.IsLocal(filepath.FromSlash(name))
}

// limit keeps the first classes of train and of test.
func (l *Listing) limit(train, test int) {
	for k := range l.Splits {
		s, n := &l.Splits[k], test
		if k == 0 {
			n = train
		}
		if n == 0 || n >= len(s.Classes) {
			continue
		}
		s.Classes = s.Classes[:n]
		var paths []string
		var labels []int64
		var boxes []Rectangle
		for i, label := range s.Labels {
			if label < int64(n) {
				paths, labels = append(paths, s.Paths[i]), append(labels, label)
				if s.Boxes != nil {
					boxes = append(boxes, s.Boxes[i])
				}
			}
		}
		s.Paths, s.Labels, s.Boxes = paths, labels, boxes
	}
}

// isFile tells whether a name below a folder is a regular file.
func isFile(dir string, name ...string) bool {
	info, err := os.Stat(filepath.Join(append([]string{dir}, name...)...))
	return err == nil && info.Mode().IsRegular()
}

func isDir(dir string, name ...string) bool {
	info, err := os.Stat(filepath.Join(append([]string{dir}, name...)...))
	return err == nil && info.IsDir()
}

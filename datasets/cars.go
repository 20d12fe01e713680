package datasets

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/datasets/internal/mat5"
)

// cars is CARS-196: photographs of 196 models of cars. It has been given out in three forms:
//   - cars_annos.mat beside car_ims/;
//   - a devkit with cars_train_annos.mat, cars_test_annos_withlabels.mat and cars_meta.mat, beside cars_train/ and
//     cars_test/;
//   - one folder per class, perhaps below train/ and test/, which split images, not classes.
var cars = publishedSet{
	name: "CAR", alias: "cars", folders: carsRoots,
	counts: []counts{{"train", 98, 8054}, {"test", 98, 8131}},
	by:     "Krause et al., 3dRR 2013; split of Oh Song et al., CVPR 2016",
	index: func(dir string) bool {
		return isFile(dir, carsAll) || firstFile(dir, carsTrain...) != "" || areCars(dir, carFolders(dir))
	},
	list: listCars,
	mistaken: func(dir string) string {
		for _, images := range []string{"car_ims", "cars_train", "cars_test"} {
			if isDir(dir, images) {
				return "images but neither cars_annos.mat nor the devkit's cars_train_annos.mat"
			}
		}
		return ""
	},
	origin: origin{
		page: "https://www.kaggle.com/datasets/jutrera/stanford-car-dataset-by-classes-folder",
		// The authors' own page is gone. No size or checksum of this file is stated anywhere.
		archive: archive{file: "CARS196.zip", url: "http://ftp.cs.stanford.edu/cs/cvgl/CARS196.zip"},
		want: "car_ims.tgz with cars_annos.mat, or the devkit with cars_train/ and cars_test/, " +
			"or one folder of images per class",
	},
}

// carsRoots are folders that the archives unpack in.
var carsRoots = []string{"cars196", "CARS196", "Cars196", "stanford_cars", "StanfordCars", "cars", "car_data",
	"car_data/car_data"}

const carsAll = "cars_annos.mat"

// Where the devkit's files have been seen to lie.
var (
	carsTrain = []string{"devkit/cars_train_annos.mat", "cars_train_annos.mat",
		"car_devkit/devkit/cars_train_annos.mat"}
	carsTest = []string{"devkit/cars_test_annos_withlabels.mat", "cars_test_annos_withlabels.mat",
		"car_devkit/devkit/cars_test_annos_withlabels.mat"}
	carsTestBare = []string{"devkit/cars_test_annos.mat", "cars_test_annos.mat", "car_devkit/devkit/cars_test_annos.mat"}
	carsMeta     = []string{"devkit/cars_meta.mat", "cars_meta.mat", "car_devkit/devkit/cars_meta.mat"}
)

const (
	carsClasses = 196
	// The first 98 classes are to train on: up to Eagle Talon Hatchback 1998.
	carsTrainClasses = 98
	// carsFirstTest comes before the names of the classes to test on, and after those to train on, byte by byte: the
	// first of them is FIAT 500 Abarth 2012.
	carsFirstTest = "FIAT"
)

func listCars(dir string) (*Listing, error) {
	switch {
	case isFile(dir, carsAll) && (isDir(dir, "car_ims") || firstFile(dir, carsTrain...) == ""):
		return listCarsAll(dir) // Some copies have both lists, and the images of one.
	case firstFile(dir, carsTrain...) != "":
		return listCarsDevkit(dir)
	}
	return listCarFolders(dir, carFolders(dir))
}

// carImage is an image of the lists.
type carImage struct {
	file  string
	class int // from 1
	box   *Rectangle
}

// listCarsAll reads cars_annos.mat: annotations with relative_im_path and class, and class_names.
func listCarsAll(dir string) (*Listing, error) {
	m, err := readMat(dir, carsAll)
	if err != nil {
		return nil, err
	}
	s := newSplitter(dir, "train", "test")
	images, err := carsOf(m["annotations"], "relative_im_path")
	if err == nil {
		err = s.addCars(images, m["class_names"], func(file string) []string { return []string{file} })
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", carsAll, err)
	}
	return s.listing(), nil
}

// listCarsDevkit reads the devkit's two lists: annotations with fname and class.
func listCarsDevkit(dir string) (*Listing, error) {
	test := firstFile(dir, carsTest...)
	if test == "" { // Some copies have the labels in the other file.
		test = firstFile(dir, carsTestBare...)
	}
	if test == "" {
		return nil, fmt.Errorf("no file cars_test_annos_withlabels.mat in %s", dir)
	}
	var names *mat5.Array
	if meta := firstFile(dir, carsMeta...); meta != "" {
		m, err := readMat(dir, meta)
		if err != nil {
			return nil, err
		}
		names = m["class_names"]
	}
	s := newSplitter(dir, "train", "test")
	for _, part := range []struct{ list, folder string }{{firstFile(dir, carsTrain...), "cars_train"},
		{test, "cars_test"}} {
		m, err := readMat(dir, part.list)
		if err != nil {
			return nil, err
		}
		images, err := carsOf(m["annotations"], "fname")
		if err == nil {
			err = s.addCars(images, names, func(file string) []string {
				return []string{part.folder + "/" + file, part.folder + "/" + part.folder + "/" + file}
			})
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.list, err)
		}
	}
	return s.listing(), nil
}

// carsOf reads the images of a structure array.
func carsOf(a *mat5.Array, file string) ([]carImage, error) {
	if a == nil || len(a.Structs) == 0 {
		return nil, errors.New("no structure annotations in it")
	}
	images := make([]carImage, len(a.Structs))
	for i, s := range a.Structs {
		name, class := s[file], s["class"]
		if name == nil || name.Text == "" {
			return nil, fmt.Errorf("annotation %d has no %s", i+1, file)
		}
		if class == nil || len(class.Numbers) != 1 {
			return nil, fmt.Errorf("annotation %d, %s, has no class: want cars_test_annos_withlabels.mat", i+1, clip(name.Text))
		}
		c := class.Numbers[0]
		if c < 1 || c > carsClasses || c != float64(int(c)) {
			return nil, fmt.Errorf("annotation %d, %s: class %g; want 1 to %d", i+1, clip(name.Text), c, carsClasses)
		}
		images[i] = carImage{name.Text, int(c), carBox(s)}
	}
	return images, nil
}

// carBox is the box of an annotation, whose corners bbox_x1 … bbox_y2 are inclusive and counted from 1, or nil.
func carBox(s map[string]*mat5.Array) *Rectangle {
	var v [4]int
	for k, field := range []string{"bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2"} {
		a := s[field]
		if a == nil || len(a.Numbers) != 1 || !(a.Numbers[0] >= 0 && a.Numbers[0] <= MaxResize) {
			return nil
		}
		v[k] = int(a.Numbers[0])
	}
	left, top := max(0, v[0]-1), max(0, v[1]-1)
	return &Rectangle{left, top, v[2] - left, v[3] - top}
}

// addCars takes images into the splits; the first of its places that has a file is where an image is.
func (s *splitter) addCars(images []carImage, names *mat5.Array, places func(file string) []string) error {
	if !slices.ContainsFunc(images, func(image carImage) bool { return image.box == nil }) && s.boxes == nil {
		s.boxes = map[string]Rectangle{}
	}
	for _, image := range images {
		class := strconv.Itoa(image.class)
		if names != nil && image.class <= len(names.Cells) && names.Cells[image.class-1] != nil &&
			names.Cells[image.class-1].Text != "" {
			class = names.Cells[image.class-1].Text
		}
		split := 0
		if image.class > carsTrainClasses {
			split = 1
		}
		at := places(image.file)
		for _, place := range at[1:] {
			if !localPath(place) {
				break
			}
			there, err := s.there(place)
			if err != nil {
				return err
			}
			if there {
				at[0] = place
			}
		}
		if s.boxes != nil && image.box != nil {
			s.boxes[at[0]] = *image.box
		}
		if err := s.add(split, class, at[0]); err != nil {
			return err
		}
	}
	return nil
}

func readMat(dir, name string) (m map[string]*mat5.Array, err error) {
	err = readList(dir, name, func(in io.Reader) error {
		m, err = mat5.Read(in)
		return err
	})
	return m, err
}

// carFolders are the folders, below dir and with slashes, that hold one folder of images per class: train and test,
// else dir itself.
func carFolders(dir string) []string {
	var found []string
	for _, sub := range []string{"train", "test"} {
		if isDir(dir, sub) && len(classFolders(dir, sub)) >= minClasses {
			found = append(found, sub)
		}
	}
	if len(found) == 0 && len(classFolders(dir, ".")) >= minClasses && !isDir(dir, "cars_train") &&
		!isDir(dir, "car_ims") {
		found = []string{"."}
	}
	return found
}

// areCars tells whether folders of classes are of this set and not of another: by the name of the folder that they are
// in, by their number, or by names as the set's are, which end with a year.
func areCars(dir string, subs []string) bool {
	if len(subs) == 0 {
		return false
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	base := filepath.Base(abs)
	if strings.EqualFold(base, "CAR") || strings.HasPrefix(base, ".CAR-") || // The latter while it is unpacked.
		slices.ContainsFunc(carsRoots, func(name string) bool { return strings.EqualFold(base, name) }) {
		return true
	}
	classes := map[string]bool{}
	years := 0
	for _, sub := range subs {
		for _, class := range classFolders(dir, sub) {
			if !classes[class] && endsWithYear.MatchString(class) {
				years++
			}
			classes[class] = true
		}
	}
	return len(classes) == carsClasses || 2*years > len(classes)
}

var endsWithYear = regexp.MustCompile(` (19|20)[0-9]{2}$`)

// classFolders lists the sub-folders of dir/sub that hold an image.
func classFolders(dir, sub string) []string {
	top, err := readTree(filepath.Join(dir, sub))
	if err != nil {
		return nil
	}
	var names []string
	for _, f := range top.folders {
		if len(f.images) > 0 && f.path != "__MACOSX" {
			names = append(names, f.path)
		}
	}
	return names
}

// listCarFolders takes the classes in the order of their names, byte by byte, over all folders. The lists' own order
// differs within makers but has the same 98 classes first.
func listCarFolders(dir string, subs []string) (*Listing, error) {
	files := map[string][]string{} // Paths by class.
	for _, sub := range subs {
		for _, class := range classFolders(dir, sub) {
			f, err := readTree(filepath.Join(dir, sub, class))
			if err != nil {
				return nil, err
			}
			for _, image := range f.images {
				files[class] = append(files[class], path.Join(sub, class, image))
			}
		}
	}
	classes := slices.Sorted(maps.Keys(files))
	s := newSplitter(dir, "train", "test")
	for k, class := range classes {
		split := 0
		if k >= carBoundary(classes) {
			split = 1
		}
		for _, file := range files[class] {
			if !fs.ValidPath(file) {
				return nil, fmt.Errorf("folder %s: no name for a class", class)
			}
			if err := s.add(split, class, file); err != nil {
				return nil, err
			}
		}
	}
	return s.listing(), nil
}

// carBoundary is how many of the sorted classes are to train on: half of 196; of fewer, those whose names come before
// carsFirstTest; half again if that tells nothing.
func carBoundary(classes []string) int {
	n, _ := slices.BinarySearch(classes, carsFirstTest)
	if len(classes) == carsClasses || n == 0 || n == len(classes) {
		n = len(classes) / 2
	}
	return n
}

package datasets

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/gradient-surgery/dml/datasets/internal/mat5"
)

// cars is CARS-196: photographs of 196 models of cars. It is given out in two forms:
//   - cars_annos.mat beside car_ims/;
//   - as torchvision reads it: devkit/ with cars_train_annos.mat and cars_meta.mat, and
//     cars_test_annos_withlabels.mat, beside cars_train/ and cars_test/.
var cars = publishedSet{
	// The authors' own page is gone. No size or checksum of the archive is stated anywhere.
	Source: Source{Name: "CAR", Alias: "cars",
		Page: "https://www.kaggle.com/datasets/rickyyyyyyy/torchvision-stanford-cars",
		URL:  "http://ftp.cs.stanford.edu/cs/cvgl/CARS196.zip",
		Want: "car_ims.tgz with cars_annos.mat, or the devkit with cars_train/ and cars_test/"},
	folders: carsRoots,
	counts:  []counts{{"train", 98, 8054}, {"test", 98, 8131}},
	by:      "Krause et al., 3dRR 2013; split of Oh Song et al., CVPR 2016",
	index: func(dir string) bool {
		return isFile(dir, carsAll) || isFile(dir, carsTrain)
	},
	list: listCars,
	mistaken: func(dir string) string {
		for _, images := range []string{"car_ims", "cars_train", "cars_test"} {
			if isDir(dir, images) {
				return "images but neither cars_annos.mat nor devkit/cars_train_annos.mat"
			}
		}
		return ""
	},
}

// carsRoots are folders that the archives unpack in.
var carsRoots = []string{"cars196", "CARS196", "Cars196", "stanford_cars", "StanfordCars", "cars"}

const carsAll = "cars_annos.mat"

// Where torchvision has the devkit's files.
const (
	carsTrain = "devkit/cars_train_annos.mat"
	carsTest  = "cars_test_annos_withlabels.mat"
	carsMeta  = "devkit/cars_meta.mat"
)

const (
	carsClasses = 196
	// The first 98 classes are to train on: up to Eagle Talon Hatchback 1998.
	carsTrainClasses = 98
)

func listCars(dir string) (*Listing, error) {
	if isFile(dir, carsAll) {
		return listCarsAll(dir)
	}
	return listCarsDevkit(dir)
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
		err = s.addCars(images, m["class_names"], "")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", carsAll, err)
	}
	return s.listing(), nil
}

// listCarsDevkit reads the devkit's two lists: annotations with fname and class.
func listCarsDevkit(dir string) (*Listing, error) {
	meta, err := readMat(dir, carsMeta)
	if err != nil {
		return nil, err
	}
	s := newSplitter(dir, "train", "test")
	for _, part := range []struct{ list, folder string }{{carsTrain, "cars_train/"}, {carsTest, "cars_test/"}} {
		m, err := readMat(dir, part.list)
		if err != nil {
			return nil, err
		}
		images, err := carsOf(m["annotations"], "fname")
		if err == nil {
			err = s.addCars(images, meta["class_names"], part.folder)
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

// addCars takes images of a folder into the splits.
func (s *splitter) addCars(images []carImage, names *mat5.Array, folder string) error {
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
		if s.boxes != nil && image.box != nil {
			s.boxes[folder+image.file] = *image.box
		}
		if err := s.add(split, class, folder+image.file); err != nil {
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

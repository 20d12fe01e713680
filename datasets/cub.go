package datasets

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

// cub is Caltech-UCSD Birds-200-2011: photographs of 200 species. Its own train_test_split.txt splits images, not
// classes, and is not what metric learning trains on.
var cub = publishedSet{
	// Size and MD5 as CaltechDATA states them for this record.
	Source: Source{Name: "CUB", Alias: "cub", Page: "https://www.vision.caltech.edu/datasets/cub_200_2011/",
		URL:   "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
		Bytes: 1150585339, MD5: "97eceeb196236b17998738112f37df78", Want: "CUB_200_2011.tgz"},
	folders: []string{"CUB_200_2011"},
	counts:  []counts{{"train", 100, 5864}, {"test", 100, 5924}},
	by:      "Wah et al., Caltech CNS-TR-2011-001; split of Oh Song et al., CVPR 2016",
	index:   func(dir string) bool { return isFile(dir, cubImages) },
	list:    listCUB,
	mistaken: func(dir string) string {
		if isDir(dir, "annotations-mat") || isFile(dir, "lists", "files.txt") {
			return "CUB-200 of 2010, which has 6,033 images"
		}
		return ""
	},
}

const (
	cubImages  = "images.txt"
	cubLabels  = "image_class_labels.txt"
	cubClasses = "classes.txt"
	cubBoxes   = "bounding_boxes.txt"
	// The first 100 classes are to train on.
	cubTrainClasses = 100
	// cub2010Images is how many images CUB-200 of 2010 has.
	cub2010Images = 6033
)

// listCUB reads images.txt (image, path), image_class_labels.txt (image, class), classes.txt (class, name) and, where
// it is there, bounding_boxes.txt (image, left, top, width and height in pixels).
func listCUB(dir string) (*Listing, error) {
	images, err := readPairs(dir, cubImages)
	if err != nil {
		return nil, err
	}
	if len(images) == cub2010Images {
		return nil, fmt.Errorf("%s names %d images: this is CUB-200 of 2010; want CUB-200-2011", cubImages, cub2010Images)
	}
	labels, err := readPairs(dir, cubLabels)
	if err != nil {
		return nil, err
	}
	classes, err := readPairs(dir, cubClasses)
	if err != nil {
		return nil, err
	}
	classOf, nameOf := byID(labels), byID(classes)
	s := newSplitter(dir, "train", "test")
	if isFile(dir, cubBoxes) {
		boxes, err := readPairs(dir, cubBoxes)
		if err != nil {
			return nil, err
		}
		boxOf := byID(boxes)
		s.boxes = make(map[string]Rectangle, len(images))
		for _, image := range images {
			if s.boxes["images/"+image.value], err = parseBox(boxOf[image.id]); err != nil {
				return nil, fmt.Errorf("%s: image %d: %w", cubBoxes, image.id, err)
			}
		}
	}
	for _, image := range images {
		label, ok := classOf[image.id]
		if !ok {
			return nil, fmt.Errorf("%s: no class for image %d, %s", cubLabels, image.id, image.value)
		}
		class, err := strconv.Atoi(label)
		if err != nil || class < 1 {
			return nil, fmt.Errorf("%s: class %q of image %d; want a number from 1", cubLabels, label, image.id)
		}
		name, ok := nameOf[class]
		if !ok {
			return nil, fmt.Errorf("%s: no class %d, which image %d has", cubClasses, class, image.id)
		}
		split := 0
		if class > cubTrainClasses {
			split = 1
		}
		if err := s.add(split, name, "images/"+image.value); err != nil {
			return nil, fmt.Errorf("%s: %w", cubImages, err)
		}
	}
	if len(labels) != len(images) {
		return nil, fmt.Errorf("%s has %d images, %s %d", cubImages, len(images), cubLabels, len(labels))
	}
	return s.listing(), nil
}

// parseBox reads left, top, width and height, which bounding_boxes.txt gives with a decimal. Parts of a pixel are cut
// off.
func parseBox(line string) (Rectangle, error) {
	fields := strings.Fields(line)
	var v [4]int
	for k := range v {
		if len(fields) != len(v) {
			return Rectangle{}, fmt.Errorf("box %q; want left, top, width and height", clip(line))
		}
		f, err := strconv.ParseFloat(fields[k], 64)
		if err != nil || !(f >= 0 && f <= MaxResize) { // Not a number is neither.
			return Rectangle{}, fmt.Errorf("box %q; want four numbers from 0 to %d", clip(line), MaxResize)
		}
		v[k] = int(f)
	}
	return Rectangle{v[0], v[1], v[2], v[3]}, nil
}

// pair is a line of one of CUB's lists.
type pair struct {
	id    int
	value string
}

func byID(pairs []pair) map[int]string {
	m := make(map[int]string, len(pairs))
	for _, p := range pairs {
		m[p.id] = p.value
	}
	return m
}

func readPairs(dir, name string) (pairs []pair, err error) {
	err = readList(dir, name, func(in io.Reader) error {
		pairs, err = parsePairs(in)
		return err
	})
	return pairs, err
}

// parsePairs reads lines of a number and a value.
func parsePairs(in io.Reader) ([]pair, error) {
	var pairs []pair
	seen := map[int]bool{}
	err := eachLine(in, func(number int, line string) error {
		id, value, _ := strings.Cut(line, " ")
		value = strings.TrimSpace(value)
		n, err := strconv.Atoi(id)
		switch {
		case err != nil || n < 1 || value == "":
			return fmt.Errorf("%q; want a number and a value", clip(line))
		case seen[n]:
			return fmt.Errorf("number %d occurs twice", n)
		}
		seen[n] = true
		pairs = append(pairs, pair{n, value})
		return nil
	})
	return pairs, err
}

// readList opens a list of a set's folder and parses it. Errors of parse get the list's path.
func readList(dir, name string, parse func(io.Reader) error) error {
	file, err := durable.Open(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("no file %s in %s", name, dir)
		}
		return err
	}
	defer file.Close()
	if err := parse(file); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, filepath.FromSlash(name)), err)
	}
	return nil
}

// eachLine calls do for each line that is not blank, without the white space at its ends, and with its number from 1.
// An error gets the line's number. An empty list is an error.
func eachLine(in io.Reader, do func(number int, line string) error) error {
	scanner := bufio.NewScanner(in)
	found := false
	number := 0
	for scanner.Scan() {
		number++
		line := strings.TrimSpace(scanner.Text())
		if line == "" {
			continue
		}
		found = true
		if err := do(number, line); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("after line %d: %w", number, err)
	}
	if !found {
		return errors.New("it is empty")
	}
	return nil
}

// clip shortens what an error quotes from a file.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

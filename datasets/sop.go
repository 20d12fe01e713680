package datasets

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// sop is Stanford Online Products: photographs of things that were for sale.
var sop = publishedSet{
	// The MD5 is what pytorch-metric-learning and others check the same file by; its size is not stated anywhere.
	Source: Source{Name: "SOP", Alias: "sop", Page: "https://cvgl.stanford.edu/projects/lifted_struct/",
		URL: "http://ftp.cs.stanford.edu/cs/cvgl/Stanford_Online_Products.zip",
		MD5: "7f73d41a2f44250d4779881525aea32e", Want: "Stanford_Online_Products.zip"},
	folders: []string{"Stanford_Online_Products"},
	counts:  []counts{{"train", 11318, 59551}, {"test", 11316, 60502}},
	by:      "Oh Song et al., CVPR 2016",
	index:   func(dir string) bool { return isFile(dir, sopTrain) || isFile(dir, sopTest) },
	list:    listSOP,
}

const (
	sopTrain = "Ebay_train.txt"
	sopTest  = "Ebay_test.txt"
)

// sopHeader is the first line of both lists.
var sopHeader = []string{"image_id", "class_id", "super_class_id", "path"}

// listSOP reads Ebay_train.txt and Ebay_test.txt.
func listSOP(dir string) (*Listing, error) {
	s := newSplitter(dir, "train", "test")
	for split, name := range []string{sopTrain, sopTest} {
		err := readList(dir, name, func(in io.Reader) error {
			rows, err := parseSOP(in)
			if err != nil {
				return err
			}
			for _, row := range rows {
				if err := s.add(split, row.class, row.path); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for class := range s.numbers[0] {
		if _, both := s.numbers[1][class]; both {
			return nil, fmt.Errorf("class %s is in %s and in %s", class, sopTrain, sopTest)
		}
	}
	return s.listing(), nil
}

type sopRow struct{ class, path string }

// parseSOP reads lines "image_id class_id super_class_id path" below a header.
func parseSOP(in io.Reader) ([]sopRow, error) {
	var rows []sopRow
	header := false
	ids := map[int]bool{}
	err := eachLine(in, func(_ int, line string) error {
		fields := strings.Fields(line)
		if !header {
			header = true
			if strings.Join(fields, " ") != strings.Join(sopHeader, " ") {
				return fmt.Errorf("%q; want the header %q", clip(line), strings.Join(sopHeader, " "))
			}
			return nil
		}
		if len(fields) != len(sopHeader) {
			return fmt.Errorf("%q; want %s", clip(line), strings.Join(sopHeader, ", "))
		}
		var numbers [3]int
		for k := range numbers {
			var err error
			if numbers[k], err = strconv.Atoi(fields[k]); err != nil || numbers[k] < 1 {
				return fmt.Errorf("%s %q; want a number from 1", sopHeader[k], clip(fields[k]))
			}
		}
		if ids[numbers[0]] {
			return fmt.Errorf("image %d occurs twice", numbers[0])
		}
		ids[numbers[0]] = true
		rows = append(rows, sopRow{strconv.Itoa(numbers[1]), fields[3]})
		return nil
	})
	return rows, err
}

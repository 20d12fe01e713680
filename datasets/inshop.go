package datasets

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// inshop is the In-shop Clothes Retrieval Benchmark of DeepFashion: a shop's photographs of clothes, with queries and a
// gallery of their own.
var inshop = publishedSet{
	Source: Source{Name: "In-shop", Alias: "inshop",
		Page:  "https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html",
		Terms: "its authors ask for an agreement to be signed and give the files on Google Drive",
		Want:  "Img/img.zip (unpack it, so that there is Img/img) and Eval/list_eval_partition.txt"},
	folders: []string{"In-shop Clothes Retrieval Benchmark", "In_shop_Clothes_Retrieval_Benchmark",
		"In-shop_Clothes_Retrieval_Benchmark",
		"DeepFashion/In-shop Clothes Retrieval Benchmark", "inshop", "InShop", "Inshop_Clothes"},
	counts: []counts{{"train", 3997, 25882}, {"query", 3985, 14218}, {"gallery", 3985, 12612}},
	by:     "Liu et al., CVPR 2016",
	index:  func(dir string) bool { return isFile(dir, inshopList) },
	list:   listInshop,
	mistaken: func(dir string) string {
		if isDir(dir, "Img") || isFile(dir, "Anno", "list_item_inshop.txt") {
			return "no " + inshopList
		}
		return ""
	},
}

const inshopList, inshopImages = "Eval/list_eval_partition.txt", "Img/img"

// listInshop reads list_eval_partition.txt. The images that it calls img/… are in Img/img.
func listInshop(dir string) (*Listing, error) {
	var rows []inshopRow
	var declared int
	err := readList(dir, inshopList, func(in io.Reader) (err error) {
		declared, rows, err = parseInshop(in)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !isDir(dir, inshopImages) {
		return nil, fmt.Errorf("no folder %s in %s: unpack Img/img.zip there", inshopImages, dir)
	}
	s := newSplitter(dir, "train", "query", "gallery")
	splits := map[string]int{"train": 0, "query": 1, "gallery": 2}
	for _, row := range rows {
		if err := s.add(splits[row.split], row.item, inshopImages+"/"+row.image); err != nil {
			return nil, fmt.Errorf("%s: %w", inshopList, err)
		}
	}
	for class := range s.numbers[0] {
		if _, both := s.numbers[1][class]; both {
			return nil, fmt.Errorf("%s: item %s is to train and to test on", inshopList, class)
		}
	}
	l := s.listing()
	if declared != len(rows) {
		l.Differs = append(l.Differs, fmt.Sprintf("%s announces %d images and lists %d: it was cut short or edited",
			inshopList, declared, len(rows)))
	}
	return l, nil
}

type inshopRow struct {
	image string // below the folder img
	item  string
	split string
}

// parseInshop reads the number of images, a header, and rows "img/… item split" in columns.
func parseInshop(in io.Reader) (declared int, rows []inshopRow, err error) {
	const header = "image_name item_id evaluation_status"
	at := 0
	err = eachLine(in, func(_ int, line string) error {
		fields := strings.Fields(line)
		at++
		switch at {
		case 1:
			n, err := strconv.Atoi(line)
			if err != nil || n < 0 {
				return fmt.Errorf("%q; want the number of images", clip(line))
			}
			declared = n
			return nil
		case 2:
			if strings.Join(fields, " ") != header {
				return fmt.Errorf("%q; want the header %q", clip(line), header)
			}
			return nil
		}
		if len(fields) != 3 {
			return fmt.Errorf("%q; want %s", clip(line), strings.ReplaceAll(header, " ", ", "))
		}
		image, ok := strings.CutPrefix(fields[0], "img/")
		if !ok {
			return fmt.Errorf("image %q; want img/…", clip(fields[0]))
		}
		if !slices.Contains([]string{"train", "query", "gallery"}, fields[2]) {
			return fmt.Errorf("%q; want train, query or gallery", clip(fields[2]))
		}
		rows = append(rows, inshopRow{image, fields[1], fields[2]})
		return nil
	})
	return declared, rows, err
}

package datasets_test

import (
	"fmt"
	"image/png"
	"log"
	"os"
	"path/filepath"

	"github.com/gradient-surgery/dml/datasets"
)

// A set for a first look: the first 8 classes of each split.
func ExampleOpen() {
	cache, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(cache)
	set, err := datasets.Open("minishop", datasets.Options{TrainClasses: 8, TestClasses: 8, Cache: cache})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(set.Train.N, "images to train on,", set.Test.N, "queries in", set.Gallery.N)
	for _, name := range set.Test.Names[:3] {
		fmt.Println(name)
	}
	// Output:
	// 48 images to train on, 24 queries in 24
	// test-000-tee
	// test-001-longsleeve
	// test-002-tank
}

// Three images of each of four classes, one class in a row.
func ExampleContactSheet() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	set, err := datasets.Open("minicar", datasets.Options{Size: 64, TrainClasses: 4, TestClasses: 2, Cache: dir})
	if err != nil {
		log.Fatal(err)
	}
	var indices []int
	for first := 0; first < set.Train.N; first += 16 {
		indices = append(indices, first, first+1, first+2)
	}
	sheet := datasets.ContactSheet(set.Train, indices, 3)
	file, err := os.Create(filepath.Join(dir, "cars.png"))
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	if err := png.Encode(file, sheet); err != nil {
		log.Fatal(err)
	}
	fmt.Println(sheet.Bounds().Size())
	// Output: (208,276)
}

func ExampleOpen_unknown() {
	_, err := datasets.Open("minicab", datasets.Options{})
	fmt.Println(err)
	// Output: datasets: no data set "minicab"; want minicar, minishop, CUB, CAR, SOP, In-shop, or the path of a folder with one sub-folder of JPEG or PNG files per class
}

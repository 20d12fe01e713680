package datasets_test

import (
	"fmt"
	"image"
	"image/png"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/datasets/fixtures"
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
	what, want, _ := strings.Cut(err.Error(), "; ")
	fmt.Printf("%s\n%.22s …\n", what, want)
	// Output:
	// datasets: no data set "minicab"
	// want minicar, minishop …
}

// A folder with one sub-folder of images per class: the first half of the classes is to train on.
func ExampleOpen_folder() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for _, class := range []string{"cat", "dog", "fox", "owl"} {
		for _, name := range []string{"1.png", "2.png"} {
			if err := save(filepath.Join(dir, class, name), image.NewGray(image.Rect(0, 0, 40, 30))); err != nil {
				log.Fatal(err)
			}
		}
	}
	set, err := datasets.Open(dir, datasets.Options{Size: 32, Cache: filepath.Join(dir, ".cache")})
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()
	fmt.Println(set.Train.Names, set.Train.Labels, set.Test.Names, len(set.Train.Pixels) == 4*32*32*3)
	// Output: [cat dog] [0 0 1 1] [fox owl] true
}

func save(path string, im image.Image) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return png.Encode(file, im)
}

// What a published set consists of, before any image is opened. The set here is a small one of the same layout.
func ExampleList() {
	root, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	if err := fixtures.Make("cub", root); err != nil {
		log.Fatal(err)
	}
	listing, err := datasets.List("CUB", root)
	if err != nil {
		log.Fatal(err)
	}
	for _, split := range listing.Splits {
		classes, images := split.Count()
		fmt.Println(split.Name, classes, images)
	}
	fmt.Println("as published:", len(listing.Differs) == 0)
	// Output:
	// train 3 12
	// test 2 8
	// as published: false
}

// A training image, mirrored and moved by one pixel to the left, as augmentation does.
func ExampleImages_Augmented() {
	images := &datasets.Images{N: 1, Size: 8, Pixels: make([]uint8, 8*8*3), Labels: []int64{0}, Names: []string{"ramp"}}
	for x := range 8 {
		for c := range 3 {
			images.Pixels[3*x+c] = uint8(10 * x) // The first row.
		}
	}
	images.Pad = [3]uint8{99, 99, 99}
	row := make([]uint8, 8*8*3)
	images.Augmented(row, 0, 1, 0, true)
	for x := range 8 {
		fmt.Print(row[3*x], " ")
	}
	// Output: 60 50 40 30 20 10 0 99
}

// The pixels that Pillow's Image.open(file).convert("RGB") gives, scaled as torchvision's Resize and CenterCrop.
func ExampleReadImage() {
	picture, err := datasets.ReadImage("testdata/pillow/420.jpg")
	if err != nil {
		log.Fatal(err)
	}
	square, err := picture.Square(29, 16, datasets.Bilinear) // The shorter side to 29 pixels, the middle 16×16 of them.
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(picture.Width, picture.Height, picture.Pix[:3], len(square))
	// Output: 37 29 [8 8 34] 768
}

// Which published sets can be fetched, and from where.
func ExampleSources() {
	names := []string{}
	for _, source := range datasets.Sources() {
		if source.URL == "" {
			names = append(names, source.Alias)
		}
	}
	slices.Sort(names)
	fmt.Println("by hand:", names)
	// Output: by hand: [inshop]
}

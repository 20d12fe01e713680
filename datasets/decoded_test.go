package datasets

import (
	"context"
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/datasets/fixtures"
)

// partial are the options for a fixture, which is never as published.
func partial(t *testing.T, root string) Options {
	return Options{Size: 16, Root: root, Reading: Reading{AllowPartial: true}, Cache: t.TempDir()}
}

func TestPublishedSetsOpen(t *testing.T) {
	t.Parallel()
	for _, form := range fixtures.Forms() {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			dir := fixture(t, form)
			name, _ := PublishedName(setOf(form))
			o := partial(t, dir)
			o.AllowPartial = false
			_, err := Open(name, o)
			checkError(t, err, name, "not as published", "allow_partial")

			said, calls := &notes{}, 0
			o.AllowPartial, o.Note = true, said.add
			o.Progress = func(done, total int) {
				calls++
				if done != calls || total != 20 {
					t.Errorf("%d of %d at call %d", done, total, calls)
				}
			}
			s := open(t, name, o)
			if s.Name != name || s.TrainClasses != 3 || s.TestClasses != 2 || s.Train.N != 12 || calls != 20 {
				t.Errorf("%s: %d and %d classes, %d images, %d calls", s.Name, s.TrainClasses, s.TestClasses, s.Train.N, calls)
			}
			if form == "inshop" {
				if s.Test.N != 4 || s.Gallery == nil || s.Gallery.N != 4 || !slices.Equal(s.Test.Names, s.Gallery.Names) {
					t.Errorf("queries %+v, gallery %+v", s.Test, s.Gallery)
				}
			} else if s.Test.N != 8 || s.Gallery != nil {
				t.Errorf("%d to test on", s.Test.N)
			}
			if len(said.lines) != 1 || !strings.Contains(said.lines[0], "not as published") {
				t.Errorf("said %q", said.lines)
			}
			// The first image is the one that the listing has first.
			l := mustList(t, name, dir)
			raster, err := decodeFile(filepath.Join(l.Root, filepath.FromSlash(l.Splits[0].Paths[0])))
			if err != nil {
				t.Fatal(err)
			}
			square := make([]uint8, 16*16*3)
			raster.square(square, 16, 16, Bilinear)
			if !slices.Equal(square, s.Train.At(0)) {
				t.Error("the first image is another")
			}
			if again := open(t, name, o); again.Digest != s.Digest || calls != 20 {
				t.Errorf("decoded again, %d calls", calls)
			}
			o = Options{Size: 16, Root: dir, Reading: Reading{AllowPartial: true}, TrainClasses: 2}
			if few := open(t, name, o); few.Train.N != 8 || few.TrainClasses != 2 || few.TestClasses != 2 {
				t.Errorf("of two classes %d images", few.Train.N)
			}
		})
	}
}

// The boxes of the fixtures: of CUB left 2, top 3, width 10 and more, height 12; of CAR (1, 1) to (20, 15).
func TestImagesAreCroppedToTheirBoxes(t *testing.T) {
	t.Parallel()
	for _, form := range fixtures.Forms() {
		dir, name := fixture(t, form), setOf(form)
		o := partial(t, dir)
		whole := open(t, name, o)
		o.CropBoxes = true
		if !slices.Contains([]string{"cub", "cars", "cars-devkit"}, form) {
			_, err := Open(name, o)
			checkError(t, err, "no boxes to crop to", "bounding_boxes.txt")
			continue
		}
		cropped := open(t, name, o)
		if cropped.Digest == whole.Digest || cropped.Train.N != whole.Train.N {
			t.Errorf("%s: cropped %d images, whole %d", form, cropped.Train.N, whole.Train.N)
		}
		l := mustList(t, name, dir)
		raster, err := decodeFile(filepath.Join(l.Root, filepath.FromSlash(l.Splits[0].Paths[0])))
		if err != nil {
			t.Fatal(err)
		}
		left, top, width, height := 0, 0, 20, 15
		if form == "cub" {
			left, top, width, height = 2, 3, 10, 12
		}
		part := &Raster{Width: width, Height: height}
		for y := range height {
			for x := range width {
				at := 3 * ((top+y)*raster.Width + left + x)
				part.Pix = append(part.Pix, raster.Pix[at:at+3]...)
			}
		}
		square := make([]uint8, 16*16*3)
		part.scale(square, 16, 16, 0, 0, 16, Bilinear)
		if !slices.Equal(square, cropped.Train.At(0)) {
			t.Errorf("%s: the first image is another", form)
		}
	}
	dir := fixture(t, "cub")
	const list = "CUB_200_2011/bounding_boxes.txt"
	replace(t, dir, list, "1 2.0 3.0 10.0 12.0", "1 99.0 3.0 10.0 12.0")
	o := partial(t, dir)
	o.CropBoxes = true
	_, err := Open("CUB", o)
	checkError(t, err, "0001_796001.jpg", "box of 10×12 pixels at (99, 3) is outside the picture of 24×18")
	replace(t, dir, list, "1 99.0 3.0 10.0 12.0", "1 NaN 3.0 10.0 12.0")
	_, err = Open("CUB", o)
	checkError(t, err, "bounding_boxes.txt", "image 1", "four numbers")
	_, err = Open("minicar", Options{Reading: Reading{CropBoxes: true}})
	checkError(t, err, "minicar", "no published boxes")
}

// A set that is mapped is the one that is held in memory, and takes the same file.
func TestMappedSetIsTheSame(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"cub", "inshop"} {
		dir := fixture(t, form)
		small, large := partial(t, dir), partial(t, dir)
		large.mapFrom = 1
		held, mapped := open(t, setOf(form), small), open(t, setOf(form), large)
		if held.unmap != nil || mapped.unmap == nil {
			t.Fatal("which is mapped?")
		}
		if held.Digest != mapped.Digest || held.Mean != mapped.Mean || held.Std != mapped.Std ||
			held.Train.Pad != mapped.Train.Pad {
			t.Error("the sets differ")
		}
		if !slices.Equal(held.Train.Pixels, mapped.Train.Pixels) || !slices.Equal(held.Test.Pixels, mapped.Test.Pixels) {
			t.Error("pixels differ")
		}
		a, err := os.ReadFile(cacheFile(t, small.Cache))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(cacheFile(t, large.Cache))
		if err != nil {
			t.Fatal(err)
		}
		if string(a) != string(b) {
			t.Error("the files differ")
		}
		again := open(t, setOf(form), large)
		if again.Digest != held.Digest || !slices.Equal(again.Test.Pixels, held.Test.Pixels) {
			t.Error("mapped again, another")
		}
		for _, s := range []*Set{held, mapped, mapped, again} {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestDamagedImageStopsOrIsLeftOut(t *testing.T) {
	t.Parallel()
	for _, mapped := range []int64{0, 1} {
		dir := fixture(t, "sop")
		whole := open(t, "SOP", partial(t, dir))
		l := mustList(t, "sop", dir)
		spoiled := []string{l.Splits[0].Paths[5], l.Splits[1].Paths[0]}
		for _, p := range spoiled {
			path := filepath.Join(l.Root, filepath.FromSlash(p))
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, content[:len(content)/2], 0o644); err != nil {
				t.Fatal(err)
			}
		}
		o := partial(t, dir)
		o.mapFrom = mapped
		_, err := Open("SOP", o)
		checkError(t, err, filepath.FromSlash(spoiled[0]), "ends early")
		empty(t, o.Cache)

		said := &notes{}
		o.SkipBad, o.Note = true, said.add
		for range 2 { // Decoded, then from the cache.
			said.lines = nil
			s := open(t, "SOP", o)
			if s.Train.N != 11 || s.Test.N != 7 || !slices.Equal(s.Skipped, spoiled) {
				t.Errorf("%d and %d images, without %q", s.Train.N, s.Test.N, s.Skipped)
			}
			if !slices.Equal(s.Train.Labels, slices.Delete(slices.Clone(whole.Train.Labels), 5, 6)) ||
				!slices.Equal(s.Test.Labels, whole.Test.Labels[1:]) {
				t.Errorf("labels %v and %v", s.Train.Labels, s.Test.Labels)
			}
			if !slices.Equal(s.Train.At(5), whole.Train.At(6)) || !slices.Equal(s.Test.At(0), whole.Test.At(1)) ||
				!slices.Equal(s.Test.At(6), whole.Test.At(7)) {
				t.Error("images have moved")
			}
			if s.Digest == whole.Digest {
				t.Error("the digest is that of the whole set")
			}
			if all := strings.Join(said.lines, "\n"); !strings.Contains(all, "left out: 2 images") ||
				!strings.Contains(all, spoiled[1]) {
				t.Errorf("said %q", all)
			}
		}
		// What another left out is not taken for whole.
		o.SkipBad = false
		_, err = Open("SOP", o)
		checkError(t, err, "2 images", spoiled[0], "cannot be decoded", "skip_bad")
		wrong, err := l.Damaged(Options{})
		if err != nil || len(wrong) != 2 || !strings.HasPrefix(wrong[0], spoiled[0]+": ") ||
			!strings.Contains(wrong[1], "ends early") {
			t.Errorf("damaged: %q, %v", wrong, err)
		}
	}
}

// empty fails if the cache holds more than locks.
func empty(t *testing.T, cache string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(cache, "datasets"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".lock" {
			t.Errorf("left in the cache: %s", e.Name())
		}
	}
}

func TestInterruptedDecodingLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "cub")
	ctx, cancel := context.WithCancel(t.Context())
	o := partial(t, dir)
	o.Context, o.mapFrom = ctx, 1
	o.Progress = func(done, _ int) {
		if done == 3 {
			cancel()
		}
	}
	if _, err := Open("CUB", o); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	empty(t, o.Cache)
	l := mustList(t, "cub", dir)
	if _, err := l.Damaged(Options{Context: ctx}); !errors.Is(err, context.Canceled) {
		t.Errorf("damaged: error %v", err)
	}
}

// A changed mapped file is found out by its length or header, and made anew.
func TestDamagedMappedCacheIsMadeAnew(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "cub")
	o := partial(t, dir)
	o.mapFrom = 1
	want := open(t, "CUB", o)
	file := cacheFile(t, o.Cache)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string][]byte{"short": content[100:], "cut": content[:len(content)-1], "empty": nil} {
		if err := os.Remove(file); err != nil { // It is mapped: another file takes its place.
			t.Fatal(err)
		}
		if err := os.WriteFile(file, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := open(t, "CUB", o); got.Digest != want.Digest || !slices.Equal(got.Train.Pixels, want.Train.Pixels) {
			t.Errorf("%s: believed", name)
		}
	}
}

// Decoding thousands of images into the cache's file takes memory for a few of them.
func TestDecodingIsBoundedInMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of images")
	}
	dir := t.TempDir()
	const classes, each, size = 4, 750, 64
	for c := range classes {
		write(t, dir, fmt.Sprintf("%d/0.png", c), fill(9, 9, color.RGBA{uint8(40 * c), 80, 120, 255}))
		for i := 1; i < each; i++ {
			from := filepath.Join(dir, fmt.Sprint(c), "0.png")
			if err := os.Link(from, filepath.Join(dir, fmt.Sprint(c), fmt.Sprintf("%d.png", i))); err != nil {
				t.Skipf("no links: %v", err)
			}
		}
	}
	o := Options{Size: size, Cache: t.TempDir(), mapFrom: 1}
	var most uint64
	o.Progress = func(done, _ int) {
		if done%200 == 0 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
	}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	s := open(t, dir, o)
	defer s.Close()
	const pixels = classes * each * size * size * 3
	if s.Train.N+s.Test.N != classes*each || len(s.Train.Pixels)+len(s.Test.Pixels) != pixels {
		t.Errorf("%d and %d images", s.Train.N, s.Test.N)
	}
	if grown := int64(most) - int64(before.HeapAlloc); grown > pixels/4 {
		t.Errorf("%d bytes more on the heap for %d bytes of pixels", grown, pixels)
	}
}

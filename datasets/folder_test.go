package datasets

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fill is a picture of one color.
func fill(w, h int, c color.Color) *image.RGBA {
	im := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			im.Set(x, y, c)
		}
	}
	return im
}

// write makes a file of the tree; an image is encoded as its name says.
func write(t *testing.T, dir, name string, content any) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	var err error
	switch c := content.(type) {
	case string:
		b.WriteString(c)
	case image.Image:
		if strings.EqualFold(filepath.Ext(name), ".png") {
			err = png.Encode(&b, c)
		} else {
			err = jpeg.Encode(&b, c, &jpeg.Options{Quality: 95})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tree makes classes below dir, of so many images each, and returns dir.
func tree(t *testing.T, dir string, each int, classes ...string) string {
	t.Helper()
	for k, c := range classes {
		for i := range each {
			write(t, dir, fmt.Sprintf("%s/%d.png", c, i), fill(9, 9, color.RGBA{uint8(40 * k), uint8(40 * i), 128, 255}))
		}
	}
	return dir
}

func TestFolderIsSplitByName(t *testing.T) {
	t.Parallel()
	dir, said := tree(t, t.TempDir(), 3, "cat", "ant", "eel", "bee", "dog"), &notes{}
	// What archives, editors and systems leave about is passed over.
	for _, name := range []string{".DS_Store", "._ant", "readme.txt", "ant/._0.png", "ant/.hidden.jpg", "ant/notes.txt",
		"ant/Thumbs.db", ".git/x.png"} {
		write(t, dir, name, "no image")
	}
	write(t, dir, "dog/upper.JPG", fill(9, 9, color.White))
	write(t, dir, "dog/mixed.JpEg", fill(9, 9, color.White))
	s := open(t, dir, Options{Size: 8, Note: said.add})
	if s.Name != filepath.Base(dir) || s.TrainClasses != 2 || s.TestClasses != 3 || s.Gallery != nil {
		t.Errorf("%q: %d and %d classes", s.Name, s.TrainClasses, s.TestClasses)
	}
	if !slices.Equal(s.Train.Names, []string{"ant", "bee"}) || !slices.Equal(s.Test.Names, []string{"cat", "dog", "eel"}) {
		t.Errorf("classes %v and %v", s.Train.Names, s.Test.Names)
	}
	if !slices.Equal(s.Train.Labels, []int64{0, 0, 0, 1, 1, 1}) ||
		!slices.Equal(s.Test.Labels, []int64{0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2}) {
		t.Errorf("labels %v and %v", s.Train.Labels, s.Test.Labels)
	}
	if got := [3]uint8(s.Train.At(4)); got != [3]uint8{120, 40, 128} { // bee's second
		t.Errorf("pixel %v", got)
	}
	if len(said.lines) != 1 || !strings.HasSuffix(said.lines[0], "1 image (1 .jpg): ant/.hidden.jpg") {
		t.Errorf("said %q", said.lines)
	}
	if s := open(t, dir, Options{Size: 8, TrainClasses: 2, TestClasses: 2}); s.Test.N != 8 {
		t.Errorf("two test classes of %d images", s.Test.N)
	}
}

// No path is taken for a pattern: r[1], which as a pattern is r1, is not read from its neighbor, nor is its cache.
func TestFolderNamedAsAPattern(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	const patterned, plain = "r[1]", "r1"
	for i, name := range []string{plain, patterned, "*?", `[a`} {
		dir := filepath.Join(above, name)
		for _, class := range []string{"a[b]", "c*", "d", "e"} {
			for k := range 2 {
				write(t, dir, fmt.Sprintf("%s/%d[1].png", class, k), fill(9, 9, color.RGBA{uint8(10 + i), 0, 0, 255}))
			}
		}
		o := Options{Size: 8, Cache: filepath.Join(above, "cache", name)}
		for _, when := range []string{"first", "from the cache"} {
			s := open(t, dir, o)
			if s.Name != name || !slices.Equal(s.Train.Names, []string{"a[b]", "c*"}) || s.Train.At(0)[0] != uint8(10+i) {
				t.Errorf("%s, %s: %s of classes %q with %d", name, when, s.Name, s.Train.Names, s.Train.At(0)[0])
			}
		}
	}
}

// The order is that of torchvision's ImageFolder (0.24): classes, then folders, then names, each by its characters.
func TestListImages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"cat/1.png", "cat big/0.jpg", "cat-1/0.PNG", "cat.2/0.jpeg", "cat/a/0.png",
		"cat/a b/0.png", "cat/10.png", "loose.png", "cat/x.webp", "cat/.h.png", "empty/y.bmp", "cat/text.txt"} {
		write(t, dir, name, "no image")
	}
	write(t, dir, "cat/7", fill(9, 9, color.White))
	write(t, dir, "cat/8.png_large", fill(9, 9, color.White))
	write(t, dir, "cat/README", "a text")
	l, err := ListImages(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"cat/1.png", "cat/10.png", "cat/a/0.png", "cat/a b/0.png", "cat big/0.jpg", "cat-1/0.PNG",
		"cat.2/0.jpeg"}
	if !slices.Equal(l.Classes, []string{"cat", "cat big", "cat-1", "cat.2"}) ||
		!slices.Equal(l.Labels, []int64{0, 0, 0, 0, 1, 2, 3}) || !slices.Equal(l.Paths, want) {
		t.Errorf("%q of %q: %v", l.Paths, l.Classes, l.Labels)
	}
	said := strings.Join(l.LeftOut, "\n")
	for _, want := range []string{"loose.png",
		"5 images (1 .bmp, 1 .png, 1 .png_large, 1 .webp, 1 without ending): cat/.h.png, cat/7, cat/8.png_large"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q does not say %q", said, want)
		}
	}
}

// Where all images are deeper, an error says where.
func TestFolderDeeper(t *testing.T) {
	t.Parallel()
	for layout, want := range map[string]string{"Train/": "Train: name one of these",
		"a/images/": "a/images: move them up"} {
		dir := t.TempDir()
		classes := []string{layout + "x", layout + "y"}
		if layout == "a/images/" {
			classes = []string{"a/images", "b/images"}
		}
		tree(t, dir, 2, classes...)
		if _, err := Open(dir, Options{Size: 8}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", layout, err)
		}
	}
}

func TestFolderWithSplits(t *testing.T) {
	t.Parallel()
	dir, said := t.TempDir(), &notes{}
	tree(t, dir, 2, "train/a", "train/b", "train/c", "test/c", "test/d")
	tree(t, dir, 1, "train/lone", "test/lone")
	write(t, dir, "train/a/more.webp", "an image")
	write(t, dir, "train/a/more", fill(9, 9, color.White))
	write(t, dir, "train/b/more/0.png", fill(9, 9, color.White))
	s := open(t, dir, Options{Size: 8, Note: said.add})
	if !slices.Equal(s.Train.Names, []string{"a", "b", "c"}) || !slices.Equal(s.Test.Names, []string{"c", "d"}) {
		t.Errorf("classes %v and %v", s.Train.Names, s.Test.Names)
	}
	all := strings.Join(said.lines, "\n")
	for _, want := range []string{"train: left out, with a single image: lone",
		"train: left out, in folders within classes: 1 image (1 .png): b/more/0.png",
		"train: left out, not named .jpg, .jpeg or .png, hidden, or not a file: 2 images (1 .webp, 1 without ending): " +
			"a/more, a/more.webp",
		"test: left out, with a single image: lone", "1 class both to train and to test on"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q does not say %q", all, want)
		}
	}
}

func TestFolderWithQueriesAndGallery(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tree(t, dir, 2, "train/a", "train/b")
	tree(t, dir, 1, "query/x", "query/y", "gallery/other", "gallery/y", "gallery/x")
	s := open(t, dir, Options{Size: 8})
	if !slices.Equal(s.Test.Labels, []int64{0, 1}) || !slices.Equal(s.Gallery.Labels, []int64{2, 0, 1}) {
		t.Errorf("labels %v and %v", s.Test.Labels, s.Gallery.Labels)
	}
	if !slices.Equal(s.Test.Names, []string{"x", "y", "other"}) || !slices.Equal(s.Gallery.Names, s.Test.Names) {
		t.Errorf("names %v and %v", s.Test.Names, s.Gallery.Names)
	}
	if s.TestClasses != 2 {
		t.Errorf("%d test classes", s.TestClasses)
	}
	if s := open(t, dir, Options{Size: 8, TestClasses: 2}); s.Gallery.N != 2 {
		t.Errorf("a gallery of %d images for two classes", s.Gallery.N)
	}
}

func TestEveryKindOfImageBecomesRGB(t *testing.T) {
	t.Parallel()
	gray := image.NewGray(image.Rect(0, 0, 20, 12))
	for i := range gray.Pix {
		gray.Pix[i] = 90
	}
	deep := image.NewNRGBA64(image.Rect(0, 0, 10, 10))
	for y := range 10 {
		for x := range 10 {
			deep.Set(x, y, color.NRGBA64{0x1234, 0x5678, 0x9abc, 0xffff})
		}
	}
	palette := image.NewPaletted(image.Rect(0, 0, 10, 10), color.Palette{color.RGBA{10, 200, 30, 255}})
	transparent := image.NewNRGBA(image.Rect(0, 0, 10, 10))
	for i := range 100 {
		copy(transparent.Pix[4*i:], []uint8{200, 40, 90, 0})
	}
	dir := t.TempDir()
	want := map[string][3]int{}
	put := func(class, name string, im any, rgb [3]int) {
		write(t, dir, class+"/"+name, im)
		want[class+"/"+name] = rgb
	}
	put("a", "gray.jpg", gray, [3]int{90, 90, 90})
	put("a", "gray.png", gray, [3]int{90, 90, 90})
	put("b", "deep.png", deep, [3]int{0x12, 0x56, 0x9a})
	put("b", "palette.png", palette, [3]int{10, 200, 30})
	put("c", "clear.png", transparent, [3]int{200, 40, 90}) // As the peers: alpha is dropped.
	put("c", "color.jpg", fill(31, 17, color.RGBA{200, 40, 90, 255}), [3]int{200, 40, 90})
	put("d", "cmyk.jpg", string(cmyk(t)), [3]int{154, 51, 205})
	// The content counts, not the name.
	var b bytes.Buffer
	if err := png.Encode(&b, fill(8, 8, color.RGBA{1, 2, 3, 255})); err != nil {
		t.Fatal(err)
	}
	put("d", "png.jpg", b.String(), [3]int{1, 2, 3})
	s := open(t, dir, Options{Size: 8})
	for _, split := range []*Images{s.Train, s.Test} {
		for i := range split.N {
			name := []string{"gray.jpg", "gray.png", "deep.png", "palette.png", "clear.png", "color.jpg", "cmyk.jpg",
				"png.jpg"}[i+map[bool]int{true: 4}[split == s.Test]]
			w := want[split.Names[split.Labels[i]]+"/"+name]
			for p, px := 0, split.At(i); p < len(px); p += 3 {
				for k := range 3 {
					if d := int(px[p+k]) - w[k]; d < -3 || d > 3 {
						t.Fatalf("%s: pixel %v, want %v", name, px[p:p+3], w)
					}
				}
			}
		}
	}
}

// cmyk is a JPEG of four components, made of a gray one by hand, since the standard library writes none: an 8×8 image
// whose ink is (in Adobe's inverted form) constant.
func cmyk(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	b.Write([]byte{0xff, 0xd8})
	// APP14: Adobe, no color transform.
	b.Write([]byte{0xff, 0xee, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 0})
	// A quantisation table of eights: one unit of a DC coefficient is one gray value.
	b.Write([]byte{0xff, 0xdb, 0, 67, 0})
	b.Write(bytes.Repeat([]byte{8}, 64))
	// Frame of 8×8, four components without subsampling.
	b.Write([]byte{0xff, 0xc0, 0, 20, 8, 0, 8, 0, 8, 4, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0, 4, 0x11, 0})
	// Huffman tables: DC has one code, 0, for category 7 (seven more bits); AC has one code, 0, for the end of a block.
	b.Write([]byte{0xff, 0xc4, 0, 20, 0x00, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7})
	b.Write([]byte{0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	// Scan: for each component the bit 0, seven bits of its DC, the bit 0.
	b.Write([]byte{0xff, 0xda, 0, 14, 4, 1, 0, 2, 0, 3, 0, 4, 0, 0, 63, 0})
	var bits, n uint
	var scan []byte
	push := func(value, width uint) {
		for k := int(width) - 1; k >= 0; k-- {
			bits, n = bits<<1|value>>uint(k)&1, n+1
			if n == 8 {
				scan = append(scan, byte(bits))
				if byte(bits) == 0xff {
					scan = append(scan, 0)
				}
				bits, n = 0, 0
			}
		}
	}
	// The samples are 128 + DC: 192, 64, 255 and 205. As ink is stored inverted, red is 192 · 205 / 255, and so on.
	for _, dc := range []int{64, -64, 127, 77} {
		v := dc
		if v < 0 {
			v += 127 // the one's complement of JPEG's negative numbers
		}
		push(0, 1)
		push(uint(v), 7)
		push(0, 1)
	}
	for n != 0 {
		push(1, 1)
	}
	b.Write(scan)
	b.Write([]byte{0xff, 0xd9})
	return b.Bytes()
}

// The shorter side is scaled to Size and the middle kept: of a wide picture its left and right ends are cut. As they
// are cut after scaling, a trace of them is left on the edge.
func TestMiddleSquareIsKept(t *testing.T) {
	t.Parallel()
	wide, tall := fill(60, 20, color.RGBA{255, 0, 0, 255}), fill(20, 60, color.RGBA{255, 0, 0, 255})
	for y := range 20 {
		for x := 20; x < 40; x++ {
			wide.Set(x, y, color.RGBA{0, 0, 255, 255})
			tall.Set(y, x, color.RGBA{0, 0, 255, 255})
		}
	}
	// Left half of the square black: scaled down, the edge stays in the middle and left stays left.
	half := fill(40, 40, color.White)
	for y := range 40 {
		for x := range 20 {
			half.Set(x, y, color.Black)
		}
	}
	dir := t.TempDir()
	write(t, dir, "a/wide.png", wide)
	write(t, dir, "a/tall.png", tall)
	write(t, dir, "b/half.png", half)
	write(t, dir, "b/small.png", fill(1, 1, color.RGBA{9, 8, 7, 255}))
	tree(t, dir, 2, "c", "d")
	s := open(t, dir, Options{Size: 10})
	for i := range 2 {
		for p, px := 0, s.Train.At(i); p < len(px); p += 3 {
			x, y := p/3%10, p/30
			if along := []int{y, x}[i]; along > 0 && along < 9 && [3]uint8(px[p:]) != [3]uint8{0, 0, 255} || px[p+2] < 200 {
				t.Fatalf("image %d: pixel (%d, %d) is %v", i, x, y, px[p:p+3])
			}
		}
	}
	half10 := s.Train.At(2)
	if half10[0] > 10 || half10[9*3] < 245 {
		t.Errorf("left %d, right %d", half10[0], half10[9*3])
	}
	if small := s.Train.At(3); [3]uint8(small[50*3:]) != [3]uint8{9, 8, 7} {
		t.Errorf("a single pixel became %v", small[50*3:50*3+3])
	}
}

func TestFolderCacheFollowsTheFiles(t *testing.T) {
	t.Parallel()
	dir, cache := tree(t, t.TempDir(), 2, "a", "b", "c", "d"), t.TempDir()
	first := open(t, dir, Options{Size: 8, Cache: cache})
	if again := open(t, dir, Options{Size: 8, Cache: cache}); again.Digest != first.Digest || again.Name != first.Name {
		t.Error("the cached set differs")
	}
	cacheFile(t, cache)
	write(t, dir, "a/0.png", fill(12, 9, color.RGBA{1, 2, 3, 255}))
	if changed := open(t, dir, Options{Size: 8, Cache: cache}); changed.Digest == first.Digest ||
		[3]uint8(changed.Train.At(0)) != [3]uint8{1, 2, 3} {
		t.Error("a changed file was answered from the cache")
	}
}

func TestFolderRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		make func(t *testing.T, dir string)
		o    Options
		want []string
	}{
		{"empty", func(t *testing.T, dir string) {}, Options{}, []string{"no sub-folders with JPEG or PNG files"}},
		{"loose", func(t *testing.T, dir string) { write(t, dir, "a.png", fill(9, 9, color.White)) }, Options{},
			[]string{"has images but no sub-folders", "one sub-folder per class"}},
		{"too few", func(t *testing.T, dir string) { tree(t, dir, 2, "a", "b", "c") }, Options{},
			[]string{"3 classes", "at least 4"}},
		{"all lone", func(t *testing.T, dir string) { tree(t, dir, 1, "a", "b", "c", "d") }, Options{},
			[]string{"0 classes with at least 2 images"}},
		{"damaged", func(t *testing.T, dir string) {
			tree(t, dir, 2, "a", "b", "c", "d")
			var b bytes.Buffer
			if err := jpeg.Encode(&b, fill(64, 64, color.Black), nil); err != nil {
				t.Fatal(err)
			}
			write(t, dir, "b/5.jpg", b.String()[:b.Len()/2])
			write(t, dir, "c/7.jpg", "")
		}, Options{}, []string{filepath.Join("b", "5.jpg"), "ends early"}},
		{"no image", func(t *testing.T, dir string) {
			tree(t, dir, 2, "a", "b", "c", "d")
			write(t, dir, "d/0.jpg", "GIF89a or so")
		}, Options{}, []string{filepath.Join("d", "0.jpg"), "neither a JPEG nor a PNG"}},
		{"bomb", func(t *testing.T, dir string) {
			tree(t, dir, 2, "a", "b", "c", "d")
			var b bytes.Buffer
			if err := png.Encode(&b, fill(1, 1, color.Black)); err != nil {
				t.Fatal(err)
			}
			// The width and height of its header become 65535, the header's checksum right again.
			content := b.Bytes()
			copy(content[16:], []byte{0, 0, 255, 255, 0, 0, 255, 255})
			binary.BigEndian.PutUint32(content[29:], crc32.ChecksumIEEE(content[12:29]))
			write(t, dir, "a/big.png", string(content))
		}, Options{}, []string{"big.png", "65535×65535"}},
		{"only train", func(t *testing.T, dir string) { tree(t, dir, 2, "train/a", "train/b") }, Options{},
			[]string{"beside train there must be test, or query and gallery"}},
		{"both", func(t *testing.T, dir string) { tree(t, dir, 2, "train/a", "test/b", "query/c", "gallery/c") }, Options{},
			[]string{"test folder and a query or gallery folder"}},
		{"one class to train on", func(t *testing.T, dir string) { tree(t, dir, 2, "train/a", "test/b", "test/c") },
			Options{}, []string{"1 class to train on", "at least 2"}},
		{"one class to test on", func(t *testing.T, dir string) { tree(t, dir, 2, "train/a", "train/b", "test/c") },
			Options{}, []string{"1 class to test on"}},
		{"nothing to find", func(t *testing.T, dir string) {
			tree(t, dir, 2, "train/a", "train/b", "query/c", "query/d", "gallery/e")
		}, Options{}, []string{"no class is in both query and gallery"}},
		{"too many asked for", func(t *testing.T, dir string) { tree(t, dir, 2, "a", "b", "c", "d") },
			Options{TrainClasses: 3}, []string{"3 training classes wanted", "has 2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			tc.make(t, dir)
			tc.o.Cache, tc.o.Size = t.TempDir(), 8
			_, err := Open(dir, tc.o)
			checkError(t, err, append(tc.want, dir)...)
		})
	}
}

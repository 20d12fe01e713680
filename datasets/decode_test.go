package datasets

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pillow opens an image of testdata/pillow, which make.py there wrote.
func pillow(t *testing.T, name string) *Raster {
	t.Helper()
	r, err := ReadImage(filepath.Join("testdata", "pillow", name))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// expected is a picture that Pillow wrote, read by nothing but the standard library.
func expected(t *testing.T, name string) *image.RGBA {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "pillow", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	im, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	return im.(*image.RGBA)
}

// difference is the largest and the mean difference of two pictures' values.
func difference(t *testing.T, name string, got []uint8, want *image.RGBA) (most int, mean float64) {
	t.Helper()
	if len(got) != 3*want.Rect.Dx()*want.Rect.Dy() {
		t.Fatalf("%s: %d values, want %v", name, len(got), want.Rect)
	}
	for i, v := range got {
		d := int(v) - int(want.Pix[i/3*4+i%3])
		if d < 0 {
			d = -d
		}
		most = max(most, d)
		mean += float64(d) / float64(len(got))
	}
	return most, mean
}

// Every kind of image becomes what Pillow makes of it, to the bit.
func TestDecodedAsPillowDoes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/pillow/*.rgb.png")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".rgb.png")
		r, want := pillow(t, name), expected(t, filepath.Base(file))
		if r.Width != want.Rect.Dx() || r.Height != want.Rect.Dy() {
			t.Errorf("%s: %d×%d, want %v", name, r.Width, r.Height, want.Rect)
			continue
		}
		if most, mean := difference(t, name, r.Pix, want); most > 0 {
			t.Errorf("%s: differs by at most %d, mean %.3f", name, most, mean)
		}
	}
}

// Scaled squares are torchvision's, to the bit.
func TestScaledAsTorchvisionDoes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"rgb.png", "wide.png", "tall.png"} {
		for file, scaled := range map[string]struct {
			size int
			by   Filter
		}{"8": {8, ""}, "16": {16, Bilinear}, "29": {29, ""}, "50": {50, ""}, "16.bicubic": {16, Bicubic},
			"50.bicubic": {50, Bicubic}} {
			got, err := pillow(t, name).Square(scaled.size, scaled.size, scaled.by)
			if err != nil {
				t.Fatal(err)
			}
			if most, mean := difference(t, name, got, expected(t, name+"."+file+".png")); most > 0 {
				t.Errorf("%s to %s: differs by at most %d, mean %.3f", name, file, most, mean)
			}
		}
	}
}

// The middle of a scaled picture is a part of it.
func TestMiddleOfScaled(t *testing.T) {
	t.Parallel()
	r := pillow(t, "rgb.png")
	whole, err := r.Square(29, 29, Bilinear)
	if err != nil {
		t.Fatal(err)
	}
	part, err := r.Square(29, 21, Bilinear)
	if err != nil {
		t.Fatal(err)
	}
	for y := range 21 {
		if got, want := part[y*21*3:(y+1)*21*3], whole[((y+4)*29+4)*3:][:21*3]; !bytes.Equal(got, want) {
			t.Fatalf("row %d differs", y)
		}
	}
	for _, sizes := range [][2]int{{8, 9}, {8, 0}, {1 << 15, 8}} {
		_, err := r.Square(sizes[0], sizes[1], Bilinear)
		checkError(t, err, fmt.Sprint(sizes[1], " pixels of ", sizes[0]))
	}
	_, err = (&Raster{Width: 2, Height: 2}).Square(8, 8, Bilinear)
	checkError(t, err, "2×2 pixels with 0 values")
}

func TestReadImage(t *testing.T) {
	t.Parallel()
	im, err := ReadImage("testdata/pillow/alpha.png")
	if err != nil {
		t.Fatal(err)
	}
	want := expected(t, "alpha.png.rgb.png")
	if p := im.Pix[3*(3*im.Width+7):]; image.Pt(im.Width, im.Height) != want.Rect.Max ||
		(color.RGBA{p[0], p[1], p[2], 255}) != want.At(7, 3) {
		t.Errorf("%d×%d, %v", im.Width, im.Height, p[:3])
	}
	if _, err := ReadImage("testdata/pillow/none.png"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no file: %v", err)
	}
}

func TestDecodeRGBRefuses(t *testing.T) {
	t.Parallel()
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join("testdata", "pillow", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	chunk := func(name, data string) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
		b = append(append(b, name...), data...)
		return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
	}
	const afterHeader = 33
	large := slices.Replace(read("rgb.png"), 8, afterHeader,
		chunk("IHDR", "\x00\x00\x1f\x40\x00\x00\x1f\x40\x08\x02\x00\x00\x00")...)
	whole := read("420.jpg")
	for name, tc := range map[string]struct {
		file []byte
		want string
	}{
		"nothing":               {nil, "neither a JPEG nor a PNG"},
		"text":                  {[]byte("<html>"), "neither a JPEG nor a PNG"},
		"half a JPEG":           {whole[:len(whole)/2], "ends early"},
		"half a PNG":            {read("alpha.png")[:400], "damaged image"},
		"an odd bit":            {bytes.Replace(read("rgb.png"), []byte("IDAT"), []byte("IDAT\x01"), 1), "damaged image"},
		"a chunk without end":   {read("rgb.png")[:400], "damaged image"},
		"a few bytes for a lot": {large, "ends early"},
	} {
		if _, err := DecodeImage(tc.file); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
}

// A damaged PNG is refused, of some of which Pillow would invent pixels.
func TestDamagedPNGs(t *testing.T) {
	t.Parallel()
	const header = "\x00\x00\x00\x07\x00\x00\x00\x05" // 7×5 pixels.
	chunk := func(name, data string) string {
		b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
		b = append(append(b, name...), data...)
		return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:])))
	}
	packed := func(rows string) string {
		var b bytes.Buffer
		z := zlib.NewWriter(&b)
		_, _ = z.Write([]byte(rows)) // Never fails on a buffer, nor does Close.
		_ = z.Close()
		return b.String()
	}
	var rows, laced strings.Builder
	for y := range 5 {
		rows.WriteString("\x00")
		for i := range 21 {
			rows.WriteByte(byte(37*i + 11*y))
		}
	}
	for range 5 + 4 { // Adam7's rows of 7×5 pixels: 1, 1, 0, 2, 1, 3, 2 of 1, 1, 2, 2, 4, 3, 7 pixels.
		laced.WriteString("\x00")
	}
	laced.WriteString(strings.Repeat("\x00", 3*35))
	const sig = "\x89PNG\r\n\x1a\n"
	start := sig + chunk("IHDR", header+"\x08\x02\x00\x00\x00")
	lacedStart := sig + chunk("IHDR", header+"\x08\x02\x00\x00\x01")
	palette := sig + chunk("IHDR", header+"\x08\x03\x00\x00\x00")
	pixels, end := chunk("IDAT", packed(rows.String())), chunk("IEND", "")
	whole := start + pixels + end
	wrong := func(chunk string) string { return chunk[:len(chunk)-1] + string([]byte{chunk[len(chunk)-1] ^ 1}) }
	index := packed(strings.Repeat("\x00\x00\x01\x02\x00\x01\x02\x00", 5))
	if _, err := DecodeImage([]byte(whole)); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{
		"no IEND":                  start + pixels,
		"part of IEND":             whole[:len(whole)-5],
		"part of IDAT's checksum":  whole[:len(whole)-len(end)-2],
		"no checksum of pixels":    whole[:len(whole)-len(end)-5],
		"a checksum of IEND":       start + pixels + wrong(end),
		"a checksum of IDAT":       start + wrong(pixels) + end,
		"a damaged text behind":    start + pixels + wrong(chunk("tEXt", "a\x00b")) + end,
		"a row more":               start + chunk("IDAT", packed(rows.String()+rows.String()[:22])) + end,
		"a byte more":              start + chunk("IDAT", packed(rows.String()+"x")) + end,
		"interlaced, more":         lacedStart + chunk("IDAT", packed(laced.String()+strings.Repeat("\x00", 64))) + end,
		"a row too few":            start + chunk("IDAT", packed(rows.String()[:88])) + end,
		"no end of the data":       whole[:len(whole)-len(end)-9],
		"other pixels":             start + chunk("IDAT", wrong(packed(rows.String()))) + end,
		"interlaced, too few":      lacedStart + chunk("IDAT", packed(laced.String()[:90])) + end,
		"a damaged text before":    start + wrong(chunk("tEXt", "a\x00b")) + pixels + end,
		"no palette":               palette + chunk("IDAT", index) + end,
		"a palette behind":         palette + chunk("IDAT", index) + chunk("PLTE", "abcdefghi") + end,
		"no pixels":                start + end,
		"nothing but a beginning":  sig + chunk("IHDR", "\x00"),
		"a stranger in the pixels": start + pixels[:30] + chunk("tEXt", "a\x00b") + pixels[30:] + end,
	} {
		if _, err := DecodeImage([]byte(file)); err == nil || !strings.Contains(err.Error(), "damaged image") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecodeRGB(f *testing.F) {
	files, err := filepath.Glob("testdata/pillow/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		if b, err := os.ReadFile(name); err == nil && !strings.HasSuffix(name, ".py") && strings.Count(name, ".") == 1 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := DecodeImage(file)
		if err != nil {
			return
		}
		if len(r.Pix) != 3*r.Width*r.Height || r.Width < 1 || r.Height < 1 {
			t.Fatalf("%d×%d with %d values", r.Width, r.Height, len(r.Pix))
		}
		r.square(make([]uint8, 8*8*3), 8, 8, Bilinear)
	})
}

// Scaling is the weighted sum of its taps, each pass rounded, whatever computes it and however many taps there are.
func TestScaledIsSumOfTaps(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	for k, tc := range []struct{ width, height, resize, crop int }{
		{500, 375, 256, 256}, {375, 500, 256, 224}, {500, 375, 256, 224}, {375, 500, 256, 256},
		{64, 64, 64, 64}, {61, 40, 40, 37}, {33, 700, 32, 32}, {40, 30, 90, 70},
		{1000, 9, 8, 8}, {2, 1, 8, 8},
	} {
		r := &Raster{Width: tc.width, Height: tc.height, Pix: make([]uint8, 3*tc.width*tc.height)}
		for i := range r.Pix { // Noise about the ends of the range, where sums are largest.
			r.Pix[i] = uint8(random.IntN(9) - 4)
		}
		by := []Filter{Bilinear, Bicubic}[k%2]
		got, err := r.Square(tc.resize, tc.crop, by)
		if err != nil {
			t.Fatal(err)
		}
		short := min(tc.width, tc.height)
		width, height := tc.resize*tc.width/short, tc.resize*tc.height/short
		middle := func(side int) int { return int(math.RoundToEven(float64(side-tc.crop) / 2)) }
		columns := by.taps(tc.width, width, middle(width), tc.crop)
		rows := by.taps(tc.height, height, middle(height), tc.crop)
		sum := func(of *taps, k int, value func(i int) uint8) uint8 {
			total := int64(0)
			for i, w := range of.weights[k*of.n:][:of.n] {
				total += int64(w) * int64(value(of.start+of.first[k]+i))
			}
			return uint8(max(0, min((total+1<<21)>>22, 255)))
		}
		for i, v := range got {
			x, y, channel := i/3%tc.crop, i/3/tc.crop, i%3
			want := sum(rows, y, func(row int) uint8 {
				return sum(columns, x, func(column int) uint8 { return r.Pix[3*(row*tc.width+column)+channel] })
			})
			if v != want {
				t.Fatalf("%+v: channel %d of (%d, %d) is %d, want %d", tc, channel, x, y, v, want)
			}
		}
	}
}

// Of a photograph of CUB's size.
func BenchmarkSquare(b *testing.B) {
	r := &Raster{Width: 500, Height: 375, Pix: make([]uint8, 3*500*375)}
	for i := range r.Pix {
		r.Pix[i] = uint8(i * i >> 4)
	}
	dst := make([]uint8, 256*256*3)
	for b.Loop() {
		r.square(dst, 256, 256, Bilinear)
	}
}

// What a viewer would show otherwise is said: an orientation of EXIF, in both orders of bytes, and transparent pixels.
// EXIF that is cut off or points beyond its end says nothing.
func TestShownOtherwise(t *testing.T) {
	t.Parallel()
	var plain bytes.Buffer
	if err := jpeg.Encode(&plain, fill(9, 7, color.RGBA{200, 40, 90, 255}), nil); err != nil {
		t.Fatal(err)
	}
	type order interface {
		binary.ByteOrder
		binary.AppendByteOrder
	}
	exif := func(o order, first uint32, orientation uint16) []byte {
		tiff := []byte(map[order]string{binary.LittleEndian: "II", binary.BigEndian: "MM"}[o])
		tiff = o.AppendUint32(o.AppendUint16(tiff, 42), first)
		tiff = o.AppendUint16(tiff, 2)
		for _, tag := range []uint16{0x10f, 0x112} { // The camera's maker stands before the orientation.
			tiff = o.AppendUint32(o.AppendUint16(o.AppendUint16(tiff, tag), 3), 1)
			tiff = o.AppendUint16(o.AppendUint16(tiff, orientation), 0)
		}
		return append([]byte("Exif\x00\x00"), o.AppendUint32(tiff, 0)...)
	}
	with := func(app1 []byte) []byte {
		raw := append([]byte{0xff, 0xd8, 0xff, 0xe1}, binary.BigEndian.AppendUint16(nil, uint16(len(app1)+2))...)
		return append(append(raw, app1...), plain.Bytes()[2:]...)
	}
	for _, o := range []order{binary.LittleEndian, binary.BigEndian} {
		for orientation := uint16(0); orientation <= 8; orientation++ {
			r, err := DecodeImage(with(exif(o, 8, orientation)))
			if err != nil || strings.Contains(r.Warning, "EXIF") != (orientation > 1) || r.Width != 9 {
				t.Errorf("%v, orientation %d: %+v, %v", o, orientation, r.Warning, err)
			}
		}
		for _, bad := range [][]byte{exif(o, 8, 6)[:20], exif(o, 1<<31, 6), exif(o, 1<<32-1, 6), exif(o, 8, 6)[:6]} {
			if r, err := DecodeImage(with(bad)); err != nil || r.Warning != "" {
				t.Errorf("%v, % x: %+v, %v", o, bad, r, err)
			}
		}
	}
	for _, alpha := range []uint8{0, 128, 255} {
		im := image.NewNRGBA(image.Rect(0, 0, 3, 3))
		for i := range 9 {
			copy(im.Pix[4*i:], []uint8{200, 40, 90, map[bool]uint8{true: alpha, false: 255}[i == 4]})
		}
		var b bytes.Buffer
		if err := png.Encode(&b, im); err != nil {
			t.Fatal(err)
		}
		if r, err := DecodeImage(b.Bytes()); err != nil || strings.Contains(r.Warning, "transparent") != (alpha < 255) {
			t.Errorf("alpha %d: %q, %v", alpha, r.Warning, err)
		}
	}
}

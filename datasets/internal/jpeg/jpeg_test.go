package jpeg

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	stdjpeg "image/jpeg"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const room = 1 << 20

// picture is a JPEG of noise by the standard library's encoder.
func picture(t testing.TB, gray bool, width, height, quality int) []byte {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var im image.Image
	if gray {
		g := image.NewGray(image.Rect(0, 0, width, height))
		for i := range g.Pix {
			g.Pix[i] = uint8(random.IntN(256))
		}
		im = g
	} else {
		c := image.NewRGBA(image.Rect(0, 0, width, height))
		for y := range height {
			for x := range width {
				c.SetRGBA(x, y, color.RGBA{uint8(4 * x), uint8(random.IntN(256)), uint8(3 * y), 255})
			}
		}
		im = c
	}
	var b bytes.Buffer
	if err := stdjpeg.Encode(&b, im, &stdjpeg.Options{Quality: quality}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The samples of a block are the inverse cosine transform's in float64, but for its rounding.
func TestTransform(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	quant := &[64]int64{}
	for trial := range 500 {
		var b block
		var coefficients [64]float64
		for k := range quant {
			quant[k] = (1 + random.Int64N(20)) << (32 * (k & 1))
		}
		for range 1 + random.IntN(1+trial/4) { // From a single one to all of them.
			k := random.IntN(64)
			if trial < 8 {
				k = 0
			}
			v := random.Int32N(41) - 20
			if b.set>>k&1 != 0 { // Files bring each once.
				continue
			}
			set, beyond := b.put(k, v, quant)
			b.set, b.beyond = b.set|set, b.beyond|beyond
			coefficients[k] = float64(int64(v) * (quant[k] >> (32 * (k & 1))))
		}
		c := component{stride: 16, samples: make([]uint8, 16*16)}
		if !c.transform(1, 1, &b) {
			t.Fatalf("trial %d: beyond the ranges", trial)
		}
		for y := range 8 {
			for x := range 8 {
				sum := 0.
				for v := range 8 {
					for u := range 8 {
						w := 0.25
						if u == 0 {
							w /= math.Sqrt2
						}
						if v == 0 {
							w /= math.Sqrt2
						}
						w *= math.Cos(float64(2*x+1)*float64(u)*math.Pi/16) * math.Cos(float64(2*y+1)*float64(v)*math.Pi/16)
						sum += w * coefficients[8*v+u]
					}
				}
				want := max(0, min(sum+128, 255))
				// 0.5 by rounding at the end, the rest by rounding between.
				if got := float64(c.samples[(8+y)*16+8+x]); math.Abs(got-want) > 0.75 {
					t.Fatalf("trial %d, (%d, %d): %v, want %v", trial, x, y, got, want)
				}
			}
		}
	}
}

// Of two columns at once, where the lower half is 0, the short transform is the whole one.
func TestInverseHalf(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 8))
	for range 1000 {
		var v [4]int64
		for i := range v {
			v[i] = (random.Int64N(2*halfWide)-halfWide)<<32 + random.Int64N(2*halfWide) - halfWide
		}
		type eight [8]int64
		whole := func(a, b, c, d, e, f, g, h int64) eight { return eight{a, b, c, d, e, f, g, h} }
		want := whole(inverse(v[0], v[1], v[2], v[3], 0, 0, 0, 0))
		if got := whole(inverseHalf(v[0], v[1], v[2], v[3])); got != want {
			t.Fatalf("%v: %v, want %v", v, got, want)
		}
	}
}

// Beside the standard library's decoder, which rounds otherwise.
func TestDecode(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		gray                   bool
		width, height, quality int
	}{{true, 1, 1, 90}, {true, 33, 17, 50}, {false, 8, 8, 90}, {false, 61, 40, 100}, {false, 40, 61, 10}} {
		file := picture(t, tc.gray, tc.width, tc.height, tc.quality)
		width, height, rgb, _, err := Decode(file, room)
		if err != nil || width != tc.width || height != tc.height || len(rgb) != 3*width*height {
			t.Fatalf("%+v: %d×%d, %v", tc, width, height, err)
		}
		im, err := stdjpeg.Decode(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		// Luma is not interpolated: it is what the two have in common.
		for i := range width * height {
			var luma uint8
			switch im := im.(type) {
			case *image.Gray:
				luma = im.Pix[i/width*im.Stride+i%width]
			case *image.YCbCr:
				luma = im.Y[i/width*im.YStride+i%width]
			}
			got := 0.299*float64(rgb[3*i]) + 0.587*float64(rgb[3*i+1]) + 0.114*float64(rgb[3*i+2])
			inside := min(rgb[3*i], rgb[3*i+1], rgb[3*i+2]) > 0 && max(rgb[3*i], rgb[3*i+1], rgb[3*i+2]) < 255
			if inside && math.Abs(got-float64(luma)) > 2 {
				t.Fatalf("%+v: pixel %d has luma %.1f, want about %d", tc, i, got, luma)
			}
		}
	}
}

// at is where the first segment of a marker begins, after the marker.
func at(t *testing.T, file []byte, marker uint8) int {
	t.Helper()
	i := bytes.Index(file, []byte{0xff, marker})
	if i < 0 {
		t.Fatalf("no marker %#x", marker)
	}
	return i + 2
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	whole := picture(t, false, 40, 30, 90)
	edit := func(marker uint8, offset int, v ...uint8) []byte {
		b := bytes.Clone(whole)
		copy(b[at(t, whole, marker)+offset:], v)
		return b
	}
	without := func(marker uint8) []byte {
		i := at(t, whole, marker) - 2
		n := 2 + int(whole[i+2])<<8 + int(whole[i+3])
		return append(bytes.Clone(whole[:i]), whole[i+n:]...)
	}
	frame := whole[at(t, whole, sof0)-2:][:19]
	scan, end := at(t, whole, sos)+12, len(whole)-2 // Its data.
	insert := func(at int, more ...uint8) []byte { return slices.Concat(whole[:at], more, whole[at:]) }
	for name, tc := range map[string]struct {
		file []byte
		want string
	}{
		"nothing":                {nil, "no JPEG marker"},
		"no picture":             {[]byte{0xff, soi, 0xff, eoi}, "no picture"},
		"two starts":             {append([]byte{0xff, soi}, whole...), "second start"},
		"two frames":             {append(append(bytes.Clone(whole[:2]), frame...), whole[2:]...), "second frame"},
		"arithmetic codes":       {edit(sof0, -1, 0xc9), "SOF9"},
		"lossless":               {edit(sof0, -1, 0xc3), "SOF3"},
		"12 bits":                {edit(sof0, 2, 12), "12 bits"},
		"no height":              {edit(sof0, 3, 0, 0), "40×0 pixels"},
		"large":                  {edit(sof0, 3, 255, 255, 255, 255), "65535×65535 pixels"},
		"two components":         {edit(sof0, 7, 2), "wrong length"},
		"no sampling":            {edit(sof0, 9, 0x02), "sampling 0×2"},
		"odd sampling":           {edit(sof0, 9, 0x33, 0, 2, 0x22), "unsupported"},
		"components alike":       {edit(sof0, 11, 1), "two components 1"},
		"a scan first":           {without(sof0), "before the frame"},
		"no Huffman tables":      {without(dht), "Huffman table is missing"},
		"no quantization tables": {without(dqt), "quantization table is missing"},
		"no scan":                {append(bytes.Clone(whole[:at(t, whole, sos)-2]), 0xff, eoi), "in no scan"},
		"an unknown component":   {edit(sos, 3, 9), "component 9"},
		"a component twice":      {edit(sos, 5, 1), "component 1 twice"},
		"an unknown table":       {edit(sos, 4, 0x33), "Huffman table is missing"},
		"a damaged table":        {edit(dht, 3, 3), "too many codes"},
		"a table of two kinds":   {edit(dht, 2, 0x20), "damaged Huffman"},
		"steps of 4 bytes":       {edit(dqt, 2, 0x20), "damaged quantization"},
		"a segment of nothing":   {edit(dqt, 0, 0, 1), "a segment of 1 bytes"},
		"no code":                {edit(sos, 12, bytes.Repeat([]uint8{0xfe}, 60)...), "damaged data"},
		"no restart marker":      {insert(2, 0xff, dri, 0, 4, 0, 1), "damaged data"},
		"a marker in the data":   {insert(scan+50, 0xff, rst0), "damaged data"},
		// What Pillow refuses.
		"an unknown marker":     {insert(2, 0xff, 0x02, 0, 2), "marker 0x2 at byte 2"},
		"an extension's marker": {insert(2, 0xff, 0xf3, 0, 2), "marker 0xf3"},
		"a hierarchical marker": {insert(2, 0xff, 0xde, 0, 2), "marker 0xde"},
		"DC values of 16 bits":  {edit(dht, 19, 16), "DC values of 16 bits"},
		"a code of ones": {edit(dht, 3, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
			"too many codes of up to 1 bits"},
		"sequential, in part":      {edit(sos, 10, 5), "coefficients 0 to 5"},
		"sequential, fewer bits":   {edit(sos, 11, 1), "bits 0x1"},
		"scanned twice":            {slices.Concat(whole[:end], whole[at(t, whole, sos)-2:]), "a second scan of component 1"},
		"coefficients too large":   {edit(dqt, 3, bytes.Repeat([]uint8{255}, 64)...), "a coefficient that no picture has"},
		"more than its data":       {edit(sof0, 3, 3, 255, 3, 255), "1023×1023 pixels take 6144 bytes or more"},
		"progressive, all at once": {edit(sof0, -1, sof2), "coefficients 0 to 63 of 3 components"},
	} {
		if _, _, _, _, err := Decode(tc.file, room); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
	for _, n := range []int{3, 30, scan - 5, scan, scan + 100, len(whole) - 10, len(whole) - 2, len(whole) - 1} {
		if _, _, _, _, err := Decode(whole[:n], room); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d of %d bytes: error %v", n, len(whole), err)
		}
	}
	if _, _, _, _, err := Decode(whole, 40*30-1); err == nil || !strings.Contains(err.Error(), "at most 1199") {
		t.Errorf("too large: error %v", err)
	}
}

// Comments, fill bytes before markers and whatever follows the picture are passed over, as libjpeg does; so is, with a
// warning, what leaves the picture whole. Pillow 12 gives the same pixels for each.
func TestDecodePassesOver(t *testing.T) {
	t.Parallel()
	gray, color := picture(t, true, 20, 20, 90), picture(t, false, 40, 30, 90)
	restart, passes := pillowFile(t, "restart.jpg"), pillowFile(t, "passes.jpg")
	insert := func(file []byte, at int, more ...uint8) []byte { return slices.Concat(file[:at], more, file[at:]) }
	jfif := func(version uint8) []uint8 {
		return append([]uint8{0xff, app0, 0, 16, 'J', 'F', 'I', 'F', 0, version}, make([]uint8, 8)...)
	}
	adobe := func(transform uint8) []uint8 {
		return append([]uint8{0xff, app14, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0}, transform)
	}
	end, last := len(color)-2, bytes.LastIndex(passes, []byte{0xff, sos})
	for name, tc := range map[string]struct {
		like, file []byte
		warning    string
	}{
		"bytes after":             {gray, append(bytes.Clone(gray), "more"...), ""},
		"filling":                 {gray, insert(gray, len(gray)-2, 0xff, 0xff), ""},
		"a comment":               {gray, insert(gray, 2, 0xff, 0xfe, 0, 4, 'o', 'k'), ""},
		"a byte after the data":   {color, insert(color, end, 0), "extraneous bytes at byte"},
		"more after the data":     {color, insert(color, end, make([]uint8, 3000)...), "extraneous bytes at byte"},
		"a stuffed byte after it": {color, insert(color, end, 0xff, 0), "extraneous bytes at byte"},
		"bytes between segments":  {color, insert(color, at(t, color, dqt)-2, 7, 0xff, 0), "extraneous bytes at byte 2,"},
		"before a restart marker": {restart, insert(restart, at(t, restart, rst0)-2, 0x12, 0x34), "extraneous bytes"},
		"between scans":           {passes, insert(passes, last, 0x12, 0x34, 0x77, 0, 0x77), "extraneous bytes"},
		"JFIF 2":                  {color, insert(color, 2, jfif(2)...), "JFIF version 2; want 1"},
		"an undefined transform":  {insert(color, 2, adobe(1)...), insert(color, 2, adobe(7)...), "color transform 7 of 3"},
		"that of four components": {insert(color, 2, adobe(1)...), insert(color, 2, adobe(2)...), "color transform 2 of 3"},
		"JFIF before Adobe":       {color, insert(color, 2, append(jfif(1), adobe(2)...)...), ""},
	} {
		_, _, want, none, err := Decode(tc.like, room)
		if err != nil || none != "" {
			t.Fatal(name, none, err)
		}
		_, _, got, warning, err := Decode(tc.file, room)
		if err != nil || !bytes.Equal(got, want) || (warning == "") != (tc.warning == "") ||
			!strings.Contains(warning, tc.warning) {
			t.Errorf("%s: warning %q, error %v", name, warning, err)
		}
	}
	// Data that end within a code, and more behind it: some of its codes were read as others.
	bare := slices.Concat(color[:end-1], []uint8{color[end-1] &^ 1, 0x12, 0x34}, color[end:])
	if _, _, _, _, err := Decode(bare, room); !errors.Is(err, errRest) {
		t.Errorf("not filled up with ones: error %v", err)
	}
}

// pillowFile returns an image of the tests above this package, or what Pillow makes of it.
func pillowFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../testdata/pillow", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// image/jpeg's pixels differ from Pillow's, and this package's do not. It is why this package exists.
func TestStandardLibraryDiffers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gray.jpg", "444.jpg", "420.jpg"} {
		want, err := png.Decode(bytes.NewReader(pillowFile(t, name+".rgb.png")))
		if err != nil {
			t.Fatal(err)
		}
		width, _, ours, _, err := Decode(pillowFile(t, name), room)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := stdjpeg.Decode(bytes.NewReader(pillowFile(t, name)))
		if err != nil {
			t.Fatal(err)
		}
		differ, standard := 0, 0
		for i, v := range ours {
			x, y := i/3%width, i/3/width
			value := func(c color.Color) uint8 {
				r, g, b, _ := c.RGBA()
				return uint8([]uint32{r, g, b}[i%3] >> 8)
			}
			if v != value(want.At(x, y)) {
				differ++
			}
			if value(theirs.At(x, y)) != value(want.At(x, y)) {
				standard++
			}
		}
		t.Logf("%s: of %d values, image/jpeg differs from Pillow in %d", name, len(ours), standard)
		if differ > 0 {
			t.Errorf("%s: of %d values, this package differs from Pillow in %d", name, len(ours), differ)
		}
		if standard == 0 {
			t.Errorf("%s: image/jpeg gives Pillow's values: what is this package for?", name)
		}
	}
}

// A progressive file that ends after a scan, with the end marker set there, is refused: libjpeg smooths what it lacks.
func TestProgressiveEndsEarly(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"progressive.jpg", "passes.jpg"} {
		whole := pillowFile(t, name)
		if _, _, _, _, err := Decode(whole, room); err != nil {
			t.Fatal(err)
		}
		cuts := 0
		for at := range whole[:len(whole)-1] {
			if whole[at] != 0xff || whole[at+1] != sos {
				continue
			}
			cuts++
			_, _, _, _, err := Decode(append(bytes.Clone(whole[:at]), 0xff, eoi), room)
			want := "its scans end early: none has "
			if cuts == 1 {
				want = "component 1 is in no scan"
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, cut at byte %d: error %v, want %q", name, at, err, want)
			}
		}
		if cuts < 9 {
			t.Errorf("%s: %d scans", name, cuts)
		}
	}
}

// passes is a progressive picture of one gray block, of scans of {first, last, high, low} whose codes are all 0 bits:
// DC differences of 0, and blocks that end.
func passes(scans ...[4]uint8) []byte {
	file := []byte{0xff, soi, 0xff, dqt, 0, 67, 0}
	file = append(file, bytes.Repeat([]uint8{1}, 64)...)
	file = append(file, 0xff, sof2, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0)
	for class := range uint8(2) {
		file = append(file, 0xff, dht, 0, 20, class<<4, 1)
		file = append(file, make([]uint8, 16)...) // A code of one bit, for the symbol 0.
	}
	for _, s := range scans {
		file = append(file, 0xff, sos, 0, 8, 1, 1, 0, s[0], s[1], s[2]<<4|s[3], 0)
	}
	return append(file, 0xff, eoi)
}

// Each bit of a coefficient comes once, from the highest to the lowest.
func TestScansInTurn(t *testing.T) {
	t.Parallel()
	dc, ac := [4]uint8{0, 0, 0, 0}, [4]uint8{1, 63, 0, 0}
	many := [][4]uint8{dc}
	for low := uint8(2); low > 0; low-- {
		for k := range uint8(63) {
			many = append(many, [4]uint8{1 + k, 1 + k, 0, low - 1})
			if low == 1 {
				many[len(many)-1][2] = 1
			}
		}
	}
	for name, tc := range map[string]struct {
		scans [][4]uint8
		want  string
	}{
		"whole":                 {[][4]uint8{dc, ac}, ""},
		"in two bands":          {[][4]uint8{dc, {6, 63, 0, 0}, {1, 5, 0, 0}}, ""},
		"bit by bit":            {[][4]uint8{{0, 0, 0, 2}, {1, 63, 0, 1}, {0, 0, 2, 1}, {1, 63, 1, 0}, {0, 0, 1, 0}}, ""},
		"the first twice":       {[][4]uint8{dc, ac, dc}, "coefficient 0 of component 1 out of turn"},
		"the others twice":      {[][4]uint8{dc, ac, ac}, "coefficient 1 of component 1 out of turn"},
		"one of them twice":     {[][4]uint8{dc, {1, 9, 0, 0}, {9, 63, 0, 0}}, "coefficient 9 of component 1 out of turn"},
		"the first at the end":  {[][4]uint8{ac, dc}, "before its first"},
		"refined at once":       {[][4]uint8{dc, {1, 63, 1, 0}}, "bits 1 to 0 of coefficient 1 of component 1 out of turn"},
		"a bit left out":        {[][4]uint8{dc, {1, 63, 0, 2}, {1, 63, 1, 0}}, "bits 1 to 0 of coefficient 1"},
		"the last bit missing":  {[][4]uint8{dc, {1, 63, 0, 1}}, "none has the lowest 1 bits of coefficient 1"},
		"the last coefficients": {[][4]uint8{dc, {1, 62, 0, 0}}, "none has coefficient 63 of component 1"},
		"more than 100":         {many, "more than 100 scans"},
		"100, and then none":    {many[:100], "none has the lowest 1 bits of coefficient 37"},
	} {
		_, _, rgb, _, err := Decode(passes(tc.scans...), room)
		if tc.want == "" {
			if err != nil || !bytes.Equal(rgb, bytes.Repeat([]uint8{128}, 8*8*3)) {
				t.Errorf("%s: %v, %v", name, rgb, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("../../testdata/pillow/*.jpg")
	if err != nil || len(files) < 10 {
		f.Fatal(len(files), err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		width, height, rgb, _, err := Decode(file, 1<<16)
		if err == nil && (width < 1 || height < 1 || len(rgb) != 3*width*height) {
			t.Fatalf("%d×%d with %d values", width, height, len(rgb))
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	file := picture(b, false, 500, 375, 90)
	b.Run("this", func(b *testing.B) {
		for b.Loop() {
			if _, _, _, _, err := Decode(file, room); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("image/jpeg, without RGB", func(b *testing.B) {
		for b.Loop() {
			if _, err := stdjpeg.Decode(bytes.NewReader(file)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

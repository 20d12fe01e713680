package jpeg

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	stdjpeg "image/jpeg"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const room = 1 << 20

// picture is a JPEG of noise by the standard library's encoder.
func picture(t testing.TB, grey bool, width, height, quality int) []byte {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var im image.Image
	if grey {
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
	quant := &[64]int32{}
	for trial := range 500 {
		var b block
		for k := range quant {
			quant[k] = 1 + random.Int32N(20)
		}
		for range 1 + random.IntN(1+trial/4) { // From a single one to all of them.
			k := random.IntN(64)
			if trial < 8 {
				k = 0
			}
			b.put(k, random.Int32N(41)-20, quant)
		}
		c := component{stride: 16, samples: make([]uint8, 16*16)}
		c.transform(1, 1, &b)
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
						sum += w * float64(b.values[8*v+u]) * math.Cos(float64(2*x+1)*float64(u)*math.Pi/16) * math.Cos(float64(2*y+1)*float64(v)*math.Pi/16)
					}
				}
				want := max(0, min(sum+128, 255))
				if got := float64(c.samples[(8+y)*16+8+x]); math.Abs(got-want) > 0.75 { // 0.5 by rounding at the end, the rest by rounding between.
					t.Fatalf("trial %d, (%d, %d): %v, want %v", trial, x, y, got, want)
				}
			}
		}
	}
}

// Beside the standard library's decoder, which rounds otherwise.
func TestDecode(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		grey                   bool
		width, height, quality int
	}{{true, 1, 1, 90}, {true, 33, 17, 50}, {false, 8, 8, 90}, {false, 61, 40, 100}, {false, 40, 61, 10}} {
		file := picture(t, tc.grey, tc.width, tc.height, tc.quality)
		width, height, rgb, err := Decode(file, room)
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
	scan := at(t, whole, sos) + 12 // Its data.
	for name, tc := range map[string]struct {
		file []byte
		want string
	}{
		"nothing":                  {nil, "no JPEG marker"},
		"no picture":               {[]byte{0xff, soi, 0xff, eoi}, "no picture"},
		"two starts":               {append([]byte{0xff, soi}, whole...), "second start"},
		"two frames":               {append(append(bytes.Clone(whole[:2]), frame...), whole[2:]...), "second frame"},
		"arithmetic codes":         {edit(sof0, -1, 0xc9), "SOF9"},
		"lossless":                 {edit(sof0, -1, 0xc3), "SOF3"},
		"12 bits":                  {edit(sof0, 2, 12), "12 bits"},
		"no height":                {edit(sof0, 3, 0, 0), "40×0 pixels"},
		"large":                    {edit(sof0, 3, 255, 255, 255, 255), "65535×65535 pixels"},
		"two components":           {edit(sof0, 7, 2), "wrong length"},
		"no sampling":              {edit(sof0, 9, 0x02), "sampling 0×2"},
		"odd sampling":             {edit(sof0, 9, 0x33, 0, 2, 0x22), "unsupported"},
		"components alike":         {edit(sof0, 11, 1), "two components 1"},
		"a scan first":             {without(sof0), "before the frame"},
		"no Huffman tables":        {without(dht), "Huffman table is missing"},
		"no quantization tables":   {without(dqt), "quantization table is missing"},
		"no scan":                  {append(bytes.Clone(whole[:at(t, whole, sos)-2]), 0xff, eoi), "in no scan"},
		"an unknown component":     {edit(sos, 3, 9), "component 9"},
		"a component twice":        {edit(sos, 5, 1), "component 1 twice"},
		"an unknown table":         {edit(sos, 4, 0x33), "Huffman table is missing"},
		"a damaged table":          {edit(dht, 3, 3), "too many codes"},
		"a table of two kinds":     {edit(dht, 2, 0x20), "damaged Huffman"},
		"steps of 4 bytes":         {edit(dqt, 2, 0x20), "damaged quantization"},
		"a segment of nothing":     {edit(dqt, 0, 0, 1), "a segment of 1 bytes"},
		"no code":                  {edit(sos, 12, bytes.Repeat([]uint8{0xfe}, 60)...), "damaged data"},
		"no restart marker":        {append(append(bytes.Clone(whole[:2]), 0xff, dri, 0, 4, 0, 1), whole[2:]...), "damaged data"},
		"a marker in the data":     {append(append(bytes.Clone(whole[:scan+50]), 0xff, rst0), whole[scan+50:]...), "damaged data"},
		"progressive, all at once": {edit(sof0, -1, sof2), "coefficients 0 to 63 of 3 components"},
	} {
		if _, _, _, err := Decode(tc.file, room); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
	for _, n := range []int{3, 30, scan - 5, scan, scan + 100, len(whole) - 10, len(whole) - 2, len(whole) - 1} {
		if _, _, _, err := Decode(whole[:n], room); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d of %d bytes: error %v", n, len(whole), err)
		}
	}
	if _, _, _, err := Decode(whole, 40*30-1); err == nil || !strings.Contains(err.Error(), "at most 1199") {
		t.Errorf("too large: error %v", err)
	}
}

// What stands between segments and after the picture is passed over, as libjpeg does.
func TestDecodePassesOver(t *testing.T) {
	t.Parallel()
	whole := picture(t, true, 20, 20, 90)
	_, _, want, err := Decode(whole, room)
	if err != nil {
		t.Fatal(err)
	}
	end := len(whole) - 2
	for name, file := range map[string][]byte{
		"bytes after":        append(bytes.Clone(whole), "more"...),
		"filling":            append(append(bytes.Clone(whole[:end]), 0xff, 0xff), whole[end:]...),
		"bytes before a end": append(append(bytes.Clone(whole[:end]), 0xff, 0, 7), whole[end:]...),
		"a comment":          append(append(bytes.Clone(whole[:2]), 0xff, 0xfe, 0, 4, 'o', 'k'), whole[2:]...),
	} {
		if _, _, got, err := Decode(file, room); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v", name, err)
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
		width, height, rgb, err := Decode(file, 1<<16)
		if err == nil && (width < 1 || height < 1 || len(rgb) != 3*width*height) {
			t.Fatalf("%d×%d with %d values", width, height, len(rgb))
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	file := picture(b, false, 500, 375, 90)
	b.Run("this", func(b *testing.B) {
		for b.Loop() {
			if _, _, _, err := Decode(file, room); err != nil {
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

package mat5

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"math"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func sample() []*Array {
	text := func(s string) *Array { return &Array{Text: s} }
	number := func(v float64) *Array { return &Array{Numbers: []float64{v}} }
	return []*Array{
		{Name: "annotations", Structs: []map[string]*Array{
			{"class": number(1), "fname": text("00001.jpg")},
			{"class": number(196), "fname": text("ab")},
		}},
		{Name: "class_names", Cells: []*Array{text("AM General Hummer SUV 2000"), text("Škoda")}},
		{Name: "v", Numbers: []float64{1.5, -2, math.Inf(1)}},
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	for _, compressed := range []bool{false, true} {
		var b bytes.Buffer
		if err := Write(&b, compressed, sample()...); err != nil {
			t.Fatal(err)
		}
		got, err := Read(&b)
		if err != nil {
			t.Fatal(err)
		}
		checkSample(t, got)
	}
}

func checkSample(t *testing.T, got map[string]*Array) {
	t.Helper()
	a := got["annotations"]
	if a == nil || len(a.Structs) != 2 || a.Structs[1]["class"].Numbers[0] != 196 ||
		a.Structs[0]["fname"].Text != "00001.jpg" || a.Structs[1]["fname"].Text != "ab" {
		t.Errorf("structures %+v", a)
	}
	c := got["class_names"]
	if c == nil || len(c.Cells) != 2 || c.Cells[0].Text != "AM General Hummer SUV 2000" || c.Cells[1].Text != "Škoda" ||
		!reflect.DeepEqual(c.Dims, []int{1, 2}) {
		t.Errorf("cells %+v", c)
	}
	if v := got["v"]; v == nil || !reflect.DeepEqual(v.Numbers, []float64{1.5, -2, math.Inf(1)}) {
		t.Errorf("numbers %+v", v)
	}
}

// The files of testdata are SciPy's (testdata/make.py) and hold the sample in the types that the published lists have.
func TestSciPyFilesAreRead(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"scipy.mat", "scipy-compressed.mat"} {
		file, err := os.Open("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		got, err := Read(file)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		checkSample(t, got)
		if kinds := got["kinds"]; kinds == nil || len(kinds.Cells) != 11 {
			t.Errorf("%s: kinds %+v", name, kinds)
		} else {
			for i, c := range kinds.Cells {
				if c == nil || len(c.Numbers) != 2 || c.Numbers[0] != 0 || c.Numbers[1] != 1 {
					t.Errorf("%s: kind %d is %+v", name, i, c)
				}
			}
		}
		if m := got["matrix"]; m == nil || !reflect.DeepEqual(m.Numbers, []float64{1, 4, 2, 5, 3, 6}) ||
			!reflect.DeepEqual(m.Dims, []int{2, 3}) {
			t.Errorf("%s: matrix %+v", name, m)
		}
		if got["sparse"] != nil {
			t.Errorf("%s: a sparse array was read as %+v", name, got["sparse"])
		}
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := Write(&b, false, sample()...); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	var packed bytes.Buffer
	if err := Write(&packed, true, sample()...); err != nil {
		t.Fatal(err)
	}
	edited := func(at int, to ...byte) []byte {
		c := bytes.Clone(whole)
		copy(c[at:], to)
		return c
	}
	for name, tc := range map[string]struct {
		file []byte
		want string
	}{
		"nothing":            {nil, "ends early"},
		"text":               {bytes.Repeat([]byte("no MATLAB file. "), 20), "not a MATLAB file"},
		"big-endian":         {edited(126, 'M', 'I'), "little-endian"},
		"HDF5":               {append([]byte("MATLAB 7.3 MAT-file"), whole...), "version 7.3"},
		"another format":     {edited(124, 0, 7), "format 0x0700"},
		"cut short":          {whole[:len(whole)-30], "ends early"},
		"cut when packed":    {packed.Bytes()[:200], "ends early"},
		"packed and damaged": {append(bytes.Clone(packed.Bytes()[:140]), make([]byte, packed.Len()-140)...), "damaged"},
		"no flags":           {edited(headerLength+8, 9), "without flags"},
		"no dimensions":      {edited(headerLength+24, 6), "without dimensions"},
		"negative dimension": {edited(headerLength+36, 255, 255, 255, 255), "dimension of -1"},
		"huge dimension":     {edited(headerLength+36, 255, 255, 255, 127), "dimension of 2147483647"},
		"too many elements":  {edited(headerLength+36, 255, 255, 255, 0), "ends early"},
	} {
		if _, err := Read(bytes.NewReader(tc.file)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
}

// A file of a few kilobytes that unpacks to much more, or to a great many arrays or numbers, is refused before memory
// is taken for them.
func TestReadIsBounded(t *testing.T) {
	packed := func(class byte, n int, after ...[]byte) []byte {
		flags := element(miUINT32, []byte{class, 0, 0, 0, 0, 0, 0, 0})
		dims := element(miINT32, binary.LittleEndian.AppendUint32([]byte{1, 0, 0, 0}, uint32(n)))
		all := element(miMATRIX, slices.Concat(append([][]byte{flags, dims, element(miINT8, nil)}, after...)...))
		var z bytes.Buffer
		w := zlib.NewWriter(&z)
		if _, err := w.Write(all); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		if err := Write(&file, false); err != nil {
			t.Fatal(err)
		}
		return slices.Concat(file.Bytes(), tag(miCOMPRESSED, z.Len()), z.Bytes())
	}
	empty := func(n int) []byte { return bytes.Repeat(tag(miMATRIX, 0), n) }
	names := func(length byte, n int) []byte {
		return append(element(miINT32, []byte{length, 0, 0, 0}), element(miINT8, make([]byte, n))...)
	}
	for name, tc := range map[string]struct {
		file []byte
		want string
	}{
		"bytes":   {packed(mxCHAR, 1, make([]byte, maxLength)), "unpacks to more than 67108864 bytes"},
		"cells":   {packed(mxCELL, maxArrays, empty(maxArrays)), "more than 524288 arrays"},
		"fields":  {packed(mxSTRUCT, maxArrays/2, names(1, 2), empty(maxArrays)), "more than 524288 arrays"},
		"names":   {packed(mxSTRUCT, 0, names(1, maxArrays+1)), "more than 524288 arrays"},
		"numbers": {packed(mxDOUBLE, maxNumbers+1, element(miINT8, make([]byte, maxNumbers+1))), "more than 8388608 numbers"},
	} {
		if len(tc.file) > 200<<10 {
			t.Fatalf("%s: a file of %d bytes", name, len(tc.file))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Read(bytes.NewReader(tc.file))
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 512 {
			t.Errorf("%s: took %d MB in all for %d bytes", name, took, len(tc.file))
		}
	}
	// What the limits allow is read.
	got, err := Read(bytes.NewReader(packed(mxCELL, maxArrays-1, empty(maxArrays-1))))
	if err != nil || len(got[""].Cells) != maxArrays-1 {
		t.Errorf("%d cells: %v", maxArrays-1, err)
	}
}

func FuzzRead(f *testing.F) {
	for _, compressed := range []bool{false, true} {
		var b bytes.Buffer
		if err := Write(&b, compressed, sample()...); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	for _, name := range []string{"testdata/scipy.mat", "testdata/scipy-compressed.mat"} {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		arrays, err := Read(bytes.NewReader(file))
		if err == nil && arrays == nil {
			t.Error("neither arrays nor an error")
		}
	})
}

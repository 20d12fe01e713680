package npy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// strs is a file of strings, as numpy.save writes it.
func strs(descr string, n int, body string) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }", descr, n)
	header += strings.Repeat(" ", 117-len(header)) + "\n"
	return []byte("\x93NUMPY\x01\x00\x76\x00" + header + body)
}

func TestReadLabels(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	unicode := file("u.npy", strs("<U2", 3, "b\x00\x00\x00\x00\x00\x00\x00a\x00\x00\x00\xe9\x00\x00\x00b\x00\x00\x00"+
		"\x00\x00\x00\x00"))
	ascii, lines := file("s.npy", strs("|S2", 2, "c\x00b\x00")), file("l.txt", []byte("aé\r\nb\r\n"))
	labels, names, err := ReadLabels(unicode, ascii, lines)
	if err != nil || !slices.Equal(names, []string{"aé", "b", "c"}) || !slices.Equal(labels[0], []int64{1, 0, 1}) ||
		!slices.Equal(labels[1], []int64{2, 1}) || !slices.Equal(labels[2], []int64{0, 1}) {
		t.Errorf("%v, %v, %v", labels, names, err)
	}
	numbers := file("n.txt", []byte("7\n-1"))
	if labels, names, err := ReadLabels(numbers); err != nil || names != nil || !slices.Equal(labels[0], []int64{7, -1}) {
		t.Errorf("%v, %v, %v", labels, names, err)
	}
	// All say the same, whatever wrote it: a text with a byte order mark, blanks and line ends, strings of NumPy.
	for _, path := range []string{file("bom.txt", []byte("\ufeff7\r\n-1 ")), file("i.npy", strs("|S2", 2, "7\x00-1"))} {
		if labels, names, err := ReadLabels(path); err != nil || names != nil || !slices.Equal(labels[0], []int64{7, -1}) {
			t.Errorf("%s: %v, %v, %v", path, labels, names, err)
		}
	}
	for _, path := range []string{file("0.txt", []byte("07\n7\na")), file("0.npy", strs("|S2", 3, "077\x00a "))} {
		if _, names, err := ReadLabels(path); err != nil || !slices.Equal(names, []string{"07", "7", "a"}) {
			t.Errorf("%s: %v, %v", path, names, err)
		}
	}
	for want, paths := range map[string][]string{
		"look alike":     {file("c.txt", []byte("caf\u00e9")), file("d.txt", []byte("cafe\u0301"))},
		"want one kind":  {numbers, ascii},
		"label 1 is e":   {file("e.txt", []byte("a\n\nb"))},
		"unique":         {file("o.npy", strs("|O", 2, "12345678"))},
		"Git LFS":        {file("p.npy", []byte("version https://git-lfs.github.com/spec/v1\noid"))},
		"damaged: 0 byt": {file("z.npy", strs("<U0", 1<<40, ""))},
		"damaged: 2 byt": {file("w.npy", strs("<U999999999999999999", 1, "ab"))},
		"label 0 is emp": {file("m.npy", strs("|S2", 1, "\x00\x00"))},
	} {
		if _, _, err := ReadLabels(paths...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npy")
	want := []float32{1, -2.5, 3e-30, 4, 5, 6}
	if err := WriteFloat32(path, want, 2, 3); err != nil {
		t.Fatal(err)
	}
	got, shape, err := ReadFloat32(path)
	if err != nil || !slices.Equal(got, want) || !slices.Equal(shape, []int{2, 3}) {
		t.Fatalf("read %v %v, %v", got, shape, err)
	}
	raw, _ := os.ReadFile(path)
	if start := len(raw) - 4*len(want); start%64 != 0 {
		t.Errorf("the data start at byte %d, not at a multiple of 64", start)
	}
	labels := []int64{7, -1, 1 << 40}
	if err := WriteInt64(path, labels, 3); err != nil {
		t.Fatal(err)
	}
	if got, shape, err := ReadInt64(path); err != nil || !slices.Equal(got, labels) || !slices.Equal(shape, []int{3}) {
		t.Fatalf("read %v %v, %v", got, shape, err)
	}
}

// The files are those of numpy.save and, of version 3.0, numpy.lib.format.write_array. What is written here is the
// same.
func TestNumPyFiles(t *testing.T) {
	matrix := []float32{1, -2.5, 3e-30, 4, 5, 6}
	got, shape, err := ReadFloat32("testdata/numpy.npy")
	if err != nil || !slices.Equal(got, matrix) || !slices.Equal(shape, []int{2, 3}) {
		t.Errorf("read %v %v, %v", got, shape, err)
	}
	vector, shape, err := ReadInt64("testdata/numpy-v3.npy")
	if err != nil || !slices.Equal(vector, []int64{7, -1, 1 << 40}) || !slices.Equal(shape, []int{3}) {
		t.Errorf("read %v %v, %v", vector, shape, err)
	}
	path := filepath.Join(t.TempDir(), "a.npy")
	if err := WriteFloat32(path, matrix, 2, 3); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/numpy.npy")
	if err != nil {
		t.Fatal(err)
	}
	if written, err := os.ReadFile(path); err != nil || len(written) != len(want) ||
		!bytes.Equal(written[len(want)-24:], want[len(want)-24:]) {
		t.Errorf("wrote %q, %v; NumPy writes %q", written, err, want)
	}
}

// file returns an array's file of version 1.0 with a header of our choice.
func file(header, body string) []byte {
	header += strings.Repeat(" ", 117-len(header)) + "\n"
	return []byte("\x93NUMPY\x01\x00\x76\x00" + header + body)
}

// octets returns an array's bytes as a text.
func octets(raw []byte) (string, []int, error) {
	values, shape, err := decode[int64](raw)
	var out []byte
	for _, v := range values {
		out = append(out, byte(v))
	}
	return string(out), shape, err
}

// NumPy refuses these too.
func TestBadHeaders(t *testing.T) {
	const body = "\x00\x01\x02\xfd\xfe\xff"
	good := "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }"
	if v, _, err := octets(file(good, body)); err != nil || v != body {
		t.Fatalf("the sound file: %q, %v", v, err)
	}
	for _, same := range []string{
		`{"shape": (2,3), "fortran_order":False, "descr":"u1"}`,
		" {'descr':'<u1','shape':(6,),'fortran_order':False}",
	} {
		if v, _, err := octets(file(same, body)); err != nil || v != body {
			t.Errorf("%s: %q, %v", same, v, err)
		}
	}
	for change, want := range map[[2]string]string{
		{"{", ""}:                                        "its header is",
		{"{", "[{"}:                                      "its header is",
		{", }", ", "}:                                    "its header is",
		{", }", ", }x"}:                                  "its header is",
		{"'fortran_order'", "Fortran"}:                   "its header is",
		{"'descr': ", "'descr' "}:                        "its header is",
		{"'descr'", "'descr\\'"}:                         "its header is",
		{"'descr'", "'desc'"}:                            "its header is",
		{"'shape'", "'descr'"}:                           "its header is",
		{", 'shape': (2, 3)", ""}:                        "its header is",
		{"(2, 3), }", "(2, 3), 'x': 1}"}:                 "its header is",
		{"False, '", "False '"}:                          "its header is",
		{"False", "Falsch"}:                              "its header is",
		{"False", "0"}:                                   "its header is",
		{"(2, 3)", "(6)"}:                                "its header is",
		{"(2, 3)", "(2 3)"}:                              "its header is",
		{"(2, 3)", "[2, 3]"}:                             "its header is",
		{"(2, 3)", "(2, 3"}:                              "its header is",
		{"(2, 3)", "(,)"}:                                "its header is",
		{"(2, 3)", "(2, 03)"}:                            "its header is",
		{"(2, 3)", "(-2, -3)"}:                           "its header is",
		{"(2, 3)", "(2, 3.)"}:                            "its header is",
		{"(2, 3)", "(99999999999999999999,)"}:            "its header is",
		{"(2, 3)", "(" + strings.Repeat("1,", 20) + ")"}: "promises 1 bytes",
		{"(2, 3)", "(4294967296, 0, 4294967296)"}:        "which no array has",
		{"(2, 3)", "(0, 3)"}:                             "promises 0 bytes",
		{"|u1", "<|u1"}:                                  "expected int64",
		{"|u1", ""}:                                      "expected int64",
		{"|u1", ">u2"}:                                   "transposed or big-endian: save",
		{"False", "True"}:                                "transposed or big-endian: save",
	} {
		header := strings.Replace(good, change[0], change[1], 1)
		if _, _, err := octets(file(header, body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", header, err, want)
		}
	}
	for name, tc := range map[string]struct {
		at   int
		to   string
		want string
	}{
		"version 1.1":   {6, "\x01\x01", "version 1.1"},
		"version 4":     {6, "\x04", "version 4.0"},
		"version 0":     {6, "\x00", "version 0.0"},
		"a long header": {6, "\x02\x00\xff\xff\xff\x7f", "a header of 2147483647 bytes; want at most 10000"},
		"a cut header":  {8, "\xff\x00", "ends in its header"},
		"no magic":      {0, "\x92", "does not begin with"},
	} {
		b := file(good, body)
		copy(b[tc.at:], tc.to)
		if _, _, err := octets(b); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
	dims := "{'descr': '|u1', 'fortran_order': False, 'shape': (" + strings.Repeat("1,", maxDims+1) + ")}"
	if _, err := parseHeader(dims); err == nil || !strings.Contains(err.Error(), "more than 64 dimensions") {
		t.Errorf("too many dimensions: error %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"testdata/numpy.npy", "testdata/numpy-v3.npy"} {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(file("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, 3), }", "\x00\x01\x02\xfd\xfe\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		values, shape, err := decode[float32](b)
		if err == nil && len(values) != size(shape) {
			t.Fatalf("%d values of shape %v", len(values), shape)
		}
		if values, shape, err := decode[int64](b); err == nil && len(values) != size(shape) {
			t.Fatalf("%d values of shape %v", len(values), shape)
		}
	})
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.npy")
	if err := WriteFloat32(good, []float32{1, 2, 3, 4}, 2, 2); err != nil {
		t.Fatal(err)
	}
	raw, _ := os.ReadFile(good)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"short":                    {raw[:len(raw)-1], "damaged"},
		"long":                     {append(slices.Clone(raw), 0), "damaged"},
		"empty":                    {nil, "not a NumPy array"},
		"header":                   {raw[:20], "not a NumPy array"},
		"text":                     {[]byte("hello, this is no array at all"), "not a NumPy array"},
		"f64":                      {[]byte(strings.Replace(string(raw), "<f4", "<f8", 1)), "promises 32 bytes"},
		"complex":                  {[]byte(strings.Replace(string(raw), "<f4", "<c8", 1)), `.astype("float32")`},
		"three bytes":              {[]byte(strings.Replace(string(raw), "<f4", "<i3", 1)), "expected float32"},
		"negative, an odd number":  {[]byte(strings.Replace(string(raw), "(2,2,), }  ", "(-9,22), }", 1)), "damaged"},
		"negative, an even number": {[]byte(strings.Replace(string(raw), "(2,2,), }  ", "(-2,-2), } ", 1)), "damaged"},
		"huge": {[]byte(strings.Replace(string(raw), "(2,2,), }                        ",
			"(4294967296,4294967296), }        ", 1)), "damaged"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := ReadFloat32(path)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := WriteFloat32(good, []float32{1, 2, 3}, 2, 2); err == nil {
		t.Error("3 values were written as 2×2")
	}
}

func TestReadBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npy")
	array := file("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, 3), }", "\x00\x01\x02\xfd\xfe\xff")
	if err := os.WriteFile(path, array, 0o600); err != nil {
		t.Fatal(err)
	}
	got, shape, err := ReadInt64(path)
	if err != nil || !slices.Equal(got, []int64{0, 1, 2, 253, 254, 255}) || !slices.Equal(shape, []int{2, 1, 3}) {
		t.Fatalf("read %v %v, %v", got, shape, err)
	}
	if values, _, err := ReadFloat32(path); err != nil || values[5] != 255 {
		t.Errorf("%v, %v", values, err)
	}
	if err := WriteFloat32(path, []float32{0, 0.5}, 2); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadInt64(path); err == nil || !strings.Contains(err.Error(), `holds "<f4" values`) {
		t.Error(err)
	}
	if _, _, err := ReadInt64(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}

// The files are numpy.save's of arrays of these types; f2 holds 6e-8, which is below float16's normal numbers.
func TestTypes(t *testing.T) {
	eighths := make([]float32, 24)
	for i := range eighths {
		eighths[i] = float32(i)/8 - 1.25
	}
	for name, want := range map[string]struct {
		values []float32
		shape  []int
	}{
		"f2":       {[]float32{1, -2.5, 1. / (1 << 24), 65504, 0.0999755859375, float32(math.Inf(1))}, []int{2, 3}},
		"f8":       {eighths, []int{2, 3, 4}},
		"i2":       {[]float32{1, -2, 300, 4, 5, -32768}, []int{2, 3}},
		"numpy-v3": {[]float32{7, -1, 1 << 40}, []int{3}},
	} {
		got, shape, err := ReadFloat32("testdata/" + name + ".npy")
		if err != nil || !slices.Equal(got, want.values) || !slices.Equal(shape, want.shape) {
			t.Errorf("%s: %v %v, %v", name, got, shape, err)
		}
	}
	got, shape, err := ReadInt64("testdata/i2.npy")
	if err != nil || !slices.Equal(got, []int64{1, -2, 300, 4, 5, -32768}) || !slices.Equal(shape, []int{2, 3}) {
		t.Errorf("%v %v, %v", got, shape, err)
	}
	of := func(descr, body string) []byte {
		return file("{'descr': '"+descr+"', 'fortran_order': False, 'shape': (2,), }", body)
	}
	for _, c := range []struct {
		descr, body string
		want        []int64
	}{
		{"|i1", "\xff\x7f", []int64{-1, 127}},
		{"|u1", "\xff\x7f", []int64{255, 127}},
		{"<i2", "\xfe\xff\x00\x01", []int64{-2, 256}},
		{"<u2", "\xfe\xff\x00\x01", []int64{65534, 256}},
		{"<i4", "\xfe\xff\xff\xff\x00\x01\x00\x00", []int64{-2, 256}},
		{"<u4", "\xfe\xff\xff\xff\x00\x00\x01\x00", []int64{1<<32 - 2, 1 << 16}},
		{"<u8", "\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x01\x00\x00\x00\x00\x00\x00", []int64{math.MaxInt64, 256}},
		{"<i8", "\xfe\xff\xff\xff\xff\xff\xff\xff\x05\x00\x00\x00\x00\x00\x00\x00", []int64{-2, 5}},
	} {
		if got, _, err := decode[int64](of(c.descr, c.body)); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", c.descr, got, err)
		}
		floats, _, err := decode[float32](of(c.descr, c.body))
		if err != nil || floats[0] != float32(c.want[0]) || floats[1] != float32(c.want[1]) {
			t.Errorf("%s: %v, %v", c.descr, floats, err)
		}
	}
	large := strings.Repeat("\xff", 8) + strings.Repeat("\x00", 8)
	if _, _, err := decode[int64](of("<u8", large)); err == nil || !strings.Contains(err.Error(), "18446744073709551615") {
		t.Error(err)
	}
	wide := "\x00\x00\x00\x00\x00\x00\x00\x00\x9c\x75\x00\x88\x3c\xe4\x37\x7e" // 0 and 1e300.
	if _, _, err := decode[float32](of("<f8", wide)); err == nil || !strings.Contains(err.Error(), "value 1 is 1e+300") {
		t.Error(err)
	}
}

// An integer just above the middle of two float32 values becomes the upper one, though float64 has it in the middle.
func TestLargeIntegersRoundOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npy")
	if err := WriteInt64(path, []int64{1<<60 + 1<<36 + 1, -(1<<60 + 1<<36 + 1)}, 2); err != nil {
		t.Fatal(err)
	}
	got, _, err := ReadFloat32(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := float32(1<<60 + 1<<37); got[0] != want || got[1] != -want {
		t.Errorf("%v, want ±%v", got, want)
	}
}

// Types that are more often something else are told: bytes and bfloat16.
func TestOtherNumbers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, descr, shape, body string) string {
		header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape)
		header += strings.Repeat(" ", 117-len(header)) + "\n"
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("\x93NUMPY\x01\x00\x76\x00"+header+body), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	doubles := func(values ...float64) string {
		var raw []byte
		for _, v := range values {
			raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(v))
		}
		return string(raw)
	}
	octets := file("u1.npy", "|u1", "(1, 2)", "ab")
	floats := file("f8.npy", "<f8", "(3, 2)", doubles(0, 0, 1, 1e-60, 1e-60, 0))
	if !IsBytes(octets) || IsBytes(floats) || IsBytes(filepath.Join(dir, "none.npy")) {
		t.Error("bytes are not told from numbers")
	}
	for path, want := range map[string]string{
		file("bf.npy", "<V2", "(1,)", "ab"): "bfloat16", floats: "", octets: "",
		file("us.npy", ">U1", "(1,)", "\x00\x00\x00a"): "big-endian",
	} {
		if _, _, err := ReadFloat32(path); (err == nil) != (want == "") || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", filepath.Base(path), err, want)
		}
	}
}

package npy

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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

// NumPy refuses these too.
func TestBadHeaders(t *testing.T) {
	const body = "\x00\x01\x02\xfd\xfe\xff"
	good := "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }"
	if v, _, err := decode[uint8](file(good, body), "u1"); err != nil || string(v) != body {
		t.Fatalf("the sound file: %q, %v", v, err)
	}
	for _, same := range []string{
		`{"shape": (2,3), "fortran_order":False, "descr":"u1"}`,
		" {'descr':'<u1','shape':(6,),'fortran_order':True}",
	} {
		if v, _, err := decode[uint8](file(same, body), "u1"); err != nil || string(v) != body {
			t.Errorf("%s: %q, %v", same, v, err)
		}
	}
	for change, want := range map[[2]string]string{
		{"{", ""}:                                        "want {",
		{"{", "[{"}:                                      "want {",
		{", }", ", "}:                                    "want a string",
		{", }", ", }x"}:                                  "want nothing",
		{"'fortran_order'", "Fortran"}:                   "want a string",
		{"'descr': ", "'descr' "}:                        "want :",
		{"'descr'", "'descr\\'"}:                         "want a string",
		{"'descr'", "'desc'"}:                            `key "desc", unknown or twice`,
		{"'shape'", "'descr'"}:                           `key "descr", unknown or twice`,
		{", 'shape': (2, 3)", ""}:                        "a key is missing",
		{"(2, 3), }", "(2, 3), 'x': 1}"}:                 `key "x", unknown or twice`,
		{"False, '", "False '"}:                          "want , or }",
		{"False", "Falsch"}:                              "want True or False",
		{"False", "0"}:                                   "want True or False",
		{"(2, 3)", "(6)"}:                                "want , behind the only dimension",
		{"(2, 3)", "(2 3)"}:                              "want , or )",
		{"(2, 3)", "[2, 3]"}:                             "want (",
		{"(2, 3)", "(2, 3"}:                              "want a dimension",
		{"(2, 3)", "(,)"}:                                "want a dimension",
		{"(2, 3)", "(2, 03)"}:                            "want a dimension",
		{"(2, 3)", "(-2, -3)"}:                           "want a dimension",
		{"(2, 3)", "(2, 3.)"}:                            "want , or )",
		{"(2, 3)", "(99999999999999999999,)"}:            "want a dimension",
		{"(2, 3)", "(" + strings.Repeat("1,", 20) + ")"}: "promises 1 bytes",
		{"(2, 3)", "(4294967296, 0, 4294967296)"}:        "which no array has",
		{"(2, 3)", "(0, 3)"}:                             "promises 0 bytes",
		{"|u1", "<|u1"}:                                  "expected u1",
		{"|u1", ""}:                                      "expected u1",
	} {
		header := strings.Replace(good, change[0], change[1], 1)
		if _, _, err := decode[uint8](file(header, body), "u1"); err == nil || !strings.Contains(err.Error(), want) {
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
		if _, _, err := decode[uint8](b, "u1"); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
	dims := "{'shape': (" + strings.Repeat("1,", maxDims+1) + ")"
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
		values, shape, err := decode[float32](b, "f4")
		if err == nil && len(values) != size(shape) {
			t.Fatalf("%d values of shape %v", len(values), shape)
		}
		if bytes, shape, err := decode[uint8](b, "u1"); err == nil && len(bytes) != size(shape) {
			t.Fatalf("%d values of shape %v", len(bytes), shape)
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
		"f64":                      {[]byte(strings.Replace(string(raw), "<f4", "<f8", 1)), "expected f4"},
		"big":                      {[]byte(strings.Replace(string(raw), "<f4", ">f4", 1)), "big-endian"},
		"fortran":                  {[]byte(strings.Replace(string(raw), "False", "True ", 1)), "Fortran order"},
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

func TestReadUint8(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npy")
	array := file("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, 3), }", "\x00\x01\x02\xfd\xfe\xff")
	if err := os.WriteFile(path, array, 0o600); err != nil {
		t.Fatal(err)
	}
	got, shape, err := ReadUint8(path)
	if err != nil || !slices.Equal(got, []uint8{0, 1, 2, 253, 254, 255}) || !slices.Equal(shape, []int{2, 1, 3}) {
		t.Fatalf("read %v %v, %v", got, shape, err)
	}
	if _, _, err := ReadFloat32(path); err == nil || !strings.Contains(err.Error(), "expected f4") {
		t.Error(err)
	}
}

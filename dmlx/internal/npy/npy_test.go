package npy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbinet/npyio/npy"
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
	f, err := os.Open(path) // Another reader agrees.
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var other []int64
	if err := npy.Read(f, &other); err != nil || !slices.Equal(other, labels) {
		t.Fatalf("npyio reads %v, %v", other, err)
	}
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
		"fortran":                  {[]byte(strings.Replace(string(raw), "False", "True ", 1)), "NumPy"},
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
	header := "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, 3), }"
	header += strings.Repeat(" ", 117-len(header)) + "\n"
	if err := os.WriteFile(path, []byte("\x93NUMPY\x01\x00\x76\x00"+header+"\x00\x01\x02\xfd\xfe\xff"),
		0o600); err != nil {
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

package npy_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gradient-surgery/dml/dmlx/npy"
)

// What NumPy's save has written, whatever the type of its numbers, is read as float32.
func ExampleReadFloat32() {
	values, shape, err := npy.ReadFloat32("testdata/i2.npy")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(values, shape)
	// Output: [1 -2 300 4 5 -32768] [2 3]
}

// NumPy's load reads the file.
func ExampleWriteInt64() {
	dir, err := os.MkdirTemp("", "npy")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	labels := filepath.Join(dir, "labels.npy")
	if err := npy.WriteInt64(labels, []int64{0, 0, 1, 1}, 4); err != nil {
		log.Fatal(err)
	}
	fmt.Println(npy.ReadInt64(labels))
	// Output: [0 0 1 1] [4] <nil>
}

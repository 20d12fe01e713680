//go:build !js

// In a browser there are no files, and what writes them safely has no place in a small program.

package npy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

// WriteFloat32 writes values as a float32 array of the given shape, atomically.
func WriteFloat32(path string, values []float32, shape ...int) error {
	return write(path, "<f4", values, shape)
}

// WriteInt64 writes values as an int64 array of the given shape, atomically.
func WriteInt64(path string, values []int64, shape ...int) error {
	return write(path, "<i8", values, shape)
}

func write[T any](path, descr string, values []T, shape []int) error {
	if len(values) != size(shape) {
		return fmt.Errorf("%s: %d values do not fill the shape %v", path, len(values), shape)
	}
	var dims strings.Builder
	for _, d := range shape {
		fmt.Fprintf(&dims, "%d,", d) // NumPy wants (3,) and accepts (3,4,).
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, dims.String())
	const prefix = 10 // Magic, version 1.0 and the header's length; the format asks that data start at a multiple of 64.
	header += strings.Repeat(" ", 63-(prefix+len(header))%64) + "\n"
	f, err := durable.Create(path, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = f.Cleanup() }()
	if _, err := f.WriteString("\x93NUMPY\x01\x00" + string([]byte{byte(len(header)), byte(len(header) >> 8)}) +
		header); err != nil {
		return err
	}
	for part := range slices.Chunk(values, 1<<18) { // Short, since binary.Write takes as much memory as it writes.
		if err := binary.Write(f, binary.LittleEndian, part); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return f.CloseAtomicallyReplace()
}

// ReadFloat32 reads an array of floating-point numbers or integers of any size as float32 values in C order (the last
// axis varies fastest), and its shape. float64 values and integers are rounded to the nearest float32. A number beyond
// float32's range is an error; NaN and infinities are read as they are.
func ReadFloat32(path string) (values []float32, shape []int, err error) { return read[float32](path) }

// ReadInt64 reads an array of integers of any size as int64 values in C order, and its shape. A uint64 value beyond
// int64's range is an error, and so is an array of another type.
func ReadInt64(path string) (values []int64, shape []int, err error) { return read[int64](path) }

// IsBytes tells whether a file is an array of uint8: numbers from 0 to 255, or bits that are packed.
func IsBytes(path string) bool {
	f, err := durable.Open(path)
	if err != nil {
		return false // Reading it returns the error.
	}
	defer f.Close()
	raw := make([]byte, maxHeader+12)
	n, _ := io.ReadFull(f, raw)
	h, _, err := split(raw[:n])
	return err == nil && strings.TrimLeft(h.descr, "<>|=") == "u1"
}

func read[T float32 | int64](path string) ([]T, []int, error) {
	raw, err := durable.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	values, shape, err := decode[T](raw)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, foreign(raw, err))
	}
	return values, shape, nil
}

// foreign says what a file is that is no array at all, or else why it cannot be read as one.
func foreign(raw []byte, err error) error {
	if what := durable.Looks(raw); what != "" && !bytes.HasPrefix(raw, []byte("\x93")) {
		return fmt.Errorf("not a NumPy array: it is %s", what)
	}
	return err
}

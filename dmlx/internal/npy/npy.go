// Package npy reads and writes the arrays that go between this project and NumPy: float32 matrices and int64 vectors,
// and reads uint8 images.
//
// Headers are parsed by github.com/sbinet/npyio. What this package adds: matrices of float32, atomic writing, and that
// a file which is too short, too long, in Fortran order or of another type is an error that says so.
package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/sbinet/npyio/npy"

	"github.com/gradient-surgery/dml/dmlx/internal/durable"
)

// WriteFloat32 writes values as a float32 array of the given shape, atomically.
func WriteFloat32(path string, values []float32, shape ...int) error {
	return write(path, "<f4", values, len(values), shape)
}

// WriteInt64 writes values as an int64 array of the given shape, atomically.
func WriteInt64(path string, values []int64, shape ...int) error {
	return write(path, "<i8", values, len(values), shape)
}

func write(path, descr string, values any, n int, shape []int) error {
	if size(shape) != n {
		return fmt.Errorf("%s: %d values do not fill the shape %v", path, n, shape)
	}
	var dims strings.Builder
	for _, d := range shape {
		fmt.Fprintf(&dims, "%d,", d) // NumPy wants (3,) and accepts (3,4,).
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, dims.String())
	const prefix = 10 // Magic, version 1.0 and the header's length; the format asks that data start at a multiple of 64.
	header += strings.Repeat(" ", 63-(prefix+len(header))%64) + "\n"
	var out bytes.Buffer
	out.WriteString("\x93NUMPY\x01\x00")
	_ = binary.Write(&out, binary.LittleEndian, uint16(len(header))) // A bytes.Buffer does not fail.
	out.WriteString(header)
	if err := binary.Write(&out, binary.LittleEndian, values); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return durable.WriteFile(path, out.Bytes(), 0o644)
}

// ReadFloat32 reads a float32 array and its shape.
func ReadFloat32(path string) (values []float32, shape []int, err error) {
	return read[float32](path, "f4")
}

// ReadInt64 reads an int64 array and its shape.
func ReadInt64(path string) (values []int64, shape []int, err error) { return read[int64](path, "i8") }

// ReadUint8 reads a uint8 array and its shape.
func ReadUint8(path string) (values []uint8, shape []int, err error) { return read[uint8](path, "u1") }

func read[T float32 | int64 | uint8](path, want string) (values []T, shape []int, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	body := bytes.NewReader(raw)
	defer func() { // npyio indexes into a damaged header without looking.
		if r := recover(); r != nil {
			values, shape, err = nil, nil, fmt.Errorf("%s: not a NumPy array: damaged header", path)
		}
	}()
	r, err := npy.NewReader(body)
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the file ends in its header")
		}
		return nil, nil, fmt.Errorf("%s: not a NumPy array: %w", path, err)
	}
	d := r.Header.Descr
	switch order, kind := d.Type[:1], strings.TrimLeft(d.Type, "<>|="); {
	case kind != want:
		return nil, nil, fmt.Errorf("%s: holds %s values, expected %s: convert it by .astype(%q)", path, d.Type, want, want)
	case order == ">":
		return nil, nil, fmt.Errorf("%s: is big-endian (%s); convert it by .astype(%q)", path, d.Type, "<"+want)
	case d.Fortran && len(d.Shape) > 1:
		return nil, nil, fmt.Errorf("%s: is in Fortran order; convert it by numpy.ascontiguousarray", path)
	}
	n, have := size(d.Shape), body.Len()
	if n < 0 || n > math.MaxInt/8 {
		return nil, nil, fmt.Errorf("%s: its header says the shape %v, it has %d bytes of values: damaged", path, d.Shape,
			have)
	}
	// npyio reads past the end of a short file as zeros, so the bytes are decoded here.
	if need := n * binary.Size(T(0)); have != need {
		return nil, nil, fmt.Errorf("%s: its header promises %d bytes of values, it has %d: damaged", path, need, have)
	}
	values = make([]T, n)
	if err := binary.Read(body, binary.LittleEndian, values); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return values, d.Shape, nil
}

// size is the number of values of a shape, −1 if there is no such shape.
func size(shape []int) int {
	n := 1
	for _, d := range shape {
		if d < 0 || d > 0 && n > math.MaxInt/d {
			return -1
		}
		n *= d
	}
	return n
}

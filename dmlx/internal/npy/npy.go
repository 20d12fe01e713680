// Package npy reads and writes the arrays that are exchanged with NumPy: it writes float32 and int64 arrays and reads
// these and uint8 ones.
//
// The format is that of numpy.lib.format, versions 1.0 to 3.0. No library serves: github.com/sbinet/npyio looks for
// 'descr', 'fortran_order' and 'shape' anywhere in a header, so that it reads headers that NumPy refuses, takes memory
// for a header of any stated length, panics on damaged ones, and reads a short file as if it went on with zeros. This
// package refuses whatever numpy.load refuses, and also files that are longer than their header says.
package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

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

func read[T float32 | int64 | uint8](path, want string) ([]T, []int, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	values, shape, err := decode[T](raw, want)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return values, shape, nil
}

// decode reads a file's values, which must be of the wanted type, and their shape.
func decode[T float32 | int64 | uint8](raw []byte, want string) ([]T, []int, error) {
	h, body, err := split(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("not a NumPy array: %w", err)
	}
	order, kind := byte('='), h.descr
	if kind != "" && strings.IndexByte("<>|=", kind[0]) >= 0 {
		order, kind = kind[0], kind[1:]
	}
	switch {
	case kind != want:
		return nil, nil, fmt.Errorf("holds %q values, expected %s: convert it by .astype(%q)", h.descr, want, want)
	case order == '>' && want != "u1":
		return nil, nil, fmt.Errorf("is big-endian (%q); convert it by .astype(%q)", h.descr, "<"+want)
	case h.fortran && len(h.shape) > 1:
		return nil, nil, errors.New("is in Fortran order; convert it by numpy.ascontiguousarray")
	}
	n := size(h.shape)
	if n < 0 {
		return nil, nil, fmt.Errorf("damaged: its header says the shape %v, which no array has", h.shape)
	}
	if need := n * binary.Size(T(0)); len(body) != need {
		return nil, nil, fmt.Errorf("damaged: its header promises %d bytes of values, it has %d", need, len(body))
	}
	values := make([]T, n)
	if err := binary.Read(bytes.NewReader(body), binary.LittleEndian, values); err != nil {
		return nil, nil, err
	}
	return values, h.shape, nil
}

// Limits of NumPy: the longest header that numpy.load takes, and the most dimensions.
const (
	maxHeader = 10000
	maxDims   = 64
)

// split returns what a file's header says, and the bytes behind it.
func split(raw []byte) (header, []byte, error) {
	const magic = "\x93NUMPY"
	if !bytes.HasPrefix(raw, []byte(magic)) {
		return header{}, nil, errors.New(`it does not begin with \x93NUMPY`)
	}
	if len(raw) < 12 { // The shortest prefix of version 2.
		return header{}, nil, errors.New("the file ends in its header")
	}
	major, minor, rest, length := raw[6], raw[7], raw[10:], int(binary.LittleEndian.Uint16(raw[8:]))
	switch {
	case minor != 0 || major < 1 || major > 3:
		return header{}, nil, fmt.Errorf("format version %d.%d; want 1.0, 2.0 or 3.0", major, minor)
	case major > 1:
		rest, length = raw[12:], int(binary.LittleEndian.Uint32(raw[8:]))
	}
	if length > maxHeader {
		return header{}, nil, fmt.Errorf("a header of %d bytes; want at most %d", length, maxHeader)
	}
	if length > len(rest) {
		return header{}, nil, errors.New("the file ends in its header")
	}
	h, err := parseHeader(string(rest[:length]))
	if err != nil {
		return header{}, nil, fmt.Errorf("damaged header: %w", err)
	}
	return h, rest[length:], nil
}

// size is the number of values of a shape; −1 if it, with dimensions of 0 left out, is beyond what 8 bytes each can
// have.
func size(shape []int) int {
	n, empty := 1, false
	for _, d := range shape {
		switch {
		case d == 0:
			empty = true
		case d < 0 || n > math.MaxInt/8/d:
			return -1
		default:
			n *= d
		}
	}
	if empty {
		return 0
	}
	return n
}

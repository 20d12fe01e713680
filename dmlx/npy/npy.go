// Package npy reads and writes the arrays that are exchanged with NumPy, as .npy files. It writes float32 and int64
// arrays. It reads float16, float32, float64 and integers of any size, little-endian and in C order, as NumPy saves
// what is not transposed, and says how to save others so.
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
	"strings"

	"github.com/gomlx/compute/dtypes/float16"
)

var little = binary.LittleEndian

// decode reads a file's values and their shape.
func decode[T float32 | int64](raw []byte) ([]T, []int, error) {
	h, body, err := split(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("not a NumPy array: %w", err)
	}
	if h.fortran || strings.HasPrefix(h.descr, ">") {
		return nil, nil, errors.New(`transposed or big-endian: save x.astype(x.dtype.newbyteorder("<"), order="C")`)
	}
	kind := h.descr
	if kind != "" && strings.IndexByte("<|=", kind[0]) >= 0 {
		kind = kind[1:]
	}
	width := widths[kind]
	var values []T
	var known bool
	var convert func(raw []byte) error
	switch to := any(&values).(type) {
	case *[]float32:
		convert, known = toFloat32(to, kind)
	case *[]int64:
		convert, known = toInt64(to, kind)
	}
	if !known && (kind == "V2" || strings.Contains(kind, "bfloat16")) {
		return nil, nil,
			fmt.Errorf("holds %.20q values, as bfloat16 is saved: make float32 of them by x.astype(np.float32) in the "+
				"program that wrote them, where they are bfloat16", h.descr)
	}
	if !known && strings.ContainsAny(kind[:min(len(kind), 1)], "OUSV") {
		return nil, nil, fmt.Errorf("holds %.20q values, not numbers: make numbers of names by "+
			"np.unique(labels.astype(str), return_inverse=True)[1]", h.descr)
	}
	if !known {
		want := fmt.Sprintf("%T", T(0))
		return nil, nil, fmt.Errorf("holds %q values, expected %s: convert it by .astype(%q)", h.descr, want, want)
	}
	n := size(h.shape)
	if n < 0 {
		return nil, nil, fmt.Errorf("damaged: its header says the shape %v, which no array has", h.shape)
	}
	if need := n * width; len(body) != need {
		return nil, nil, fmt.Errorf("damaged: its header promises %d bytes of values, it has %d", need, len(body))
	}
	values = make([]T, n)
	if err := convert(body); err != nil {
		return nil, nil, err
	}
	return values, h.shape, nil
}

// widths are the bytes of the types of numbers, under NumPy's codes.
var widths = map[string]int{"f2": 2, "f4": 4, "f8": 8, "i1": 1, "i2": 2, "i4": 4, "i8": 8, "u1": 1, "u2": 2, "u4": 4,
	"u8": 8}

// toFloat32 returns the conversion of a type to float32 values; known is false for a type that has none.
func toFloat32(to *[]float32, kind string) (convert func([]byte) error, known bool) {
	each := func(number func(b []byte) float64) func([]byte) error {
		return func(raw []byte) error {
			width := widths[kind]
			for i := range *to {
				v := number(raw[i*width:])
				f := float32(v)
				if math.IsInf(float64(f), 0) && !math.IsInf(v, 0) {
					return fmt.Errorf("value %d is %g, which float32 does not hold", i, v)
				}
				(*to)[i] = f
			}
			return nil
		}
	}
	switch kind {
	case "f4":
		return func(raw []byte) error {
			return binary.Read(bytes.NewReader(raw), little, *to)
		}, true
	case "f2":
		return each(func(b []byte) float64 {
			return float64(float16.FromBits(little.Uint16(b)).Float32())
		}), true
	case "f8":
		return each(func(b []byte) float64 { return math.Float64frombits(little.Uint64(b)) }), true
	case "u8":
		return each(func(b []byte) float64 { return float64(float32(little.Uint64(b))) }), true
	}
	integer := integers[kind]
	return each(func(b []byte) float64 { return float64(float32(integer(b))) }), integer != nil
}

// toInt64 returns the conversion of a type to int64 values; known is false for a type that has none.
func toInt64(to *[]int64, kind string) (convert func([]byte) error, known bool) {
	integer := integers[kind]
	return func(raw []byte) error {
		width := widths[kind]
		for i := range *to {
			v := integer(raw[i*width:])
			if kind == "u8" && v < 0 {
				return fmt.Errorf("value %d is %d, which int64 does not hold", i, uint64(v))
			}
			(*to)[i] = v
		}
		return nil
	}, integer != nil
}

// integers read the integers of each type.
var integers = map[string]func(b []byte) int64{
	"i1": func(b []byte) int64 { return int64(int8(b[0])) },
	"i2": func(b []byte) int64 { return int64(int16(little.Uint16(b))) },
	"i4": func(b []byte) int64 { return int64(int32(little.Uint32(b))) },
	"i8": func(b []byte) int64 { return int64(little.Uint64(b)) },
	"u1": func(b []byte) int64 { return int64(b[0]) },
	"u2": func(b []byte) int64 { return int64(little.Uint16(b)) },
	"u4": func(b []byte) int64 { return int64(little.Uint32(b)) },
	"u8": func(b []byte) int64 { return int64(little.Uint64(b)) }, // The caller looks at the sign.
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
	major, minor, rest, length := raw[6], raw[7], raw[10:], int(little.Uint16(raw[8:]))
	switch {
	case minor != 0 || major < 1 || major > 3:
		return header{}, nil, fmt.Errorf("format version %d.%d; want 1.0, 2.0 or 3.0", major, minor)
	case major > 1:
		rest, length = raw[12:], int(little.Uint32(raw[8:]))
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

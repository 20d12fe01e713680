// Package mat5 reads and writes the part of MATLAB's Level 5 files (versions 5 to 7) that lists of annotations need:
// real numbers, text, cells and structures, compressed or not, little-endian.
//
// The format is that of MathWorks' "MAT-File Format", chapter 1. Sparse arrays, objects and functions are passed over.
//
// No library serves. The lists of CARS-196 are a structure array whose fields hold arrays, and cells of text.
// github.com/scigolib/matlab v0.3.5, the one library that is kept up, reads a single element of data behind an array's
// name, so neither structures nor cells.
package mat5

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf16"
)

// Array is a variable, a cell or a field. Elements are in MATLAB's order, columns first.
type Array struct {
	Name    string
	Dims    []int
	Numbers []float64           // of a numeric or logical array
	Text    string              // of a character array, row by row if it has one row
	Cells   []*Array            // of a cell array
	Structs []map[string]*Array // of a structure array, by field
}

const (
	headerLength = 128
	// Limits, checked before memory is taken. A packed empty cell takes a few bits of the file and up to 1 kB of memory.
	// The largest list that is published, CARS-196's cars_annos.mat, has 7 MB and 113,000 arrays.
	maxLength  = 64 << 20 // bytes of a file, and bytes that its compressed elements unpack to in all
	maxArrays  = 1 << 19  // those in cells and fields included
	maxNumbers = 1 << 23
	maxDepth   = 16 // of cells and structures in one another
	maxDims    = 8
)

// Types of data elements (table 1-1) and classes of arrays (table 1-3).
const (
	miINT8       = 1
	miUINT8      = 2
	miINT16      = 3
	miUINT16     = 4
	miINT32      = 5
	miUINT32     = 6
	miSINGLE     = 7
	miDOUBLE     = 9
	miINT64      = 12
	miUINT64     = 13
	miMATRIX     = 14
	miCOMPRESSED = 15
	miUTF8       = 16
	miUTF16      = 17

	mxCELL   = 1
	mxSTRUCT = 2
	mxCHAR   = 4
	mxDOUBLE = 6
	mxUINT64 = 15
)

// number is how a number of a type is stored: its bytes, and what reads it from them.
type number struct {
	width int
	read  func(b []byte) float64
}

var (
	byteNumber  = number{1, func(b []byte) float64 { return float64(b[0]) }}
	shortNumber = number{2, func(b []byte) float64 { return float64(little.Uint16(b)) }}
	numbers     = map[uint32]number{
		miINT8: {1, func(b []byte) float64 { return float64(int8(b[0])) }}, miUINT8: byteNumber, miUTF8: byteNumber,
		miINT16: {2, func(b []byte) float64 { return float64(int16(little.Uint16(b))) }}, miUINT16: shortNumber,
		miUTF16: shortNumber, miINT32: {4, func(b []byte) float64 { return float64(int32(little.Uint32(b))) }},
		miUINT32: {4, func(b []byte) float64 { return float64(little.Uint32(b)) }},
		miSINGLE: {4, func(b []byte) float64 { return float64(math.Float32frombits(little.Uint32(b))) }},
		miDOUBLE: {8, func(b []byte) float64 { return math.Float64frombits(little.Uint64(b)) }},
		miINT64:  {8, func(b []byte) float64 { return float64(int64(little.Uint64(b))) }},
		miUINT64: {8, func(b []byte) float64 { return float64(little.Uint64(b)) }},
	}
)

// errPassed says that an array is of a class that is not read.
var errPassed = errors.New("sparse arrays, objects and functions are not read")

// Read reads the variables of a file, by name.
func Read(r io.Reader) (map[string]*Array, error) {
	file, err := io.ReadAll(io.LimitReader(r, maxLength+1))
	if err != nil {
		return nil, err
	}
	if len(file) > maxLength {
		return nil, fmt.Errorf("longer than %d bytes", maxLength)
	}
	if bytes.HasPrefix(file, []byte("MATLAB 7.3")) || bytes.HasPrefix(file, []byte("\x89HDF")) {
		return nil, errors.New("a MATLAB file of version 7.3 (HDF5); want version 5 to 7, as MATLAB's save -v7 writes")
	}
	if len(file) < headerLength {
		return nil, errors.New("not a MATLAB file: it ends early")
	}
	d := &decoder{}
	if string(file[126:128]) != "IM" {
		return nil, errors.New("not a MATLAB file of version 5 to 7 of a little-endian machine")
	}
	if version := little.Uint16(file[124:]); version != 0x0100 {
		return nil, fmt.Errorf("a MATLAB file of format %#04x; want 0x0100, versions 5 to 7", version)
	}
	arrays := map[string]*Array{}
	for rest := file[headerLength:]; len(rest) > 0; {
		kind, data, after, err := d.element(rest)
		if err != nil {
			return nil, err
		}
		rest = after
		if kind == miCOMPRESSED {
			unpacked, err := d.inflate(data)
			if err != nil {
				return nil, err
			}
			if kind, data, _, err = d.element(unpacked); err != nil {
				return nil, err
			}
		}
		if kind != miMATRIX {
			continue
		}
		a, err := d.matrix(data, 0)
		if errors.Is(err, errPassed) {
			continue
		}
		if err != nil {
			return nil, err
		}
		arrays[a.Name] = a
	}
	return arrays, nil
}

var little = binary.LittleEndian

type decoder struct {
	// Bytes unpacked, arrays and numbers so far.
	unpacked, arrayCount, numberCount int
}

func (d *decoder) inflate(data []byte) ([]byte, error) {
	z, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	out, err := io.ReadAll(io.LimitReader(z, int64(maxLength-d.unpacked+1)))
	if err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	if d.unpacked += len(out); d.unpacked > maxLength {
		return nil, fmt.Errorf("unpacks to more than %d bytes", maxLength)
	}
	return out, nil
}

var (
	errShort  = errors.New("damaged: it ends early")
	errArrays = fmt.Errorf("more than %d arrays; lists of annotations have fewer", maxArrays)
)

// element splits off the first data element: its type, its bytes and what follows it.
func (d *decoder) element(b []byte) (kind uint32, data, after []byte, err error) {
	if len(b) < 8 {
		return 0, nil, nil, errShort
	}
	kind = little.Uint32(b)
	if small := kind >> 16; small != 0 { // The small format: length and type in four bytes, data in the next four.
		if small > 4 {
			return 0, nil, nil, errors.New("damaged: a small element of more than 4 bytes")
		}
		return kind & 0xffff, b[4 : 4+small], b[8:], nil
	}
	length := uint64(little.Uint32(b[4:]))
	padded := length
	if kind != miCOMPRESSED {
		padded = (length + 7) &^ 7
	}
	rest := b[8:]
	if length > uint64(len(rest)) {
		return 0, nil, nil, errShort
	}
	return kind, rest[:length], rest[min(padded, uint64(len(rest))):], nil // Some writers leave out the last padding.
}

// matrix reads the parts of an array.
func (d *decoder) matrix(b []byte, depth int) (*Array, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("damaged: nested more than %d deep", maxDepth)
	}
	if d.arrayCount++; d.arrayCount > maxArrays {
		return nil, errArrays
	}
	if len(b) == 0 { // How an empty field is written.
		return &Array{Dims: []int{0, 0}}, nil
	}
	kind, flags, b, err := d.element(b)
	if err != nil {
		return nil, err
	}
	if kind != miUINT32 || len(flags) != 8 {
		return nil, errors.New("damaged: an array without flags")
	}
	class := little.Uint32(flags) & 0xff
	if class != mxCELL && class != mxSTRUCT && class != mxCHAR && (class < mxDOUBLE || class > mxUINT64) {
		return nil, errPassed
	}
	a := &Array{}
	kind, dims, b, err := d.element(b)
	if err != nil {
		return nil, err
	}
	if kind != miINT32 || len(dims)%4 != 0 || len(dims) < 8 || len(dims) > 4*maxDims {
		return nil, errors.New("damaged: an array without dimensions")
	}
	n := 1
	for ; len(dims) > 0; dims = dims[4:] {
		dim := int(int32(little.Uint32(dims)))
		// An element takes at least a byte of the file.
		if dim < 0 || dim > 0 && n > maxLength/dim {
			return nil, fmt.Errorf("damaged: an array with a dimension of %d", dim)
		}
		n *= dim
		a.Dims = append(a.Dims, dim)
	}
	_, name, b, err := d.element(b)
	if err != nil {
		return nil, err
	}
	a.Name = string(name)
	switch class {
	case mxCELL:
		a.Cells, err = d.cells(b, n, depth)
	case mxSTRUCT:
		a.Structs, err = d.structs(b, n, depth)
	case mxCHAR:
		a.Text, err = d.text(b, n)
	default:
		a.Numbers, err = d.numbers(b, n)
	}
	return a, err
}

func (d *decoder) cells(b []byte, n, depth int) ([]*Array, error) {
	if n > len(b)/8 {
		return nil, errShort
	}
	if n > maxArrays-d.arrayCount {
		return nil, errArrays
	}
	cells := make([]*Array, n)
	for i := range cells {
		var err error
		if cells[i], b, err = d.nested(b, depth); err != nil {
			return nil, err
		}
	}
	return cells, nil
}

// nested reads an array inside another. One of a class that is not read is nil.
func (d *decoder) nested(b []byte, depth int) (*Array, []byte, error) {
	kind, data, after, err := d.element(b)
	if err != nil {
		return nil, nil, err
	}
	if kind != miMATRIX {
		return nil, nil, fmt.Errorf("damaged: an element of type %d in place of an array", kind)
	}
	a, err := d.matrix(data, depth+1)
	if errors.Is(err, errPassed) {
		return nil, after, nil
	}
	return a, after, err
}

func (d *decoder) structs(b []byte, n, depth int) ([]map[string]*Array, error) {
	_, lengthBytes, b, err := d.element(b)
	if err != nil {
		return nil, err
	}
	if len(lengthBytes) != 4 {
		return nil, errors.New("damaged: a structure without the length of its fields' names")
	}
	length := int(int32(little.Uint32(lengthBytes)))
	_, names, b, err := d.element(b)
	if err != nil {
		return nil, err
	}
	if length < 1 || len(names) == 0 || len(names)%length != 0 {
		return nil, errors.New("damaged: a structure without fields' names")
	}
	if len(names)/length > maxArrays {
		return nil, errArrays
	}
	var fields []string
	for ; len(names) > 0; names = names[length:] {
		name, _, _ := strings.Cut(string(names[:length]), "\x00")
		fields = append(fields, name)
	}
	if n > len(b)/8/len(fields) {
		return nil, errShort
	}
	if n > (maxArrays-d.arrayCount)/len(fields) {
		return nil, errArrays
	}
	out := make([]map[string]*Array, n)
	for i := range out {
		out[i] = make(map[string]*Array, len(fields))
		for _, field := range fields {
			if out[i][field], b, err = d.nested(b, depth); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// numbers reads the real part of n numbers, in whatever type they are stored.
func (d *decoder) numbers(b []byte, n int) ([]float64, error) {
	kind, data, _, err := d.element(b)
	if err != nil {
		return nil, err
	}
	stored := numbers[kind]
	if stored.width == 0 || len(data) != n*stored.width {
		return nil, fmt.Errorf("damaged: %d bytes of type %d for %d numbers", len(data), kind, n)
	}
	if d.numberCount += n; d.numberCount > maxNumbers {
		return nil, fmt.Errorf("more than %d numbers; lists of annotations have fewer", maxNumbers)
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = stored.read(data[i*stored.width:])
	}
	return out, nil
}

// text reads n characters.
func (d *decoder) text(b []byte, n int) (string, error) {
	if n == 0 && len(b) < 8 {
		return "", nil
	}
	kind, data, _, err := d.element(b)
	if err != nil {
		return "", err
	}
	switch kind {
	case miUTF8:
		return string(data), nil
	case miINT8, miUINT8: // Latin-1, of which MATLAB's own are ASCII.
		var s strings.Builder
		for _, c := range data {
			s.WriteRune(rune(c))
		}
		return s.String(), nil
	case miUINT16, miUTF16:
		units := make([]uint16, len(data)/2)
		for i := range units {
			units[i] = little.Uint16(data[2*i:])
		}
		return string(utf16.Decode(units)), nil
	}
	return "", fmt.Errorf("damaged: text of type %d", kind)
}

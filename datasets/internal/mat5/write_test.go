package mat5

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
)

// Write writes arrays to a file of version 5 (or, compressed, 7), little-endian: numbers as
// doubles, text as UTF-8, fields in the order of their names.
func Write(w io.Writer, compressed bool, arrays ...*Array) error {
	header := make([]byte, headerLength)
	copy(header, fmt.Sprintf("%-116s", "MATLAB 5.0 MAT-file"))
	binary.LittleEndian.PutUint16(header[124:], 0x0100)
	copy(header[126:], "IM")
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, a := range arrays {
		out := matrix(a)
		if compressed {
			var packed bytes.Buffer
			z := zlib.NewWriter(&packed)
			if _, err := z.Write(out); err != nil {
				return err
			}
			if err := z.Close(); err != nil {
				return err
			}
			out = append(tag(miCOMPRESSED, packed.Len()), packed.Bytes()...)
		}
		if _, err := w.Write(out); err != nil {
			return err
		}
	}
	return nil
}

func tag(kind uint32, length int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, kind)
	return binary.LittleEndian.AppendUint32(b, uint32(length))
}

// element returns a data element, in the small format where it fits, as MATLAB writes it.
func element(kind uint32, data []byte) []byte {
	if n := len(data); n > 0 && n <= 4 && kind != miMATRIX {
		b := binary.LittleEndian.AppendUint32(nil, uint32(n)<<16|kind)
		return append(append(b, data...), make([]byte, 4-n)...)
	}
	b := append(tag(kind, len(data)), data...)
	return append(b, make([]byte, -len(data)&7)...)
}

func matrix(a *Array) []byte {
	var class uint32
	var body []byte
	n := 0
	switch {
	case a.Structs != nil:
		class, n = mxSTRUCT, len(a.Structs)
		const length = 32
		var names []byte
		var fields []string
		if n > 0 {
			fields = slices.Sorted(maps.Keys(a.Structs[0]))
		}
		for _, f := range fields {
			names = append(names, append([]byte(f), make([]byte, length-len(f))...)...)
		}
		body = element(miINT32, binary.LittleEndian.AppendUint32(nil, length))
		body = append(body, element(miINT8, names)...)
		for _, s := range a.Structs {
			for _, f := range fields {
				body = append(body, matrix(s[f])...)
			}
		}
	case a.Cells != nil:
		class, n = mxCELL, len(a.Cells)
		for _, c := range a.Cells {
			body = append(body, matrix(c)...)
		}
	case a.Numbers != nil:
		class, n = mxDOUBLE, len(a.Numbers)
		var data []byte
		for _, v := range a.Numbers {
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
		}
		body = element(miDOUBLE, data)
	default:
		class, n = mxCHAR, len(a.Text)
		body = element(miUTF8, []byte(a.Text))
	}
	flags := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, class), 0)
	dims := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 1), uint32(n))
	all := slices.Concat(element(miUINT32, flags), element(miINT32, dims), element(miINT8, []byte(a.Name)), body)
	return element(miMATRIX, all)
}

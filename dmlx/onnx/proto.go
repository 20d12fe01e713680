package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Limits of what a file may ask for. Networks for images stay far below them.
const (
	maxNodes    = 20_000
	maxElements = 1 << 28 // Of a value of the graph.
	maxConstant = 1 << 16 // Elements of a constant that is computed with while the graph is built.
	maxHost     = 1 << 24 // Elements of all that is computed so.
	maxFolded   = 1 << 12 // Nodes that are.
	maxRank     = 8
	maxWindow   = 1 << 10 // Places of a kernel or a pooling window.
)

// The types of tensors that are read; the numbers are those of TensorProto.DataType.
const (
	float32Type = 1
	int32Type   = 6
	int64Type   = 7
	boolType    = 9
	float64Type = 11
)

var typeSizes = map[int]int{float32Type: 4, int32Type: 4, int64Type: 8, boolType: 1, float64Type: 8}

// tensor is a TensorProto: its values are raw, little-endian, or in x.
type tensor struct {
	name string
	dims []int
	kind int
	raw  []byte
	x    []float64
}

func (t *tensor) size() int { return product(t.dims) }

// float32s returns the values of a tensor as float32, which the caller may change.
func (t *tensor) float32s() []float32 {
	out := make([]float32, t.size())
	for i := range out {
		if t.raw != nil && t.kind == float32Type {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.raw[4*i:]))
		} else {
			out[i] = float32(t.floats()[i])
		}
	}
	return out
}

// floats returns the values of a constant, which the caller does not change.
func (t *tensor) floats() []float64 {
	if t.x == nil && t.raw != nil {
		t.x = make([]float64, t.size())
		for i := range t.x {
			switch b := t.raw[i*typeSizes[t.kind]:]; t.kind {
			case float32Type:
				t.x[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
			case int32Type:
				t.x[i] = float64(int32(binary.LittleEndian.Uint32(b)))
			case int64Type:
				t.x[i] = float64(int64(binary.LittleEndian.Uint64(b)))
			case boolType:
				t.x[i] = float64(b[0])
			case float64Type:
				t.x[i] = math.Float64frombits(binary.LittleEndian.Uint64(b))
			}
		}
	}
	return t.x
}

// integers returns the values of a tensor as indices: the end of an axis is the largest int64, which is clamped.
func (t *tensor) integers() []int {
	out := make([]int, t.size())
	for i, x := range t.floats() {
		out[i] = int(max(-1<<40, min(x, 1<<40)))
	}
	return out
}

func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// sized returns an error if a shape is negative or has more than most elements.
func sized(dims []int, most int) error {
	n := 1
	for _, d := range dims {
		if d < 0 || len(dims) > maxRank || d > 0 && n > most/d {
			return fmt.Errorf("of shape %.60v: want at most %d axes and %d elements", fmt.Sprint(dims), maxRank, most)
		}
		n *= d
	}
	return nil
}

// node is a NodeProto.
type node struct {
	name, op string
	in, out  []string
	texts    map[string]string  // Attributes that are texts.
	numbers  map[string]*tensor // Attributes that are numbers or tensors.
}

func (n *node) String() string { return fmt.Sprintf("node %.80q (%.40s)", n.name, n.op) }

// integers returns the values of an attribute, nil without it.
func (n *node) integers(name string) []int {
	if t := n.numbers[name]; t != nil {
		return t.integers()
	}
	return nil
}

func (n *node) integer(name string, or int) int { return int(n.float(name, float64(or))) }

func (n *node) float(name string, or float64) float64 {
	if t := n.numbers[name]; t != nil && t.size() == 1 {
		return max(-1<<62, min(t.floats()[0], 1<<62))
	}
	return or
}

// field is a field of a message: a number, or bytes.
type field struct {
	number protowire.Number
	v      uint64
	data   []byte
	raw    []byte // All of it, as it was read.
}

var errTruncated = errors.New("not an ONNX file, or not all of it")

// fields calls f for each field of the messages in b at the end of a path.
func fields(b []byte, f func(field) error, path ...protowire.Number) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 || typ == protowire.StartGroupType {
			return errTruncated
		}
		m := protowire.ConsumeFieldValue(num, typ, b[n:])
		if m < 0 {
			return errTruncated
		}
		x := field{number: num, raw: b[:n+m]}
		switch value := b[n : n+m : n+m]; typ {
		case protowire.VarintType:
			x.v, _ = protowire.ConsumeVarint(value)
		case protowire.Fixed32Type:
			x.v, x.data = uint64(binary.LittleEndian.Uint32(value)), value
		case protowire.Fixed64Type:
			x.data = value
		default:
			x.data, _ = protowire.ConsumeBytes(value)
		}
		b = b[n+m:]
		var err error
		if len(path) == 0 {
			err = f(x)
		} else if num == path[0] {
			err = fields(x.data, f, path[1:]...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// integers returns the values of a repeated field, packed or one.
func (x field) integers() (out []int) {
	if x.data == nil {
		return []int{int(int64(x.v))}
	}
	for b := x.data; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return out
		}
		out, b = append(out, int(int64(v))), b[n:]
	}
	return out
}

func parseTensor(b []byte) (*tensor, error) {
	t, external := &tensor{dims: []int{}}, false
	err := fields(b, func(x field) error {
		switch x.number {
		case 1:
			t.dims = append(t.dims, x.integers()...)
		case 2:
			t.kind = int(int32(x.v))
		case 4, 10: // float_data and double_data have the layout of raw_data.
			t.raw = append(t.raw[:len(t.raw):len(t.raw)], x.data...)
		case 5, 7:
			t.append(x)
		case 8:
			t.name = string(x.data)
		case 9:
			t.raw = x.data
		case 13, 14:
			external = external || x.number == 13 || x.v == 1
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case external:
		return nil, fmt.Errorf("tensor %.80q is in another file, which is not read: export with external_data=False", t.name)
	case typeSizes[t.kind] == 0:
		return nil, fmt.Errorf("tensor %.80q is of type %d: want float32: export model.float()", t.name, t.kind)
	}
	most := maxElements
	if t.kind != float32Type {
		most = maxConstant
	}
	if err := sized(t.dims, most); err != nil {
		return nil, fmt.Errorf("tensor %.80q is %w", t.name, err)
	}
	if t.raw == nil && t.x == nil {
		t.raw = []byte{}
	}
	if n := t.size(); t.raw != nil && (t.x != nil || len(t.raw) != n*typeSizes[t.kind]) || t.raw == nil && len(t.x) != n {
		return nil, fmt.Errorf("tensor %.80q has not the %d values of its shape %v", t.name, n, t.dims)
	}
	return t, nil
}

// append adds the whole numbers of a field.
func (t *tensor) append(x field) {
	for _, i := range x.integers() {
		t.x = append(t.x, float64(i))
	}
}

func parseNode(b []byte) (*node, error) {
	n := &node{texts: map[string]string{}, numbers: map[string]*tensor{}}
	err := fields(b, func(x field) error {
		switch text := string(x.data); x.number {
		case 1:
			n.in = append(n.in, text)
		case 2:
			n.out = append(n.out, text)
		case 3:
			n.name = text
		case 4:
			n.op = text
		case 5:
			return n.parseAttribute(x.data)
		case 7:
			if text != "" && text != "ai.onnx" {
				return fmt.Errorf("an operator of the domain %.40q: export with torch.onnx.export, optimize=False", text)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n, err)
	}
	if len(n.out) == 0 {
		return nil, fmt.Errorf("%s has no output", n)
	}
	return n, nil
}

// parseAttribute reads an AttributeProto. A number is a tensor without axes, several are one with one axis.
func (n *node) parseAttribute(b []byte) error {
	name, list := textOf(b), &tensor{kind: int64Type, x: []float64{}}
	number := func(kind int, v float64) { n.numbers[name] = &tensor{kind: kind, dims: []int{}, x: []float64{v}} }
	return fields(b, func(x field) (err error) {
		switch x.number {
		case 2:
			number(float32Type, float64(math.Float32frombits(uint32(x.v))))
		case 3:
			number(int64Type, float64(int64(x.v)))
		case 4:
			n.texts[name] = string(x.data)
		case 5:
			n.numbers[name], err = parseTensor(x.data)
		case 6, 10, 11:
			err = errors.New("a graph in an operator: export without control flow")
		case 7:
			for c := range slices.Chunk(x.data, 4) {
				if list.kind = float32Type; len(c) == 4 {
					list.x = append(list.x, float64(math.Float32frombits(binary.LittleEndian.Uint32(c))))
				}
			}
		case 8:
			list.append(x)
		}
		if len(list.x) > 0 || x.number == 20 && (x.v == 6 || x.v == 7) { // Of an empty list there is the type alone.
			list.dims, n.numbers[name] = []int{len(list.x)}, list
		}
		return err
	})
}

// textOf returns the first field of a message, which is a name or a key in all that have one.
func textOf(b []byte) (text string) {
	_ = fields(b, func(x field) error { // The caller meets the error, too.
		if x.number == 1 {
			text = string(x.data)
		}
		return nil
	})
	return text
}

// parseValue reads a ValueInfoProto: a tensor of float32 whose axes are −1 where they may have any size.
func parseValue(b []byte) (name string, dims []int, err error) {
	name, kind := textOf(b), uint64(0)
	err = fields(b, func(x field) error {
		switch x.number {
		case 1:
			kind = x.v
		case 2:
			return fields(x.data, func(x field) error {
				dims = append(dims, -1)
				return fields(x.data, func(x field) error {
					if x.number == 1 && x.data == nil {
						dims[len(dims)-1] = int(int64(x.v))
					}
					return nil
				})
			})
		}
		return nil
	}, 2, 1)
	if err == nil && kind != float32Type {
		err = fmt.Errorf("%.80q is of type %d: want a tensor of float32", name, kind)
	}
	return name, dims, err
}

// Package onnxpb writes the messages of ONNX files. The numbers of fields and types are those of onnx.proto.
package onnxpb

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Float32 is the type of tensors of float32.
const Float32 = 1

// Number appends an integer field to a message.
func Number(b []byte, field protowire.Number, v int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
}

// Message appends a field of text or of another message to a message.
func Message[T []byte | string](b []byte, field protowire.Number, v T) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), []byte(v))
}

// Tensor is a TensorProto of float32, row by row.
func Tensor(name string, values []float32, dims ...int) (b []byte) {
	for _, d := range dims {
		b = Number(b, 1, d)
	}
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return Message(Message(Number(b, 2, Float32), 8, name), 9, raw)
}

// Node is a NodeProto, whose only output has its name.
func Node(op, name string, inputs []string, attributes ...[]byte) (b []byte) {
	for _, in := range inputs {
		b = Message(b, 1, in)
	}
	b = Message(Message(Message(b, 2, name), 3, name), 4, op)
	for _, a := range attributes {
		b = Message(b, 5, a)
	}
	return b
}

// Int is an AttributeProto of an integer.
func Int(name string, v int) []byte { return Number(Number(Message(nil, 1, name), 3, v), 20, 2) }

// Ints is an AttributeProto of integers.
func Ints(name string, values ...int) []byte {
	b := Message(nil, 1, name)
	for _, v := range values {
		b = Number(b, 8, v)
	}
	return Number(b, 20, 7)
}

// Float is an AttributeProto of a float32.
func Float(name string, v float32) []byte {
	b := protowire.AppendTag(Message(nil, 1, name), 2, protowire.Fixed32Type)
	return Number(protowire.AppendFixed32(b, math.Float32bits(v)), 20, 1)
}

// Value is a ValueInfoProto: a float32 tensor with its axes, of which those with a name have any size.
func Value(name string, axes ...any) []byte {
	var shape []byte
	for _, axis := range axes {
		switch d := axis.(type) {
		case int:
			shape = Message(shape, 1, Number(nil, 1, d))
		case string:
			shape = Message(shape, 1, Message(nil, 2, d))
		}
	}
	return Message(Message(nil, 1, name), 2, Message(nil, 1, Message(Number(nil, 1, Float32), 2, shape)))
}

// Model is a ModelProto (opset 17) of a GraphProto.
func Model(graph []byte, meta map[string]string) []byte {
	file := Message(Message(Number(nil, 1, 8), 2, "dmlx"), 7, graph)
	return Metadata(Message(file, 8, Number(Message(nil, 1, ""), 2, 17)), meta)
}

// Metadata appends metadata to a ModelProto.
func Metadata(b []byte, meta map[string]string) []byte {
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		b = Message(b, 14, Message(Message(nil, 1, key), 2, meta[key]))
	}
	return b
}

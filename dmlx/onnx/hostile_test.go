package onnx

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/gomlx/ml/model"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gradient-surgery/dml/dmlx/internal/onnxpb"
)

// The functions below write the messages of ONNX.

func integer(b []byte, field protowire.Number, v int) []byte { return onnxpb.Number(b, field, v) }

func bytesField(b []byte, field protowire.Number, v []byte) []byte {
	return onnxpb.Message(b, field, v)
}

func text(b []byte, field protowire.Number, v string) []byte { return bytesField(b, field, []byte(v)) }

// nodeOf writes a node from "a b > c".
func nodeOf(op, ports string, attributes ...[]byte) []byte {
	var b []byte
	in, out, _ := strings.Cut(ports, ">")
	for _, name := range strings.Fields(in) {
		b = text(b, 1, name)
	}
	for _, name := range strings.Fields(out) {
		b = text(b, 2, name)
	}
	b = text(b, 4, op)
	for _, a := range attributes {
		b = bytesField(b, 5, a)
	}
	return bytesField(nil, 1, b)
}

func intsAttribute(name string, values ...int) []byte {
	b := text(nil, 1, name)
	for _, v := range values {
		b = integer(b, 8, v)
	}
	return b
}

func intAttribute(name string, v int) []byte { return integer(text(nil, 1, name), 3, v) }

// tensorOf writes a tensor of float32 whose values are all v.
func tensorOf(name string, v float32, dims ...int) []byte {
	var raw []byte
	for range product(dims) {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return tensorMessage(name, float32Type, raw, dims...)
}

func tensorMessage(name string, kind int, raw []byte, dims ...int) []byte {
	var b []byte
	for _, d := range dims {
		b = integer(b, 1, d)
	}
	return bytesField(nil, 5, bytesField(text(integer(b, 2, kind), 8, name), 9, raw))
}

func int64s(name string, values ...int) []byte {
	var raw []byte
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	return tensorMessage(name, int64Type, raw, len(values))
}

// portOf writes an input or output; a dimension of 0 is open.
func portOf(field protowire.Number, name string, kind int, dims ...int) []byte {
	var shape []byte
	for _, d := range dims {
		axis := text(nil, 2, "N")
		if d > 0 {
			axis = integer(nil, 1, d)
		}
		shape = bytesField(shape, 1, axis)
	}
	tensor := bytesField(integer(nil, 1, kind), 2, shape)
	return bytesField(nil, field, bytesField(text(nil, 1, name), 2, bytesField(nil, 1, tensor)))
}

// fileOf writes a file from images [N, 3, 8, 8] to features.
func fileOf(parts ...[]byte) []byte {
	graph := append(portOf(11, "images", float32Type, 0, 3, 8, 8), portOf(12, "features", float32Type, 0, 0)...)
	for _, p := range parts {
		graph = append(graph, p...)
	}
	return bytesField(opsetOf(18), 7, graph)
}

// opsetOf writes the opset of a file.
func opsetOf(version int) []byte { return bytesField(nil, 8, integer(nil, 2, version)) }

var flat = nodeOf("Flatten", "images > f")

// TestRefused reads files that ask for what no network needs. Each is refused in a sentence, soon, in little memory.
func TestRefused(t *testing.T) {
	weight := tensorOf("w", 1, 192, 4)
	product := nodeOf("MatMul", "f w > features")
	sum := [][]byte{nodeOf("ReduceSum", "c > r"), flat, nodeOf("Add", "f r > features")}
	external := func(where string) []byte {
		b := text(integer(integer(integer(nil, 1, 192), 1, 4), 2, float32Type), 8, "w")
		return bytesField(nil, 5, integer(bytesField(b, 13, text(text(nil, 1, "location"), 2, where)), 14, 1))
	}
	chain := func(n int) []byte {
		parts := [][]byte{flat, nodeOf("Relu", "f > x0")}
		for i := range n {
			parts = append(parts, nodeOf("Relu", fmt.Sprintf("x%d > x%d", i, i+1)))
		}
		return fileOf(append(parts, nodeOf("Identity", fmt.Sprintf("x%d > features", n)))...)
	}
	growing := func(op string, n int, first []byte, attributes ...[]byte) []byte {
		parts := [][]byte{first}
		for i := range n {
			parts = append(parts, nodeOf(op, fmt.Sprintf("x%d x%d > x%d", i, i, i+1), attributes...))
		}
		return fileOf(append(parts, nodeOf("Identity", fmt.Sprintf("x%d > features", n)))...)
	}
	with := func(parts ...[]byte) []byte { return fileOf(append(parts, sum...)...) }
	good := fileOf(flat, product, weight)
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"cycle": {fileOf(nodeOf("Add", "a b > c"), nodeOf("Relu", "c > b"), nodeOf("Relu", "images > a"),
			nodeOf("Flatten", "b > features")), "reads \"a\", which no node before it writes"},
		"self-loop": {fileOf(nodeOf("Add", "images features > features")), "reads \"features\""},
		"external":  {fileOf(flat, product, external("../secret.bin")), "is in another file"},
		"device":    {fileOf(flat, product, external("/dev/zero")), "is in another file"},
		"1e18":      {fileOf(flat, product, tensorMessage("w", 1, []byte{0, 0, 0, 0}, 1e9, 1e9)), "of shape"},
		"overflow":  {fileOf(flat, product, tensorMessage("w", 1, []byte{0, 0, 0, 0}, 1<<33, 1<<31)), "of shape"},
		"negative":  {fileOf(flat, product, tensorMessage("w", 1, make([]byte, 3072), -192, -4)), "of shape"},
		"short":     {fileOf(flat, product, tensorMessage("w", 1, make([]byte, 8), 192, 4)), "768 values"},
		"float16":   {fileOf(flat, product, tensorMessage("w", 10, make([]byte, 1536), 192, 4)), "float32"},
		"twice":     {fileOf(flat, product, weight, weight), "twice"},
		"written":   {fileOf(flat, flat, product, weight), "written already"},
		"chain":     {chain(200_000), "more than 20000 nodes"},
		"constant":  {with(int64s("s", 1<<40), nodeOf("ConstantOfShape", "s > c")), "ConstantOfShape"},
		"range":     {with(int64s("a", 0), int64s("b", 1<<50), int64s("d", 1), nodeOf("Range", "a b d > c")), "Range"},
		"expand":    {with(tensorOf("a", 1, 1), int64s("s", 1<<20, 1<<20), nodeOf("Expand", "a s > c")), "of shape"},
		"concat":    {growing("Concat", 40, nodeOf("Flatten", "images > x0"), intAttribute("axis", 1)), "of shape"},
		"constants": {growing("Concat", 36, nodeOf("Identity", "o > x0")), "reads \"o\""},
		"folds":     {growing("Add", 19_000, int64s("x0", 0, 0)), "have more than"},
		"large sum": {growing("Add", 19_000, int64s("x0", make([]int, 65_000)...)), "have more than"},
		"host":      {with(int64s("o", 1), growingConstants(), nodeOf("Identity", "x36 > c")), "of shape"},
		"pad": {with(int64s("p", 0, 0, 0, 0, 0, 0, 1<<30, 1<<30),
			nodeOf("Pad", "images p > c")), "of shape"},
		"conv pads": {with(tensorOf("k", 1, 1, 3, 3, 3),
			nodeOf("Conv", "images k > c", intsAttribute("pads", 1<<20, 1, 1, 1))), "pads"},
		"outer": {with(tensorOf("a", 1, 1<<18, 1), tensorOf("b", 1, 1, 1<<18),
			nodeOf("MatMul", "a b > c")), "of shape"},
		"pool":      {with(nodeOf("MaxPool", "images > c", intsAttribute("kernel_shape", 1<<20, 1<<20))), "places"},
		"shape":     {fileOf(nodeOf("Reshape", "images images > features")), "depends on images"},
		"one input": {fileOf(flat, nodeOf("MatMul", "f > features")), "has 1 inputs"},
		"no value":  {with(nodeOf("Constant", "> c")), "without a value"},
		"unknown":   {fileOf(nodeOf("Evil", "images > features")), "not supported"},
		"domain": {fileOf(bytesField(nil, 1, text(text(text(nil, 4, "Gelu"), 7, "com.microsoft"), 2,
			"features"))), "domain"},
		"a graph": {fileOf(nodeOf("If", "images > features",
			bytesField(text(nil, 1, "then_branch"), 6, nil))), "graph"},
		"integers": {bytesField(nil, 7, portOf(11, "images", int64Type, 0, 3, 8, 8)), "want a tensor of float32"},
		"fixed batch": {bytesField(nil, 7, append(portOf(11, "images", 1, 1, 3, 8, 8),
			portOf(12, "f", 1, 1, 4)...)), "fixed at 1"},
		"maps":         {fileOf(nodeOf("Relu", "images > features")), "want features [N, F]"},
		"empty":        {nil, "not an ONNX file"},
		"truncated":    {good[:len(good)-100], "not an ONNX file"},
		"a text":       {[]byte("#!/bin/sh\necho not a network\n"), "not an ONNX file"},
		"other inputs": {append(good, bytesField(nil, 7, portOf(11, "ids", 1, 0, 3, 8, 8))...), "want images alone"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			_, err := Read(c.raw)
			taken := time.Since(start)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q in a sentence", err, c.want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 1<<29 {
				t.Errorf("took %d MB", used>>20)
			}
			t.Logf("%v: %v", taken, err)
		})
	}
	if _, err := Read(good); err != nil {
		t.Error(err)
	}
	if _, err := Read(chain(19_000)); err != nil {
		t.Error(err)
	}
}

// growingConstants are constants x1 to x36, each twice as long as the one before.
func growingConstants() (all []byte) {
	all = nodeOf("Concat", "o o > x0", intAttribute("axis", 0))
	for i := range 36 {
		all = append(all, nodeOf("Concat", fmt.Sprintf("x%d x%d > x%d", i, i, i+1), intAttribute("axis", 0))...)
	}
	return all
}

// TestMutations changes bytes of good files. Whatever comes of it, reading ends with a network or an error.
func TestMutations(t *testing.T) {
	raw, err := os.ReadFile("testdata/vit_tiny.onnx")
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile("testdata/resnet18.onnx")
	if err != nil {
		t.Fatal(err)
	}
	count := 300
	if os.Getenv("DMLX_TEST_ALL") != "" {
		count = 30_000
	}
	rng, slowest := rand.New(rand.NewPCG(1, 1)), time.Duration(0)
	read := 0
	for i := range count {
		b := append([]byte(nil), raw...)
		if i%2 == 1 {
			b = append(b[:0], other...)
		}
		for range 1 + rng.IntN(8) { // Graphs are at both ends, weights between.
			at := rng.IntN(len(b))
			if rng.IntN(4) > 0 {
				at = rng.IntN(min(len(b), 60_000))
			}
			switch rng.IntN(4) {
			case 0:
				b[at] = byte(rng.Uint32())
			case 1:
				b[at] ^= 1 << rng.IntN(8)
			case 2:
				b = append(b[:at], b[min(len(b), at+1+rng.IntN(20)):]...)
			default:
				b[at] = []byte{0, 1, 0x7f, 0x80, 0xff}[rng.IntN(5)]
			}
		}
		start := time.Now()
		if _, err := Read(b); err == nil {
			read++
		} else if strings.Contains(err.Error(), "\n") || len(err.Error()) > 600 {
			t.Errorf("mutation %d: %v", i, err)
		}
		slowest = max(slowest, time.Since(start))
	}
	t.Logf("%d of %d were read; the slowest took %v", read, count, slowest)
}

// What exporters say of nodes and values stays behind: PyTorch's names files of the exporter's machine.
func TestRemarksAreLeftOut(t *testing.T) {
	t.Parallel()
	const secret = "/home/alice/net.py"
	pair := text(text(nil, 1, "pkg.torch.onnx.stack_trace"), 2, secret)
	node := bytesField(text(text(text(text(nil, 1, "images"), 2, "f"), 4, "Flatten"), 6, secret), 9, pair)
	value := bytesField(text(text(nil, 1, "f"), 3, secret), 4, pair)
	graph := append(portOf(11, "images", float32Type, 0, 3, 8, 8), portOf(12, "f", float32Type, 0, 0)...)
	n, err := Read(bytesField(opsetOf(18), 7, bytesField(bytesField(graph, 13, value), 1, node)))
	if err != nil {
		t.Fatal(err)
	}
	out, err := n.Write(model.NewStore(), nil, nil)
	if err != nil || strings.Contains(string(out), "alice") {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := Read(out); err != nil {
		t.Error(err)
	}
}

// What is in the place of a network is told, whatever it is.
func TestOtherFiles(t *testing.T) {
	t.Parallel()
	for want, raw := range map[string]string{
		"a Git LFS pointer": "version https://git-lfs.github.com/spec/v1\noid sha256:7\n",
		"a page of HTML":    "<!DOCTYPE html><html></html>", "packed by gzip": "\x1f\x8b\x08\x00\x00", "an empty file": ""} {
		if _, err := Read([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

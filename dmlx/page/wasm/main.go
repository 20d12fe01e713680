//go:build js && wasm

// Command wasm is the page's worker: it gives JavaScript the function dmlxAnswer(method, arguments, arrays), which
// answers a request of package engine. The page's Build compiles it.
package main

import (
	"syscall/js"
	"time"
	"unsafe"

	"github.com/gradient-surgery/dml/dmlx/page/internal/engine"
)

func main() {
	e, err := engine.New()
	if err != nil {
		js.Global().Call("dmlxReady", err.Error())
		return
	}
	js.Global().Set("dmlxAnswer", js.FuncOf(func(_ js.Value, args []js.Value) any {
		start := time.Now()
		out, err := e.Answer(args[0].String(), []byte(args[1].String()), arrays(args[2]))
		if err != nil {
			return map[string]any{"error": err.Error()}
		}
		result := value(out)
		return map[string]any{"result": result, "ms": float64(time.Since(start).Microseconds()) / 1000}
	}))
	js.Global().Call("dmlxReady", "")
	select {}
}

// arrays are the Uint8Arrays of an object.
func arrays(object js.Value) map[string][]byte {
	out := make(map[string][]byte)
	keys := js.Global().Get("Object").Call("keys", object)
	for i := range keys.Length() {
		name := keys.Index(i).String()
		of := object.Get(name)
		out[name] = make([]byte, of.Length())
		js.CopyBytesToGo(out[name], of)
	}
	return out
}

// value is part of an answer as JavaScript has it.
func value(v any) any {
	switch v := v.(type) {
	case engine.Object:
		out := js.Global().Get("Object").New()
		for name, x := range v {
			out.Set(name, value(x))
		}
		return out
	case []engine.Object:
		return list(v)
	case []string:
		return list(v)
	case []float32:
		return typed("Float32Array", v)
	case []int32:
		return typed("Int32Array", v)
	}
	return v // A string, a bool or a number.
}

func list[T any](of []T) js.Value {
	out := js.Global().Get("Array").New(len(of))
	for i, x := range of {
		out.SetIndex(i, value(x))
	}
	return out
}

// typed copies numbers into a JavaScript array of their type. WebAssembly is little-endian.
func typed[T float32 | int32](kind string, of []T) js.Value {
	var raw []byte
	if len(of) > 0 {
		raw = unsafe.Slice((*byte)(unsafe.Pointer(&of[0])), len(of)*int(unsafe.Sizeof(of[0])))
	}
	bytes := js.Global().Get("Uint8Array").New(len(raw))
	js.CopyBytesToJS(bytes, raw)
	return js.Global().Get(kind).New(bytes.Get("buffer"))
}

// Package frame shows the page inside of another document, which computes its answers: a notebook cell, whose kernel
// knows rules of the user's own. It is apart from package page, which links neither GoMLX nor the rules, so that what
// builds the page is compiled in seconds.
package frame

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/page"
	"github.com/gradient-surgery/dml/dmlx/page/internal/engine"
)

// Engine answers the page's requests.
type Engine = engine.Engine

// Object is an answer of an [Engine].
type Object = engine.Object

// NewEngine returns an engine that knows the custom parts of rules beside the paper's.
func NewEngine(own ...dmlx.Rule) (*Engine, error) { return engine.New(own...) }

// HTML returns the page without its program, as one HTML file for a frame: the document around the frame answers its
// requests, by [Reply]. state is what the page shows, as in its address behind the #.
func HTML(state string) (string, error) {
	p, err := page.WithoutProgram()
	if err != nil {
		return "", err
	}
	trains := func(view string) bool { return strings.Contains(state, "view="+view) }
	if !slices.ContainsFunc([]string{"bench", "learn", "race"}, trains) {
		p.Files["features.gz"], p.Files["cars.png"] = nil, nil // Nothing else trains on them.
	}
	file, err := p.SingleFile()
	return strings.Replace(string(file), "<body>", `<body data-state="`+html.EscapeString("#kernel&"+state)+`">`, 1), err
}

// Reply answers a request that a frame has sent as text, in text. In both an array is {"Float32Array": base64}.
func Reply(request string, answer func(method string, args []byte, arrays map[string][]byte) (Object, error)) string {
	var q struct {
		ID     int
		Method string
		Args   map[string]json.RawMessage
	}
	start, out := time.Now(), Object{}
	err := json.Unmarshal([]byte(request), &q)
	arrays := make(map[string][]byte)
	for name, v := range q.Args {
		var packed map[string][]byte
		if json.Unmarshal(v, &packed) != nil || len(packed) != 1 {
			continue
		}
		for kind, data := range packed {
			if strings.HasSuffix(kind, "Array") {
				arrays[name] = data
				delete(q.Args, name)
			}
		}
	}
	switch {
	case err != nil:
	case q.Method == "":
		return `{"ready": true}` // The first request hands over the program, which is here.
	default:
		args, _ := json.Marshal(q.Args) // It was read from JSON.
		out, err = answer(q.Method, args, arrays)
	}
	reply := Object{"id": q.ID, "result": out, "ms": float64(time.Since(start).Microseconds()) / 1000}
	if err != nil {
		reply = Object{"id": q.ID, "error": err.Error()}
	}
	text, err := json.Marshal(packed(reply))
	if err != nil {
		return fmt.Sprintf(`{"id": %d, "error": %q}`, q.ID, err)
	}
	return string(text)
}

// packed is part of an answer as JSON has it.
func packed(v any) any {
	array := func(kind string) any {
		data, _ := binary.Append(nil, binary.LittleEndian, v) // A slice of numbers.
		return map[string]string{kind: base64.StdEncoding.EncodeToString(data)}
	}
	switch v := v.(type) {
	case Object:
		out := make(map[string]any, len(v))
		for name, x := range v {
			out[name] = packed(x)
		}
		return out
	case []Object:
		return slice.Map(v, func(x Object) any { return packed(x) })
	case []float32:
		return array("Float32Array")
	case []int32:
		return array("Int32Array")
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
	}
	return v
}

// Package engine answers the requests of the page: what a rule or a loss does to a batch, computed by packages dmlx and
// dissect on the Go backend. PROTOCOL.md of package page describes the requests and answers. It knows nothing of
// JavaScript, so that it is tested as any package; package main in wasm passes messages on.
package engine

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/losses"
)

// Object is an answer or a part of one. Its values are strings, bools, ints, float64s, []string, []Object, Objects, and
// arrays: []float32 and []int32.
type Object map[string]any

// Engine answers requests, one at a time. It keeps the graphs of the rules and losses that it was asked for last.
type Engine struct {
	// Explain, if not nil, returns what is to be said of an error that a rule with custom parts gave.
	Explain func(dmlx.Rule, error) error

	backend compute.Backend
	parts   dmlx.Parts
	own     []*losses.Named // Losses of the user's own.
	rules   cache[*dissect.Compiled]
	losses  cache[*dissect.CompiledLoss]

	features *features // To train heads on; nil before there are any.
}

// New starts the Go backend. The custom parts of rules can be chosen beside the paper's.
func New(own ...dmlx.Rule) (*Engine, error) {
	b, err := backend.Go()
	if err != nil {
		return nil, err
	}
	return &Engine{backend: b, parts: dmlx.PartsWith(own...), rules: newCache[*dissect.Compiled](32),
		losses: newCache[*dissect.CompiledLoss](32)}, nil
}

// AddLoss adds a loss of the user's own to those that can be chosen. Its name must be none of theirs.
func (e *Engine) AddLoss(name string, of dmlx.LossFunc) error {
	if slices.Contains(losses.Names(), name) || name == "" || strings.ContainsAny(name, "?&/ ") {
		return fmt.Errorf("a loss of your own by the name %q: want one that no other loss has, without ?, &, / and spaces",
			name)
	}
	e.own = append(e.own, losses.Own(name, of))
	return nil
}

// Limits of a request.
const (
	mostRows, mostDim     = 512, 4096
	mostSide, mostFrames  = 201, 600
	mostSteps             = 100
	mostTriplets          = 4096 // In an answer for a loss.
	ruleSide, lossSide    = 81, 21
	fieldSide, fieldRate  = 13, 0.1
	defaultProxyNoise     = 0.1
	defaultProxySeed      = 1
	exampleData, lossRoot = "minicar", "losses."
)

// Answer answers a request: a method with its arguments, a JSON object, and the arguments that are arrays, by their
// names, in little-endian order. The error is one sentence. Nothing that is asked makes it panic.
func (e *Engine) Answer(method string, arguments []byte, arrays map[string][]byte) (out Object, err error) {
	defer errs.Catch(&err)
	answer := map[string]func(*request) (Object, error){
		"describe": e.describe, "parse": e.parse, "formula": e.formula, "compute": e.compute, "diagram": e.diagram,
		"field": e.field, "flow": e.flow, "learnFrom": e.learnFrom, "learn": e.learn,
	}[method]
	if answer == nil {
		return nil, fmt.Errorf("no method %q", method)
	}
	q := &request{arrays: arrays, parts: e.parts, own: e.own}
	if len(bytes.TrimSpace(arguments)) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(arguments))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(q); err != nil {
			return nil, fmt.Errorf("%s: %s", method, strings.TrimPrefix(err.Error(), "json: "))
		}
	}
	if out, err = answer(q); err != nil && e.Explain != nil {
		if s, unread := q.subject(); unread == nil && s.rule.Custom() {
			err = e.Explain(s.rule, err)
		}
	}
	return out, err
}

// request has the arguments of all methods.
type request struct {
	Rule json.RawMessage `json:"rule"`
	Loss json.RawMessage `json:"loss"`

	Fields fields `json:"fields"`

	Sample *struct {
		Classes, Images, Dim int
		Noise                float64
		Seed                 uint64
	} `json:"sample"`
	N       int `json:"n"`
	Dim     int `json:"dim"`
	Proxies *struct {
		Noise float64
		Seed  uint64
	} `json:"proxies"`

	Low    *float64 `json:"low"`
	High   *float64 `json:"high"`
	Side   int      `json:"side"`
	Rate   *float64 `json:"rate"`
	Frames *int     `json:"frames"`
	Steps  *int     `json:"steps"`

	Step    int  `json:"step"`
	Measure bool `json:"measure"`

	Seed *uint64 `json:"seed"`

	arrays map[string][]byte
	parts  dmlx.Parts
	own    []*losses.Named
}

// given is an argument that may be left out.
func given[T any](x *T, otherwise T) T {
	if x == nil {
		return otherwise
	}
	return *x
}

// floats and ints are arrays of the request, nil if there is none of the name.
func (q *request) floats(name string) ([]float32, error) { return array[float32](q, name) }
func (q *request) ints(name string) ([]int32, error)     { return array[int32](q, name) }

func array[T float32 | int32](q *request, name string) ([]T, error) {
	raw, is := q.arrays[name]
	if !is {
		return nil, nil
	}
	if len(raw)%4 != 0 {
		return nil, fmt.Errorf("%s: %d bytes are no array of numbers of 4 bytes", name, len(raw))
	}
	out := make([]T, len(raw)/4)
	return out, binary.Read(bytes.NewReader(raw), binary.LittleEndian, out)
}

// subject is the rule or the loss of a request.
type subject struct {
	rule dmlx.Rule
	loss *losses.Named // nil for a rule.
}

func (s subject) name() string {
	if s.loss != nil {
		return s.loss.String()
	}
	return s.rule.Name()
}

func (q *request) subject() (subject, error) {
	is := func(x json.RawMessage) bool { return len(x) > 0 && string(x) != "null" }
	switch {
	case is(q.Rule) == is(q.Loss):
		return subject{}, errors.New("want either a rule or a loss")
	case is(q.Rule):
		return q.parseRule()
	}
	return q.parseLoss()
}

func (q *request) parseRule() (subject, error) {
	var name string
	if json.Unmarshal(q.Rule, &name) == nil {
		r, err := q.parts.Parse(name)
		return subject{rule: r}, err
	}
	var parts struct {
		Direction, Pair, Triplet, Mask string
		Options                        map[string]any
	}
	if err := json.Unmarshal(q.Rule, &parts); err != nil {
		return subject{}, errors.New("rule: want its name or its parts")
	}
	name = cmp.Or(parts.Direction, dmlx.DirectionCos.Name) + "/" + cmp.Or(parts.Pair, dmlx.PairCon.Name) + "/" +
		cmp.Or(parts.Triplet, dmlx.TripletCon.Name)
	if parts.Mask != "" {
		name += "+" + parts.Mask
	}
	r, err := q.parts.Parse(name)
	if options := query(parts.Options); err == nil && options != "" { // Those of the other parts have no effect here.
		r, err = r.WithOptions(options[1:])
	}
	return subject{rule: r}, err
}

func (q *request) parseLoss() (subject, error) {
	var name string
	if json.Unmarshal(q.Loss, &name) != nil {
		var parts struct {
			Name       string
			Parameters map[string]any
		}
		if err := json.Unmarshal(q.Loss, &parts); err != nil {
			return subject{}, errors.New("loss: want its name, or its name and parameters")
		}
		name = parts.Name + query(parts.Parameters)
	}
	if i := slices.IndexFunc(q.own, func(l *losses.Named) bool { return l.Name == name }); i >= 0 {
		return subject{loss: q.own[i]}, nil
	}
	l, err := losses.Parse(name)
	return subject{loss: l}, err
}

// query writes numbers and switches as they stand behind a name.
func query(values map[string]any) string {
	var fields []string
	for name, v := range values {
		switch v := v.(type) {
		case bool:
			if v {
				fields = append(fields, name)
			}
		case float64:
			fields = append(fields, fmt.Sprintf("%s=%v", name, v))
		case nil: // The default.
		default:
			fields = append(fields, fmt.Sprintf("%s=%q", name, fmt.Sprint(v))) // An error that names it.
		}
	}
	if len(fields) == 0 {
		return ""
	}
	slices.Sort(fields)
	return "?" + strings.Join(fields, "&")
}

// batch is the batch of a request.
func (q *request) batch() (dissect.Embeddings, error) {
	var e dissect.Embeddings
	values, err := q.floats("embeddings")
	if err != nil {
		return e, err
	}
	labels, err := q.ints("labels")
	if err != nil {
		return e, err
	}
	switch s := q.Sample; {
	case (s != nil) == (values != nil):
		return e, errors.New("want either a sample or embeddings with labels")
	case s != nil:
		if s.Classes < 1 || s.Images < 1 || s.Dim < 1 || s.Classes > mostRows || s.Images > mostRows ||
			s.Classes*s.Images > mostRows || s.Dim > mostDim {
			return e, fmt.Errorf("a sample of %d classes of %d images in %d dimensions; want 1 or more, at most %d images in "+
				"all and %d dimensions", s.Classes, s.Images, s.Dim, mostRows, mostDim)
		}
		if math.Abs(s.Noise) > 1e6 {
			return e, fmt.Errorf("a sample with the noise %v; want at most 1e6", s.Noise)
		}
		e = dissect.Sample(s.Classes, s.Images, s.Dim, s.Noise, s.Seed)
	default:
		if q.N < 1 || q.Dim < 1 || q.N > mostRows || q.Dim > mostDim {
			return e, fmt.Errorf("embeddings [%d, %d]; want 1 to %d rows and 1 to %d dimensions", q.N, q.Dim, mostRows, mostDim)
		}
		e = dissect.Embeddings{Values: values, N: q.N, Dim: q.Dim, Labels: make([]int64, len(labels))}
		for i, l := range labels {
			e.Labels[i] = int64(l)
		}
	}
	indices, err := q.ints("triplets")
	if err != nil {
		return e, err
	}
	if len(indices)%3 != 0 || len(indices) > 3*mostTriplets {
		return e, fmt.Errorf("triplets: %d indices; want three for each triplet, and at most %d triplets", len(indices),
			mostTriplets)
	}
	for i := 0; i < len(indices); i += 3 {
		e.Triplets = append(e.Triplets, dissect.Triplet{Anchor: int(indices[i]), Positive: int(indices[i+1]),
			Negative: int(indices[i+2])})
	}
	return e, nil
}

// proxies are those of a loss for a batch: the means of the classes and noise, or as the request has them.
func (q *request) proxies(l *losses.Named, e dissect.Embeddings) (dissect.Proxies, error) {
	k := losses.PerClass(l)
	if k == 0 || len(e.Labels) != e.N || len(e.Values) != e.N*e.Dim {
		return dissect.Proxies{}, nil // What does not match is an error of the batch.
	}
	sorted := dissect.ByClass(e)
	classes := len(slices.Compact(slices.Clone(sorted.Labels)))
	if classes*k > 2*mostRows {
		return dissect.Proxies{}, fmt.Errorf("loss %s has %d proxies for %d classes; want at most %d", l, classes*k, classes,
			2*mostRows)
	}
	noise, seed := defaultProxyNoise, uint64(defaultProxySeed)
	if q.Proxies != nil {
		noise, seed = q.Proxies.Noise, q.Proxies.Seed
	}
	p := dissect.SampleProxies(sorted, k, noise, seed)
	at, err := q.floats("at")
	if err != nil {
		return p, err
	}
	if at != nil {
		if len(at) != len(p.Values) {
			return p, fmt.Errorf("at: %d values for %d proxies in %d dimensions", len(at), p.N, p.Dim)
		}
		p.Values = at
	}
	return p, nil
}

// compiled are the graphs of a subject.
func (e *Engine) compiledRule(r dmlx.Rule) *dissect.Compiled {
	plain := r
	plain.Options = dmlx.Options{}
	return e.rules.get(plain.Name(), func() *dissect.Compiled { return dissect.Compile(e.backend, plain.Traced()) })
}

func (e *Engine) compiledLoss(l *losses.Named) *dissect.CompiledLoss {
	return e.losses.get(l.String(), func() *dissect.CompiledLoss { return dissect.CompileLoss(e.backend, l.Of) })
}

// cache keeps what was used last.
type cache[T interface{ Close() }] struct {
	size   int
	values map[string]T
	order  []string // The last used is the last.
}

func newCache[T interface{ Close() }](size int) cache[T] {
	return cache[T]{size: size, values: make(map[string]T)}
}

func (c *cache[T]) get(key string, build func() T) T {
	c.order = append(slices.DeleteFunc(c.order, func(k string) bool { return k == key }), key)
	v, is := c.values[key]
	if !is {
		if len(c.order) > c.size {
			c.values[c.order[0]].Close()
			delete(c.values, c.order[0])
			c.order = c.order[1:]
		}
		v = build()
		c.values[key] = v
	}
	return v
}

package dmlx

import (
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// PartError says which part of a rule of the user's own does not do what it shall, and where.
type PartError struct {
	Part string // Such as "pair weight square".
	// File and Line are where the part's function fails or, if it returns something wrong, begins.
	File string
	Line int
	What string
}

func (e *PartError) Error() string {
	// Not as file:line, behind which GoNB v0.11.5 looks for a column in a cell's output, and dies of it.
	return fmt.Sprintf("%s: %s (%s, line %d)", e.Part, e.What, filepath.Base(e.File), e.Line)
}

// Source returns File and Line. A notebook's cell, whose file is temporary, shows the line itself.
func (e *PartError) Source() (file string, line int) { return e.File, e.Line }

// Traced is the rule with parts that, where a function of the user's own panics or returns something of another shape
// or type than it shall, say which part that is and on which line. It is the same rule: names, identity and gradients
// stay.
func (r Rule) Traced() Rule {
	r = r.WithDefaults()
	if d := r.Direction; d.Custom() {
		r.Direction.Of = func(b *Batch) (m Moves) {
			t := tracer{"direction " + partName(d.Name), d.Of, b}
			defer t.panicked()
			m = d.Of(b)
			for _, c := range []struct {
				name string
				Combination
			}{{"e_p", m.Positive}, {"e_n", m.Negative}, {"e_ap", m.AnchorPositive}, {"e_an", m.AnchorNegative}} {
				for _, k := range []struct {
					of string
					x  *Node
				}{{"f_a", c.Anchor}, {"f_p", c.Combination.Positive}, {"f_n", c.Combination.Negative}} {
					if k.x != nil {
						t.want(k.x, "the coefficient of "+k.of+" in "+c.name, dtypes.Float32)
					}
				}
			}
			return m
		}
	}
	if p := r.Pair; p.Custom() {
		r.Pair.Of = func(b *Batch) (positive, negative *Node) {
			t := tracer{"pair weight " + partName(p.Name), p.Of, b}
			defer t.panicked()
			positive, negative = p.Of(b)
			t.want(positive, "P₊", dtypes.Float32)
			t.want(negative, "P₋", dtypes.Float32)
			return positive, negative
		}
	}
	if w := r.Triplet; w.Custom() {
		r.Triplet.Of = func(b *Batch) *Node {
			t := tracer{"triplet weight " + partName(w.Name), w.Of, b}
			defer t.panicked()
			x := w.Of(b)
			t.want(x, "T", dtypes.Float32)
			return x
		}
	}
	if m := r.Mask; m.Custom() {
		r.Mask.Of = func(b *Batch) *Node {
			t := tracer{"mask " + partName(m.Name), m.Of, b}
			defer t.panicked()
			x := m.Of(b)
			t.want(x, "the mask", dtypes.Bool)
			return x
		}
	}
	return r
}

// tracer watches one call of a part's function.
type tracer struct {
	part string
	of   any
	b    *Batch
}

// want panics with a *PartError if a part's value is not one for each triplet.
func (t tracer) want(x *Node, what string, dtype dtypes.DType) {
	dims := t.b.Sap.Shape().Dimensions
	switch {
	case x == nil:
		t.fail("%s is nil; want one value for each triplet, %s %v", what, strings.ToLower(dtype.String()), dims)
	case x.Graph() != t.b.Sap.Graph():
		t.fail("%s belongs to another graph; build it from the batch that the function is given", what)
	case x.DType() != dtype || x.Rank() != 1 || x.Shape().Dimensions[0] != dims[0]:
		t.fail("%s is %s %v; want one value for each triplet, %s %v, as b.Sap", what, strings.ToLower(x.DType().String()),
			x.Shape().Dimensions,
			strings.ToLower(dtype.String()), dims)
	}
}

func (t tracer) fail(format string, args ...any) {
	e := &PartError{Part: t.part, What: fmt.Sprintf(format, args...)}
	e.File, e.Line = graphs.Source(t.of)
	panic(e)
}

// panicked is deferred around a part's function and makes its panic a *PartError of the innermost line that is neither
// GoMLX's nor Go's own nor this package's: the user's.
func (t tracer) panicked() {
	p := recover()
	if p == nil {
		return
	}
	if e, is := p.(*PartError); is {
		panic(e)
	}
	e := &PartError{Part: t.part, What: errs.Error(errs.Panicked(p)).Error()}
	if t.b.F == nil && strings.Contains(e.What, "nil pointer") {
		e.What += "; there is no batch here, so F, S and Triplets are nil"
	}
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		if user(f.Function) {
			e.File, e.Line = f.File, f.Line
			break
		}
		if !more {
			break
		}
	}
	panic(e)
}

// user tells whether a function may be one of the user's own.
func user(function string) bool {
	own := reflect.TypeFor[Rule]().PkgPath()
	for _, prefix := range []string{"runtime.", "reflect.", "panic", "github.com/gomlx/", "github.com/pkg/errors",
		own + ".", own + "/dissect."} {
		if rest, is := strings.CutPrefix(function, prefix); is {
			return strings.HasPrefix(prefix, own) && (strings.HasPrefix(rest, "Test") || strings.HasPrefix(rest, "Example"))
		}
	}
	return true
}

package dissect

import (
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
)

// TestCompiledHasTheSameBits holds one graph with the options' numbers as inputs against graphs with them as constants,
// as in training: all rules, with numbers that no default has, and with zeros.
func TestCompiledHasTheSameBits(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	var o dmlx.Options
	for _, k := range []struct {
		at    **float64
		value float64
	}{{&o.Tau, 3.7}, {&o.Alpha, 0.3}, {&o.Beta, 41.1}, {&o.Lambda, 0.71}, {&o.Epsilon, 0.03}} {
		*k.at = new(k.value)
	}
	zero := dmlx.Options{Tau: new(0.0), Alpha: new(0.0), Beta: new(0.0), Lambda: new(0.0), Epsilon: new(0.0)}
	batch := random(24, 7, 6, 3)
	same := func(what string, x, y []float32) {
		t.Helper()
		for i := range x {
			if math.Float32bits(x[i]) != math.Float32bits(y[i]) {
				t.Fatalf("%s: value %d is %v, with constants %v", what, i, x[i], y[i])
			}
		}
	}
	for _, r := range dmlx.Rules() {
		c := Compile(b, r)
		for _, options := range []dmlx.Options{{}, o, zero} {
			r.Options = options
			want, err := Rule(b, batch, r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Rule(batch, options)
			if err != nil {
				t.Fatal(err)
			}
			same(r.Name()+": M", got.M, want.M)
			same(r.Name()+": G", got.G, want.G)
			same(r.Name()+": raw", got.Raw, want.Raw)
			if !slices.Equal(got.Triplets, want.Triplets) || got.Rule.Name() != r.Name() {
				t.Fatalf("%s: other triplets", r.Name())
			}
		}
		c.Close()
	}
}

// TestCompiledCustomRule sees that a part of the user's own gets the numbers of the call, not those of its first graph.
func TestCompiledCustomRule(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	c := Compile(b, dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "tau", Of: func(b *dmlx.Batch) *Node {
		return MulScalar(OnesLike(b.Sap), dmlx.Tau.In(b.Options))
	}}})
	for _, tau := range []float64{1, 2, 1, 3} {
		d, err := c.Rule(random(8, 3, 2, 1), dmlx.Options{Tau: new(tau)})
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Triplets[0].Weight; got != float32(tau) {
			t.Errorf("T is %v with the tau %v", got, tau)
		}
	}
	c.Close()
	if _, err := c.Rule(random(8, 3, 2, 1), dmlx.Options{}); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a closed rule: %v", err)
	}
}

// TestCompiledManyShapes goes beyond the number of shapes that are kept, with and without given triplets, and back.
func TestCompiledManyShapes(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	c := Compile(b, dmlx.Rule{})
	defer c.Close()
	for i := range mostShapes + 4 {
		e := random(4+2*(i%(mostShapes+1)), 3, 2, 1)
		if i%3 == 0 {
			e.Triplets = []Triplet{{Anchor: 0, Positive: 1, Negative: 2}, {Anchor: 3, Positive: 1, Negative: 0}}
		}
		want, err := Rule(b, e, dmlx.Rule{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Rule(e, dmlx.Options{})
		if err != nil || !slices.Equal(got.G, want.G) || !slices.Equal(got.Triplets, want.Triplets) {
			t.Fatalf("batch %d: %v", i, err)
		}
	}
	if n := len(c.built); n != 2 {
		t.Errorf("%d programs; want one for mined triplets and one for given ones", n)
	}
}

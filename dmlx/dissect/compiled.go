package dissect

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// Compiled is a rule whose graphs are built once and then run for any embeddings and options: what a slider needs, or
// many batches. It does what [Rule] and [Weights] do, on the Go backend with the same bits. There is a graph
// for each shape of a batch and each set of switches; the numbers of the options are inputs ([dmlx.Batch].Parameters),
// but for a rule with a part of the user's own, which may use them as it likes: it has a graph for each set of numbers.
// The functions of such parts must go on building what they built at first. It is safe for concurrent use. Close frees
// it.
type Compiled struct {
	programs
	rule      dmlx.Rule
	constants bool // Numbers are constants: for one run, and with the bits of a training's graphs on any backend.
}

// Compile prepares a rule to be taken apart many times. Nothing is built before it is used, so what is wrong with a
// part of the rule is an error then. The rule's own options do not count: each use has its own.
func Compile(b compute.Backend, r dmlx.Rule) *Compiled {
	return &Compiled{programs: programs{backend: b}, rule: r}
}

// once is a rule to be used for one thing.
func once(b compute.Backend, r dmlx.Rule) *Compiled {
	c := Compile(b, r)
	c.constants = true
	return c
}

// programs are functions that build graphs, each with the graphs that it has built.
type programs struct {
	backend compute.Backend

	mu     sync.Mutex
	built  map[any]*program
	closed bool
}

// program is one function to build graphs with, and the shapes that there are graphs of.
type program struct {
	*Exec
	shapes map[string]bool
}

// mostPrograms and mostShapes bound what is kept; beyond them it starts anew.
const mostPrograms, mostShapes = 64, 16

// Close frees all graphs.
func (c *programs) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free()
	c.closed = true
}

func (c *programs) free() {
	for _, p := range c.built {
		p.Finalize()
	}
	c.built = nil
}

// run runs the program of a key, which build makes if there is none yet.
func (c *programs) run(key any, build func(in []*Node) []*Node, args []*tensors.Tensor) (out []*tensors.Tensor,
	err error) {
	defer errs.Catch(&err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.New("what was compiled is closed")
	}
	var shape string
	list := make([]any, len(args))
	for i, a := range args {
		list[i] = a
		shape += a.Shape().String()
	}
	p := c.built[key]
	if p != nil && !p.shapes[shape] && len(p.shapes) >= mostShapes {
		p.Finalize()
		delete(c.built, key)
		p = nil
	}
	if p == nil {
		if len(c.built) >= mostPrograms {
			c.free()
		}
		exec, err := NewExec(c.backend, graphs.Build(build))
		if err != nil {
			return nil, err
		}
		p = &program{exec.SetMaxCache(-1), make(map[string]bool)}
		if c.built == nil {
			c.built = make(map[any]*program)
		}
		c.built[key] = p
	}
	p.shapes[shape] = true
	return p.Call(list...)
}

// ruleKey tells the programs of a rule apart.
type ruleKey struct {
	what                                          string
	sum, negativeOnly, keepLength, skipDuplicates bool
	numbers                                       string // Of a rule for which they are constants.
	inputs                                        int
}

// run runs one of the rule's programs. build gets the inputs in the order of args, and the numbers of the options, nil
// for constants.
func (c *Compiled) run(what string, o dmlx.Options, build func(in []*Node, p map[string]*Node) []*Node,
	args ...*tensors.Tensor) ([]*tensors.Tensor, error) {
	n := len(args)
	key := ruleKey{what: what, sum: o.Sum, negativeOnly: o.NegativeOnly, keepLength: o.KeepLength,
		skipDuplicates: o.SkipDuplicates, inputs: n}
	if c.constants || c.rule.Custom() {
		key.numbers = fmt.Sprint(slice.Map(dmlx.Numbers, func(n dmlx.Number) float64 { return n.In(o) }))
		return c.programs.run(key, func(in []*Node) []*Node { return build(in, nil) }, args)
	}
	values := slice.Map(dmlx.Numbers, func(n dmlx.Number) float32 { return float32(n.In(o)) })
	return c.programs.run(key, func(in []*Node) []*Node {
		numbers := make(map[string]*Node)
		for i, of := range dmlx.Numbers {
			numbers[of.Name] = Reshape(Slice(in[n], AxisElem(i)))
		}
		return build(in[:n], numbers)
	}, append(args, tensors.FromValue(values)))
}

// outcome is what a rule makes of a batch: of all triplets, valid or not, and whether or not it is finite.
type outcome struct {
	f, s, m, g, raw              []float32
	anchor, positive, negative   []int32
	valid                        []bool
	sap, san, pull, push, weight []float32
}

// outcome runs the rule for a batch that is checked.
func (c *Compiled) outcome(e Embeddings, o dmlx.Options) (*outcome, error) {
	r := c.rule
	r.Options = o
	out, err := c.run("rule", o, func(in []*Node, p map[string]*Node) []*Node {
		x := in[0]
		f := dmlx.Normalize(x)
		batch := ruleBatch(f, in, o)
		batch.Parameters = p
		k := dmlx.Compose(batch, r)
		raw := Gradient(ReduceAllSum(dmlx.Inject(f, k.G)), x)[0]
		t := k.Triplets
		return []*Node{f, k.S, k.M, k.G, raw, k.Sap, k.San, k.PairPositive, k.PairNegative, k.Weight, t.Anchor, t.Positive,
			t.Negative, t.Valid}
	}, batchArguments(e)...)
	if err != nil {
		return nil, err
	}
	t := &outcome{valid: tensors.MustCopyFlatData[bool](out[13])}
	for i, to := range []*[]float32{&t.f, &t.s, &t.m, &t.g, &t.raw, &t.sap, &t.san, &t.pull, &t.push, &t.weight} {
		*to = graphs.Floats(out[i])
	}
	for i, to := range []*[]int32{&t.anchor, &t.positive, &t.negative} {
		*to = tensors.MustCopyFlatData[int32](out[10+i])
	}
	for _, x := range out {
		_ = x.FinalizeAll()
	}
	return t, nil
}

// batchArguments are a batch as a graph takes it: embeddings, labels, and the columns of given triplets.
func batchArguments(e Embeddings) []*tensors.Tensor {
	out := []*tensors.Tensor{tensors.FromFlatDataAndDimensions(e.Values, e.N, e.Dim),
		tensors.FromFlatDataAndDimensions(e.Labels, e.N)}
	if len(e.Triplets) > 0 {
		for _, of := range []func(Triplet) int{func(t Triplet) int { return t.Anchor },
			func(t Triplet) int { return t.Positive }, func(t Triplet) int { return t.Negative }} {
			column := slice.Map(e.Triplets, func(t dmlx.Triplet) int32 { return int32(of(t)) })
			out = append(out, tensors.FromValue(column))
		}
	}
	return out
}

// ruleBatch is the batch of normalized embeddings f with the labels and triplets of a graph's inputs.
func ruleBatch(f *Node, in []*Node, o dmlx.Options) *dmlx.Batch {
	if len(in) > 2 {
		return dmlx.NewBatchOf(f, in[1], given(in[2:]), o)
	}
	return dmlx.NewBatch(f, in[1], o)
}

// given are triplets of which the columns are inputs of a graph.
func given(in []*Node) dmlx.Triplets {
	return dmlx.Triplets{Anchor: in[0], Positive: in[1], Negative: in[2], Valid: Equal(in[0], in[0])}
}

// Rule composes the rule's gradient for a batch with the given options, as the function [Rule] does.
func (c *Compiled) Rule(e Embeddings, o dmlx.Options) (*Dissection, error) {
	r := c.rule
	r.Options = o
	if err := checkBatch(&e); err != nil {
		return nil, fmt.Errorf("rule %s: %w", r.Name(), err)
	}
	t, err := c.outcome(e, o)
	if err != nil {
		return nil, fmt.Errorf("rule %s: %w", r.Name(), err)
	}
	d := &Dissection{Rule: r, N: e.N, Dim: e.Dim, F: t.f, S: t.s, M: t.m, G: t.g, Raw: t.raw}
	for i, valid := range t.valid {
		if valid {
			d.Triplets = append(d.Triplets, Triplet{Anchor: int(t.anchor[i]), Positive: int(t.positive[i]),
				Negative: int(t.negative[i]), Sap: t.sap[i], San: t.san[i], PairPositive: t.pull[i], PairNegative: t.push[i],
				Weight: t.weight[i]})
		}
	}
	for i, v := range d.Raw {
		if !finite(v) || !finite(d.G[i]) {
			return nil, fmt.Errorf("rule %s: its gradient of row %d, column %d is not finite", r.Name(), i/e.Dim, i%e.Dim)
		}
	}
	return d, nil
}

// Weights evaluates the rule's parts on similarities alone with the given options, as the function [Weights] does.
func (c *Compiled) Weights(o dmlx.Options, sap, san []float32) (positive, negative, triplet []float32, err error) {
	r := c.rule
	r.Options = o
	if len(sap) != len(san) || len(sap) == 0 {
		return nil, nil, nil, fmt.Errorf("rule %s: want as many S_ap as S_an and at least one, not %d and %d", r.Name(),
			len(sap), len(san))
	}
	out, err := c.run("weights", o, func(in []*Node, p map[string]*Node) []*Node {
		x, y, z := r.Weights(&dmlx.Batch{Sap: in[0], San: in[1], Options: o, Parameters: p})
		return []*Node{x, y, z}
	}, tensors.FromFlatDataAndDimensions(sap, len(sap)), tensors.FromFlatDataAndDimensions(san, len(san)))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("rule %s: %w", r.Name(), err)
	}
	return graphs.Floats(out[0]), graphs.Floats(out[1]), graphs.Floats(out[2]), nil
}

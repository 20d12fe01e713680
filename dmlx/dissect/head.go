package dissect

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// Head is a linear layer from frozen features to embeddings, x Wᵀ + b, that a rule or a loss trains by gradient
// descent.
type Head struct {
	Features, Dim int
	Weight        []float32 // W, [Dim, Features].
	Bias          []float32 // b, [Dim].
}

// HeadBatch is what a step of a head is taken on.
type HeadBatch struct {
	Values       []float32 // Features, [N, Features], before they are scaled.
	Scale, Shift []float32 // [Features] each: x = Values Scale + Shift.
	Labels       []int64   // [N]
}

// HeadTriplets are means over the triplets of a batch before a step, those that a rule mines. Without any they are 0.
type HeadTriplets struct {
	Count      int
	Sap, San   float64
	Violations float64 // The share with S_an > S_ap.
}

// TrainHead takes a step of gradient descent with the given options and rate, and returns the head after it. On the Go
// backend it has the bits of package train's step by plain SGD. Shapes that do not fit, and weights that are no longer
// finite, are errors.
func (c *Compiled) TrainHead(h Head, b HeadBatch, o dmlx.Options, rate float64) (Head, HeadTriplets, error) {
	r := c.rule
	r.Options = o
	return trainHead("rule "+r.Name(), h, b, rate, func(args []*tensors.Tensor) ([]*tensors.Tensor, error) {
		return c.run("head", o, func(in []*Node, p map[string]*Node) []*Node {
			return descendHead(in, func(x, labels *Node) (*Node, *dmlx.Batch) {
				f := dmlx.Normalize(x)
				batch := dmlx.NewBatch(f, labels, o)
				batch.Parameters = p
				return dmlx.Inject(f, dmlx.Compose(batch, r).G), batch
			})
		}, args...)
	})
}

// TrainHead takes a step as [Compiled.TrainHead] does. The loss has no proxies.
func (l *CompiledLoss) TrainHead(h Head, b HeadBatch, rate float64) (Head, HeadTriplets, error) {
	return trainHead("the loss", h, b, rate, func(args []*tensors.Tensor) ([]*tensors.Tensor, error) {
		return l.run(lossKey{what: "head"}, func(in []*Node) []*Node {
			return descendHead(in, func(x, labels *Node) (*Node, *dmlx.Batch) {
				f, _ := dmlx.ComposeLoss(dmlx.NewLossBatch(x, labels, nil, nil), l.loss).Surgery()
				return f, dmlx.NewBatch(f, labels, dmlx.Options{})
			})
		}, args)
	})
}

// descendHead builds a step: surgery gives the normalized embeddings, which have the gradient.
func descendHead(in []*Node, surgery func(x, labels *Node) (f *Node, mined *dmlx.Batch)) []*Node {
	labels, w, b, rate := in[3], in[4], in[5], in[6]
	f, mined := surgery(headOf(scaled(in), w, b), labels)
	g := Gradient(ReduceAllSum(f), w, b)
	return []*Node{Sub(w, Mul(rate, g[0])), Sub(b, Mul(rate, g[1])), mined.Sap, mined.San, mined.Triplets.Valid}
}

// scaled are the features of a batch, the first of a graph's inputs, by their scale and shift.
func scaled(in []*Node) *Node { return Add(Mul(in[0], ExpandAxes(in[1], 0)), ExpandAxes(in[2], 0)) }

func headOf(x, w, b *Node) *Node {
	return Add(DotGeneral(x, []int{1}, nil, w, []int{1}, nil), ExpandAxes(b, 0))
}

func (h Head) check(b HeadBatch) error {
	switch n := len(b.Labels); {
	case h.Features < 1 || h.Dim < 1 || len(h.Weight) != h.Dim*h.Features || len(h.Bias) != h.Dim:
		return fmt.Errorf("a head of %d weights and %d biases; want %d × %d and %d", len(h.Weight), len(h.Bias), h.Dim,
			h.Features, h.Dim)
	case n < 1 || len(b.Values) != n*h.Features || len(b.Scale) != h.Features || len(b.Shift) != h.Features:
		return fmt.Errorf("%d features, %d scales and %d shifts for %d samples; want %d of each", len(b.Values),
			len(b.Scale), len(b.Shift), n, h.Features)
	}
	return nil
}

// arguments are the features of a batch and a head as a graph takes them.
func (h Head) arguments(b HeadBatch) []*tensors.Tensor {
	return []*tensors.Tensor{tensors.FromFlatDataAndDimensions(b.Values, len(b.Labels), h.Features),
		tensors.FromFlatDataAndDimensions(b.Scale, h.Features), tensors.FromFlatDataAndDimensions(b.Shift, h.Features),
		tensors.FromFlatDataAndDimensions(b.Labels, len(b.Labels)),
		tensors.FromFlatDataAndDimensions(h.Weight, h.Dim, h.Features), tensors.FromFlatDataAndDimensions(h.Bias, h.Dim)}
}

func trainHead(name string, h Head, b HeadBatch, rate float64,
	run func([]*tensors.Tensor) ([]*tensors.Tensor, error)) (Head, HeadTriplets, error) {
	var t HeadTriplets
	if err := h.check(b); err != nil {
		return h, t, err
	}
	out, err := run(append(h.arguments(b), tensors.FromScalar(float32(rate))))
	if err != nil {
		return h, t, fmt.Errorf("%s: %w", name, err)
	}
	next := Head{h.Features, h.Dim, graphs.Floats(out[0]), graphs.Floats(out[1])}
	sap, san := graphs.Floats(out[2]), graphs.Floats(out[3])
	t.Count, t.Sap, t.San, t.Violations = means(sap, san, tensors.MustCopyFlatData[bool](out[4]))
	for _, x := range out {
		_ = x.FinalizeAll()
	}
	if slices.ContainsFunc(next.Weight, notFinite) || slices.ContainsFunc(next.Bias, notFinite) {
		return h, t, fmt.Errorf("%s: the step leads to weights that are not finite; want a lower rate", name)
	}
	return next, t, nil
}

func notFinite(v float32) bool { return !finite(v) }

// means are those over valid triplets, and the share with S_an > S_ap; 0 without any.
func means(sap, san []float32, valid []bool) (count int, ap, an, violations float64) {
	for i, is := range valid {
		if !is {
			continue
		}
		count++
		ap, an = ap+float64(sap[i]), an+float64(san[i])
		if san[i] > sap[i] {
			violations++
		}
	}
	if n := float64(count); n > 0 {
		ap, an, violations = ap/n, an/n, violations/n
	}
	return count, ap, an, violations
}

// Embed returns the head's normalized embeddings of samples, [N, Dim]. Labels say only how many samples there are.
func (h Head) Embed(backend compute.Backend, b HeadBatch) ([]float32, error) {
	if err := h.check(b); err != nil {
		return nil, err
	}
	var args []any
	for i, a := range h.arguments(b) {
		if i != 3 {
			args = append(args, a)
		}
	}
	out, err := graphs.Run(backend, func(in []*Node) []*Node {
		return []*Node{dmlx.Normalize(headOf(scaled(in), in[3], in[4]))}
	}, args...)
	if err != nil {
		return nil, err
	}
	return graphs.Floats(out[0]), nil
}

package onnx

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx/backbone"
)

// WithLoRA returns the network with W + scale·B·A in place of each parameter W [out, in] whose name matches: low-rank
// adaptation (Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1). A [rank, in] and B
// [out, rank] are further variables, which [Network.Init] sets to zero. With parts of a fused weight, as in "q", "v",
// there is such a pair beside the rows of each; see [backbone.Rows]. W stays a parameter. It fails if no parameter of
// two axes matches, or if one is too small for the rank.
func (n *Network) WithLoRA(matches func(name string) bool, rank int, scale float64, parts ...string) (*Network, error) {
	m := *n
	m.tensors, m.role, m.variables = maps.Clone(n.tensors), maps.Clone(n.role), slices.Clone(n.variables)
	m.adapted, m.scale = map[string][]string{}, scale
	if len(parts) == 0 {
		parts = []string{""}
	}
	for _, w := range n.Parameters() {
		if len(w.Shape) != 2 || !matches(w.Name) {
			continue
		}
		in := w.Shape[1]
		for _, part := range parts {
			from, to, err := backbone.Rows(part, w.Shape[0])
			if err != nil {
				return nil, fmt.Errorf("the weight %s: %w", w.Name, err)
			}
			if rank < 1 || rank > min(to-from, in) {
				return nil, fmt.Errorf("rank %d for the weight %s [%d, %d]: want a rank from 1 to %d", rank, w.Name, to-from, in,
					min(to-from, in))
			}
			a, b := backbone.LowRank(w.Name, part)
			for name, dims := range map[string][]int{a: {rank, in}, b: {to - from, rank}} {
				if m.tensors[name] != nil {
					return nil, fmt.Errorf("the file has low-rank matrices of its own, %s: merge them before the export", name)
				}
				m.tensors[name] = &tensor{name: name, kind: float32Type, dims: dims, raw: make([]byte, 4*product(dims))}
				m.role[name] = parameter
			}
			m.variables = append(m.variables, a, b)
		}
		m.adapted[w.Name] = parts
	}
	if len(m.adapted) == 0 {
		return nil, errors.New("no weight of two axes matches")
	}
	return &m, nil
}

// adapt adds the low-rank products to a weight that has some.
func (e *evaluation) adapt(name string, w *Node) *Node {
	for _, part := range e.adapted[name] {
		a, b := backbone.LowRank(name, part)
		out := w.Shape().Dim(0)
		from, to, _ := backbone.Rows(part, out) // WithLoRA has checked it.
		product := MulScalar(MatMul(e.weight(b), e.weight(a)), e.scale)
		w = Add(w, backbone.Extend(product, 0, from, out-to, 0))
	}
	return w
}

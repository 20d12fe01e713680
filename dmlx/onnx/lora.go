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
// [out, rank] are further variables, which [Network.Init] sets to zero. W stays a parameter. It fails if no parameter
// of two axes matches, or if one is too small for the rank.
func (n *Network) WithLoRA(matches func(weight string) bool, rank int, scale float64) (*Network, error) {
	m := *n
	m.tensors, m.role, m.variables = maps.Clone(n.tensors), maps.Clone(n.role), slices.Clone(n.variables)
	m.adapted, m.scale = map[string]bool{}, scale
	for _, w := range n.Parameters() {
		if len(w.Shape) != 2 || !matches(w.Name) {
			continue
		}
		out, in := w.Shape[0], w.Shape[1]
		if rank < 1 || rank > min(out, in) {
			return nil, fmt.Errorf("rank %d for the weight %s [%d, %d]: want a rank from 1 to %d", rank, w.Name, out, in,
				min(out, in))
		}
		m.adapted[w.Name] = true
		a, b := backbone.LowRank(w.Name)
		for name, dims := range map[string][]int{a: {rank, in}, b: {out, rank}} {
			if m.tensors[name] != nil {
				return nil, fmt.Errorf("the file has low-rank matrices of its own, %s: merge them before the export", name)
			}
			m.tensors[name] = &tensor{name: name, kind: float32Type, dims: dims, raw: make([]byte, 4*product(dims))}
			m.role[name] = parameter
		}
		m.variables = append(m.variables, a, b)
	}
	if len(m.adapted) == 0 {
		return nil, errors.New("no weight of two axes matches")
	}
	return &m, nil
}

// adapt adds the low-rank product to a weight that has one.
func (e *evaluation) adapt(name string, w *Node) *Node {
	if !e.adapted[name] {
		return w
	}
	a, b := backbone.LowRank(name)
	return Add(w, MulScalar(MatMul(e.weight(b), e.weight(a)), e.scale))
}

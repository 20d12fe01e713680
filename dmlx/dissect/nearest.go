//go:build !js

package dissect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// Near is a rule or a loss and how near its gradient is to a given one, both on the sphere.
type Near struct {
	Name string `json:"name"`
	// Constant is the number by which its gradient is to be multiplied to be nearest to the given one.
	Constant float64 `json:"constant"`
	Error    float64 `json:"error"`  // The largest difference that is left, over the largest value of the given gradient.
	Cosine   float64 `json:"cosine"` // Of the angle between the two gradients.
}

// Candidate builds the gradient of a rule or a loss at the normalized embeddings f [N, Dim] of a batch x with labels.
type Candidate struct {
	Name string
	Of   func(x, f, labels *Node) *Node
}

// RuleCandidates are rules as candidates.
func RuleCandidates(rules []dmlx.Rule) []Candidate {
	return slice.Map(rules, func(r dmlx.Rule) Candidate {
		return Candidate{r.Name(), func(_, f, labels *Node) *Node {
			return dmlx.Compose(dmlx.NewBatch(f, labels, r.Options), r).G
		}}
	})
}

// LossCandidate is a loss of pairs or triplets as a candidate.
func LossCandidate(name string, loss dmlx.LossFunc) Candidate {
	return Candidate{name, func(x, _, labels *Node) *Node {
		return dmlx.ComposeLoss(dmlx.NewLossBatch(x, labels, nil, nil), loss).G
	}}
}

// Nearest ranks candidates by the cosine of their gradients with a given one, g [N, Dim] at the normalized embeddings
// of a batch, the nearest first. One whose gradient is zero or not finite is left out. It is an error if g is zero or
// not finite on the sphere. It computes on the Go backend, which needs no time to compile so many gradients.
func Nearest(e Embeddings, g []float32, candidates []Candidate) ([]Near, error) {
	if err := (Autograd{Gradient: g}).check(&e); err != nil {
		return nil, err
	}
	f, all, err := gradientsOf(e, candidates)
	if err != nil {
		return nil, err
	}
	given := onSphere(f, g, e.Dim)
	if norm(given) == 0 {
		return nil, errors.New("the gradient only changes the lengths of the embeddings: no rule does that")
	}
	return ranked(given, candidates, all), nil
}

// gradientsOf returns the normalized embeddings and the gradient of each candidate on the sphere, nil for one that is
// not finite.
func gradientsOf(e Embeddings, candidates []Candidate) (f []float32, all [][]float64, err error) {
	b, err := probeBackend()
	if err != nil {
		return nil, nil, err
	}
	out, err := runOn(b, e, func(x, labels *Node) []*Node {
		f := dmlx.Normalize(x)
		nodes := []*Node{f}
		for _, c := range candidates {
			nodes = append(nodes, c.Of(x, f, labels))
		}
		return nodes
	})
	if err != nil {
		return nil, nil, fmt.Errorf("gradients of %d candidates: %w", len(candidates), err)
	}
	f = graphs.Floats(out[0])
	for _, t := range out[1:] {
		values := graphs.Floats(t)
		if slices.ContainsFunc(values, func(v float32) bool { return !finite(v) }) {
			all = append(all, nil)
		} else {
			all = append(all, onSphere(f, values, e.Dim))
		}
	}
	return f, all, nil
}

// ranked are the candidates with gradients by the cosines of these with a given one, the nearest first.
func ranked(given []float64, candidates []Candidate, gradients [][]float64) (out []Near) {
	for i, c := range candidates {
		if a := agreement(gradients[i], given, nil, 0); a != nil {
			out = append(out, Near{c.Name, a.Constant, a.Error, a.Cosine})
		}
	}
	slices.SortStableFunc(out, func(x, y Near) int { return cmp.Compare(y.Cosine, x.Cosine) })
	return out
}

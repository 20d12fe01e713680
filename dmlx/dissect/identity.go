//go:build !js

// The page has no rules of the user's own, and hashes would make its program larger.

package dissect

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// IdentityOf returns the name by which run stores know a rule: its canonical name, and for a rule with a part of the
// user's own also a digest of what the rule does to fixed batches on the Go backend, so that an edited rule is another
// rule. It fails where the user's function does.
func IdentityOf(r dmlx.Rule) (string, error) {
	if !r.Custom() {
		return r.Name(), nil
	}
	values, err := probe(r)
	if err != nil {
		return "", fmt.Errorf("rule %s: %w", r.Name(), err)
	}
	sum := sha256.New()
	for _, v := range values {
		bits := math.Float32bits(v)
		sum.Write([]byte{byte(bits), byte(bits >> 8), byte(bits >> 16), byte(bits >> 24)})
	}
	return r.Name() + "#" + hex.EncodeToString(sum.Sum(nil))[:12], nil
}

// probeBackend is for identities alone: the same everywhere, whatever backend trains.
var probeBackend = sync.OnceValues(backend.Go)

// probe is what a rule makes of fixed batches, from loose ones to ones in which a class is all but a point.
func probe(r dmlx.Rule) ([]float32, error) {
	b, err := probeBackend()
	if err != nil {
		return nil, err
	}
	const n, dim = 96, 8
	var values []float32
	for tightness := range 5 {
		rng := rand.New(rand.NewPCG(uint64(tightness), 0))
		e := Embeddings{Values: make([]float32, n*dim), N: n, Dim: dim, Labels: make([]int64, n)}
		var center [dim]int
		for i := range n {
			if i%4 == 0 {
				for j := range center {
					center[j] = rng.IntN(129) - 64
				}
			}
			e.Labels[i] = int64(i / 4)
			for j := range dim {
				e.Values[i*dim+j] = float32(center[j] + (rng.IntN(65)-32)>>tightness)
			}
		}
		// Products of integers over a power of two are exact, so no order of summation changes a bit of a similarity.
		// The rows' lengths are about 1; that they are not 1 does no harm to a probe.
		out, err := e.run(b, func(x, labels *Node) []*Node {
			c := dmlx.Compose(dmlx.NewBatch(MulScalar(x, 1./128), labels, r.Options), r)
			return []*Node{c.M, c.PairPositive, c.PairNegative, c.Weight}
		})
		if err != nil {
			return nil, err
		}
		for _, t := range out {
			values = append(values, graphs.Floats(t)...)
		}
	}
	return values, nil
}

//go:build !js

// The page has no rules of the user's own, and hashes would make its program larger.

package dissect

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// IdentityOf returns the name by which run stores know a rule: its canonical name, and for a rule with a part of the
// user's own also a digest of what the rule does to fixed batches on the Go backend, so that an edited rule is another
// rule. It fails where the user's function does, and for a part that has a name and no function.
func IdentityOf(r dmlx.Rule) (string, error) {
	if err := r.Validate(); err != nil {
		return "", err
	}
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
		out, err := runOn(b, e, func(x, labels *Node) []*Node {
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

// IdentityOfLoss returns the name by which run stores know a loss of the user's own: its name and a digest of its graph
// with its gradients, so that an edited loss is another loss. perClass is the number of proxies of each class that the
// loss has, 0 for none. It fails where the function does, if it returns no scalar, or if the loss or its gradient is
// not finite on a batch of random embeddings.
func IdentityOfLoss(name string, loss dmlx.LossFunc, perClass int) (string, error) {
	fail := func(err error) (string, error) { return "", fmt.Errorf("loss %s: %w", name, err) }
	switch {
	case name == "" || strings.ContainsAny(name, "#?, \n"):
		return fail(errors.New("the name must not be empty and must not contain #, ?, a comma or a space"))
	case loss == nil:
		return fail(errors.New("its function is nil"))
	case perClass < 0 || perClass > 1<<10:
		return fail(fmt.Errorf("%d proxies of each class: want 0 to %d", perClass, 1<<10))
	}
	b, err := probeBackend()
	if err != nil {
		return "", err
	}
	const classes, images, dim = 4, 3, 5
	rng := rand.New(rand.NewPCG(1, 0))
	normal := func(n int) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(rng.NormFloat64())
		}
		return out
	}
	e := Embeddings{Values: normal(classes * images * dim), N: classes * images, Dim: dim}
	for i := range e.N {
		e.Labels = append(e.Labels, int64(i/images))
	}
	var p Proxies
	if perClass > 0 {
		p = Proxies{Values: normal(classes * perClass * dim), N: classes * perClass, Dim: dim}
		for i := range p.N {
			p.Classes = append(p.Classes, int64(i/perClass))
		}
	}
	arguments := slice.Map(lossArguments(e, p), func(t *tensors.Tensor) any { return t })
	var digests [2]string
	moves := false
	for i := range digests { // Twice, since a loss that is not the same again could never be found again.
		out, err := graphs.Run(b, func(in []*Node) []*Node {
			in[1] = ConvertDType(in[1], dtypes.Int32) // As in training.
			if len(in) > 2 {
				in[3] = ConvertDType(in[3], dtypes.Int32)
			}
			batch := lossBatch(in, perClass > 0)
			c := dmlx.ComposeLoss(batch, loss)
			leaves := []*Node{batch.S, batch.Labels, batch.Positive, batch.Negative, batch.F, batch.X, batch.SP, batch.PS,
				batch.PP, batch.Classes, batch.Own, batch.P}
			digests[i] = graphs.Digest(leaves, c.Value, c.W, c.WSP, c.WPS, c.WPP, c.Direct, c.DirectP, c.Length)
			return []*Node{c.Value, Add(c.G, c.Length)}
		}, arguments...)
		if err != nil {
			return fail(err)
		}
		for k, t := range out {
			for _, v := range graphs.Floats(t) {
				moves = moves || k > 0 && v != 0
				if !finite(v) {
					return fail(fmt.Errorf("the loss or its gradient is %g on a batch of random embeddings: want finite values", v))
				}
			}
		}
	}
	if !moves {
		return fail(errors.New("its gradient is zero on a batch of random embeddings: it would train nothing"))
	}
	if digests[0] != digests[1] {
		return fail(errors.New("it builds another graph each time: take random numbers out of it"))
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d proxies %s", perClass, digests[0]))
	return name + "#" + hex.EncodeToString(sum[:])[:12], nil
}

package objectives

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/sampling"
	"github.com/gradient-surgery/dml/dmlx/miners"
)

// Surgery puts the gradient of an objective behind the embeddings of a batch.
type Surgery struct {
	meaning
	Proxies int  // Proxies of all classes; 0 without.
	Noise   bool // Whether the miner samples at random.
}

// Surgery returns the surgery for batches with so many images of each class, of so many classes in all.
func (o Objective) Surgery(imagesPerClass, classes int) (s Surgery, err error) {
	if o, err = o.Parsed(); err != nil {
		return s, err
	}
	s.meaning, s.Proxies = *o.meaning, o.meaning.perClass*classes
	s.exchange.PerAnchor = max(imagesPerClass, s.perClass) // The most positives of an anchor, images or proxies.
	switch m := s.miner.(type) {
	case miners.DistanceWeighted:
		s.Noise = true
		if o.IsRule() { // A rule gathers the vectors of each triplet, also of those that are not valid.
			m.PerAnchor = imagesPerClass - 1
			s.miner = m
		}
	case miners.SemiHardNegatives:
		m.PerAnchor = imagesPerClass - 1 // The most positives of an anchor.
		s.miner = m
	}
	return s, nil
}

// Inputs are a batch as [Surgery.Of] takes it.
type Inputs struct {
	X       *Node // Embeddings before their normalization, [B, D].
	Labels  *Node // Classes from 0, int32 [B].
	Proxies *Node // [Surgery.Proxies, D]; nil without.
	Noise   *Node // Of a miner that samples: uniform in [0, 1), [B, B].
}

// Of returns the normalized embeddings f [B, D], and the proxies p or nil, as nodes whose gradient is that of the rule
// or loss, and the triplets of the batch that the rule takes, or would take in place of the loss.
func (s Surgery) Of(in Inputs) (f, p *Node, batch *dmlx.Batch) {
	miner := s.miner
	if m, is := miner.(miners.DistanceWeighted); is {
		m.Noise = in.Noise
		miner = m
	}
	if s.loss == nil {
		var mine func(*dmlx.LossBatch) *dmlx.LossBatch
		if miner != nil {
			mine = miner.Mine
		}
		f, parts := dmlx.SurgeryMined(in.X, in.Labels, s.rule, mine)
		if batch = parts.Batch; miner != nil {
			batch = dmlx.NewBatch(f, in.Labels, dmlx.Options{SkipDuplicates: s.rule.Options.SkipDuplicates})
		}
		return f, nil, batch
	}
	loss := s.loss
	if miner != nil {
		loss = miners.With(miner, loss)
	}
	with := dmlx.NewLossBatch(in.X, in.Labels, in.Proxies, s.proxyClasses(in.Proxies))
	composed := dmlx.ComposeLoss(with, loss)
	if s.exchange.String() != "" {
		composed = composed.Exchange(s.exchange)
	}
	f, p = composed.Surgery()
	return f, p, dmlx.NewBatch(f, in.Labels, dmlx.Options{})
}

// proxyClasses returns the class of each proxy, nil without proxies.
func (s Surgery) proxyClasses(proxies *Node) *Node {
	if proxies == nil {
		return nil
	}
	rows := make([]int32, s.Proxies)
	for i := range rows {
		rows[i] = int32(i / s.perClass)
	}
	return Const(proxies.Graph(), rows)
}

// InitialProxies returns unit vectors [n, dim] of uniformly distributed directions. A row depends only on the seed and
// its number.
func InitialProxies(n, dim int, seed uint64) []float32 {
	out := make([]float32, 0, n*dim)
	for i := range n {
		rng, square := sampling.Stream(seed, sampling.Proxies, uint64(i)), 0.0
		row := make([]float64, dim)
		for square == 0 {
			for j := range row {
				row[j] = rng.NormFloat64()
				square += row[j] * row[j]
			}
		}
		for _, v := range row {
			out = append(out, float32(v/math.Sqrt(square)))
		}
	}
	return out
}

// Noise returns the random numbers of a miner that samples, for one step: uniform in [0, 1), [n, n].
func Noise(n, step int, seed uint64) *tensors.Tensor {
	rng := sampling.Stream(seed, sampling.Miner, uint64(step))
	values := make([]float32, n*n)
	for i := range values {
		values[i] = rng.Float32()
	}
	return tensors.FromFlatDataAndDimensions(values, n, n)
}

package dmlx

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// Bank is a memory of embeddings of former batches, which are further positives and negatives of the anchors of a batch
// (cross-batch memory, XBM: Wang, Zhang, Huang, Scott 2020, "Cross-Batch Memory for Embedding Learning"). Positives and
// negatives, of the bank or of the batch, have no gradient: an embedding is moved as an anchor alone.
type Bank struct {
	F      *Node // L2-normalized embeddings, float32 [N, D].
	Labels *Node // Their labels, integers of the type of the batch's, [N]. A negative label is an empty place.
	// BatchGradient, if not nil, is a scalar. The gradient of the batch's own positives and negatives is multiplied by it:
	// with 1 and an empty bank the gradient is that without a bank.
	BatchGradient *Node
}

// behind returns the embeddings and labels of a batch with those of the bank behind them; those of the batch without a
// bank.
func (b *Bank) behind(f, labels *Node) (all, allLabels *Node) {
	if b == nil {
		return f, labels
	}
	b.F.AssertDims(-1, f.Shape().Dimensions[1])
	b.Labels.AssertDims(b.F.Shape().Dimensions[0])
	return Concatenate([]*Node{f, StopGradient(b.F)}, 0), Concatenate([]*Node{labels, b.Labels}, 0)
}

// references returns rows [T] and strengths [T] for the first n rows alone, those of the batch.
func (b *Bank) references(rows, strength *Node, n int) (own, ownStrength *Node) {
	last := MulScalar(OnesLike(rows), n-1)
	strength = Mul(b.BatchGradient, graphs.Only(LessOrEqual(rows, last), strength))
	return Min(rows, last), strength
}

// Selection says which triplets a rule is about. The zero value is the paper's: of each anchor the nearest positive and
// the nearest negative of the batch (EPHN).
type Selection struct {
	// Mine chooses triplets, as the Mine of a miner does (package miners); nil for EPHN.
	Mine func(b *LossBatch) *LossBatch
	Bank *Bank // Further positives and negatives; nil for none.
}

// Surgery is [Surgery] with the selected triplets. It panics, as code that builds graphs does, if Mine does not choose
// triplets, and for the same reasons.
func (s Selection) Surgery(embeddings, labels *Node, r Rule) (f *Node, c *Composed) {
	if embeddings.Rank() != 2 || embeddings.DType() != dtypes.Float32 {
		exceptions.Panicf("rule %s: the embeddings are %s; want float32 [B, D]: convert them in the model by "+
			"ConvertDType(x, dtypes.Float32)", r.Name(), embeddings.Shape())
	}
	if rows := embeddings.Shape().Dim(0); !labels.DType().IsInt() || labels.Rank() != 1 || labels.Shape().Dim(0) != rows {
		exceptions.Panicf("rule %s: the labels are %s; want the classes of the %d embeddings as integers, int64 [%d]",
			r.Name(), labels.Shape(), rows, rows)
	}
	f = Normalize(embeddings)
	b := newBatch(f, labels, s.Bank, r.Options)
	if s.Mine == nil {
		b = b.ephn()
	} else {
		from := newLossBatch(embeddings, labels, s.Bank).MinedPairs(b.positive, b.negative)
		mined := s.Mine(from)
		if mined.Triplets == nil {
			panic("the miner of a rule chose pairs: want one that chooses triplets")
		}
		b = b.with(*mined.Triplets)
	}
	c = Compose(b, r)
	return Inject(f, c.G), c
}

// NewLossBatchWith is [NewLossBatch] of a loss of pairs or triplets with a bank. Its matrices have a column for each
// embedding of the batch and then of the bank. A loss must not take them for square.
func NewLossBatchWith(x, labels *Node, bank *Bank) *LossBatch { return newLossBatch(x, labels, bank) }

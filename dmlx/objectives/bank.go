package objectives

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/query"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
)

// Bank is cross-batch memory (XBM: Wang, Zhang, Huang, Scott 2020, "Cross-Batch Memory for Embedding Learning",
// Algorithm 1): the embeddings of the last images are kept, as they were, and each image of a batch is compared with
// all of them. [ParseBank] reads one from text.
//
// Positives and negatives of an anchor come from the memory, which ends with the batch itself, but for the anchor's own
// copy. Nothing of the memory has a gradient, so an image is moved as an anchor alone.
type Bank struct {
	// Size is the number of images in the memory, with those of the batch.
	Size int
	// Start is the number of steps that are trained without the memory, in the usual way, before it begins to fill.
	Start int
}

const xbm, xbmSize = "xbm", 1024

// ParseBank reads a memory: "xbm", which keeps 1024 images, or "xbm?size=4096&start=1000".
func ParseBank(text string) (Bank, error) {
	b := Bank{Size: xbmSize}
	name, options, asked := strings.Cut(text, "?")
	if name != xbm {
		return b, fmt.Errorf("memory bank %q: there is no %q; there is %s, as in %s?size=%d&start=100", text, name, xbm, xbm,
			xbmSize)
	}
	count := func(to *int, least int) func(string) error {
		return func(value string) (err error) {
			if *to, err = strconv.Atoi(value); err != nil || *to < least || *to > 1<<20 {
				return fmt.Errorf("want a whole number from %d to %d", least, 1<<20)
			}
			return nil
		}
	}
	if asked {
		err := query.Read("option", options, []query.Option{
			{Name: "size", Text: count(&b.Size, 1)}, {Name: "start", Text: count(&b.Start, 0)},
		})
		if err != nil {
			return b, fmt.Errorf("memory bank %q: %w", text, err)
		}
	}
	return b, nil
}

// String returns the canonical text, which [ParseBank] reads. It always has the size.
func (b Bank) String() string {
	fields := []string{"size=" + strconv.Itoa(b.Size)}
	if b.Start > 0 {
		fields = append(fields, "start="+strconv.Itoa(b.Start))
	}
	return query.Join(xbm, fields)
}

// FitsBank returns an error if the rule or loss cannot compare with a [Bank].
func (o Objective) FitsBank() error {
	o, err := o.Parsed()
	if err != nil {
		return err
	}
	if o.meaning.perClass > 0 {
		return fmt.Errorf("loss %s has proxies in place of pairs of images; use a loss of pairs or triplets", o.Loss)
	}
	if l, err := losses.Parse(o.Loss); err == nil {
		if err := losses.CheckBank(l); err != nil {
			return err
		}
	}
	if o.Exchange != "" {
		return fmt.Errorf("the parts %s of a loss cannot be replaced with a memory bank", o.Exchange)
	}
	// These take each positive of an anchor, of which a bank has many.
	_, semiHard := o.meaning.miner.(miners.SemiHardNegatives)
	_, distance := o.meaning.miner.(miners.DistanceWeighted)
	if semiHard || distance && o.IsRule() {
		return fmt.Errorf("the miner %s takes all positives of an anchor, which are too many in a bank; "+
			"use one that takes one positive, as %s or hard", o.Miner, ruleMiner)
	}
	return nil
}

// Memory is a [Bank] for batches of a training, with variables in a store: "embeddings", float32 [Rows, D], the oldest
// first, and "labels", float32 [Rows], −1 for empty places.
type Memory struct {
	Bank
	rows int
}

// BankScope is the scope of the variables of a [Memory].
const BankScope = "/bank"

// Memory returns the memory of the bank beside batches of so many images.
func (b Bank) Memory(batch int) *Memory { return &Memory{b, b.Size - batch} }

// Rows returns the number of embeddings of former batches; 0 for nil.
func (m *Memory) Rows() int {
	if m == nil {
		return 0
	}
	return m.rows
}

// variables returns the variables, which are empty at first.
func (m *Memory) variables(store *model.Store, dim int) (embeddings, labels *model.Variable) {
	embeddings = store.VariableWithValue(BankScope+"/embeddings", m.noEmbeddings(dim))
	labels = store.VariableWithValue(BankScope+"/labels", m.noLabels())
	return embeddings.SetTrainable(false), labels.SetTrainable(false)
}

func (m *Memory) noEmbeddings(dim int) *tensors.Tensor {
	return tensors.FromFlatDataAndDimensions(make([]float32, m.rows*dim), m.rows, dim)
}

func (m *Memory) noLabels() *tensors.Tensor {
	return tensors.FromFlatDataAndDimensions(slices.Repeat([]float32{-1}, m.rows), m.rows)
}

// Reset creates the variables for embeddings of dim dimensions, or empties them. It does nothing for nil.
func (m *Memory) Reset(store *model.Store, dim int) error {
	if m == nil {
		return nil
	}
	embeddings, labels := m.variables(store, dim)
	if err := embeddings.SetValue(m.noEmbeddings(dim)); err != nil {
		return err
	}
	return labels.SetValue(m.noLabels())
}

// Of returns the bank before a step, in the graph of x, embeddings [B, D]. before is a scalar, positive before the bank
// starts.
func (m *Memory) Of(store *model.Store, x, before *Node) *dmlx.Bank {
	embeddings, labels := m.variables(store, x.Shape().Dim(1))
	b := &dmlx.Bank{F: embeddings.NodeValue(x), Labels: ConvertDType(labels.NodeValue(x), dtypes.Int32)}
	if m.Start > 0 {
		b.BatchGradient = before
	}
	return b
}

// Push adds normalized embeddings f [B, D] with labels, int32 [B], and drops the oldest. It does nothing before the
// bank starts.
func (m *Memory) Push(store *model.Store, f, labels, before *Node) {
	embeddings, classes := m.variables(store, f.Shape().Dim(1))
	push := func(v *model.Variable, new *Node) {
		old := v.NodeValue(f)
		all := Concatenate([]*Node{old, StopGradient(new)}, 0)
		last := Slice(all, AxisRangeToEnd(new.Shape().Dim(0)))
		if m.Start > 0 {
			last = Where(GreaterThan(before, ScalarZero(f.Graph(), f.DType())), old, last)
		}
		v.SetNodeValue(last)
	}
	push(embeddings, f)
	push(classes, ConvertDType(labels, dtypes.Float32))
}

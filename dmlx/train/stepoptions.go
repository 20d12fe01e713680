package train

import (
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/optim"
)

// stepOptions are the options of a config as far as the graph of a step depends on them.
type stepOptions struct {
	optimizer    optim.Optimizer
	head         bool // The last layer has a learning rate of its own.
	frozen       bool // Batch normalization takes its running averages.
	frozenAffine bool // Scale and shift of batch normalization are not trained.
	bank         *objectives.Bank
	bankRows     int // Embeddings of former batches in the bank.
}

// stepOptions parses the options of a config.
func (c Config) stepOptions() (o stepOptions, err error) {
	if o.optimizer, err = optim.ParseOptimizer(c.Optimizer); err != nil {
		return o, err
	}
	o.head, o.frozen, o.frozenAffine = c.HeadLR > 0, c.freezesStatistics(), c.freezesAffine()
	if c.MemoryBank != "" {
		b, err := objectives.ParseBank(c.MemoryBank)
		if err != nil {
			return o, err
		}
		o.bank, o.bankRows = &b, b.Size-c.Batch()
	}
	return o, nil
}

// key returns the options that a graph depends on, for a [stepKey].
func (o Options) key() Options {
	o.Schedule, o.Augment = "", ""
	if o.HeadLR > 0 {
		o.HeadLR = 1
	}
	return o
}

// The places of the numbers that change from step to step in the input "settings", float32 [6].
const (
	firstDivisor  = iota // See [optim.Optimizer.Corrections].
	secondDivisor        //
	networkRate          // The learning rate.
	headRate             // That of the last layer.
	proxyRate            // That of the proxies.
	batchGradient        // See [dmlx.Bank].
	settingsSize
)

// settings returns the input "settings" of a step, counted from 0.
func (c Config) settings(o stepOptions, step int) []float32 {
	v := make([]float32, settingsSize)
	v[networkRate], v[headRate] = float32(c.RateAt(step)), float32(c.scheduled(c.HeadLR, step))
	v[proxyRate] = float32(c.scheduled(c.ProxyLR, step))
	v[firstDivisor], v[secondDivisor] = o.optimizer.Corrections(step)
	if o.bank != nil && step < o.bank.Start {
		v[batchGradient] = 1
	}
	return v
}

// settingAt returns an element of the input "settings", a scalar.
func settingAt(settings *Node, i int) *Node { return Reshape(Slice(settings, AxisElem(i))) }

// trainable returns the variables of the network that the step changes.
func (o stepOptions) trainable(store *model.Store) []*model.Variable {
	variables := backbone.Trainable(store)
	if o.frozenAffine {
		variables = backbone.WithoutNormalization(store, variables)
	}
	return variables
}

// headScope is the scope of the last layer, a linear one.
const headScope = "/fc/"

// rates returns the learning rates of variables of the network.
func (o stepOptions) rates(variables []*model.Variable, settings *Node) []*Node {
	rates := slices.Repeat([]*Node{settingAt(settings, networkRate)}, len(variables))
	for i, v := range variables {
		if o.head && strings.HasPrefix(v.Path(), headScope) {
			rates[i] = settingAt(settings, headRate)
		}
	}
	return rates
}

// bankScope is the scope of the variables of a memory bank: "embeddings", float32 [N, D], the oldest first, and
// "labels", float32 [N], −1 for empty places.
const bankScope = "/bank"

// bankVariables returns the variables of the bank, which are empty at first.
func (o stepOptions) bankVariables(store *model.Store, dim int) (embeddings, labels *model.Variable) {
	embeddings = store.VariableWithValue(bankScope+"/embeddings",
		tensors.FromFlatDataAndDimensions(make([]float32, o.bankRows*dim), o.bankRows, dim))
	labels = store.VariableWithValue(bankScope+"/labels", o.noLabels())
	return embeddings.SetTrainable(false), labels.SetTrainable(false)
}

// noLabels are the labels of an empty bank.
func (o stepOptions) noLabels() *tensors.Tensor {
	return tensors.FromFlatDataAndDimensions(slices.Repeat([]float32{-1}, o.bankRows), o.bankRows)
}

// dmlxBank returns the bank before the step, nil without one.
func (o stepOptions) dmlxBank(store *model.Store, x, settings *Node) *dmlx.Bank {
	if o.bank == nil {
		return nil
	}
	embeddings, labels := o.bankVariables(store, x.Shape().Dim(1))
	b := &dmlx.Bank{F: embeddings.NodeValue(x), Labels: ConvertDType(labels.NodeValue(x), dtypes.Int32)}
	if o.bank.Start > 0 {
		b.BatchGradient = settingAt(settings, batchGradient)
	}
	return b
}

// enqueue adds normalized embeddings f [B, D] with labels, int32 [B], to the bank, and drops the oldest. It does
// nothing before the bank starts.
func (o stepOptions) enqueue(store *model.Store, f, labels, settings *Node) {
	if o.bank == nil {
		return
	}
	embeddings, classes := o.bankVariables(store, f.Shape().Dim(1))
	push := func(v *model.Variable, new *Node) {
		old := v.NodeValue(f)
		all := Concatenate([]*Node{old, StopGradient(new)}, 0)
		last := Slice(all, AxisRangeToEnd(new.Shape().Dim(0)))
		if o.bank.Start > 0 {
			last = Where(GreaterThan(settingAt(settings, batchGradient), ScalarZero(f.Graph(), f.DType())), old, last)
		}
		v.SetNodeValue(last)
	}
	push(embeddings, f)
	push(classes, ConvertDType(labels, dtypes.Float32))
}

// resetState creates the variables of the optimizer and of the bank, or empties them, for a network of dimension dim
// that is in the store.
func (o stepOptions) resetState(store *model.Store, dim int) error {
	variables := o.trainable(store)
	if p := backbone.Proxies(store); p != nil {
		variables = append(variables, p)
	}
	zero := func(v *model.Variable) error { return v.SetValue(tensors.FromShape(v.Shape())) }
	for _, v := range variables {
		for _, name := range o.optimizer.StateNames() {
			if err := zero(optim.State(v, store, name)); err != nil {
				return err
			}
		}
	}
	if o.bank == nil {
		return nil
	}
	embeddings, labels := o.bankVariables(store, dim)
	if err := zero(embeddings); err != nil {
		return err
	}
	return labels.SetValue(o.noLabels())
}

// statePaths returns the paths of the variables of the optimizer and of the bank, which are part of a checkpoint.
func statePaths(store *model.Store) []string {
	var paths []string
	for v := range store.IterVariables() {
		if strings.HasPrefix(v.Path(), optim.Scope+"/") || strings.HasPrefix(v.Path(), bankScope+"/") {
			paths = append(paths, v.Path())
		}
	}
	slices.Sort(paths)
	return paths
}

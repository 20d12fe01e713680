package train

import (
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/optim"
)

// stepOptions are the options of a config as far as the graph of a step depends on them.
type stepOptions struct {
	optimizer    optim.Optimizer
	head         bool // The last layer has a learning rate of its own.
	frozen       bool // Batch normalization takes its running averages.
	frozenAffine bool // Scale and shift of batch normalization are not trained.
}

// stepOptions parses the options of a config.
func (c Config) stepOptions() (o stepOptions, err error) {
	if o.optimizer, err = optim.ParseOptimizer(c.Optimizer); err != nil {
		return o, err
	}
	o.head, o.frozen = c.HeadLR > 0, c.FreezeBN == FreezeStatistics || c.FreezeBN == FreezeAll
	o.frozenAffine = c.FreezeBN == FreezeAffine || c.FreezeBN == FreezeAll
	return o, nil
}

// key returns the options that a graph depends on, for a [stepKey].
func (o Options) key() Options {
	o.Schedule, o.Augment, o.Start = "", "", ""
	if o.HeadLR > 0 {
		o.HeadLR = 1
	}
	return o
}

// The places of the numbers that change from step to step in the input "settings", float32 [5].
const (
	firstDivisor  = iota // See [optim.Optimizer.Corrections].
	secondDivisor        //
	networkRate          // The learning rate.
	headRate             // That of the last layer.
	proxyRate            // That of the proxies.
	settingsSize
)

// settings returns the input "settings" of a step, counted from 0.
func (c Config) settings(o stepOptions, step int) []float32 {
	v := make([]float32, settingsSize)
	v[networkRate], v[headRate] = float32(c.RateAt(step)), float32(c.scheduled(c.HeadLR, step))
	v[proxyRate] = float32(c.scheduled(c.ProxyLR, step))
	v[firstDivisor], v[secondDivisor] = o.optimizer.Corrections(step)
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

// resetState creates the variables of the optimizer, or empties them, for the network that is in the store.
func (o stepOptions) resetState(store *model.Store) error {
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
	return nil
}

// statePaths returns the paths of the variables of the optimizer, which are part of a checkpoint.
func statePaths(store *model.Store) []string {
	var paths []string
	for v := range store.IterVariables() {
		if strings.HasPrefix(v.Path(), optim.Scope+"/") {
			paths = append(paths, v.Path())
		}
	}
	slices.Sort(paths)
	return paths
}

package train

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/heads"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/objectives"
)

// chosenHead is a choice with the graph of a training by it.
type chosenHead struct {
	*heads.Plan
	lanes *lanes // nil if nothing is trained.
}

// choices holds the last choice of a trainer.
type choices struct {
	sync.Mutex
	key  string
	head *chosenHead
}

func (c *choices) free() {
	c.Lock()
	defer c.Unlock()
	if c.head != nil {
		c.head.lanes.free()
	}
	c.head = nil
}

// blockModel is a block as a network.
func blockModel(b *heads.Block) *ownModel {
	paths := slice.Map(b.Weights(), func(w heads.Weight) string { return "/block/" + w.Name })
	m := &ownModel{dim: b.Width, identity: b.Identity(), paths: paths}
	m.Name, m.Input = "block", []int{b.Width}
	m.Embed = func(scope *model.Scope, x *Node, _ backbone.Pass) *Node { return b.Embed(scope, x) }
	m.draw = func(store *model.Store, seed uint64) error {
		values := b.Initial(seed)
		for i, w := range b.Weights() {
			n := shapes.Make(dtypes.Float32, w.Dims...).Size()
			if err := backbone.SetVariable(store, m.paths[i], values[:n:n], w.Dims, true); err != nil {
				return err
			}
			values = values[n:]
		}
		return nil
	}
	return m
}

// blockSession prepares a training of the block by the objective of a training of the head.
func (t *Trainer) blockSession(of Training, b *heads.Block, seed uint64, rates heads.Rates, epochs int,
) (*session, error) {
	of.Head, of.HeadStart, of.model = "", "", blockModel(b)
	of.Model, of.Dim, of.Data, of.HeldOut = of.model.identity, b.Width, b.Data, 0
	of.Seed, of.LR, of.Epochs, of.Schedule, of.Every, of.Progress = seed, rates.Block, epochs, "constant", 0, nil
	if of.ProxyLR > 0 {
		of.ProxyLR = rates.Proxies
	}
	s, err := t.newSession(of)
	if err != nil {
		return nil, err
	}
	if err := s.initialize(); err != nil {
		return nil, err
	}
	n := s.step.objective.Proxies
	if n == 0 {
		return s, nil
	}
	proxies := b.Proxies(s.classes, s.Config.Proxies(), objectives.InitialProxies(n, b.Width, 1))
	return s, backbone.SetProxies(s.step.weights, proxies, n, b.Width)
}

// values returns the values of variables of each training, one after the other; nil where there are none.
func (l *lanes) values(paths ...string) (all [][]float32, err error) {
	all = make([][]float32, l.count)
	for k := range all {
		for _, path := range paths {
			v := l.weights.GetVariable(lanePath(k, path))
			if v == nil {
				continue
			}
			values, err := backbone.Values(v)
			if err != nil {
				return nil, err
			}
			all[k] = append(all[k], values...)
		}
	}
	return all, nil
}

// set copies the weights of trainings into the graph, which exactly so many may use.
func (l *lanes) set(sessions []*session) error {
	for k, s := range sessions {
		for v := range s.step.weights.IterVariables() {
			if v.Name() == model.RNGStateVariableName {
				continue
			}
			values, err := backbone.Values(v)
			if err == nil {
				err = backbone.SetVariable(l.weights, lanePath(k, v.Path()), values, v.Shape().Dimensions, v.Trainable)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// blocks trains blocks side by side; see [heads.Trainer].
type blocks struct {
	trainer  *Trainer
	of       Training
	sessions []*session
	lanes    *lanes
	k        int // Trained coordinates of each block.
}

func (b *blocks) free() {
	for _, s := range b.sessions {
		s.step.free()
	}
	b.sessions = nil
}

// Set implements [heads.Trainer]. The blocks have seeds that are none of a run's.
func (b *blocks) Set(of []*heads.Block) (fits bool, err error) {
	b.free()
	b.k = of[0].K
	for i, block := range of {
		if _, err := b.of.Config.sampler(block.Data, nil); err != nil {
			return false, nil
		}
		s, err := b.trainer.blockSession(b.of, block, uint64(i+1), heads.Rates{Block: 1, Proxies: 1}, b.of.Epochs)
		if err != nil {
			return false, err
		}
		b.sessions = append(b.sessions, s)
	}
	if b.lanes == nil || b.sessions[0].step.objective.Proxies > 0 { // The number of proxies is that of the classes.
		b.lanes.free()
		b.lanes, err = b.trainer.newLanes(b.sessions)
	}
	return true, err
}

// Whole implements [heads.Trainer]: by the rates 1 of [blocks.Set], the rates are lengths over those of the gradients,
// means over the first four batches. A gradient of zero gives 0.
func (b *blocks) Whole(ctx context.Context) ([]heads.Rates, error) {
	const batches = 4
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	inputs := slice.Map(b.sessions, func(s *session) *inputs { return s.inputs(inner) })
	block := b.sessions[0].step.key.own.paths
	shares := [2][]float64{make([]float64, len(b.sessions)), make([]float64, len(b.sessions))}
	for step := range min(batches, b.sessions[0].Steps()) {
		if err := b.lanes.set(b.sessions); err != nil {
			return nil, err
		}
		var before [2][][]float32
		for p, paths := range [][]string{block, {proxiesPath}} {
			var err error
			if before[p], err = b.lanes.values(paths...); err != nil {
				return nil, err
			}
		}
		values := make([]stepValues, len(b.sessions))
		for k := range b.sessions {
			var err error
			if values[k], err = inputs[k].next(ctx, step); err != nil {
				return nil, err
			}
			defer free(values[k].images)
		}
		if _, err := b.lanes.run(values); err != nil {
			return nil, err
		}
		for p, paths := range [][]string{block, {proxiesPath}} {
			after, err := b.lanes.values(paths...)
			if err != nil {
				return nil, err
			}
			for k := range b.sessions {
				moved, length := 0.0, 0.0
				for i, v := range before[p][k] {
					moved += float64(after[k][i]-v) * float64(after[k][i]-v)
					length += float64(v) * float64(v)
				}
				if p == 0 {
					length = float64(b.k)
				}
				if length > 0 {
					shares[p][k] += math.Sqrt(moved/length) / batches
				}
			}
		}
	}
	rates := make([]heads.Rates, len(b.sessions))
	for k := range rates {
		for p, of := range []*float64{&rates[k].Block, &rates[k].Proxies} {
			if share := shares[p][k]; share > 0 && !math.IsInf(share, 0) {
				*of = 1 / share
			}
		}
	}
	return rates, nil
}

// Train implements [heads.Trainer].
func (b *blocks) Train(ctx context.Context, rates []heads.Rates, after func(int, [][]float32) error) error {
	for k, s := range b.sessions {
		s.LR, s.ProxyLR, s.state = rates[k].Block, rates[k].Proxies, Checkpoint{}
	}
	return b.lanes.trainBlocks(ctx, b.sessions, func(epoch int, _ []tally, trained [][]float32) error {
		return after(epoch, trained)
	})
}

// trainBlocks trains side by side, and calls after with the block of each training after each epoch.
func (l *lanes) trainBlocks(ctx context.Context, sessions []*session,
	after func(epoch int, sums []tally, blocks [][]float32) error) error {
	if err := l.set(sessions); err != nil {
		return err
	}
	paths := sessions[0].step.key.own.paths
	return trainSessions(ctx, sessions, l.run, func(epoch int, sums []tally) error {
		blocks, err := l.values(paths...)
		if err != nil {
			return err
		}
		return after(epoch, sums, blocks)
	})
}

// choiceKey is what a choice depends on: the features, and all of the config but the seed.
func (s *session) choiceKey() string {
	c := s.Config
	c.Seed = 0
	raw, _ := json.Marshal(c)
	return fmt.Sprintf("%s %d %s", s.Data.Digest, s.HeldOut, raw)
}

// choose chooses a start, a rate and a number of steps for the head of a training, or returns what was chosen for it.
func (t *Trainer) choose(ctx context.Context, s *session) (*chosenHead, error) {
	t.choices.Lock()
	defer t.choices.Unlock()
	key := s.choiceKey()
	if t.choices.key == key && t.choices.head != nil {
		return t.choices.head, nil
	}
	if old := t.choices.head; old != nil {
		old.lanes.free()
		t.choices.head = nil
	}
	b := &blocks{trainer: t, of: s.Training}
	defer b.free()
	h, err := s.head()
	if err != nil {
		return nil, err
	}
	plan, err := heads.Choose(ctx, t.Backend, s.Data.Train, s.heldOut,
		heads.Options{Dim: s.Dim, Hidden: h.Hidden, Epochs: s.Epochs, StepsPerEpoch: s.StepsPerEpoch, Trainer: b})
	if err != nil || plan.Epochs == 0 {
		b.lanes.free()
		b.lanes = nil
	}
	if err != nil {
		return nil, err
	}
	t.choices.key, t.choices.head = key, &chosenHead{plan, b.lanes}
	return t.choices.head, nil
}

// trainChosen trains heads with the same choice side by side, sets their weights, and writes what a training writes.
func (t *Trainer) trainChosen(ctx context.Context, group []*session) error {
	started := time.Now()
	head, err := t.choose(ctx, group[0])
	if err != nil {
		return err
	}
	for _, s := range group {
		s.state.Seconds += time.Since(started).Seconds() / float64(len(group)) // Its share.
	}
	if head.Epochs == 0 {
		for _, s := range group {
			if err := s.endChosen(head, head.Block.Initial(s.Seed)); err != nil {
				return err
			}
		}
		return nil
	}
	for some := range slices.Chunk(group, head.lanes.count) {
		if err := t.trainSomeChosen(ctx, head, some); err != nil {
			return err
		}
	}
	return nil
}

func (t *Trainer) trainSomeChosen(ctx context.Context, head *chosenHead, group []*session) error {
	b := &blocks{}
	defer b.free()
	for i := range head.lanes.count { // A graph has a fixed number: the last ones are trained for nothing.
		of := group[min(i, len(group)-1)]
		s, err := t.blockSession(of.Training, head.Block, of.Seed, head.Rates, head.Epochs)
		if err != nil {
			return err
		}
		if s.state = of.state; i < len(group) {
			s.Progress = of.Progress
		}
		s.state.Epoch, s.state.Epochs, s.state.Triplets, s.state.Diverged = 0, nil, nil, ""
		b.sessions = append(b.sessions, s)
	}
	var trained [][]float32
	err := head.lanes.trainBlocks(ctx, b.sessions, func(epoch int, sums []tally, all [][]float32) error {
		trained = all
		for i := range group {
			if err := b.sessions[i].endEpoch(ctx, epoch, &sums[i], false); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, s := range group {
		s.state = b.sessions[i].state
		if err := s.endChosen(head, trained[i]); err != nil {
			return err
		}
	}
	return nil
}

// endChosen sets the weights of a head, which takes features after the scale and shift of the data, and saves them.
func (s *session) endChosen(head *chosenHead, trained []float32) error {
	for _, l := range head.Block.Layers(trained, s.Data.Scale, s.Data.Shift) {
		dims := []int{len(l.Bias), len(l.Weight) / len(l.Bias)}
		if err := cmp.Or(backbone.SetVariable(s.step.weights, "/"+l.Name+"/weight", l.Weight, dims, true),
			backbone.SetVariable(s.step.weights, "/"+l.Name+"/bias", l.Bias, dims[:1], true)); err != nil {
			return err
		}
	}
	s.chosen = head
	return s.save()
}

package train

import (
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
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/heads"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/samples"
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

const blockPath = "/block/weight"

// blockModel is the network that is trained: the first k coordinates are multiplied by a matrix, the others are kept.
func blockModel(k, width int) *ownModel {
	m := &ownModel{dim: width, identity: fmt.Sprintf("block %d %d", k, width), paths: []string{blockPath}}
	m.Name, m.Input = "block", []int{width}
	m.Embed = func(scope *model.Scope, x *Node, _ backbone.Pass) *Node {
		w := scope.At("block").VariableWithShape("weight", shapes.Make(dtypes.Float32, k, k))
		first := MatMul(Slice(x, AxisRange(), AxisRange(0, k)), Transpose(w.NodeValue(x), 0, 1))
		if k == width {
			return first
		}
		return Concatenate([]*Node{first, Slice(x, AxisRange(), AxisRange(k, width))}, 1)
	}
	m.draw = func(store *model.Store, _ uint64) error {
		t := tensors.FromFlatDataAndDimensions(heads.IdentityMatrix(k), k, k)
		if v := store.GetVariable(blockPath); v != nil {
			return v.SetValue(t)
		}
		store.VariableWithValue(blockPath, t)
		return nil
	}
	return m
}

// blockSession prepares a training of the block by the objective of a training of the head.
func (t *Trainer) blockSession(of Training, b *heads.Block, seed uint64, rates heads.Rates, epochs int,
) (*session, error) {
	of.Head, of.HeadStart, of.model = "", "", blockModel(b.K, b.Width)
	of.Model, of.Dim, of.Data, of.HeldOut = of.model.identity, b.Width, b.Data, 0
	of.Seed, of.LR, of.Epochs, of.Decay, of.Every, of.Progress = seed, rates.Block, epochs, 1, 0, nil
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
	n := s.objective.Proxies
	if n == 0 {
		return s, nil
	}
	proxies := b.Proxies(s.classes, s.Config.Proxies(), objectives.InitialProxies(n, b.Width, 1))
	return s, backbone.SetProxies(s.step.weights, proxies, n, b.Width)
}

// values returns the values of a variable of each training, side by side; nil where there is none.
func (l *lanes) values(path string) (all [][]float32, err error) {
	all = make([][]float32, l.count)
	for k := range all {
		v := l.weights.GetVariable(lanePath(k, path))
		if v == nil {
			continue
		}
		value, err := v.Value()
		if err != nil {
			return nil, err
		}
		if all[k], err = tensors.CopyFlatData[float32](value); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// set copies the weights of trainings into the graph, which exactly so many may use.
func (l *lanes) set(sessions []*session) error {
	for k, s := range sessions {
		if err := copyVariables(l.weights, s.step.weights, func(p string) string { return lanePath(k, p) }); err != nil {
			return err
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
	if b.lanes == nil || b.sessions[0].objective.Proxies > 0 { // The number of proxies is that of the classes.
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
	inputs := make([]*inputs, len(b.sessions))
	for k, s := range b.sessions {
		inputs[k] = s.inputs(inner)
	}
	paths := []string{blockPath, proxiesPath}
	shares := [2][]float64{make([]float64, len(b.sessions)), make([]float64, len(b.sessions))}
	for step := range min(batches, b.sessions[0].Steps()) {
		if err := b.lanes.set(b.sessions); err != nil {
			return nil, err
		}
		var before [2][][]float32
		for p, path := range paths {
			var err error
			if before[p], err = b.lanes.values(path); err != nil {
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
		for p, path := range paths {
			after, err := b.lanes.values(path)
			if err != nil {
				return nil, err
			}
			for k := range b.sessions {
				moved, length := 0.0, 0.0
				for i, v := range before[p][k] {
					moved += float64(after[k][i]-v) * float64(after[k][i]-v)
					length += float64(v) * float64(v)
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
	return trainSessions(ctx, sessions, l.run, func(epoch int, sums []tally) error {
		blocks, err := l.values(blockPath)
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
	plan, err := heads.Choose(ctx, t.Backend, s.Data.Train, s.heldOut,
		heads.Options{Dim: s.Dim, Epochs: s.Epochs, StepsPerEpoch: s.StepsPerEpoch, Trainer: b})
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
			if err := s.endChosen(head, heads.IdentityMatrix(head.Block.K)); err != nil {
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
			if err := b.sessions[i].endEpoch(epoch, &sums[i], false); err != nil {
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

// endChosen sets the weights of a linear head, which takes features after the scale and shift of the data, and saves
// them.
func (s *session) endChosen(head *chosenHead, trained []float32) error {
	weight, bias := head.Block.Head(trained, s.Data.Scale, s.Data.Shift)
	for path, t := range map[string]*tensors.Tensor{
		"/fc/weight": tensors.FromFlatDataAndDimensions(weight, len(bias), len(weight)/len(bias)),
		"/fc/bias":   tensors.FromFlatDataAndDimensions(bias, len(bias)),
	} {
		if err := s.step.weights.GetVariable(path).SetValue(t); err != nil {
			return err
		}
	}
	s.choice = &head.Choice
	return s.save()
}

// Reference is what heads are held against: the test set by its features, without a head.
type Reference struct {
	Name string `json:"name"` // "features", or "whitened features".
	Measures
}

// References measures the test set by its features; see [heads.References]. Every heldOut-th class is no training
// class; 0 is none.
func (t *Trainer) References(ctx context.Context, data *samples.Data, heldOut int) ([]Reference, error) {
	without, err := samples.HeldOut(data.Train.Labels(), heldOut)
	if err != nil {
		return nil, err
	}
	all, err := heads.References(t.Backend, data, without)
	if err != nil {
		return nil, err
	}
	out := make([]Reference, len(all))
	for i, r := range all {
		out[i].Name = r.Name
		if err := out[i].measure(ctx, t, r.Queries, r.Gallery); err != nil {
			return nil, fmt.Errorf("test set of %s: %w", data.Name, err)
		}
	}
	return out, nil
}

package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/optim"
)

// TrainTogether trains several trainings as [Trainer.Train] trains each, and returns their outcomes in the same order.
// Trainings of heads or models of the user's own that differ only in seed, learning rate or samples take their steps
// side by side, in one compiled graph, a few at a time, which takes less time for small networks. The others are
// trained one after the other. The numbers of a training do not depend on those beside it. Seconds of an outcome are
// its share of the time.
//
// Side by side, checkpoints are written every two seconds instead of each epoch.
func (t *Trainer) TrainTogether(ctx context.Context, trainings []Training) (outs []*Outcome, err error) {
	defer errs.Catch(&err)
	outs = make([]*Outcome, len(trainings))
	var groups [][]*session
	places := make(map[*session]int)
	defer func() {
		for s := range places { // Their graphs were not compiled, or are those of the first of a group.
			s.step.free()
		}
	}()
	for i, training := range trainings {
		if training.HeadStart == "" && (!training.sideBySide() || t.DeviceCount() > 1 || len(trainings) == 1) {
			if outs[i], err = t.Train(ctx, training); err != nil {
				return nil, err
			}
			continue
		}
		s, err := t.newSession(training)
		if err != nil {
			return nil, err
		}
		places[s] = i
		if err := s.open(); err != nil {
			return nil, err
		}
		at := slices.IndexFunc(groups, func(g []*session) bool { return g[0].together(s) })
		if at < 0 {
			at, groups = len(groups), append(groups, nil)
		}
		groups[at] = append(groups[at], s)
	}
	for _, group := range groups {
		if err := t.trainGroup(ctx, group); err != nil {
			return nil, err
		}
		for _, s := range group {
			s.started = time.Now() // Evaluations follow each other.
			out, err := s.finish(ctx)
			if err != nil {
				return nil, err
			}
			if s.chosen != nil {
				out.Head = &s.chosen.Choice
			}
			outs[places[s]] = out
		}
	}
	return outs, nil
}

// A graph has as many trainings as divide their number evenly, so that it is compiled once, and at most evenLanes,
// since XLA's time to compile grows with them. If there is no such number, it has at most maxLanes.
const evenLanes, maxLanes = 6, 16

// lanesFor returns the number of trainings in a graph, of n in all.
func lanesFor(n int) int {
	for lanes := min(n, evenLanes); lanes > 2; lanes-- {
		if n%lanes == 0 {
			return lanes
		}
	}
	return min(n, maxLanes)
}

// trainGroup performs the remaining epochs of trainings that may take their steps in one graph.
func (t *Trainer) trainGroup(ctx context.Context, group []*session) error {
	if group[0].HeadStart != "" {
		return t.trainChosen(ctx, group)
	}
	var l *lanes
	defer func() { l.free() }()
	for some := range slices.Chunk(group, lanesFor(len(group))) {
		if len(some) == 1 || some[0].state.Epoch == some[0].Epochs {
			for _, s := range some {
				if err := s.train(ctx); err != nil {
					return err
				}
			}
			continue
		}
		if l == nil || l.count != len(some) {
			l.free()
			var err error
			if l, err = t.newLanes(some); err != nil {
				return err
			}
		}
		if err := l.train(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// sideBySide reports whether a training may share a graph with others. Backbones fill the device by themselves, and
// the random numbers of dropout are drawn from one state in a graph.
func (c Config) sideBySide() bool {
	function := c.Model != "" && c.model != nil && !c.model.random && c.NetworkFile == ""
	return (c.Head != "" || function) && c.MicroBatch == 0 && c.HeadLR == 0
}

// together reports whether two trainings may take their remaining steps in one graph.
func (s *session) together(o *session) bool {
	if s.HeadStart != "" {
		return s.choiceKey() == o.choiceKey()
	}
	return s.step.key.same(o.step.key) && s.Dim == o.Dim && s.Batch() == o.Batch() && s.state.Epoch == o.state.Epoch &&
		s.Epochs == o.Epochs && s.StepsPerEpoch == o.StepsPerEpoch && s.state.Diverged == "" && o.state.Diverged == "" &&
		s.Data.Train.Shape().Equal(o.Data.Train.Shape()) && len(s.Data.Scale) == len(o.Data.Scale)
}

// lanes is a compiled step of several trainings side by side. The weights of each are in a scope of its own.
type lanes struct {
	count     int
	objective objective
	weights   *model.Store
	exec      *model.Exec
}

func (t *Trainer) newLanes(sessions []*session) (*lanes, error) {
	key, obj := sessions[0].step.key, sessions[0].step.objective
	l := &lanes{count: len(sessions), objective: obj, weights: model.NewStore()}
	var err error
	l.exec, err = model.NewExec(t.Backend, l.weights, func(scope *model.Scope, in []*Node) *Node {
		n := len(in) / l.count
		var outcomes []*Node
		for k := range l.count {
			inputs := obj.stepInputs(in[k*n : (k+1)*n])
			inputs.lane = lane(k)
			_, outcome := stepGraph(scope.At("%s", strings.TrimPrefix(inputs.lane, "/")), key, obj, inputs)
			outcomes = append(outcomes, outcome)
		}
		return Stack(outcomes, 0)
	})
	return l, err
}

func (l *lanes) free() {
	if l != nil {
		l.exec.Finalize()
		l.weights.Finalize()
	}
}

// run performs a step of each training.
func (l *lanes) run(values []stepValues) ([]outcome, error) {
	var in []any
	for _, v := range values {
		for _, x := range v.all(l.objective) {
			in = append(in, x[0])
		}
	}
	out, err := l.exec.Call1(in...)
	if err != nil {
		return nil, err
	}
	return lanesOf(out, l.count), nil
}

// train performs the remaining epochs of trainings.
func (l *lanes) train(ctx context.Context, sessions []*session) error {
	for _, s := range sessions {
		s.started = time.Now()
	}
	if err := l.set(sessions); err != nil {
		return err
	}
	saved := time.Now()
	return trainSessions(ctx, sessions, l.run, func(epoch int, sums []tally) error {
		save := epoch == sessions[0].Epochs || time.Since(saved) > betweenSaves
		if save {
			saved = time.Now()
		}
		var group errgroup.Group
		if sessions[0].measures(epoch) {
			group.SetLimit(1) // Embedding keeps the device busy.
		}
		for k, s := range sessions {
			if s.state.Diverged != "" {
				continue
			}
			s.started = time.Now().Add(-time.Since(s.started) / time.Duration(l.count)) // Its share.
			group.Go(func() error {
				save := save || sums[k].notFinite > 0
				if !save && !s.measures(epoch) {
					return s.endEpoch(ctx, epoch, &sums[k], false)
				}
				err := copyVariables(s.step.weights, l.weights, func(path string) string { return sessionPath(k, path) })
				return errors.Join(err, s.endEpoch(ctx, epoch, &sums[k], save))
			})
		}
		return group.Wait()
	})
}

// betweenSaves is the time between checkpoints of trainings side by side, which take a step in less than the time of
// writing a file.
const betweenSaves = 2 * time.Second

// lane returns the path of the scope of a training side by side with others.
func lane(k int) string { return fmt.Sprintf("/lane%d", k) }

// lanePath returns the path that a variable of a training has beside others. The state of an optimizer is below a scope
// of its own, see [optim.State].
func lanePath(k int, path string) string {
	if of, is := strings.CutPrefix(path, optim.Scope+"/"); is {
		return optim.Scope + lane(k) + "/" + of
	}
	return lane(k) + path
}

// sessionPath is the inverse of [lanePath], and "" for variables of other lanes.
func sessionPath(k int, path string) string {
	if of, is := strings.CutPrefix(path, optim.Scope+lane(k)+"/"); is {
		return optim.Scope + "/" + of
	}
	of, is := strings.CutPrefix(path, lane(k)+"/")
	if !is {
		return ""
	}
	return "/" + of
}

// copyVariables copies the variables of a store that have a path in another one, which creates those that it lacks.
func copyVariables(to, from *model.Store, path func(string) string) error {
	for v := range from.IterVariables() {
		at := path(v.Path())
		if at == "" || v.Name() == model.RNGStateVariableName {
			continue
		}
		values, err := backbone.Values(v)
		if err == nil {
			err = backbone.SetVariable(to, at, values, v.Shape().Dimensions, v.Trainable)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

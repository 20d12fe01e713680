package train

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/optim"
)

// TrainTogether trains several trainings as [Trainer.Train] trains each, and returns their outcomes in the same order.
// Heads with the same choice (see [heads.Choose]) take their steps side by side, in one compiled graph, a few at a
// time, which takes less time. The others are trained one after the other. The numbers of a training do not depend on
// those beside it. Seconds of an outcome are its share of the time.
func (t *Trainer) TrainTogether(ctx context.Context, trainings []Training) (outs []*Outcome, err error) {
	defer errs.Catch(&err)
	outs = make([]*Outcome, len(trainings))
	var groups [][]*session
	places := make(map[*session]int)
	defer func() {
		for s := range places { // Their graphs were not compiled.
			s.step.free()
		}
	}()
	for i, training := range trainings {
		if training.HeadStart == "" {
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
		at := slices.IndexFunc(groups, func(g []*session) bool { return g[0].choiceKey() == s.choiceKey() })
		if at < 0 {
			at, groups = len(groups), append(groups, nil)
		}
		groups[at] = append(groups[at], s)
	}
	for _, group := range groups {
		if err := t.trainChosen(ctx, group); err != nil {
			return nil, err
		}
		for _, s := range group {
			s.started = time.Now() // Evaluations follow each other.
			out, err := s.finish(ctx)
			if err != nil {
				return nil, err
			}
			out.Head = &s.chosen.Choice
			outs[places[s]] = out
		}
	}
	return outs, nil
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

// Package nbruns opens the preset, the run store and the data sets of a notebook, as "dmlx lab" sets them.
//
// A notebook author uses [Train] to get the runs of cells and [Have] to read those that are there, [Request] for the
// functions of package paper, and [Preset] and [Store] for runs of their own. The cell shows the progress of decoding a
// data set's images, and each warning about it once. Errors in the settings end the cell.
package nbruns

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/notebooks/nb"
)

// Request returns the request for a table or figure at [Preset] from [Store]. Missing runs are trained on the backend
// that open opens, which is called only if there are any.
func Request(open func() (*backend.Choice, error), o runs.Options) report.Request {
	trainer := sync.OnceValues(func() (*train.Trainer, error) {
		choice, err := open()
		if err != nil {
			return nil, err
		}
		return train.New(choice), nil
	})
	return report.Request{Open: trainer, Preset: Preset(), Store: Store(), Options: o}
}

// Train returns cells with their runs, as a table. Runs that the store or the program has are read, the others are
// trained on the backend that open opens, or if all are light on that of [backend.OpenLight], while a line shows how
// far they are. Stop ends the cell with a line that says where; run again, it goes on from there. Errors end the cell.
func Train(open func() (*backend.Choice, error), cells []paper.Cell, o runs.Options) *paper.Table {
	preset := nb.Preset()
	if len(cells) > 0 {
		preset = cells[0].Preset // Which may be another one.
	}
	line := nb.NewProgress("Preset " + preset)
	o.Progress = report.Overall(line.Set)
	open = choose(open, light(cells))
	starting := func() (*backend.Choice, error) {
		line.Set(0, "starting the backend, then compiling the first training step")
		return open()
	}
	t := nb.Must(paper.Fill(nb.Context(), Request(starting, o), cells))
	line.Done(fmt.Sprintf("%d runs, %d of them trained now", t.Runs, t.Ran))
	return t
}

// choose returns [backend.OpenLight] if the trainings are light, and otherwise open.
func choose(open func() (*backend.Choice, error), light bool) func() (*backend.Choice, error) {
	if light {
		return backend.OpenLight
	}
	return open
}

// light reports whether the runs of all cells are light; see [runs.Spec.Light].
func light(cells []paper.Cell) bool {
	return !slices.ContainsFunc(cells, func(c paper.Cell) bool {
		return len(c.Specs) == 0 || slices.ContainsFunc(c.Specs, func(s runs.Spec) bool { return !s.Light(0) })
	})
}

// TrainWithin is [Train] for cells that take hours: it trains for as long as the budget says, at 0 not at all, and
// returns the cells with the runs that are there then. Run again, it goes on, in the middle of a run too.
func TrainWithin(budget time.Duration, open func() (*backend.Choice, error), cells []paper.Cell,
	o runs.Options) *paper.Table {
	line := nb.NewProgress("Preset " + nb.Preset())
	o.Progress, o.CachedOnly = report.Overall(line.Set), o.CachedOnly || budget <= 0
	ctx, stop := context.WithTimeout(nb.Context(), budget)
	defer stop()
	if o.CachedOnly {
		ctx = nb.Context()
	}
	t, err := paper.Fill(ctx, Request(choose(open, light(cells)), o), cells)
	if err != nil && nb.Context().Err() == nil && ctx.Err() != nil {
		line.Done(fmt.Sprintf("stopped after %s; run the cell again to go on", budget))
		return Have(cells)
	}
	nb.Check(err)
	line.Done(fmt.Sprintf("%d of %d runs, %d of them trained now", t.Runs-t.Missing, t.Runs, t.Ran))
	return t
}

// Have returns cells with those of their runs that the store or the program has. It trains nothing.
func Have(cells []paper.Cell) *paper.Table {
	return nb.Must(paper.Fill(nb.Context(), Request(backend.Open, runs.Options{CachedOnly: true}), cells))
}

// Guess asks for an order of rules by a measure of the runs of the fine-grained set, in percent. The paper's numbers
// are those of a table, at 0 none. What has not a number for each rule does not answer.
func Guess(question string, table int, measure string, rules ...string) nb.Guess {
	p, g := Preset(), nb.Guess{Question: question, Items: rules}
	printed, ours := nb.Answer{Name: "the paper's on CAR"}, nb.Answer{Name: "ours on " + p.FineGrained}
	t := Have(nb.Must(paper.Specify(p, paper.OnBothSets(p, rules...), p.Seeds)))
	for _, rule := range rules {
		c := t.Of(p.FineGrained, rule)
		printed.Y = append(printed.Y, c.Printed(table).Mean)
		ours.Y = append(ours.Y, c.Scores().Select(scores.Row{Measure: measure}).Mean().Mean)
	}
	for i, a := range []nb.Answer{printed, ours} {
		if (i > 0 || table > 0) && !slices.ContainsFunc(a.Y, math.IsNaN) {
			g.Answers = append(g.Answers, a)
		}
	}
	return g
}

// Scores returns the measures of all finished runs, those of the store and those that come with the program: a table to
// select, group and lay out. A failure ends the cell.
func Scores() scores.Table { return nb.Must(report.Stored(Store(), true)) }

// Preset returns the preset that [nb.Preset] names, or the one of its file. An unknown name ends the cell.
func Preset() presets.Preset {
	p := nb.Must(presets.Load(nb.Preset()))
	p.DataOptions = opening()
	return p
}

// Store opens the run store in the folder [nb.Store]. A failure ends the cell.
func Store() *runs.Store {
	s := nb.Must(runs.OpenStore(nb.Store()))
	s.DataOptions = opening()
	return s
}

// opening returns the options with which a cell opens data sets: Stop cancels, progress and warnings go to the cell.
var opening = sync.OnceValue(func() runs.DataOptions {
	var line *nb.Progress
	var warned sync.Map // Each run opens its data set again.
	return runs.DataOptions{
		Context: nb.Context(),
		Decoded: func(data string, done, total int) {
			if line == nil {
				line = nb.NewProgress("Decoding the images of " + data)
			}
			line.Set(float64(done)/float64(max(total, 1)), fmt.Sprintf("%d of %d", done, total))
			if done == total {
				line.Done("")
				line = nil
			}
		},
		Warn: func(message string) {
			if _, said := warned.LoadOrStore(message, true); !said {
				fmt.Fprintln(os.Stderr, "warning:", message)
			}
		},
	}
})

package inspect

import (
	"context"
	"fmt"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

// lookHits is the number of images for each query.
const lookHits = 5

// View is how a finished run sees its test images. Its methods draw it.
type View struct {
	*runs.Inspection
	Found []retrieval.Neighbors // For each query: the nearest images, the nearest positive and the nearest negative.
}

// See returns how a finished run of the store, given by its hash, sees its test images. open returns the backend that
// computes similarities. [runs.Store.Inspect] says which runs have no view.
func See(ctx context.Context, open func() (*train.Trainer, error), store *runs.Store, hash string) (*View, error) {
	l, err := store.Inspect(hash)
	if err != nil {
		return nil, err
	}
	trainer, err := open()
	if err != nil {
		return nil, err
	}
	found, err := l.Neighbors(ctx, trainer.Backend, lookHits)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", hash, err)
	}
	return &View{l, found}, nil
}

// RunLine describes a run in one line.
func RunLine(r *runs.Result) string {
	line := fmt.Sprintf("run %s · %s on %s · seed %d · lr %g · preset %s · %s · %s", r.Hash, r.Spec.Objective.String(),
		r.Spec.DataName(), r.Spec.Seed, r.Spec.LR,
		presets.Of(r.Spec), r.BackendText(), r.Date.Format("2006-01-02"))
	if r.Diverged != "" {
		line += " · " + r.Diverged
	}
	return line
}

// shortNames returns class names for labels under small pictures, without the prefix that all names share up to a
// hyphen, a slash or a space.
func shortNames(l *runs.Inspection) func(label int64) string {
	names := l.Set.Test.Names
	prefix := ""
	if len(names) > 1 {
		prefix = names[0]
		for _, n := range names[1:] {
			for !strings.HasPrefix(n, prefix) {
				prefix = prefix[:len(prefix)-1]
			}
		}
		prefix = prefix[:strings.LastIndexAny(prefix, "-/ ")+1]
	}
	return func(label int64) string { return strings.TrimPrefix(l.ClassName(label), prefix) }
}

// Sheet shows queries, given by their indices, with the images found for them; [runs.Spread] picks some.
func (v *View) Sheet(queries []int) (*figures.Figure, error) {
	l, found := v.Inspection, v.Found
	items, name := l.Items(), shortNames(l)
	var rows []figures.RetrievalRow
	for _, q := range queries {
		label := l.Queries.Labels[q]
		row := figures.RetrievalRow{Query: l.Set.Test.Thumbnail(q), Class: name(label)}
		for _, n := range found[q].Nearest {
			row.Hits = append(row.Hits, figures.RetrievalHit{Image: items.Thumbnail(n.Index), Class: name(items.Labels[n.Index]),
				Similarity: float64(n.Similarity), Right: items.Labels[n.Index] == label})
		}
		rows = append(rows, row)
	}
	return figures.RetrievalSheet(RunLine(v.Result), rows...)
}

package paper

import (
	"cmp"
	"context"
	"errors"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/paper/formulas"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/figures"
)

// appendix reproduces the statements of the paper's appendix: the relative pair weights, the instability of sig-ms, and
// the projection lengths. It trains no runs; where the store has those of Table 7, it draws their gradient norms too.
// It computes on the Go backend, so that the pictures do not depend on the backend that trains.
func appendix(ctx context.Context, q report.Request) (*Report, error) {
	b, err := backend.Go()
	if err != nil {
		return nil, err
	}
	points, batches := 101, formulas.Batches(cmp.Or(q.Preset.From, q.Preset.Name))
	if q.Preset.Like("smoke") {
		points = 21
	}
	sets, err := formulas.FirstBatches(ctx, b, batches)
	if err != nil {
		return nil, err
	}
	panels, err := formulas.Instability(ctx, b, sets)
	if err != nil {
		return nil, err
	}
	r := &Report{Report: report.Report{Provenance: "the op on the Go backend"}}
	for _, part := range []struct {
		name string
		of   func() (figures.Output, error)
	}{
		{"", func() (figures.Output, error) { return formulas.MSWeights(b, points) }},
		{"published", func() (figures.Output, error) { return formulas.PublishedMS(b) }},
		{"instability", func() (figures.Output, error) {
			return figures.Instability(formulas.BatchesProvenance(sets), panels...)
		}},
		{"projection-errors", func() (figures.Output, error) {
			t, _, err := formulas.ProjectionErrors(b, 10*points)
			return t, err
		}},
	} {
		of, err := part.of()
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		r.Parts = append(r.Parts, report.Part{Name: part.name, Of: of})
	}
	return r, nil
}

// figure1 draws Figure 1. It needs no runs.
func figure1(ctx context.Context, _ report.Request) (*Report, error) {
	f, _, err := formulas.Figure1()
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, err
	}
	return &Report{Report: report.Report{Provenance: f.Provenance, Parts: []report.Part{{Of: f}}}}, nil
}

package paper

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/gradient-surgery/dml/dmlx"
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
		{"statements", func() (figures.Output, error) { return formulas.RelativeStatements(b, sets) }},
		{"instability", func() (figures.Output, error) {
			return figures.Instability(formulas.BatchesProvenance(sets), panels...)
		}},
		{"instability-table", func() (figures.Output, error) {
			return figures.InstabilityTable(formulas.BatchesProvenance(sets), dmlx.Beta.Default, panels...)
		}},
		{"norms", func() (figures.Output, error) { return SweepNorms(q) }},
		{"projections", func() (figures.Output, error) { return formulas.Projections(b, 17) }},
		{"projection-errors", func() (figures.Output, error) {
			t, _, err := formulas.ProjectionErrors(b, 10*points)
			return t, err
		}},
	} {
		of, err := part.of()
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		if f, is := of.(*figures.Figure); !is || f != nil { // A store without runs has no norms.
			r.Parts = append(r.Parts, report.Part{Name: part.name, Of: of})
		}
	}
	return r, nil
}

// SweepNorms draws the gradient norms of Table 7's runs with the direction cos. It returns nil if the store has fewer
// than two rates of any weight. Bundled results have no norms: these are in the directories of runs.
func SweepNorms(q report.Request) (*figures.Figure, error) {
	if q.Store == nil {
		return nil, nil
	}
	study, err := ParseStudy("table7")
	if err != nil {
		return nil, err
	}
	cells, err := study.Specs(q.Preset, q.Seeds)
	if err != nil {
		return nil, err
	}
	var drawn []figures.NormRun
	from := report.Provenance{Preset: q.Preset.String()}
	rates, most := make(map[string]int), 0
	for _, c := range cells {
		rule := ruleOf(c.Rule)
		if rule.Direction != dmlx.DirectionCos.Name || len(c.Specs) == 0 {
			continue
		}
		spec := c.Specs[0]
		result, found, err := q.Store.Lookup(spec)
		if err != nil {
			return nil, err
		}
		if !found || result.Bundled {
			continue
		}
		epochs, err := q.Store.Metrics(spec.Hash())
		if err != nil {
			return nil, err
		}
		r := figures.NormRun{Pair: rule.Pair, Data: c.Data, LR: spec.LR, Diverged: result.Diverged != ""}
		n := 0.0
		for _, e := range epochs {
			if e.GradientNorm > 0 { // An epoch that was not finite has 0.
				r.Mean += e.GradientNorm
				r.Largest = max(r.Largest, e.GradientNorm)
				n++
			}
		}
		if n == 0 {
			continue
		}
		r.Mean /= n
		r.Largest = max(r.Largest, r.Mean)
		drawn, from.Results, from.Data = append(drawn, r), append(from.Results, result), append(from.Data, c.Data)
		rates[r.Pair+" "+r.Data]++
		most = max(most, rates[r.Pair+" "+r.Data])
	}
	if most < 2 {
		return nil, nil
	}
	f, err := figures.GradientNorms(drawn)
	if err == nil {
		f.Provenance = fmt.Sprintf("%s · %d runs of Table 7 in the store, one seed each", from, len(drawn))
	}
	return f, err
}

// figure1 draws Figure 1. It needs no runs.
func figure1(ctx context.Context, _ report.Request) (*Report, error) {
	f, _, err := formulas.Figure1()
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, err
	}
	return &Report{Report: report.Report{Provenance: f.Provenance, Parts: []report.Part{{Of: f}}}}, nil
}

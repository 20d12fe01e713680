package paper

import (
	"context"
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/paper/claims"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// auditClaims checks the paper's claims on its own numbers and on the available runs. It trains none.
func auditClaims(ctx context.Context, q Request) (*Report, error) {
	audited, r, err := audit(ctx, q)
	if err != nil {
		return nil, err
	}
	r.Parts = []Part{{"", claims.Table(audited, r.Provenance)}, {"summary", claims.Summary(audited, r.Provenance)},
		{"contradicted", claims.Contradicted(audited)}}
	for _, p := range claims.Parts {
		t := claims.Table(audited, r.Provenance, p.Name)
		t.Caption = p.Title
		r.Parts = append(r.Parts, Part{p.Name, t})
	}
	return r, nil
}

// audit returns the claims with their findings, and a report of the runs that they are checked on.
func audit(ctx context.Context, q Request) ([]claims.Audited, *Report, error) {
	q.CachedOnly = true
	paper, err := claims.PaperNumbers()
	if err != nil {
		return nil, nil, err
	}
	r := &Report{Title: "The paper's claims, audited"}
	all := &Table{Preset: q.Preset.String()} // The cells of all tables, for the provenance.
	var facts []claims.Fact
	labels := make(map[string]string)
	take := func(t *Table) {
		r.add(t)
		all.Runs += t.Runs
		all.Missing += t.Missing
		all.Cells = append(all.Cells, t.Cells...)
		for _, c := range t.Cells {
			labels[c.PaperData] = c.Data
		}
	}
	for _, table := range []int{2, 3, 4, 6, 7, 8} {
		s, err := ParseStudy(fmt.Sprintf("table%d", table))
		if err != nil {
			return nil, nil, err
		}
		t, err := Reproduce(ctx, q.Open, q.Store, s, q.Preset, q.Options)
		if err != nil {
			return nil, nil, err
		}
		take(t)
		for _, c := range t.Cells {
			f := claims.Fact{Table: table, Data: c.PaperData, Rule: c.Rule, Metric: "R@1", Score: c.Recall(1).Times(100)}
			if table > 5 {
				f.LR = c.LR
			}
			facts = append(facts, f)
			if table == 2 { // Shares of triplets do not belong to a table: of a rule they are there once.
				overlap := c.MeanOf(func(r *runs.Result) float64 { return r.Overlap })
				compact := c.MeanOf(func(r *runs.Result) float64 { return r.Compact })
				facts = append(facts, claims.Fact{Data: c.PaperData, Rule: c.Rule, Metric: claims.Overlapping,
					Score: overlap.Times(100)},
					claims.Fact{Data: c.PaperData, Rule: c.Rule, Metric: claims.CornerTest, Score: compact.Times(100)})
			}
		}
	}
	five := q
	if five.Seeds == nil {
		five.Seeds = Table5Seeds(q.Preset)
	}
	t, err := Reproduce(ctx, q.Open, q.Store, Table5(), q.Preset, five.Options)
	if err != nil {
		return nil, nil, err
	}
	take(t)
	entries, err := t.BatchEntries()
	if err != nil {
		return nil, nil, err
	}
	for i, e := range entries {
		for k, s := range e.Recall {
			facts = append(facts, claims.Fact{Table: 5, Data: e.Paper, Method: e.Method, Rule: t.Cells[i].Rule, Times: e.Times,
				Metric: fmt.Sprintf("R@%d", k), Score: s})
		}
	}
	histograms, err := histogramFacts(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	runs, err := claims.RunNumbers(append(facts, histograms...), labels)
	if err != nil {
		return nil, nil, err
	}
	r.Provenance = all.Provenance()
	return claims.Audit(paper, runs), r, nil
}

// histogramFacts returns the shares of triplets that histograms have, in percent.
func histogramFacts(ctx context.Context, q Request) ([]claims.Fact, error) {
	p, _, err := histogramsOf(ctx, "claims", "", q)
	if err != nil {
		return nil, err
	}
	positive := func(c runs.TripletDensity) float64 { return (c.Above(0, -1) + c.Above(-1, 0)) / 2 }
	edge := func(c runs.TripletDensity) float64 { return c.Edge }
	corner := func(c runs.TripletDensity) float64 { return c.Corner }
	spread := func(c runs.TripletDensity) float64 { return c.Spread }
	var out []claims.Fact
	for _, c := range p.table.Cells {
		for _, m := range []struct {
			name   string
			images ImagesOf
			of     func(runs.TripletDensity) float64
		}{
			{claims.EdgeLast, LastEpochs, edge}, {claims.Positive, LastEpochs, positive},
			{claims.CornerTrain, WholeTrain, corner},
			{claims.SpreadTrain, WholeTrain, spread}, {claims.SpreadTest, WholeTest, spread},
		} {
			out = append(out, claims.Fact{Data: c.PaperData, Rule: c.Rule, Metric: m.name,
				Score: OverSeeds(p.of[c.Data][c.Row], m.images, m.of).Times(100)})
		}
	}
	return out, nil
}

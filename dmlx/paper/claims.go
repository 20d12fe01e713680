package paper

import (
	"context"
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/paper/claims"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

const contradictedCaption = "What the paper's own numbers contradict, wholly or in part."

// auditClaims checks the paper's claims on its own numbers and on the available runs. It trains none.
func auditClaims(ctx context.Context, q report.Request) (*Report, error) {
	audited, r, err := Audit(ctx, q)
	if err != nil {
		return nil, err
	}
	r.Parts = []report.Part{{Of: claims.Table(audited, r.Provenance)},
		{Name: "summary", Of: claims.Summary(audited, r.Provenance)},
		{Name: "contradicted", Of: claims.PaperTable(claims.Contradicted(audited), contradictedCaption)}}
	for _, p := range claims.Parts {
		t := claims.Table(audited, r.Provenance, p.Name)
		t.Caption = p.Title
		r.Parts = append(r.Parts, report.Part{Name: p.Name, Of: t})
	}
	return r, nil
}

// Audit returns the claims with their findings on the paper's own numbers and on the available runs, those that
// [Ledger] judges by, and a report of these. It trains none.
func Audit(ctx context.Context, q report.Request) ([]claims.Audited, *Report, error) {
	e, err := gather(ctx, q, judgedBy(q))
	if err != nil {
		return nil, nil, err
	}
	return e.audited, e.report, nil
}

// audit returns the claims with their findings, and a report of the runs that they are checked on.
func audit(ctx context.Context, q report.Request) ([]claims.Audited, *Report, error) {
	paper, err := claims.PaperNumbers()
	if err != nil {
		return nil, nil, err
	}
	ours, r, err := ClaimNumbers(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	return claims.Audit(claims.List(), paper, ours), r, nil
}

// ClaimNumbers returns the numbers of runs on which the paper's claims are checked, of Tables 2 to 8 and of the
// similarity histograms, and a report of those runs. It reads what the store or the program has, and trains none.
func ClaimNumbers(ctx context.Context, q report.Request) (*claims.Numbers, *Report, error) {
	q.CachedOnly = true
	r := &Report{Report: report.Report{Title: "The paper's claims, audited"}}
	all := &Table{Preset: q.Preset.String()} // All tables, for the provenance.
	var facts []claims.Fact
	for table := 2; table <= 8; table++ {
		study, err := ParseStudy(fmt.Sprintf("table%d", table))
		if err != nil {
			return nil, nil, err
		}
		t, err := Reproduce(ctx, q.Open, q.Store, study, q.Preset, q.Options)
		if err != nil {
			return nil, nil, err
		}
		r.add(t)
		all.join(t)
		own, err := t.facts(table)
		if err != nil {
			return nil, nil, err
		}
		facts = append(facts, own...)
	}
	histograms, err := histogramFacts(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	r.Provenance = all.Provenance()
	ours, err := claims.RunNumbers(append(facts, histograms...), all.roles())
	return ours, r, err
}

// Numbers returns the recalls of a table's cells as those of Table 2 to 8 of the paper, for claims to be checked on. A
// cell without a role, in [Cell.PaperData], or two cells of one rule there are an error.
func (t *Table) Numbers(table int) (*claims.Numbers, error) {
	facts, err := t.facts(table)
	if err != nil {
		return nil, err
	}
	return claims.RunNumbers(facts, t.roles())
}

// roles returns the data set that stands for each of the paper's.
func (t *Table) roles() map[string]string {
	out := make(map[string]string)
	for _, c := range t.Cells {
		if c.PaperData != "" {
			out[c.PaperData] = c.Data
		}
	}
	return out
}

// facts returns what claims compare of a table's cells: recalls in percent, and of Table 2 shares of triplets.
func (t *Table) facts(table int) (facts []claims.Fact, err error) {
	if table == 5 {
		for _, c := range t.Cells {
			for _, k := range []int{1, 2, 4, 10, 20, 100} {
				facts = append(facts, claims.Fact{Table: 5, Data: c.PaperData, Method: c.Row, Rule: c.Rule,
					Times: c.Times, Metric: report.Recall(k), Score: c.Recall(k).Times(100)})
			}
		}
		return facts, nil
	}
	for _, c := range t.Cells {
		f := claims.Fact{Table: table, Data: c.PaperData, Rule: c.Rule, Metric: "R@1", Score: c.Recall(1).Times(100)}
		if table > 5 {
			f.LR = c.LR
		}
		facts = append(facts, f)
		if held := c.HeldOutRecall(1).Times(100); table > 5 && held.N > 0 {
			f.Metric, f.Score = claims.HeldOut, held
			facts = append(facts, f)
		}
		if table == 2 { // Shares of triplets do not belong to a table: of a rule they are there once.
			overlap := c.MeanOf(func(r *runs.Result) float64 { return r.Overlap })
			compact := c.MeanOf(func(r *runs.Result) float64 { return r.Compact })
			facts = append(facts, claims.Fact{Data: c.PaperData, Rule: c.Rule, Metric: claims.Overlapping,
				Score: overlap.Times(100)},
				claims.Fact{Data: c.PaperData, Rule: c.Rule, Metric: claims.CornerTest, Score: compact.Times(100)})
		}
	}
	return facts, nil
}

// histogramFacts returns the shares of triplets that histograms have, in percent.
func histogramFacts(ctx context.Context, q report.Request) ([]claims.Fact, error) {
	p, _, err := histogramsOf(ctx, "claims", "", q)
	if err != nil {
		return nil, err
	}
	positive := func(c runs.TripletDensity) float64 { return (c.Above(0, -1) + c.Above(-1, 0)) / 2 }
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

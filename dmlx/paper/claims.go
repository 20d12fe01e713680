package paper

import (
	"context"
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/paper/claims"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/scores"
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

// audit returns the claims with their findings on a preset's tables, which [ourTables] returned, and a report of their
// runs.
func audit(ctx context.Context, q report.Request, tables []*Table) ([]claims.Audited, *Report, error) {
	paper, err := claims.NumbersOf(scores.Printed())
	if err != nil {
		return nil, nil, err
	}
	ours, r, err := claimNumbers(ctx, q, tables)
	if err != nil {
		return nil, nil, err
	}
	return claims.Audit(claims.List(), paper, ours), r, nil
}

// ourTables returns our Tables 2 to 8 with the runs that the store or the program has.
func ourTables(ctx context.Context, q report.Request) ([]*Table, error) {
	q.CachedOnly = true
	var out []*Table
	for table := 2; table <= 8; table++ {
		study, err := ParseStudy(fmt.Sprintf("table%d", table))
		if err != nil {
			return nil, err
		}
		t, err := Reproduce(ctx, q.Open, q.Store, study, q.Preset, q.Options)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// ClaimNumbers returns the numbers of runs on which the paper's claims are checked, of Tables 2 to 8 and of the
// similarity histograms, and a report of those runs. It reads what the store or the program has, and trains none.
func ClaimNumbers(ctx context.Context, q report.Request) (*claims.Numbers, *Report, error) {
	tables, err := ourTables(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	return claimNumbers(ctx, q, tables)
}

func claimNumbers(ctx context.Context, q report.Request, tables []*Table) (*claims.Numbers, *Report, error) {
	q.CachedOnly = true
	r := &Report{Report: report.Report{Title: "The paper's claims, audited", Provenance: Together(tables...).Provenance()}}
	var found scores.Table
	for i, t := range tables {
		r.add(t)
		found = append(found, t.scoresAs(2+i)...)
	}
	shapes, err := shapeScores(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	ours, err := claims.NumbersOf(append(found, shapes...))
	return ours, r, err
}

// Numbers returns the scores of a table's cells as those of Table 2 to 8 of the paper, for claims to be checked on. A
// cell without a role, in [Cell.PaperData], or two cells of one rule there are an error.
func (t *Table) Numbers(table int) (*claims.Numbers, error) {
	return claims.NumbersOf(t.scoresAs(table))
}

// scoresAs returns the scores of a table's cells as those of one of the paper's tables.
func (t *Table) scoresAs(table int) scores.Table {
	out := t.Scores()
	for i := range out {
		out[i].Table = table
	}
	return out
}

// shapeScores returns the shares of triplets that the histograms of runs of Table 2 have.
func shapeScores(ctx context.Context, q report.Request) (scores.Table, error) {
	p, _, err := histogramsOf(ctx, "claims", "", q)
	if err != nil {
		return nil, err
	}
	positive := func(c runs.TripletDensity) float64 { return (c.Above(0, -1) + c.Above(-1, 0)) / 2 }
	var out scores.Table
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
			out = append(out, scores.Row{Table: 2, Whose: scores.Ours, Data: c.Data, Role: c.PaperData, Rule: c.Rule,
				Measure: m.name, Value: OverSeeds(p.of[c.Data][c.Row], m.images, m.of).Times(100)})
		}
	}
	return out, nil
}

package claims

import (
	"slices"

	"github.com/gradient-surgery/dml/dmlx/paper/verdicts"
	"github.com/gradient-surgery/dml/figures"
)

func rowsOf(audited []Audited) []figures.AuditRow {
	finding := func(f Finding, verdict string) figures.AuditFinding {
		return figures.AuditFinding{Verdict: verdict, Tone: f.Verdict.Tone(), Evidence: f.Evidence}
	}
	out := make([]figures.AuditRow, len(audited))
	for i, a := range audited {
		out[i] = figures.AuditRow{Part: a.Part, Section: a.Section, Quote: a.Quote, Asks: a.Asks,
			Paper: finding(a.Paper, a.Paper.Verdict.OnPrint()), Ours: finding(a.Ours, string(a.Ours.Verdict))}
	}
	return out
}

// Table returns the table of claims with their verdicts: those of the parts given, or all.
func Table(audited []Audited, provenance string, parts ...string) *figures.Table {
	if len(parts) > 0 {
		audited = slices.DeleteFunc(slices.Clone(audited), func(a Audited) bool { return !slices.Contains(parts, a.Part) })
	}
	return figures.AuditTable(rowsOf(audited),
		"The paper's claims, audited. Differences are in points of Recall@1 unless said otherwise.",
		[]figures.Markup{"On the paper's numbers a cell counts by its printed means; on ours by Welch's t, so that it " +
			"holds or not beyond the noise of the seeds, and a verdict is corrected for the number of its cells. Brackets " +
			"are 95 % intervals, of the paper's printed deviations too. Single seeds take the deviation that their set's " +
			"other cells have in common. Where the best or the highest and lowest of several are compared, nothing is allowed " +
			"for their being picked by the same numbers."}, provenance)
}

// PaperTable returns the table of claims with their verdicts on the paper's own numbers alone.
func PaperTable(audited []Audited, caption figures.Markup) *figures.Table {
	return figures.PaperAuditTable(rowsOf(audited), caption, "the paper's own numbers")
}

// onPrint and onRuns are the verdicts that a claim can have on the paper's own numbers, and on runs.
var (
	onPrint = []verdicts.Verdict{verdicts.Reproduced, verdicts.ContradictsItself, verdicts.None}
	onRuns  = []verdicts.Verdict{verdicts.Reproduced, verdicts.InPart, verdicts.Undecided, verdicts.Contradicted,
		verdicts.NotRun, verdicts.None}
)

// Summary returns the table that counts the verdicts by part of the paper.
func Summary(audited []Audited, provenance string) *figures.Table {
	total := func(title figures.Markup, in func(Audited) bool) figures.AuditTotal {
		those := slices.DeleteFunc(slices.Clone(audited), func(a Audited) bool { return !in(a) })
		out := figures.AuditTotal{Title: title, Claims: len(those)}
		paper, ours := Count(those)
		for _, v := range append(verdicts.All(), verdicts.None) {
			c := figures.AuditCount{Verdict: string(v), Tone: v.Tone()}
			if v == verdicts.None {
				c.Verdict = "not checkable"
			}
			if c.Count = ours[v]; slices.Contains(onRuns, v) {
				out.Ours = append(out.Ours, c)
			}
			if c.Count = paper[v]; slices.Contains(onPrint, v) {
				if v != verdicts.None {
					c.Verdict = v.OnPrint()
				}
				out.Paper = append(out.Paper, c)
			}
		}
		return out
	}
	var rows []figures.AuditTotal
	for _, p := range Parts {
		rows = append(rows, total(p.Title, func(a Audited) bool { return a.Part == p.Name }))
	}
	rows = append(rows, total("All", func(Audited) bool { return true }))
	return figures.AuditSummary(rows, "How many of the paper's claims stand how.", provenance)
}

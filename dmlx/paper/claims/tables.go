package claims

import (
	"slices"

	"github.com/gradient-surgery/dml/figures"
)

// tone returns the color of a verdict; one that says nothing stays white.
func (v Verdict) tone() figures.AuditTone {
	switch v {
	case Holds:
		return figures.Confirming
	case Mixed, Misprint:
		return figures.Divided
	case Fails:
		return figures.Opposing
	case WithinNoise:
		return figures.Undecided
	}
	return figures.NoTone
}

func rowsOf(audited []Audited) []figures.AuditRow {
	finding := func(f Finding) figures.AuditFinding {
		return figures.AuditFinding{Verdict: string(f.Verdict), Tone: f.Verdict.tone(), Evidence: f.Evidence}
	}
	out := make([]figures.AuditRow, len(audited))
	for i, a := range audited {
		out[i] = figures.AuditRow{Part: a.Part, Section: a.Section, Quote: a.Quote, Asks: a.Asks, Paper: finding(a.Paper),
			Ours: finding(a.Ours)}
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
		[]figures.Markup{"On the paper's numbers a cell counts by its printed means; on ours by its 95 % interval " +
			"(Welch), so that holds and fails mean beyond " +
			"the noise of the seeds, which chance still passes once in twenty cells. Brackets are that interval, of the " +
			"paper's printed " +
			"deviations too. Single seeds take the deviation that their set's other cells have in common. Where the best or " +
			"the highest and " +
			"lowest of several are compared, nothing is allowed for their being picked by the same numbers."}, provenance)
}

// PaperTable returns the table of claims with their verdicts on the paper's own numbers alone.
func PaperTable(audited []Audited, caption figures.Markup) *figures.Table {
	return figures.PaperAuditTable(rowsOf(audited), caption, "the paper's own numbers")
}

// Summary returns the table that counts the verdicts by part of the paper.
func Summary(audited []Audited, provenance string) *figures.Table {
	total := func(title figures.Markup, in func(Audited) bool) figures.AuditTotal {
		those := slices.DeleteFunc(slices.Clone(audited), func(a Audited) bool { return !in(a) })
		out := figures.AuditTotal{Title: title, Claims: len(those)}
		paper, ours := Count(those)
		for _, v := range Verdicts() {
			c := figures.AuditCount{Verdict: string(v), Tone: v.tone()}
			if v == Uncheckable {
				c.Verdict = "not checkable"
			}
			if v != NotYetRun && v != WithinNoise { // Printed numbers are all there and count by their means.
				c.Count = paper[v]
				out.Paper = append(out.Paper, c)
			}
			c.Count = ours[v]
			out.Ours = append(out.Ours, c)
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

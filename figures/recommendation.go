package figures

import (
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

// Recommended is a rule or a loss that a protocol selects, beside a reference: Recall@1 in percent.
type Recommended struct {
	Data, How      string     // How names the protocol: "by test recall".
	Objective      string     // Empty without candidates.
	Of             int        // The number of candidates.
	Score, Against stats.Mean // Its recall and the reference's, over the seeds that evaluate it.
	Gain           stats.Test // Of the difference, in points.
}

// Recommendations returns the table of the recommended rules and losses beside a reference, such as "the paper's
// cos-orth/lin-ms/cir". It returns an error without rows.
func Recommendations(reference Markup, rows []Recommended, notes []Markup, provenance string) (*Table, error) {
	if len(rows) == 0 {
		return nil, fmt.Errorf("recommendations: no row, want at least one")
	}
	t := &Table{
		Columns: []Column{{Title: "Data", Left: true, Merged: true}, {Title: "Chosen", Left: true}, {Title: "of"},
			{Title: "Rule or loss", Left: true},
			{Title: "R@1"}, {Title: reference}, {Title: "ahead by"}},
		Caption:    "The best rule or loss of all that was trained to the same length, against " + reference + ".",
		Notes:      notes,
		Provenance: provenance,
	}
	for i, r := range rows {
		name := r.Objective
		if name == "" {
			name = "–"
		}
		gain := Tested(r.Gain, r.Gain.Difference.String())
		t.Rows = append(t.Rows, []Cell{Text(r.Data), Text(r.How), Text(fmt.Sprint(r.Of)), Text(name), Scored(r.Score),
			Scored(r.Against), gain})
		if i+1 < len(rows) && rows[i+1].Data != r.Data {
			t.Rules = append(t.Rules, i+1)
		}
	}
	t.MarkSignificant()
	return t, nil
}

package claims

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/scores"
)

// tableChecks are not sentences of the paper: they compare its printed tables with themselves.
func tableChecks() []Claim {
	return []Claim{
		{"tables", "Table 5", "",
			"Table 5: bold numbers that are not the best of their column, and the best that are not bold.",
			ofPaper("A matter of the paper's table.", func(n *Numbers) Finding {
				five := n.rows.Select(scores.Row{Table: 5})
				bold := len(five.Select(scores.Row{Bold: true}))
				wrong := BoldErrors(five)
				var what []string
				for _, m := range wrong {
					name := m.Cell.Method
					if m.Cell.Direction != "" {
						name += fmt.Sprintf(" (B%d)", m.Cell.Batch)
					}
					kind := "best, not bold"
					if m.Cell.Bold {
						kind = "bold, not best"
					}
					what = append(what, fmt.Sprintf("%s %s %s %.1f %s", m.Cell.Data, m.Cell.Measure, name, m.Cell.Value.Mean, kind))
				}
				if wrong == nil {
					return truth(true, fmt.Sprintf("All %d bold numbers.", bold))
				}
				return counted(len(five)-len(wrong), len(five), fmt.Sprintf("%d of %d bold. %s.", bold, len(five),
					strings.Join(what, "; ")))
			})},
		{"tables", "Tables 2–8", "",
			"Settings that stand in several of Tables 2 to 4 and 6 to 8: same mean and deviation.",
			ofPaper("A run is made once here and stands in all tables.", sharedCells)},
	}
}

// sharedCells finds settings whose numbers differ between tables: a rule at a rate, or without one the number of the
// main tables.
func sharedCells(n *Numbers) Finding {
	settings, wrong := 0, []string{}
	cells := n.rows.Where(func(r scores.Row) bool { return r.Table != 5 })
	for _, cell := range cells.Group(func(r scores.Row) string { return r.Data + " " + r.Rule }) {
		slices.SortStableFunc(cell.Rows, func(a, b scores.Row) int { return cmp.Compare(a.LR, b.LR) })
		for _, at := range cell.Rows.Group(scores.LR.Of) {
			if len(at.Rows) < 2 {
				continue
			}
			settings++
			values := at.Rows.Group(func(r scores.Row) string {
				return fmt.Sprintf("%.1f ± %.1f", r.Value.Mean, r.Value.Std)
			})
			if len(values) == 1 {
				continue
			}
			var texts []string
			for _, v := range values {
				texts = append(texts, fmt.Sprintf("%s (Table %d)", v.Key, v.Rows[0].Table))
			}
			setting := cell.Key
			if at.Key != "" {
				setting += " lr " + at.Key
			}
			wrong = append(wrong, setting+": "+strings.Join(texts, ", "))
		}
	}
	if len(wrong) == 0 {
		return truth(true, fmt.Sprintf("All of %d settings.", settings))
	}
	agree := settings - len(wrong)
	return counted(agree, settings, fmt.Sprintf("%d of %d settings agree. Not: %s.", agree, settings,
		strings.Join(wrong, "; ")))
}

package claims

import (
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
				five := n.printed.Select(scores.Row{Table: 5})
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

// componentKey is a setting of the component tables.
type componentKey struct{ data, rule string }

// sharedCells finds settings whose numbers differ between tables.
func sharedCells(n *Numbers) Finding {
	byKey := make(map[componentKey][]Fact)
	var keys []componentKey
	for _, f := range n.order {
		if f.Table == 5 {
			continue
		}
		k := componentKey{f.Data, f.Rule}
		if byKey[k] == nil {
			keys = append(keys, k)
		}
		byKey[k] = append(byKey[k], f)
	}
	settings, wrong := 0, []string{}
	for _, k := range keys {
		// At each rate, and without one: the number of the main tables.
		byRate := make(map[float64][]Fact)
		for _, f := range byKey[k] {
			byRate[f.LR] = append(byRate[f.LR], f)
		}
		for _, lr := range sortedKeys(byRate) {
			facts := byRate[lr]
			if len(facts) < 2 {
				continue
			}
			settings++
			var values []string
			for _, f := range facts {
				s := n.facts[f]
				v := fmt.Sprintf("%.1f ± %.1f", s.Mean, s.Std)
				if !slices.ContainsFunc(values, func(have string) bool { return strings.HasPrefix(have, v) }) {
					values = append(values, fmt.Sprintf("%s (Table %d)", v, f.Table))
				}
			}
			if len(values) > 1 {
				at := ""
				if lr != 0 {
					at = fmt.Sprintf(" lr %g", lr)
				}
				wrong = append(wrong, fmt.Sprintf("%s %s%s: %s", k.data, k.rule, at, strings.Join(values, ", ")))
			}
		}
	}
	if len(wrong) == 0 {
		return truth(true, fmt.Sprintf("All of %d settings.", settings))
	}
	agree := settings - len(wrong)
	return counted(agree, settings, fmt.Sprintf("%d of %d settings agree. Not: %s.", agree, settings,
		strings.Join(wrong, "; ")))
}

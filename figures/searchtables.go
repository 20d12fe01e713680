package figures

import (
	"cmp"
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

// SearchTest is a result on the test classes at the end of a search.
type SearchTest struct {
	Name, Rule string
	Values     Markup     // Rate, schedule and batch, in words.
	Recall     stats.Mean // Recall@1 of the test classes, in percent.
	// Behind are the differences of each earlier test to this one, in points, with their 95 % intervals.
	Behind []stats.Interval
	Method string // Of the intervals; empty without any.
}

// SearchVerdict returns a table of the recall on the test classes of the rule that the search chose and of other
// rules. The search does not see the test classes.
func SearchVerdict(provenance string, tests ...SearchTest) (*Table, error) {
	if len(tests) == 0 {
		return nil, fmt.Errorf("outcome of a search: no results; want at least one")
	}
	t := &Table{
		Caption: "What the search chose, trained on all training classes: Recall@1 of the test classes, in percent.",
		Columns: []Column{{Title: "", Left: true}, {Title: "Rule", Left: true}, {Title: "Values", Left: true, Wrap: 44},
			{Title: "test"}},
		Provenance: provenance,
	}
	for _, earlier := range tests[:len(tests)-1] {
		t.Columns = append(t.Columns, Column{Title: Markup(earlier.Name + " − this")})
	}
	method := ""
	for _, s := range tests {
		row := Row(s.Name, s.Rule, s.Values, s.Recall)
		for i := range len(tests) - 1 {
			if i >= len(s.Behind) {
				row = append(row, Text("–"))
				continue
			}
			row, method = append(row, Text(s.Behind[i].String())), cmp.Or(s.Method, method)
		}
		t.Rows = append(t.Rows, row)
	}
	if method != "" {
		t.Notes = append(t.Notes, fmt.Sprintf("Differences in points with 95 %% intervals over training seeds (%s). "+
			"They do not cover other classes or newly drawn images.", method))
	}
	return t, nil
}

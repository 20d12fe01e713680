package figures

import (
	"cmp"
	"fmt"
)

// SearchFinalist is one of the best trials of a search, tried again.
type SearchFinalist struct {
	Trial  int
	Rule   string
	Values Markup  // What else of its point counts, in words.
	Found  float64 // Its own run's recall of held-out classes, in percent, by which it was picked.
	Again  Score   // The same with fresh seeds.
	Chosen bool
}

// SearchFinalists sets the best trials of a search: what they scored when they were found, and again with seeds that no trial had.
func SearchFinalists(provenance string, finalists ...SearchFinalist) (*Table, error) {
	if len(finalists) == 0 {
		return nil, fmt.Errorf("best trials of a search: there are none")
	}
	t := &Table{
		Caption: "The best trials: Recall@1 of held-out training classes, in percent.",
		Columns: []Column{{Title: "Trial"}, {Title: "Rule", Left: true}, {Title: "Values", Left: true, Wrap: 44},
			{Title: "as found"}, {Title: "fresh seeds"}},
		Notes: []Markup{"As found: of the one seed that all trials have. The best of many is also the luckiest, so the fresh seeds decide."},

		Provenance: provenance,
	}
	for _, f := range finalists {
		again := Scored(f.Again)
		row := []Cell{Text(fmt.Sprint(f.Trial)), Text(f.Rule), Text(f.Values), Text(fmt.Sprintf("%.1f", f.Found)), again}
		for i := range row {
			row[i].Bold = f.Chosen
		}
		t.Rows = append(t.Rows, row)
		if f.Chosen {
			t.Notes = append(t.Notes, fmt.Sprintf("Chosen: trial %d.", f.Trial))
		}
	}
	return t, nil
}

// SearchTest is what is measured on the test classes at a search's end.
type SearchTest struct {
	Name, Rule string
	Values     Markup // Rate, schedule and batch, in words.
	Recall     Score  // Recall@1 of the test classes, in percent.
	// Behind are the differences of each earlier test to this one, in points, with their 95 % intervals.
	Behind []Interval
	Method string // Of the intervals; "" if there are none.
}

// SearchVerdict sets the recall of the test classes, which had no say in the search, of what it chose beside others.
func SearchVerdict(provenance string, tests ...SearchTest) (*Table, error) {
	if len(tests) == 0 {
		return nil, fmt.Errorf("outcome of a search: nothing is measured")
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
		row := []Cell{Text(s.Name), Text(s.Rule), Text(s.Values), Scored(s.Recall)}
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
		t.Notes = append(t.Notes, fmt.Sprintf("Differences in points with 95 %% intervals over training seeds (%s): other classes, or images drawn anew, are not in them.", method))
	}
	return t, nil
}

package nb

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gradient-surgery/dml/figures"
)

//go:embed filter.js
var filterJS string

// Filter displays a table as [Show] does, with a choice of values for each of the columns, counted from 0, and a field
// for words: rows that do not match are hidden. The choices need no kernel, only a notebook that is trusted; where no
// script may run, the whole table stays. A table with merged cells, or a column that it does not have, is an error.
func Filter(t *figures.Table, columns []int, caption ...string) {
	script, err := filterScript(t, columns)
	Check(err)
	text, err := captioned(caption, "")
	Check(err)
	Check(show(t))
	wake(script)
	if text != "" {
		say(text)
	}
}

// heading is the head of a column in words.
func heading(c figures.Column) string {
	return strings.TrimSpace(figures.Plain(c.Title) + " " + figures.Plain(c.Group))
}

// filterScript returns the script that filters the table in the output before.
func filterScript(t *figures.Table, columns []int) (string, error) {
	type choice struct {
		Column int    `json:"column"`
		Label  string `json:"label"`
	}
	var choices []choice
	for _, c := range t.Columns {
		if c.Merged {
			return "", fmt.Errorf("nb: a table with merged cells, in column %q, cannot be filtered", c.Title)
		}
	}
	for _, c := range columns {
		if c < 0 || c >= len(t.Columns) {
			return "", fmt.Errorf("nb: no column %d to filter by; there are 0 to %d", c, len(t.Columns)-1)
		}
		of := t.Columns[c]
		choices = append(choices, choice{c, heading(of)})
	}
	raw, err := json.Marshal(choices)
	return fmt.Sprintf("(%s)(element, %s)", strings.TrimSpace(filterJS), raw), err
}

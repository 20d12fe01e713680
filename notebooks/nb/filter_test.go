package nb

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/figures"
)

func TestFilterScript(t *testing.T) {
	table := &figures.Table{Columns: []figures.Column{{Title: "Where"}, {Title: "Verdict", Group: "on our runs"}}}
	script, err := filterScript(table, []int{0, 1})
	if err != nil || !strings.HasSuffix(script,
		`)(element, [{"column":0,"label":"Where"},{"column":1,"label":"Verdict on our runs"}])`) {
		t.Errorf("%s, %v", script, err)
	}
	if _, err := filterScript(table, []int{2}); err == nil {
		t.Error("a column that is not there is no error")
	}
	table.Columns[0].Merged = true
	if _, err := filterScript(table, []int{1}); err == nil {
		t.Error("merged cells are no error")
	}
}

package notebooks

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/notebooks/nb"
)

// TestEquations sees that each of the paper's 19 numbered equations has its place: the formula, numbers of the library
// beside those by hand, a picture, and the line of code.
func TestEquations(t *testing.T) {
	const numbered = 19
	raw, err := os.ReadFile("equations.ipynb")
	var page notebook
	if err == nil {
		err = json.Unmarshal(raw, &page)
	}
	if err != nil {
		t.Fatal(err)
	}
	n := make(map[string]struct {
		Source  lines
		Outputs []output
	})
	for _, c := range page.Cells {
		n[c.ID] = struct {
			Source  lines
			Outputs []output
		}{c.Source, c.Outputs}
	}
	for k := 1; k <= numbered; k++ {
		text, cell := n[fmt.Sprint("eq", k)], n[fmt.Sprint("compute", k)]
		formula := regexp.MustCompile(`\$\$[^$]{6,}\$\$`)
		if !strings.HasPrefix(string(text.Source), fmt.Sprintf("## %d. ", k)) || !formula.MatchString(string(text.Source)) {
			t.Errorf("equation %d: no formula in %q", k, text.Source)
		}
		var printed string
		pictures := 0
		for _, o := range cell.Outputs {
			printed += string(o.Text) + string(o.Data["text/markdown"])
			if o.Data["image/png"] != "" {
				pictures++
			}
		}
		if !strings.Contains(printed, "by hand") || pictures == 0 {
			t.Errorf("equation %d: %d pictures and %q", k, pictures, printed)
		}
		link := nb.Equation(k)
		file, _, found := strings.Cut(link, ",")
		if !found || !strings.Contains(printed, "Code: "+file) {
			t.Errorf("equation %d is at %s, which is not in %q", k, link, printed)
		}
	}
	if n["eq20"].Source != "" {
		t.Error("there is a twentieth")
	}
}

package notebooks

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEquations sees that each of the paper's 19 numbered equations has its place: the formula, numbers of the library
// beside those by hand, a picture, and the code, whose comment names it.
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
		code := regexp.MustCompile("Code: `(\\w+)` in \\[\\w+.go\\]\\((\\S+)\\)").FindStringSubmatch(string(text.Source))
		if code == nil {
			t.Fatalf("equation %d has no code", k)
		}
		source, err := os.ReadFile(code[2])
		if err != nil {
			t.Fatal(err)
		}
		comment := fmt.Sprintf(`(?s)\b%s\b.*\(Eq\. %d\)`, code[1], k)
		if code[1] != "Losses" { // A list, whose entries have the comments.
			comment = fmt.Sprintf(`(?m)^\s*// %s .*\(Eq\. %d\)`, code[1], k)
		}
		if !regexp.MustCompile(comment).Match(source) {
			t.Errorf("equation %d: the comment of %s in %s does not name it", k, code[1], code[2])
		}
	}
	if n["eq20"].Source != "" {
		t.Error("there is a twentieth")
	}
}

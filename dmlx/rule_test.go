package dmlx

import (
	"go/build"
	"slices"
	"strings"
	"testing"
)

func mustParse(t *testing.T, name string) Rule {
	t.Helper()
	r, err := ParseRule(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNames(t *testing.T) {
	for _, r := range Rules() {
		if again := mustParse(t, r.Name()); again.Name() != r.Name() {
			t.Errorf("%s is read as %s", r.Name(), again.Name())
		}
	}
	for name, want := range map[string]string{
		"table1-circle":               "cos/lin/cir",
		"table1-dr-ms?beta=2":         "cos-orth/sig-ms/con?beta=2",
		"table1-sct?tau=2":            "cos/con/cos+sc1?tau=2",
		"ours":                        "cos-orth/lin-ms/cir",
		"cos/lin/cir?tau=1":           "cos/lin/cir",
		"cos/sig/cir?tau=2&beta=5":    "cos/sig/cir?beta=5&tau=2",
		"cos/sig/con?sum&lambda=0":    "cos/sig/con?lambda=0&sum",
		"cos/con/cir+sc2-printed?sum": "cos/con/cir+sc2-printed?sum",
	} {
		if got := mustParse(t, name).Name(); got != want {
			t.Errorf("%s is read as %s, want %s", name, got, want)
		}
	}
	if got := (Rule{}).Name(); got != "cos/con/con" {
		t.Errorf("the zero rule is %s", got)
	}
	for name, hint := range map[string]string{
		"":                      "direction/pair/triplet",
		"ms?tau=2":              "did you mean table1-ms?",
		"cosine/lin/cir":        "euc, cos, euc-orth, cos-orth",
		"cos/linear/cir":        "lin-ms",
		"cos/lin/circle":        "con, cos, cir",
		"cos/lin/cir+sc3":       "sc1, sc2",
		"cos/lin/cir?theta=1":   "tau",
		"cos/lin/cir?tau=":      "finite number",
		"cos/lin/cir?tau=NaN":   "finite number",
		"cos/lin/cir?sum=1":     "no value",
		"cos/lin":               "ours",
		"cos/lin/cir?tau=1&&":   "option",
		"euc/euc/con/con":       "direction/pair/triplet",
		"cos/lin/cir+sc1?tau=x": "tau",
	} {
		if r, err := ParseRule(name); err == nil {
			t.Errorf("%q is read as %s", name, r)
		} else if !strings.Contains(err.Error(), hint) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v: does not say %q", name, err, hint)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	f.Add("cos/lin/cir+sc1?tau=2")
	f.Add("ours?sum&tau=1e3")
	f.Add("cos/[1-Sap, San*k, k=2]/[max(0, San-Sap+0.5)]+[San > Sap]?k=3")
	f.Fuzz(func(t *testing.T, name string) {
		r, err := ParseRule(name)
		if err != nil {
			return
		}
		if again, err := ParseRule(r.Name()); err != nil || again.Name() != r.Name() {
			t.Errorf("%q is %s, which is read as %s (%v)", name, r.Name(), again.Name(), err)
		}
	})
}

// The package is mathematics alone: it opens no backend and reads and writes nothing.
func TestImports(t *testing.T) {
	p, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, refused := range []string{"os", "io", "net/http", "github.com/gradient-surgery/dml/dmlx/backend",
		"github.com/gradient-surgery/dml/dmlx/dissect"} {
		if slices.Contains(p.Imports, refused) {
			t.Errorf("package dmlx imports %s", refused)
		}
	}
}

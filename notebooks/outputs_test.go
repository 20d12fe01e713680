package notebooks

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

// TestSavedOutputs sees that pictures and tables are saved in formats that every front end and converter can show.
func TestSavedOutputs(t *testing.T) {
	paths, err := filepath.Glob("*.ipynb")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no notebooks: %v", err)
	}
	for _, path := range paths {
		t.Run(path, func(t *testing.T) {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var n notebook
			if err := json.Unmarshal(raw, &n); err != nil {
				t.Fatal(err)
			}
			for _, problem := range formatProblems(n) {
				t.Error(problem)
			}
		})
	}
}

// TestSavedOutputsAreOfTheBundledRuns sees that no page shows an earlier state of the bundled runs: each provenance
// names the bundled files that its runs come from with their digests.
func TestSavedOutputsAreOfTheBundledRuns(t *testing.T) {
	current := make(map[string]bool)
	root := os.DirFS("../dmlx/runs/bundled")
	for _, pattern := range []string{"*.json", "histograms/*.json"} {
		files, err := fs.Glob(root, pattern)
		if err != nil || files == nil {
			t.Fatal(pattern, err)
		}
		for _, name := range files {
			raw, err := fs.ReadFile(root, name)
			if err != nil {
				t.Fatal(err)
			}
			current[strings.TrimSuffix(name, ".json")+" "+durable.Sum(raw)[:8]] = true
		}
	}
	paths, err := filepath.Glob("*.ipynb")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, path := range append(paths, "report.md") {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		stale, n := staleProvenances(string(raw), current)
		if named += n; stale != nil {
			t.Errorf("%s shows runs that are not those of the program, %q: dmlx lab --execute notebooks/%s", path, stale, path)
		}
	}
	if named == 0 {
		t.Error("no page names the runs that it was made from")
	}
}

// staleProvenances returns the bundled files that a page names by another digest than the current ones, with "none" for
// a provenance that names none, and how many it names.
func staleProvenances(page string, current map[string]bool) (stale []string, count int) {
	named := regexp.MustCompile(`runs bundled with the program(?: \(([^)]*)\))?`)
	for _, m := range named.FindAllStringSubmatch(page, -1) {
		for _, bundle := range strings.Split(m[1], ", ") {
			if bundle == "" {
				bundle = "none"
			}
			if count++; !current[bundle] && !slices.Contains(stale, bundle) {
				stale = append(stale, bundle)
			}
		}
	}
	return stale, count
}

func TestStaleProvenances(t *testing.T) {
	current := map[string]bool{"quick 0123abcd": true, "full 89abcdef": true}
	for page, want := range map[string]string{
		"7 of 7 runs bundled with the program (quick 0123abcd, full 89abcdef)": "",
		"7 of 7 runs bundled with the program (quick 0123abce)":                "quick 0123abce",
		"7 of 7 runs bundled with the program":                                 "none",
		"no runs":                                                              "",
	} {
		if stale, _ := staleProvenances(page, current); strings.Join(stale, ", ") != want {
			t.Errorf("%s: %q, want %q", page, stale, want)
		}
	}
}

// widest is the width of pictures, in CSS pixels, that the layout of "dmlx lab" shows whole in a window of 1366 pixels.
// It shows them at 96 percent and then scrolls them, so that letters stay readable.
const widest = 853

// formatProblems lists the saved pictures and tables that some front end or converter would lose, and the pictures that
// JupyterLab would scroll. Tables in panels, which are updated in place, are HTML alone.
func formatProblems(n notebook) (found []string) {
	for _, c := range n.Cells {
		for _, o := range c.Outputs {
			has := func(kind string) bool { return strings.TrimSpace(string(o.Data[kind])) != "" }
			html := string(o.Data["text/html"])
			panel := strings.Contains(html, `class="dmlx-`)
			switch {
			case has("image/png") || has("image/jpeg"):
				if html != "" {
					found = append(found, "cell "+c.ID+": a picture beside HTML, which GitHub and Markdown show in its place")
				}
				if !has("text/plain") {
					found = append(found, "cell "+c.ID+": a picture without its description as text")
				}
				for kind, raw := range o.Metadata {
					var shown struct{ Width int }
					if strings.HasPrefix(kind, "image/") && json.Unmarshal(raw, &shown) == nil && shown.Width > widest {
						found = append(found, fmt.Sprintf("cell %s: a picture of %d pixels, want at most %d", c.ID, shown.Width, widest))
					}
				}
			case strings.Contains(html, "<img"):
				found = append(found, "cell "+c.ID+": a picture inside HTML, which LaTeX and GitHub lose")
			case strings.Contains(html, "<table") && !panel && !(has("text/markdown") && has("text/latex")):
				found = append(found, "cell "+c.ID+": a table without Markdown and LaTeX")
			}
		}
	}
	return found
}

func TestFormatProblems(t *testing.T) {
	page := func(outputs string) (n notebook) {
		if err := json.Unmarshal([]byte(`{"cells": [{"cell_type": "code", "id": "c", "outputs": [`+outputs+`]}]}`),
			&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for data, want := range map[string]string{
		`"image/png": "iVBO", "text/plain": "[words]"`:                      "",
		`"image/png": "iVBO"`:                                               "description",
		`"image/png": "iVBO", "text/plain": "w", "text/html": "<img>"`:      "beside HTML",
		`"text/html": "<div><img src='data:'></div>"`:                       "inside HTML",
		`"text/html": "<div class=\"dmlx-still\"><table></table></div>"`:    "",
		`"text/html": ["<table>\n", "</table>"]`:                            "without Markdown",
		`"text/html": "<table>", "text/markdown": "|", "text/latex": "\\x"`: "",
		`"text/html": "<b>done</b>"`:                                        "",
	} {
		got := strings.Join(formatProblems(page(`{"output_type": "display_data", "data": {`+data+`},
			"metadata": {"image/png": {"width": 853}, "alt": "words"}}`)), "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q; want %q", data, got, want)
		}
	}
	wide := page(`{"data": {"image/png": "iVBO", "text/plain": "w"}, "metadata": {"image/png": {"width": 854}}}`)
	if got := strings.Join(formatProblems(wide), "; "); got != "cell c: a picture of 854 pixels, want at most 853" {
		t.Errorf("a wide picture: %q", got)
	}
}

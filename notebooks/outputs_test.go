package notebooks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

// formatProblems lists the saved pictures and tables that some front end or converter would lose. Tables in panels,
// which are updated in place, are HTML alone.
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
		got := strings.Join(formatProblems(page(`{"output_type": "display_data", "data": {`+data+`}}`)), "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q; want %q", data, got, want)
		}
	}
}

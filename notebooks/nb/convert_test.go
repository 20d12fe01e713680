package nb

import (
	"encoding/json"
	"image"
	"image/color"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// TestConverters sees that nbconvert keeps every picture, table and caption of a notebook as HTML, Markdown and LaTeX,
// and that the LaTeX can be set. It needs nbconvert as "dmlx lab" installs it, or in the Python named by DMLX_PYTHON,
// pandoc for LaTeX, and xelatex to set it.
func TestConverters(t *testing.T) {
	if testing.Short() {
		t.Skip("starts nbconvert")
	}
	python := nbconvertPython(t)
	dir := t.TempDir()
	writeConverted(t, filepath.Join(dir, "page.ipynb"))
	convert := func(to string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), python, "-m", "nbconvert", "--to", to, "page.ipynb")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("nbconvert --to %s: %v\n%s", to, err, out)
		}
		made, err := os.ReadFile(filepath.Join(dir, "page"+map[string]string{"html": ".html", "markdown": ".md",
			"latex": ".tex"}[to]))
		if err != nil {
			t.Fatal(err)
		}
		return string(made)
	}
	check := func(to, got string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s lacks %q", to, w)
			}
		}
	}
	check("HTML", convert("html"), `src="data:image/png;base64,`, `src="data:image/jpeg;base64,`, `width="128"`,
		"<caption", "69.5 ± 0.7", "<summary>The paper's caption of Table 2</summary>", "$S_{ap}$", "dmlx.html")
	markdown := convert("markdown")
	check("Markdown", markdown, "![png](page_files/page_", "![jpeg](page_files/page_", "69.5 ± 0.7", "$S_{ap}$", asleep)
	if strings.Contains(markdown, "createElement") {
		t.Error("Markdown shows the code of a script")
	}
	if _, err := exec.LookPath("pandoc"); err != nil {
		t.Skip("no pandoc on PATH: LaTeX is not tried")
	}
	latex := convert("latex")
	check("LaTeX", latex, `\begin{tabular}`, `69.5 $\pm$ 0.7`, `\(S_{ap}\)`, "different gradient directions", "Interactive")
	if n := strings.Count(latex, `{page_files/page_`); n != 3 {
		t.Errorf("LaTeX has %d pictures; want 3", n)
	}
	if _, err := exec.LookPath("xelatex"); err != nil {
		t.Skip("no xelatex on PATH: the LaTeX is not set")
	}
	cmd := exec.CommandContext(t.Context(), "xelatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("xelatex: %v\n%s", err, out[max(0, len(out)-2000):])
	}
}

// writeConverted writes a notebook with each kind of output.
func writeConverted(t *testing.T, path string) {
	t.Helper()
	var outputs []any
	add := func(data bundle, metadata map[string]any) {
		if metadata == nil {
			metadata = map[string]any{}
		}
		outputs = append(outputs, map[string]any{"output_type": "display_data", "data": data, "metadata": metadata})
	}
	say := func(text string) { add(bundle{"text/markdown": text, "text/plain": text}, nil) }
	show := func(o figures.Output, caption ...string) {
		t.Helper()
		data, metadata, err := formats(o)
		if err != nil {
			t.Fatal(err)
		}
		add(data, metadata)
		text, err := captioned(caption, "words_")
		if err != nil {
			t.Fatal(err)
		}
		say(text)
	}
	small := figures.Of(plot.New(), 96, 72)
	small.Alt = "an empty plot"
	show(small, "What to see.", "Figure 1")

	photograph := plot.New()
	colors := image.NewNRGBA(image.Rect(0, 0, 200, 200))
	for i := range 200 * 200 {
		x, y := i%200, i/200
		colors.SetNRGBA(x, y, color.NRGBA{uint8(x + y), uint8(127 + 127*math.Sin(float64(x*y)/99)), uint8(y), 0xff})
	}
	photograph.Add(plotter.NewImage(colors, 0, 0, 1, 1))
	show(figures.Of(photograph, 200, 200), "A photograph.")

	row := func(set, rule string, mean float64) []figures.Cell {
		return []figures.Cell{figures.Text(set), figures.Text(rule),
			figures.Scored(stats.Mean{Mean: mean, Std: 0.7, N: 5, Diverged: 1})}
	}
	table := &figures.Table{
		Columns: []figures.Column{{Title: "data & set", Merged: true}, {Title: "rule", Left: true},
			{Title: "R@1", Group: "CAR"}},
		Rows:  [][]figures.Cell{row("CAR", `$\mathbf{e}^{cos-orth}$`, 69.5), row("CAR", `$\mathbf{e}^{euc}$`, 75.5)},
		Rules: []int{1}, Caption: `Recall@1 at $\tau = 2$.`, Notes: []figures.Markup{"50 % of #1_2."},
		Provenance: "quick preset, emb_a",
	}
	figures.Shade(&table.Rows[0][2], &table.Rows[1][2])
	show(table, "The second wins.", "Table 2")

	say("At $S_{ap}$ of **0.5**.")
	show(figures.Beside(small, small))
	add(bundle{"application/javascript": liveScript("view=step2"), "text/plain": asleep}, nil)
	raw, err := json.Marshal(map[string]any{"nbformat": 4, "nbformat_minor": 5, "metadata": map[string]any{},
		"cells": []any{map[string]any{"cell_type": "code", "id": "all", "metadata": map[string]any{}, "source": "",
			"execution_count": 1, "outputs": outputs}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o666); err != nil {
		t.Fatal(err)
	}
}

// nbconvertPython returns a Python that has nbconvert: DMLX_PYTHON, or else that of "dmlx lab".
func nbconvertPython(t *testing.T) string {
	t.Helper()
	found := []string{os.Getenv("DMLX_PYTHON")}
	if found[0] == "" {
		cache := os.Getenv("DMLX_CACHE")
		if user, err := os.UserCacheDir(); cache == "" && err == nil {
			cache = filepath.Join(user, "dmlx")
		}
		var err error
		if found, err = filepath.Glob(filepath.Join(cache, "lab", "python-*", "bin", "python")); err != nil {
			t.Fatal(err)
		}
	}
	for _, python := range found {
		if exec.CommandContext(t.Context(), python, "-c", "import nbconvert").Run() == nil {
			return python
		}
	}
	t.Skip("no Python with nbconvert: run dmlx lab once, or set DMLX_PYTHON to one")
	return ""
}

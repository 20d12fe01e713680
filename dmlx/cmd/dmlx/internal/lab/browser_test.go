//go:build unix

package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// first is the page that the test opens from the contents, without .ipynb: one without a form, whose cell would not
// end by itself.
const first = "figure4"

var screenshots = flag.String("screenshots", "", "also write screenshots of the browser test to this `folder`")

// seen is the report of testdata/browser.py: texts of outputs by the ids of testdata/cells.ipynb.
type seen struct {
	Errors      []string         // Of scripts.
	Early, Soon string           // The first cell of soon.ipynb, run before its kernel had started, and then.
	Kernels     int              // The kernels then.
	Contents    string           // The name of the contents page's kernel.
	Page        map[string][]any // The outputs of a page that was opened from the contents and run to its end.
	Collapsed   []string         // The prompts of its collapsed cells then.
	LineNumbers int              // Cells with line numbers.
	Alts        []string         // The alternative texts of its pictures.
	Setup       string           // What the status bar says of the set-up.

	Running, Stopped, StoppedPrompts, Saved map[string]string // Run All, before and after Stop, and the file.
	Again, After                            string            // Run again.
	Waits, Ended, Gone                      string            // A program that runs, was stopped, has lost its kernel.
	Anew                                    []string          // The prompts of cells above it that are run then.

	Typo, Panic, Split, NaN, Exit string
	Dimmed                        []string // What is dimmed in the end, sorted.
	Completed, Hover, Stale       string
	Quoted, Again43               string

	Answers struct {
		Wider       []int // Than the window, in pixels, at three widths.
		Rows, Marks int   // Of what unfolds, and of its first row the places of seeds.
		Runs, Color string
	}
}

// TestCellsInBrowser runs cells in a real JupyterLab: a page opened from the contents shows all of its outputs anew,
// Run All, stopped, leaves what was shipped, and errors are short. It needs JupyterLab as "dmlx lab" installs it,
// Chromium, and a Python with playwright: DMLX_PLAYWRIGHT, or else python3.
func TestCellsInBrowser(t *testing.T) {
	l := installed(t)
	if !stamped(l.goplsDir, "") {
		t.Skip("gopls is not set up: go run ./dmlx/cmd/dmlx/lab sets it up, after which this test runs")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium on PATH")
	}
	python := os.Getenv("DMLX_PLAYWRIGHT")
	if python == "" {
		python = "python3"
	}
	if err := exec.Command(python, "-c", "import playwright").Run(); err != nil {
		t.Skipf("%s has no playwright; set DMLX_PLAYWRIGHT to a Python that has", python)
	}
	if err := l.writeSettings(); err != nil {
		t.Fatal(err)
	}
	defer l.begin("something that a cell does not need")(nil)
	l.begin("a part")(errors.New("no network"))
	l.Folder, l.Store = t.TempDir(), t.TempDir()
	shipped := os.DirFS(filepath.Join(l.Root, "notebooks"))
	if _, _, err := (Copies{shipped, filepath.Join(l.Folder, "notebooks")}).Update(); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"cells.ipynb": "cells.ipynb", "works.ipynb": "soon.ipynb"} {
		raw, err := os.ReadFile(filepath.Join("testdata", from))
		if err == nil {
			err = os.WriteFile(filepath.Join(l.Folder, to), raw, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile(filepath.Join("testdata", "browser.py"))
	if err != nil {
		t.Fatal(err)
	}
	shots := *screenshots
	if shots != "" {
		if shots, err = filepath.Abs(shots); err != nil {
			t.Fatal(err)
		}
	}
	port, err := FreePort(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Minute)
	defer stop()
	url, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- l.Serve(ctx, port, "notebooks/index.ipynb", func(u string) { url <- u }) }()
	var s seen
	select {
	case err := <-ended:
		t.Fatal(err)
	case u := <-url:
		var stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, python, "-", u, l.Folder, first, shots, chromium)
		cmd.Stdin, cmd.Stderr = bytes.NewReader(script), &stderr
		out, err := cmd.Output()
		stop()
		<-ended
		if err != nil {
			t.Fatalf("%v: %s", err, stderr.Bytes())
		}
		if err := json.Unmarshal(out, &s); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if s.Contents != "No Kernel" {
		t.Errorf("the contents page, which has no code, has the kernel %q", s.Contents)
	}
	checkPage(t, s.Page, filepath.Join(l.Root, "notebooks", first+".ipynb"))
	checkSeen(t, s)
}

// checkPage checks that each cell of a page has been run and shows what was shipped, in the same formats.
func checkPage(t *testing.T, got map[string][]any, shipped string) {
	raw, err := os.ReadFile(shipped)
	if err != nil {
		t.Fatal(err)
	}
	var n struct {
		Cells []struct {
			ID      string
			Outputs []any
		}
	}
	if err := json.Unmarshal(raw, &n); err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, c := range n.Cells {
		if want := shapes(c.Outputs); want != shapes(got[c.ID]) {
			t.Errorf("cell %s shows %q; want as shipped %q", c.ID, shapes(got[c.ID]), want)
		}
		shown += len(got[c.ID])
	}
	if shown == 0 {
		t.Errorf("%s shows nothing", shipped)
	}
}

// shapes lists the kinds and formats of outputs, without progress lines, of which a cell may have more or fewer.
func shapes(outputs []any) string {
	var all []string
	for _, o := range outputs {
		o := o.(map[string]any)
		if meta, _ := o["metadata"].(map[string]any); meta["dmlx"] != nil {
			continue
		}
		data, _ := o["data"].(map[string]any)
		all = append(all, fmt.Sprint(o["output_type"], slices.Sorted(maps.Keys(data))))
	}
	return strings.Join(all, " ")
}

func checkSeen(t *testing.T, s seen) {
	if len(s.Errors) > 0 || s.LineNumbers == 0 {
		t.Errorf("errors of scripts %q, %d cells with line numbers", s.Errors, s.LineNumbers)
	}
	soon := strings.TrimSpace(s.Soon)
	if !strings.HasPrefix(s.Early, "waiting for the kernel: ") || soon != "true" && soon != "false" || s.Kernels != 1 {
		t.Errorf("a cell run before its kernel had started shows %q, then %q by %d kernels", s.Early, soon, s.Kernels)
	}
	if want := "Setting up: something that a cell does not need … Not set up: a part; see the terminal."; s.Setup != want {
		t.Errorf("the status bar says %q, want %q", s.Setup, want)
	}
	if len(s.Collapsed) == 0 || !regexp.MustCompile(`^(\[\d+\]: ?)+$`).MatchString(strings.Join(s.Collapsed, " ")) {
		t.Errorf("collapsed cells that have run show %q", s.Collapsed)
	}
	if len(s.Alts) == 0 || slices.Contains(s.Alts, "") {
		t.Errorf("pictures without alternative text: %q", s.Alts)
	}
	if !slices.Equal(s.Anew, []string{"[1]:", "[2]:", "[3]:"}) {
		t.Errorf("cells that are run without a kernel have the prompts %q", s.Anew)
	}
	const stopLine = "; run the cell again to go on"
	for name, text := range s.Stopped {
		shipped := "shipped " + name
		if name == "imports" || name == "empty" {
			shipped = ""
		}
		if !strings.Contains(s.Running[name], shipped) || !strings.Contains(text, shipped) ||
			!strings.Contains(s.Saved[name], shipped) {
			t.Errorf("%s has lost its output: %q, stopped %q, saved %s", name, s.Running[name], text, s.Saved[name])
		}
		if name != "imports" && name != "train" && (text != shipped || strings.ContainsAny(s.StoppedPrompts[name], "*1")) {
			t.Errorf("%s ran after Stop: %q, %s", name, text, s.StoppedPrompts[name])
		}
		if !strings.Contains(s.Running["after"], "waiting") {
			t.Errorf("a cell that waits says %q", s.Running["after"])
		}
	}
	for what, c := range map[string]struct{ got, want string }{
		"new output":       {s.Again, "new picture"},
		"a cell after it":  {s.After, "new text"},
		"while it runs":    {s.Waits, "shipped waits"},
		"its warning":      {s.Waits, "a warning"},
		"a stopped cell":   {s.Stopped["train"], stopLine},
		"where it stopped": {s.Stopped["train"], "stopped in epoch "},
		"hover":            {s.Hover, "func nb.NewProgress("},
		"the line of NaN":  {s.NaN, "the line is func logarithm("},
		"an ended kernel":  {s.Gone, "the kernel was ended, restarted or interrupted before the cell's end"},
	} {
		if !strings.Contains(c.got, c.want) {
			t.Errorf("%s: %q, want %q", what, c.got, c.want)
		}
	}
	if strings.Contains(s.Again+s.After, "shipped") || strings.Contains(s.Again, "stopped") {
		t.Errorf("old outputs beside new ones: %q, %q", s.Again, s.After)
	}
	// An error or a stop comes first. What was there before follows it, under words that say so.
	for _, c := range []struct{ name, got, want string }{
		{"typo", s.Typo, "line 3: undefined: fmt.Printn\n    fmt.Printn(x)\n        ^"},
		{"panic", s.Panic, "line 3: panic: assignment to entry in nil map\n    m[\"a\"] = 1"},
		{"split", s.Split, "line 2: panic: in two parts\n    _, file, line, _ := runtime.Caller(0)"},
		{"exit", s.Exit, "the cell's program ended with exit status 3"},
		{"waits", s.Ended, "a warning\nstopped; run the cell again to start anew"},
	} {
		got := regexp.MustCompile(`\n\s*\n`).ReplaceAllString(strings.TrimSpace(c.got), "\n")
		if want := c.want + "\nFrom the earlier run:\nshipped " + c.name; got != want {
			t.Errorf("%s: %q, want %q", c.name, got, want)
		}
	}
	const stale = "This uses answer as it was before the error in another cell. 42"
	if got := strings.Join(strings.Fields(s.Stale), " "); got != stale {
		t.Errorf("a function whose cell no longer compiles: %q", s.Stale)
	}
	if a := s.Answers; len(a.Wider) != 3 || slices.Max(a.Wider) > 0 || a.Rows != 20 || a.Marks < 4 ||
		!strings.Contains(a.Runs, "runs ") || a.Color != "rgb(0, 0, 0)" {
		t.Errorf("answers: %+v", a)
	}
	if strings.TrimSpace(s.Quoted) != "answer" || strings.TrimSpace(s.Again43) != "43" {
		t.Errorf("its name in a string and, when another cell declares it anew, in code: %q, %q", s.Quoted, s.Again43)
	}
	const dimmed = "shipped exit shipped nan shipped panic shipped split shipped typo shipped waits"
	if got := strings.Join(s.Dimmed, " "); got != dimmed {
		t.Errorf("dimmed after an error: %q, want %q", got, dimmed)
	}
	text, _, _ := strings.Cut(strings.TrimSpace(s.NaN), "\n")
	if !strings.Contains(text, "NaN") || strings.Contains(s.NaN, "exit status") {
		t.Errorf("NaN: %q", s.NaN)
	}
}

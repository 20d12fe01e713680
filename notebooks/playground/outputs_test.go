package playground

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutputsInBrowser sees that what notebooks have saved can be read by all: no output scrolls sideways in a window
// of 930 or 1366 pixels, no page at 390, and axe finds nothing. A notebook with faults sees that the test does.
func TestOutputsInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	chromium, python := browserTools(t)
	if exec.Command(python, "-c", "import axe_playwright_python").Run() != nil {
		t.Skipf("%s has no axe-playwright-python", python)
	}
	notebooks, err := filepath.Glob("../*.ipynb")
	if err != nil || notebooks == nil {
		t.Fatal("no notebooks", err)
	}
	faults := filepath.Join("testdata", "faults.ipynb")
	cmd := exec.CommandContext(t.Context(), python,
		append([]string{filepath.Join("testdata", "outputs.py"), chromium, faults}, notebooks...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	seen := 0
	for line := range bytes.Lines(out) {
		var n struct {
			Notebook string
			Problems []string
		}
		if err := json.Unmarshal(line, &n); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		seen++
		if found := strings.Join(n.Problems, "\n"); n.Notebook != faults {
			for _, problem := range n.Problems {
				t.Errorf("%s: %s", n.Notebook, problem)
			}
		} else {
			for _, want := range []string{"an output is too wide", "alternative text", "contrast"} {
				if !strings.Contains(found, want) {
					t.Errorf("of the faults the test misses %q: %s", want, found)
				}
			}
		}
	}
	if seen != len(notebooks)+1 {
		t.Errorf("saw %d of %d notebooks", seen-1, len(notebooks))
	}
}

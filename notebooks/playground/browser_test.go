package playground

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var screenshots = flag.String("screenshots", "", "also write screenshots of the browser tests to this `folder`")

// seen is the report of testdata/browser.py on a scenario.
type seen struct {
	Scenario        string
	Outside, Errors []string  // Requests to other hosts, and errors of scripts.
	Running, Left   int       // Programs of cells while the panel is used and after Stop.
	Times           []float64 // Milliseconds from a control's change to the picture on the screen.
	Note, Chosen    string
	Changed         []string
	Last            string  // What stays after Stop, or the last chart in words.
	Stills          int     // Pictures that stay after Stop.
	Stopped         float64 // Seconds.
	Controls        int     // Left after Stop.
	Failed          int     // Cells that ended with an error.

	// Of a flow: the button's label while it plays, frames per second, and whether it stays paused.
	Label string
	Rate  float64
	Stays bool

	// Of a custom rule: the table of its check, the triplet weights to choose from, and what is said of its training.
	Table   string
	Choices []string
	Said    string
}

// TestInBrowser tests the panels in a real browser: it moves a slider, reads the picture and presses Stop. It needs
// JupyterLab as "dmlx lab" installs it, Chromium, and a Python with playwright: DMLX_PLAYWRIGHT, or else python3.
func TestInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts JupyterLab and a browser")
	}
	chromium, python := browserTools(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	// JupyterLab opens files of the checkout alone; git ignores the folder runs.
	if err := os.MkdirAll(filepath.Join(root, "runs"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Join(root, "runs"), "browser-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	store := t.TempDir()
	args := []string{"-"}
	var notebook string
	for _, n := range []struct {
		name, from string
		cells      []string
		edit       *strings.Replacer
	}{
		{"panel", "playground", []string{"imports", "own", "drawn"}, strings.NewReplacer()},
		{"own", "playground", []string{"imports", "own", "check", "drawn", "training", "train", "trained"},
			strings.NewReplacer()},
		{"learn", "playground", []string{"imports", "own", "learn"}, strings.NewReplacer()},
	} {
		notebook = excerpt(t, n.from, filepath.Join(dir, n.name+".ipynb"), n.cells, n.edit)
		rel, err := filepath.Rel(root, notebook)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, n.name+"="+filepath.ToSlash(rel))
	}
	url := startLab(t, root, store, notebook)
	shots := *screenshots
	if shots != "" {
		if shots, err = filepath.Abs(shots); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(shots, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile("testdata/browser.py")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, slices.Insert(args, 1, url, store, shots, chromium)...)
	cmd.Stdin = bytes.NewReader(script)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	found := make(map[string]seen)
	for line := range bytes.Lines(out) {
		var s seen
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		found[s.Scenario] = s
		if len(s.Outside) > 0 || len(s.Errors) > 0 || s.Failed > 0 {
			t.Errorf("%s: requests to %q, errors of scripts %q, failed cells %d", s.Scenario, s.Outside, s.Errors, s.Failed)
		}
		if s.Running != 1 || s.Left != 0 {
			t.Errorf("%s: %d programs while it runs, %d left after Stop", s.Scenario, s.Running, s.Left)
		}
		t.Logf("%s: ended %.2f s after Stop", s.Scenario, s.Stopped)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	t.Run("panel", func(t *testing.T) { checkPanel(t, found["panel"]) })
	t.Run("own", func(t *testing.T) { checkOwn(t, found["own"]) })
	t.Run("learn", func(t *testing.T) {
		s := found["learn"]
		const written = "cos/[1-Sap, San]/[max(0, San-Sap+m), m=0.5]" // Typed in place of the function hinge.
		if s.Chosen != written || !strings.HasSuffix(s.Note, "▲no variable Spa; did you mean Sap? "+
			"The pictures show the formulas before.") ||
			!strings.Contains(s.Said, "A: "+written+": ") || !strings.Contains(s.Said, "B: cos/con/con: ") ||
			!strings.Contains(s.Last, s.Said) || s.Stills != 1 || s.Controls != 0 {
			t.Errorf("%+v", s)
		}
		t.Logf("the first number came %.1f s after Train", s.Times[0]/1000)
	})
}

func checkOwn(t *testing.T, s seen) {
	if s.Note != "cos/lin/hinge" || !slices.Contains(s.Choices, "hinge") || !slices.Contains(s.Choices, "cir") {
		t.Errorf("drawn: %q with the choices %q", s.Note, s.Choices)
	}
	if !strings.Contains(s.Table, "rotation\tgood") || strings.Contains(s.Table, "bad") {
		t.Errorf("checked: %q", s.Table)
	}
	for _, rule := range []string{"cos/lin/hinge", "cos/con/con", "cos-orth/lin-ms/cir"} {
		if !strings.Contains(s.Said, rule) || !strings.Contains(s.Last, rule) {
			t.Errorf("no run of %s in %q or %q", rule, s.Said, s.Last)
		}
	}
}

func checkPanel(t *testing.T, s seen) {
	if s.Note != "cos/lin/hinge" || !slices.Contains(s.Choices, "hinge") || s.Chosen != "cos/lin/cir?tau=5" {
		t.Errorf("%q with the choices %q, then %q", s.Note, s.Choices, s.Chosen)
	}
	if s.Label != "Pause" || !s.Stays || len(s.Changed) < 3 {
		t.Errorf("while it plays %q, paused: %v; changed by τ: %q", s.Label, s.Stays, s.Changed)
	}
	if s.Stills != 1 || !strings.Contains(s.Last, "cos/lin/cir?tau=5") || s.Controls > 0 {
		t.Errorf("after Stop: %d pictures, %q, %d frames", s.Stills, s.Last, s.Controls)
	}
	slices.Sort(s.Times)
	if len(s.Times) < 5 {
		t.Fatalf("%d redraws", len(s.Times))
	}
	at := func(q float64) float64 { return s.Times[int(q*float64(len(s.Times)-1))] }
	t.Logf("%d redraws, from the slider's event to the picture on the screen: median %.0f ms, 95 %% within %.0f ms; "+
		"%.0f frames a second", len(s.Times), at(0.5), at(0.95), s.Rate)
}

// browserTools returns Chromium and a Python with playwright.
func browserTools(t *testing.T) (chromium, python string) {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			chromium = path
			break
		}
	}
	if chromium == "" {
		t.Skip("no Chromium on PATH")
	}
	python = os.Getenv("DMLX_PLAYWRIGHT")
	if python == "" {
		python = "python3"
	}
	if err := exec.Command(python, "-c", "import playwright").Run(); err != nil {
		t.Skipf("%s has no playwright; set DMLX_PLAYWRIGHT to a Python that has", python)
	}
	return chromium, python
}

// excerpt writes a notebook with some cells of another, edited and without outputs.
func excerpt(t *testing.T, from, path string, ids []string, edit *strings.Replacer) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", from+".ipynb"))
	if err != nil {
		t.Fatal(err)
	}
	var n map[string]any
	if err := json.Unmarshal(raw, &n); err != nil {
		t.Fatal(err)
	}
	var cells []any
	for _, c := range n["cells"].([]any) {
		cell := c.(map[string]any)
		if slices.Contains(ids, cell["id"].(string)) {
			cell["outputs"], cell["execution_count"] = []any{}, nil
			cells = append(cells, cell)
		}
	}
	if len(cells) != len(ids) {
		t.Fatalf("%s.ipynb has %d of the cells %q", from, len(cells), ids)
	}
	n["cells"] = cells
	raw, err = json.Marshal(n)
	if err == nil {
		err = os.WriteFile(path, []byte(edit.Replace(string(raw))), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// startLab starts JupyterLab with a separate run store and returns its address.
func startLab(t *testing.T, root, store, notebook string) (url string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "dmlx")
	build := exec.Command("go", "build", "-o", program, "./dmlx/cmd/dmlx")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	doctor := exec.Command(program, "doctor", "--json")
	doctor.Dir = root
	out, _ := doctor.Output() // It fails if anything is missing, but still prints its report.
	var state struct{ Lab struct{ Ready bool } }
	if json.Unmarshal(out, &state) != nil || !state.Lab.Ready {
		t.Skip("JupyterLab is not set up: go run ./dmlx/cmd/dmlx/lab sets it up, after which this test runs")
	}
	cmd := exec.Command(program, "lab", "--no-browser", "--preset", "smoke", "--store", store, notebook)
	cmd.Dir = root
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill()
			t.Error("JupyterLab does not stop")
		}
	})
	lines := make(chan string, 1)
	go func() {
		s := bufio.NewScanner(stdout)
		if s.Scan() {
			lines <- s.Text()
		}
		for s.Scan() {
		}
		ended <- cmd.Wait()
	}()
	select {
	case url = <-lines:
	case err := <-ended:
		ended <- err
		t.Fatalf("JupyterLab: %v: %s", err, stderr.Bytes())
	case <-time.After(2 * time.Minute):
		t.Fatal("JupyterLab does not answer")
	}
	return url
}

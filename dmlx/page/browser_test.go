package page

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

var (
	screenshots = flag.String("screenshots", "", "also write screenshots of the page to this `folder`")
	regen       = flag.Bool("regen", false, "write testdata/pictures.json anew")
)

// TestInBrowser uses the page in a real browser: it solves the story's challenges, moves every control, drags, drops
// files, follows links, and reads what the page saves and copies. It needs Chromium, and a Python with playwright:
// DMLX_PLAYWRIGHT, or else python3. With axe-playwright-python it also checks the page's accessibility.
func TestInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	chromium := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			chromium = path
			break
		}
	}
	if chromium == "" {
		t.Skip("no Chromium on PATH")
	}
	python := os.Getenv("DMLX_PLAYWRIGHT")
	if python == "" {
		python = "python3"
	}
	if err := exec.Command(python, "-c", "import playwright").Run(); err != nil {
		t.Skipf("%s has no playwright; set DMLX_PLAYWRIGHT to a Python that has", python)
	}
	p := build(t)
	dir := t.TempDir()
	folder, single := filepath.Join(dir, "page"), filepath.Join(dir, "page.html")
	if err := p.Write(folder); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteSingleFile(single); err != nil {
		t.Fatal(err)
	}
	shots, write := *screenshots, ""
	if shots != "" {
		if err := os.MkdirAll(shots, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if *regen {
		write = "write"
	}
	deadline, ok := t.Deadline()
	if !ok {
		deadline = time.Now().Add(time.Hour)
	}
	ctx, cancel := context.WithDeadline(t.Context(), deadline.Add(-20*time.Second))
	defer cancel()
	look := func(group string) (out []byte, err error) {
		cmd := exec.CommandContext(ctx, python, "testdata/browser.py", folder, single, chromium, "testdata/pictures.json",
			write, shots, group)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if out, err = cmd.Output(); err != nil {
			err = fmt.Errorf("%s: %w: %s", group, err, stderr.Bytes())
		}
		return out, err
	}
	// Two browsers side by side, which mostly wait; what is timed is alone.
	var outs [3][]byte
	var errs [3]error
	var both sync.WaitGroup
	for i, group := range []string{"one", "other"} {
		both.Go(func() { outs[i], errs[i] = look(group) })
	}
	both.Wait()
	outs[2], errs[2] = look("timed")
	if err := errors.Join(errs[:]...); err != nil {
		t.Error(err)
	}
	checks := 0
	for line := range bytes.Lines(bytes.Join(outs[:], nil)) {
		var c struct {
			Check, Problem, Note string
			Seconds              float64
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		checks++
		t.Run(c.Check, func(t *testing.T) {
			if c.Problem != "" {
				t.Error(c.Problem)
			}
			t.Logf("%.1f s %s", c.Seconds, c.Note)
		})
	}
	if checks < 25 {
		t.Fatalf("%d checks", checks)
	}
}

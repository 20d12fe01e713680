package lab

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Status is the state of the set-up according to the stamps.
type Status struct {
	Ready   bool   `json:"ready"`             // The next start is quick and needs no network.
	Jupyter string `json:"jupyterlab"`        // The version that is or will be installed.
	Python  string `json:"python,omitempty"`  // The version of the environment's Python.
	Cells   string `json:"cells,omitempty"`   // How cells are compiled: by which Go, and with SIMD or why not.
	Missing string `json:"missing,omitempty"` // The first incomplete part.
}

// Status returns the state of the set-up without changing it.
func (l *Lab) Status(ctx context.Context) Status {
	s := Status{Jupyter: jupyterVersion()}
	if data, err := os.ReadFile(filepath.Join(l.venv(), "pyvenv.cfg")); err == nil {
		for line := range strings.Lines(string(data)) {
			if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == "version" {
				s.Python = strings.TrimSpace(value)
			}
		}
	}
	s.Missing = l.missing(ctx)
	s.Ready = s.Missing == ""
	if script, err := os.ReadFile(l.cellsFile()); err == nil && s.Ready {
		how, _, _ := strings.Cut(string(script), "\n")
		s.Cells = strings.TrimPrefix(how, "# ")
	}
	return s
}

// missing returns the first part that Setup would install, or "".
func (l *Lab) missing(ctx context.Context) string {
	if !l.hasPython() {
		return "the Python environment"
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		return "a go command on PATH"
	}
	if l.Version != "" && !stamped(l.Root, l.Version) {
		return "the module of the cells"
	}
	versions, _, err := l.goSettings(ctx, goTool)
	l.versions = versions
	if err != nil {
		return "a go command that works: " + err.Error()
	}
	if !stamped(l.tools(versions), "") {
		return "GoNB and goimports"
	}
	if l.key, err = l.warmKey(); err != nil || !stamped(l.checkout(), l.key) {
		return "the compiled packages"
	}
	return ""
}

package lab

import (
	"os"
	"path/filepath"
	"strings"
)

// Status is what is set up, as far as files tell.
type Status struct {
	Ready   bool   `json:"ready"`             // The next start is quick and needs no network.
	Jupyter string `json:"jupyterlab"`        // The version that is or will be installed.
	Python  string `json:"python,omitempty"`  // The version of the environment's Python.
	Missing string `json:"missing,omitempty"` // The first part that is not complete.
}

// Status looks at what Setup would.
func (l *Lab) Status() Status {
	s := Status{Jupyter: strings.TrimPrefix(firstRequirement("jupyterlab"), "jupyterlab==")}
	if data, err := os.ReadFile(filepath.Join(l.venv(), "pyvenv.cfg")); err == nil {
		for line := range strings.Lines(string(data)) {
			if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == "version" {
				s.Python = strings.TrimSpace(value)
			}
		}
	}
	tools, _ := filepath.Glob(l.dir("tools-*", stampName))
	_, pythonErr := os.Stat(l.python())
	_, warmErr := os.Stat(filepath.Join(l.checkout(), stampName))
	switch {
	case pythonErr != nil || !stamped(l.venv(), ""):
		s.Missing = "the Python environment"
	case len(tools) == 0:
		s.Missing = "GoNB and goimports"
	case warmErr != nil:
		s.Missing = "the compiled packages"
	default:
		s.Ready = true
	}
	return s
}

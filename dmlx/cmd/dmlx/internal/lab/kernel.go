package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/host"
	"github.com/gradient-surgery/dml/dmlx/internal/durable"
)

// kernelSpec is Jupyter's kernel.json.
type kernelSpec struct {
	Argv          []string          `json:"argv"`
	DisplayName   string            `json:"display_name"`
	Language      string            `json:"language"`
	InterruptMode string            `json:"interrupt_mode"`
	Env           map[string]string `json:"env"`
}

// newKernelSpec returns the kernelspec of GoNB with this checkout in each notebook's workspace, so that cells import
// its packages and see edits at once. A cell's errors are plain text, which the extension cuts to what matters, in
// place of GoNB's markup with the source of the whole program.
func newKernelSpec(gonb, root, goFlags, experiment string) kernelSpec {
	spec := kernelSpec{
		Argv:        []string{gonb, "-go_work=" + root, "-raw_error", "--kernel", "{connection_file}"},
		DisplayName: KernelTitle,
		Language:    "go",
		// GoNB passes the message on to the cell's program; a signal would also reach "go build".
		InterruptMode: "message",
		Env: map[string]string{
			"GOPROXY": "off", // Saves the look-ups of the missing packages in every cell, 0.8 s each.
			"GOFLAGS": kernelGoFlags(goFlags),
			"GOWORK":  "", // The kernel creates its own workspace.
		},
	}
	if runtime.GOARCH == "amd64" {
		// It makes the Go backend's matrix products about ten times as fast.
		if !slices.Contains(strings.Split(experiment, ","), "simd") {
			experiment = strings.TrimPrefix(experiment+",simd", ",")
		}
		spec.Env["GOEXPERIMENT"] = experiment
	}
	return spec
}

// kernelGoFlags returns the user's GOFLAGS without -mod, which a workspace rejects, and with the linker flag that omits
// the symbol table, which halves the link time of a cell.
func kernelGoFlags(user string) string {
	var flags []string
	for _, f := range strings.Fields(user) {
		if name := strings.TrimLeft(f, "-"); !strings.HasPrefix(name, "mod=") {
			flags = append(flags, f)
		}
	}
	return strings.Join(append(flags, "-ldflags=-s"), " ")
}

// kernelPath returns the entry of JUPYTER_PATH with the kernelspec and JupyterLab's extension.
func (l *Lab) kernelPath() string { return filepath.Join(l.checkout(), "jupyter") }

// writeKernel writes the kernelspec.
func (l *Lab) writeKernel(goFlags string) error {
	if strings.Contains(l.Root, ",") {
		return fmt.Errorf("GoNB cannot use a checkout with a comma in its path: %s", l.Root)
	}
	dir := filepath.Join(l.kernelPath(), "kernels", Kernel)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	spec := newKernelSpec(filepath.Join(l.toolsDir, "gonb"), l.Root, goFlags, os.Getenv("GOEXPERIMENT"))
	data, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, "kernel.json"), append(data, '\n'), 0o644)
}

// environ returns the environment of Jupyter and the kernels. Headless ones have no editor, so that GoNB starts no
// gopls for them.
func (l *Lab) environ(headless bool) []string {
	path := []string{l.toolsDir, filepath.Dir(l.python()), os.Getenv("PATH")}
	if !headless {
		path = append([]string{l.goplsDir}, path...)
	}
	set := map[string]string{
		"JUPYTER_PATH":        l.kernelPath(),
		"JUPYTER_CONFIG_DIR":  l.dir("jupyter", "config"),
		"JUPYTER_DATA_DIR":    l.dir("jupyter", "data"),
		"JUPYTER_RUNTIME_DIR": l.dir("jupyter", "runtime"),
		"IPYTHONDIR":          l.dir("jupyter", "ipython"),
		"DMLX_CACHE":          l.Cache,
		"PATH":                strings.Join(path, string(os.PathListSeparator)),
	}
	if headless {
		set["DMLX_HEADLESS"] = "1" // Cells then do not wait for input.
	}
	// A notebook's kernel runs in the notebook's folder.
	if data, err := filepath.Abs(datasets.DataDir()); err == nil {
		set[datasets.DataEnv] = data
	}
	if l.Store != "" {
		set["DMLX_STORE"] = l.Store
	}
	// XLA's CPU plugin writes notes about these options into cells, in red, if they are on. It computes the same, bit for
	// bit, without.
	if _, there := os.LookupEnv("TF_ENABLE_ONEDNN_OPTS"); !there {
		set["TF_ENABLE_ONEDNN_OPTS"] = "0"
	}
	if l.Preset != "" {
		set["DMLX_PRESET"] = l.Preset
	}
	if _, ask := host.HugePages(); ask != "" {
		set[host.TunablesEnv] = ask // For cells that train.
	}
	return l.isolated(set)
}

// setupEnviron returns the environment of Python and pip during the set-up.
func (l *Lab) setupEnviron() []string { return l.isolated(map[string]string{}) }

// isolated returns the user's environment, with variables set and without those of the user's own Jupyter and Python.
// Temporary files, such as GoNB's programs and pip's downloads, go into the cache.
func (l *Lab) isolated(set map[string]string) []string {
	set["PYTHONNOUSERSITE"], set["TMPDIR"] = "1", l.dir("tmp")
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if _, replaced := set[name]; replaced || strings.HasPrefix(name, "JUPYTER") || strings.HasPrefix(name, "JPY_") ||
			name == "PYTHONPATH" || name == "PYTHONHOME" || name == "VIRTUAL_ENV" {
			continue
		}
		env = append(env, kv)
	}
	for name, value := range set {
		env = append(env, name+"="+value)
	}
	return env
}

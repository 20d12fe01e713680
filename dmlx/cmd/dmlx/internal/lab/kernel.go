package lab

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/durable"
)

// kernelSpec is Jupyter's kernel.json.
type kernelSpec struct {
	Argv          []string          `json:"argv"`
	DisplayName   string            `json:"display_name"`
	Language      string            `json:"language"`
	InterruptMode string            `json:"interrupt_mode"`
	Env           map[string]string `json:"env"`
}

var (
	// kernelScript starts GoNB for any Jupyter. The kernelspec has its arguments.
	//
	//go:embed kernel.sh
	kernelScript []byte
	// goScript is the go command of GoNB, in the folder bin beside kernelScript.
	//
	//go:embed go.sh
	goScript []byte
)

// newKernelSpec returns the kernelspec of GoNB, which a script starts, with this checkout in each notebook's workspace,
// so that cells import its packages and see edits at once. A cell's errors are plain text, which the extension cuts to
// what matters, in place of GoNB's markup with the source of the whole program.
func (l *Lab) newKernelSpec(script string, set goEnv) kernelSpec {
	return kernelSpec{
		Argv: []string{"/bin/sh", script, l.toolsDir + ":" + filepath.Join(set.Root, "bin"), l.goplsDir, l.Root,
			"{connection_file}", l.cellsFile()},
		DisplayName: KernelTitle,
		Language:    "go",
		// GoNB passes the message on to the cell's program; a signal would also reach "go build".
		InterruptMode: "message",
		Env: map[string]string{
			"GOPROXY": "off", // Saves the look-ups of the missing packages in every cell, 0.8 s each.
			"GOFLAGS": kernelGoFlags(set.Flags),
			"GOWORK":  "", // The kernel creates its own workspace.
			// For Jupyters other than that of lab. Cells download no modules, and other users of an image have none.
			"DMLX_CACHE": l.Cache, "GOMODCACHE": set.Modules,
		},
	}
}

// kernelGoFlags returns the user's GOFLAGS without -mod, which a workspace rejects, and with the linker flag that omits
// the symbol table, which halves the link time of a cell.
func kernelGoFlags(user string) string {
	isMod := func(flag string) bool { return strings.HasPrefix(strings.TrimLeft(flag, "-"), "mod=") }
	flags := slices.DeleteFunc(strings.Fields(user), isMod)
	return strings.Join(append(flags, "-ldflags=-s"), " ")
}

// kernelPath returns the entry of JUPYTER_PATH with the kernelspec and JupyterLab's extension.
func (l *Lab) kernelPath() string { return filepath.Join(l.checkout(), "jupyter") }

// writeKernel writes the kernelspec for lab, and for other programs of the environment, such as nbconvert.
func (l *Lab) writeKernel(set goEnv) error {
	if strings.Contains(l.Root, ",") {
		return fmt.Errorf("GoNB cannot use a checkout with a comma in its path: %s", l.Root)
	}
	script := filepath.Join(l.checkout(), "kernel.sh")
	data, err := json.MarshalIndent(l.newKernelSpec(script, set), "", "  ")
	if err != nil {
		return err
	}
	l.spec = append(data, '\n')
	if err := durable.WriteInFolder(filepath.Join(l.checkout(), "bin", "go"), goScript, 0o755); err != nil {
		return err
	}
	return writeFiles(map[string][]byte{script: kernelScript, kernelFile(l.kernelPath()): l.spec,
		kernelFile(filepath.Join(l.venv(), "share", "jupyter")): l.spec})
}

// kernelFile returns the path of the kernelspec in a folder of Jupyter's data.
func kernelFile(data string) string { return filepath.Join(data, "kernels", Kernel, "kernel.json") }

// writeFiles writes files, and makes their folders.
func writeFiles(files map[string][]byte) error {
	for path, data := range files {
		if err := durable.WriteInFolder(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// UserKernel returns the path of this kernelspec in the user's own Jupyter: below JUPYTER_DATA_DIR, or where Jupyter
// has it by default.
func UserKernel() (string, error) {
	if dir := os.Getenv("JUPYTER_DATA_DIR"); dir != "" {
		return kernelFile(dir), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	if runtime.GOOS == "darwin" {
		return kernelFile(filepath.Join(home, "Library", "Jupyter")), nil
	}
	data := os.Getenv("XDG_DATA_HOME")
	return kernelFile(filepath.Join(cmp.Or(data, filepath.Join(home, ".local", "share")), "jupyter")), nil
}

// InstallKernel writes the kernelspec into the user's own Jupyter and returns its path. Call Setup first. A kernelspec
// of the same name that lab has not written is an error.
func (l *Lab) InstallKernel() (path string, err error) {
	if path, err = ownKernel(); err != nil {
		return "", err
	}
	return path, writeFiles(map[string][]byte{path: l.spec})
}

// ownKernel returns the path of the user's kernelspec if there is none, or one that lab has written.
func ownKernel() (path string, err error) {
	if path, err = UserKernel(); err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	var spec kernelSpec
	if err == nil && (json.Unmarshal(data, &spec) != nil || spec.DisplayName != KernelTitle) {
		return "", fmt.Errorf("%s is not a kernelspec of dmlx lab, and stays", path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return path, err
}

// environ returns the environment of Jupyter and the kernels.
func (l *Lab) environ(headless bool) []string {
	path := []string{filepath.Dir(l.python()), os.Getenv("PATH")}
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
	if l.Preset != "" {
		set["DMLX_PRESET"] = l.Preset
	}
	return l.isolated(set)
}

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

// Package lab sets up and runs JupyterLab with a Go kernel that uses this checkout.
//
// It writes only to one folder of the cache: a Python environment with a pinned JupyterLab, the tools of go.mod's tool
// block (GoNB and goimports), a kernelspec for each checkout, and Jupyter's configuration and data. The user's Jupyter
// and Go are not changed: environment variables lead the processes that this package starts to the cache. After the
// set-up no network is needed.
package lab

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/durable"
)

// Kernel is the name of the kernelspec in the notebooks' metadata, and KernelTitle its title in JupyterLab.
const (
	Kernel      = "dmlx"
	KernelTitle = "Go (dmlx)"
	// extensionName is the name in the extension's package.json.
	extensionName = "dmlx-cells"
	templateName  = "dmlx" // Of nbconvert.
)

var (
	//go:embed requirements.txt
	requirements []byte // Of requirements.in and all that it needs, with the SHA-256 of their files.
	//go:embed overrides.json
	overrides []byte // Settings of JupyterLab, some of which stop its requests to the network.
	//go:embed extension
	extension embed.FS // JupyterLab's extension that runs cells; see its remoteEntry.js.
	//go:embed nbconvert
	convert embed.FS // A template of nbconvert whose pictures have their alternative text.
	//go:embed warmup.ipynb
	warmup []byte
	//go:embed execute.py
	executeScript []byte
)

// Lab is JupyterLab for one checkout of this module, or for a version of it in Go's module cache.
type Lab struct {
	Root string // The folder of the go.mod with which cells are compiled: a checkout, or ModuleRoot of Version.
	// Folder is the folder of the notebooks that JupyterLab shows; "" for Root.
	Folder string
	// Version is the version of this module that Root's go.mod requires, and Sum its checksum as in go.sum, "" if it is
	// not known. "" for a checkout.
	Version, Sum string

	Cache string // The cache folder; this package writes to its subfolder lab.
	Store string // The run store that notebooks use; "" leaves it to them.
	// Preset is the preset of the notebooks' runs; "" leaves it to them.
	Preset string
	// Browser opens what is served in the user's browser. Jupyter gives it a page of the cache instead of the address,
	// which has the token: all users of a machine can read the arguments of a process.
	Browser bool

	toolsDir, goplsDir, versions, key string // Set by Setup.
	spec                              []byte // The kernelspec, set by Setup.

	cells *errgroup.Group // Sets up what runs cells.

	mu            sync.Mutex
	doing, failed []string // The steps that run, and those of Finish that have failed.

	// Warn is told what the set-up could not do, where JupyterLab works without it. It may be nil.
	Warn func(message string)
	// Progress is called when a step of the set-up starts, and what it returns when the step has ended or failed. Steps
	// may overlap, but not the calls. It may be nil.
	Progress func(step string) (end func(err error))
}

// folder returns the folder of the notebooks.
func (l *Lab) folder() string { return cmp.Or(l.Folder, l.Root) }

func (l *Lab) dir(parts ...string) string {
	return filepath.Join(append([]string{l.Cache, "lab"}, parts...)...)
}

// venv returns the folder of the Python environment, one for each set of pinned packages.
func (l *Lab) venv() string { return l.dir("python-" + hash(requirements)) }

// python returns the path of the environment's interpreter.
func (l *Lab) python() string { return filepath.Join(l.venv(), "bin", "python") }

// tools returns the folder of GoNB and goimports, one for each version of them and of Go.
func (l *Lab) tools(versions string) string { return l.dir("tools-" + hash([]byte(versions))) }

// checkout returns the folder for the files that depend on the path of the checkout: kernelspecs and stamps.
func (l *Lab) checkout() string { return l.dir("checkout-" + hash([]byte(l.Root))) }

// Setup installs what is missing for JupyterLab to open. What runs cells is installed meanwhile and after it; see
// [Lab.Ready]. [Lab.Finish] does the rest. If nothing is missing, it takes milliseconds. It may be interrupted at any
// time: each part gets a stamp when it is complete, and a part without a stamp is installed again.
func (l *Lab) Setup(ctx context.Context) error {
	if runtime.GOOS == "windows" {
		return errors.New("lab does not run on Windows, since its kernel is a shell script: use WSL")
	}
	goTool, unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	l.sweep()

	if err := l.setupModule(ctx, goTool); err != nil { // First, since it is the one that may not be had at all.
		return err
	}
	versions, set, err := l.goSettings(ctx, goTool)
	if err != nil {
		return err
	}
	l.versions, l.toolsDir, l.goplsDir = versions, l.tools(versions), l.goplsFolder(versions)
	if l.key, err = l.warmKey(); err != nil {
		return err
	}
	python := make(chan error, 1)
	group, both := errgroup.WithContext(ctx) // Python loads and compiles as long as Go does.
	l.cells = group
	group.Go(func() error { return l.setupCells(both, goTool) })
	group.Go(func() error {
		err := l.setupPython(both)
		python <- err
		return err
	})
	if err := <-python; err != nil {
		err = group.Wait() // It may have been the other that failed.
		return cmp.Or(ctx.Err(), err)
	}
	if err := l.writeKernel(set); err != nil {
		return err
	}
	return l.writeSettings()
}

// lock makes the cache folder and waits until no other set-up uses it. It returns the go command and what unlocks.
func (l *Lab) lock(ctx context.Context) (goTool string, unlock func(), err error) {
	if err := os.MkdirAll(l.dir("tmp"), 0o755); err != nil {
		return "", nil, fmt.Errorf("the cache folder cannot be written: %w; set DMLX_CACHE to one that can", err)
	}
	if goTool, err = exec.LookPath("go"); err != nil {
		return "", nil, errors.New("no go command on PATH, which compiles notebook cells: install Go from https://go.dev/dl")
	}
	lock := flock.New(l.dir("lock"))
	if ok, err := lock.TryLock(); err != nil {
		return "", nil, fmt.Errorf("locking %s: %w", l.dir("lock"), err)
	} else if !ok {
		end := l.begin("waiting for another set-up")
		if _, err := lock.TryLockContext(ctx, poll); err != nil {
			return "", nil, err
		}
		end(nil)
	}
	return goTool, func() { _ = lock.Unlock() }, nil
}

// Module sets up Root alone, which is a step of Setup too: enough to compile the page's program.
func (l *Lab) Module(ctx context.Context) error {
	if l.Version == "" {
		return nil // It is a checkout, and waits for no other set-up.
	}
	goTool, unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return l.setupModule(ctx, goTool)
}

// Ready waits until a cell can run. Call Setup first.
func (l *Lab) Ready() error { return l.cells.Wait() }

// Finish completes the set-up: what completes code, and the compiled packages of notebooks. Both go on side by side
// while JupyterLab is used, which shows them in its status bar. Call Ready first.
func (l *Lab) Finish(ctx context.Context) error {
	lock := flock.New(l.dir("lock-finish")) // Another JupyterLab may open meanwhile.
	if _, err := lock.TryLockContext(ctx, poll); err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.setupGopls(ctx) })
	group.Go(func() error { return l.setupWarm(ctx) })
	return group.Wait()
}

// cellsFile returns the path of a file that is there if cells can run, with their compiler's environment as a shell
// script. Kernels wait for it.
func (l *Lab) cellsFile() string { return filepath.Join(l.checkout(), "cells-"+l.key+".sh") }

// setupCells downloads the modules of go.mod, since GoNB resolves all of them in a cell and downloads none and building
// this program has downloaded only some, installs go.mod's tool block, which has GoNB, and finds out how cells are
// compiled.
func (l *Lab) setupCells(ctx context.Context, goTool string) error {
	ready := l.cellsFile()
	if _, err := os.Stat(ready); err == nil && stamped(l.toolsDir, "") {
		return nil
	}
	end := l.begin("GoNB, which runs cells")
	if _, err := l.command(ctx, l.Root, nil, goTool, "mod", "download"); err != nil {
		return fmt.Errorf("go mod download failed (the first set-up needs a network): %w", err)
	}
	if !stamped(l.toolsDir, "") {
		env := append(os.Environ(), "GOBIN="+l.toolsDir)
		if _, err := l.behind(ctx, l.Root, env, goTool, "install", "tool"); err != nil {
			return fmt.Errorf("go install tool failed: %w", err)
		}
		if err := stamp(l.toolsDir, ""); err != nil {
			return err
		}
	}
	script, err := l.compiler(ctx, goTool)
	if err != nil {
		return err
	}
	end(nil)
	return writeFiles(map[string][]byte{ready: []byte(script)})
}

// setupPython creates the Python environment.
func (l *Lab) setupPython(ctx context.Context) error {
	dir := l.venv()
	if l.hasPython() {
		return nil
	}
	python, _, err := FindPython(ctx)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil { // An interrupted set-up may have left it, or its Python is gone.
		return err
	}
	end := l.begin("a Python environment with jupyterlab " + jupyterVersion())
	env := l.isolated(map[string]string{})
	if _, err := l.command(ctx, "", env, python, "-I", "-m", "venv", "--without-pip", dir); err != nil {
		return fmt.Errorf("%s -m venv failed: %w", python, err)
	}
	const name = "requirements.txt"
	if err := durable.WriteFile(filepath.Join(dir, name), requirements, 0o644); err != nil {
		return err
	}
	if _, err := l.command(ctx, dir, env, l.python(), pipArgs(dir, name)...); err != nil {
		return fmt.Errorf("pip could not install JupyterLab (the first set-up needs a network): %w", err)
	}
	end(nil)
	return stamp(dir, "")
}

// writeSettings writes JupyterLab's settings, the extension that runs cells and nbconvert's template, which is the
// environment's default. They come from this program, which may be newer than the environment.
func (l *Lab) writeSettings() error {
	template := []byte(`{"HTMLExporter": {"template_name": "` + templateName + `"}}`)
	files := map[string][]byte{
		filepath.Join(l.venv(), "share", "jupyter", "lab", "settings", "overrides.json"): overrides,
		filepath.Join(l.venv(), "etc", "jupyter", "jupyter_nbconvert_config.json"):       template,
		filepath.Join(l.venv(), "etc", "jupyter", "jupyter_server_config.json"):          template,
	}
	for from, to := range map[fs.FS]string{
		extension: filepath.Join(l.kernelPath(), "labextensions", extensionName),
		convert:   filepath.Join(l.venv(), "share", "jupyter", "nbconvert", "templates", templateName),
	} {
		err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			_, below, _ := strings.Cut(name, "/")
			path := filepath.Join(to, filepath.FromSlash(below))
			files[path], err = fs.ReadFile(from, name)
			return err
		})
		if err != nil {
			return err
		}
	}
	err := writeFiles(files)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell()
	return err
}

func (l *Lab) hasPython() bool {
	_, err := os.Stat(l.python()) // A link to the Python that created it.
	return err == nil && stamped(l.venv(), "")
}

// runPip runs the pip that comes with Python from its wheel, as ensurepip does, which would first install it.
const runPip = `import ensurepip, glob, os, runpy, sys, sysconfig
folders = sysconfig.get_config_var("WHEEL_PKG_DIR"), os.path.join(os.path.dirname(ensurepip.__file__), "_bundled")
wheels = [w for folder in folders if folder for w in sorted(glob.glob(os.path.join(folder, "pip-*.whl")))]
if not wheels: sys.exit("this Python's ensurepip has no wheel of pip")
sys.path.insert(0, wheels[-1])
runpy.run_module("pip", run_name="__main__", alter_sys=True)`

// pipArgs returns the arguments of Python that install a file of requirements, which are complete, into the
// environment: wheels with one of the hashes, since a source distribution would run code and need others without
// hashes. The user's settings of pip still choose the package index, but not the target folder: arguments, even empty
// ones, override variables and files.
func pipArgs(dir, file string) []string {
	return []string{"-I", "-c", runPip, "install", "--quiet", "--disable-pip-version-check", "--no-input",
		"--no-cache-dir", "--no-user", "--target=", "--prefix=" + dir, "--no-deps", "--require-hashes",
		"--only-binary=:all:", "-r", file}
}

// FindPython returns the path and version of a Python that can create the environment. Its error says what to install.
func FindPython(ctx context.Context) (path, version string, err error) {
	const install = "install Python 3.11 or newer with its venv module " +
		"(Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python)"
	const script = `import sys
version = "%d.%d.%d" % sys.version_info[:3]
if sys.version_info < (3, 11): sys.exit("is Python " + version)
try: import venv, ensurepip
except ImportError: sys.exit("has no venv module")
print(version)`
	var why []string
	for _, name := range []string{"python3", "python"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, path, "-I", "-c", script).CombinedOutput()
		if err == nil {
			return path, strings.TrimSpace(string(out)), nil
		}
		if ctx.Err() != nil {
			return "", "", ctx.Err()
		}
		why = append(why, path+" "+text.LastLine(string(out), err))
	}
	if why == nil {
		return "", "", errors.New("no Python on PATH: " + install)
	}
	return "", "", fmt.Errorf("no suitable Python (%s): %s", strings.Join(why, "; "), install)
}

// goEnv is what "go env" says in the folder of the module: the version and root of the Go that its go.mod selects, and
// the user's settings.
type goEnv struct {
	Version string `json:"GOVERSION"`
	Root    string `json:"GOROOT"`
	Flags   string `json:"GOFLAGS"`
	Modules string `json:"GOMODCACHE"`
}

// goSettings returns the versions of Go and of the tools' modules in go.mod, one a line, and Go's settings.
func (l *Lab) goSettings(ctx context.Context, goTool string) (toolVersions string, set goEnv, err error) {
	out, err := l.command(ctx, l.Root, nil, goTool, "env", "-json", "GOVERSION", "GOROOT", "GOFLAGS", "GOMODCACHE")
	if err == nil {
		err = json.Unmarshal(out, &set)
	}
	if err != nil {
		return "", set, fmt.Errorf("go env failed: %w", err)
	}
	mod, err := os.ReadFile(filepath.Join(l.Root, "go.mod"))
	if err != nil {
		return "", set, err
	}
	versions := []string{set.Version}
	for line := range strings.Lines(string(mod)) {
		if f := strings.Fields(line); len(f) >= 2 && (f[0] == "github.com/janpfeifer/gonb" || f[0] == "golang.org/x/tools") {
			versions = append(versions, f[0]+" "+f[1])
		}
	}
	return strings.Join(versions, "\n"), set, nil
}

// gopls is the language server with which GoNB completes code. It needs a version of golang.org/x/tools of its own, so
// that it cannot be in go.mod's tool block.
const gopls = "golang.org/x/tools/gopls@v0.21.1"

// goplsScript starts gopls for a kernel. It loads all packages of this module, for which it would take 1 GB and compete
// with the first cells. GoNB has no settings for it, and puts it into a process group of its own, so that it ends with
// the kernel only if something looks for the kernel.
const goplsScript = `#!/bin/sh
export GOGC=50 GOMEMLIMIT=500MiB
gopls=$$ kernel=$PPID
(
	while kill -0 "$kernel" && kill -0 "$gopls"; do sleep 1; done
	kill "$gopls"
) </dev/null >/dev/null 2>&1 &
exec nice -n 10 "${0%/*}/bin/gopls" "$@"
`

// goplsFolder returns the folder of gopls, one for each version of it and of Go.
func (l *Lab) goplsFolder(versions string) string {
	goVersion, _, _ := strings.Cut(versions, "\n")
	return l.dir("gopls-" + hash([]byte(gopls+goplsScript), []byte(goVersion)))
}

// setupGopls installs gopls. Without a network, cells run without completion.
func (l *Lab) setupGopls(ctx context.Context) error {
	if stamped(l.goplsDir, "") {
		return nil
	}
	end := l.begin("gopls, which completes code")
	// The user's flags may be for go.mod.
	env := append(os.Environ(), "GOBIN="+filepath.Join(l.goplsDir, "bin"), "GOFLAGS=", "GOWORK=off")
	_, err := l.behind(ctx, l.dir("tmp"), env, "go", "install", gopls)
	end(err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		if l.Warn != nil {
			l.Warn(fmt.Sprintf("cells are not completed by Tab, since gopls could not be installed: %v", err))
		}
		return nil
	}
	// Not before: a kernel starts it once.
	if err := durable.WriteFile(filepath.Join(l.goplsDir, "gopls"), []byte(goplsScript), 0o755); err != nil {
		return err
	}
	return stamp(l.goplsDir, "")
}

// setupWarm runs a notebook that imports the packages of all notebooks. This fills Go's build cache and shows that the
// set-up works. It is run again when the modules change.
func (l *Lab) setupWarm(ctx context.Context) error {
	if stamped(l.checkout(), l.key) {
		return nil
	}
	end := l.begin("the Go packages that notebooks use (compiled once)")
	notebook := filepath.Join(l.checkout(), "warmup.ipynb")
	if err := durable.WriteFile(notebook, warmup, 0o644); err != nil {
		return err
	}
	err := l.Execute(ctx, notebook, ExecuteOptions{Nice: 5}) // The browser goes first.
	end(err)
	if err != nil {
		return fmt.Errorf("the first cells failed: %w", err)
	}
	return stamp(l.checkout(), l.key)
}

// warmKey returns the stamp of a checkout whose packages are compiled.
func (l *Lab) warmKey() (string, error) {
	inputs := []byte(l.versions)
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(l.Root, name))
		if err != nil {
			return "", err
		}
		inputs = append(inputs, data...)
	}
	return hash(inputs, warmup, []byte(cellFlags)), nil
}

// sweep removes old logs, and old temporary files of kernels and set-ups that were killed.
func (l *Lab) sweep() {
	const old = 7 * 24 * time.Hour
	for dir, pattern := range map[string]string{l.dir("tmp"): "*", l.dir(): "jupyter*.log"} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			ours, _ := filepath.Match(pattern, e.Name())
			if info, err := e.Info(); ours && err == nil && time.Since(info.ModTime()) > old {
				_ = os.RemoveAll(filepath.Join(dir, e.Name()))
			}
		}
	}
}

// begin starts a step; end is called when it has ended or failed.
func (l *Lab) begin(step string) (end func(err error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := func(error) {}
	if l.Progress != nil {
		told = l.Progress(step)
	}
	l.doing = append(l.doing, step)
	l.tell()
	return func(err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.doing = slices.DeleteFunc(l.doing, func(s string) bool { return s == step })
		if err != nil {
			l.failed = append(l.failed, step)
		}
		l.tell()
		told(err)
	}
}

// tell writes the steps that run, and those that have failed, for the extension, once its folder is there.
func (l *Lab) tell() {
	if data, err := json.Marshal(map[string][]string{"doing": l.doing, "failed": l.failed}); err == nil {
		path := filepath.Join(l.kernelPath(), "labextensions", extensionName, "static", "setup.json")
		_ = durable.WriteFile(path, data, 0o644)
	}
}

// command runs a program of the set-up in a folder, with this program's environment if env is nil, and returns its
// standard output. The text of an error is the last line of standard error or, if that is empty, of standard output.
func (l *Lab) command(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = env
	ownGroup(cmd)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		// After this sentence pip names the file, and last of all only a hash.
		_, mismatch, _ := strings.Cut(stderr.String(), "DO NOT MATCH THE HASHES")
		if lines := strings.Split(mismatch, "\n"); len(lines) > 1 {
			return nil, fmt.Errorf("not the file whose SHA-256 requirements.txt has: %s", strings.TrimSpace(lines[1]))
		}
		return nil, errors.New(text.LastLine(stdout.String()+"\n"+stderr.String(), err))
	}
	return stdout.Bytes(), nil
}

// behind is command for what may wait: JupyterLab and the packages of cells have the processor first.
func (l *Lab) behind(ctx context.Context, dir string, env []string, args ...string) ([]byte, error) {
	return l.command(ctx, dir, env, "nice", append([]string{"-n", "10"}, args...)...)
}

// The stamp of a folder is a file that is written when the folder is complete.
const stampName = ".complete"

func stamp(dir, key string) error {
	return writeFiles(map[string][]byte{filepath.Join(dir, stampName): []byte(key)})
}

func stamped(dir, key string) bool {
	data, err := os.ReadFile(filepath.Join(dir, stampName))
	return err == nil && string(data) == key
}

// jupyterVersion returns the version of JupyterLab in requirements.txt.
func jupyterVersion() string {
	_, version, _ := strings.Cut(string(requirements), "\njupyterlab==")
	return strings.Fields(version)[0]
}

// hash returns a folder name that depends on all parts.
func hash(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

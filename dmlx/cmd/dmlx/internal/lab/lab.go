// Package lab sets up and runs JupyterLab with a Go kernel that uses this checkout.
//
// Everything it makes is in one folder of the cache: a Python environment with a pinned JupyterLab, the tools of
// go.mod's tool block (GoNB and goimports), a kernelspec for each checkout, and Jupyter's own configuration and data.
// The user's Jupyter and Go are not changed: the environment variables that lead there are set for the processes that
// this package starts, and nowhere else. Once set up it needs no network.
package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/internal/durable"
)

// Kernel is the kernelspec's name, which the notebooks' metadata carry, and KernelTitle what JupyterLab shows.
const (
	Kernel      = "dmlx"
	KernelTitle = "Go (dmlx)"
)

var (
	//go:embed requirements.txt
	requirements []byte
	//go:embed constraints.txt
	constraints []byte
	//go:embed overrides.json
	overrides []byte // JupyterLab's settings where they differ from its own: no look-ups on the network.
	//go:embed warmup.ipynb
	warmup []byte
	//go:embed execute.py
	executeScript []byte
)

// Lab is JupyterLab for one checkout of this module.
type Lab struct {
	Root  string // The checkout: the folder of go.mod.
	Cache string // The cache folder; everything is in its sub-folder lab.
	Store string // The run store that notebooks use; "" leaves it to them.
	// Preset is the preset that notebooks run at; "" leaves it to them.
	Preset string

	toolsDir string // Set by Setup.

	// Progress is called when a step of the set-up starts and, with done, when it has ended. It may be nil.
	Progress func(step string, done bool)
}

func (l *Lab) dir(parts ...string) string {
	return filepath.Join(append([]string{l.Cache, "lab"}, parts...)...)
}

// venv is the Python environment's folder: one for each set of pinned packages.
func (l *Lab) venv() string { return l.dir("python-" + hash(requirements, constraints)) }

// python is the environment's interpreter.
func (l *Lab) python() string { return filepath.Join(l.venv(), "bin", "python") }

// tools is the folder of GoNB and goimports: one for each version of them and of Go.
func (l *Lab) tools(versions string) string { return l.dir("tools-" + hash([]byte(versions))) }

// checkout is the folder of what depends on where the checkout lies: kernelspec and stamps.
func (l *Lab) checkout() string { return l.dir("checkout-" + hash([]byte(l.Root))) }

// Setup makes what is missing and returns how to run it. A second call with nothing missing takes milliseconds. It may
// be interrupted at any time: each part is stamped when it is complete, and made anew until it is.
func (l *Lab) Setup(ctx context.Context) error {
	if err := os.MkdirAll(l.dir("tmp"), 0o755); err != nil {
		return fmt.Errorf("the cache folder cannot be written: %w; set DMLX_CACHE to one that can", err)
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		return errors.New("no go command on PATH: notebook cells are compiled; install Go from https://go.dev/dl")
	}
	lock := flock.New(l.dir("lock"))
	if ok, err := lock.TryLock(); err != nil {
		return fmt.Errorf("locking %s: %w", l.dir("lock"), err)
	} else if !ok {
		l.step("waiting for another set-up to end", false)
		if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
			return err
		}
		l.step("waiting for another set-up to end", true)
	}
	defer func() { _ = lock.Unlock() }()
	l.sweep()

	if err := l.setupPython(ctx); err != nil {
		return err
	}
	versions, goFlags, err := l.goSettings(ctx, goTool)
	if err != nil {
		return err
	}
	l.toolsDir = l.tools(versions)
	if err := l.setupTools(ctx, goTool); err != nil {
		return err
	}
	if err := l.writeKernel(goFlags); err != nil {
		return err
	}
	return l.setupWarm(ctx, goTool, versions)
}

// setupPython makes the Python environment.
func (l *Lab) setupPython(ctx context.Context) error {
	dir := l.venv()
	if l.hasPython() {
		return nil
	}
	python, _, err := FindPython(ctx)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil { // Left by an interrupted set-up, or its Python has been removed.
		return err
	}
	step := "a Python environment with " + strings.Replace(firstRequirement("jupyterlab"), "==", " ", 1)
	l.step(step, false)
	if _, err := l.command(ctx, "", l.setupEnviron(), python, "-I", "-m", "venv", dir); err != nil {
		return fmt.Errorf("%s -m venv failed: %w", python, err)
	}
	for name, data := range map[string][]byte{"requirements.txt": requirements, "constraints.txt": constraints} {
		if err := durable.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	if _, err := l.command(ctx, dir, l.setupEnviron(), l.python(), pipArgs(dir)...); err != nil {
		return fmt.Errorf("pip could not install JupyterLab (the first set-up needs a network): %w", err)
	}
	settings := filepath.Join(dir, "share", "jupyter", "lab", "settings")
	if err := os.MkdirAll(settings, 0o755); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(settings, "overrides.json"), overrides, 0o644); err != nil {
		return err
	}
	l.step(step, true)
	return stamp(dir, "")
}

func (l *Lab) hasPython() bool {
	_, err := os.Stat(l.python()) // A link to the Python that made it.
	return err == nil && stamped(l.venv(), "")
}

// pipArgs install the requirements into the environment. The user's settings of pip go on saying where packages come
// from, but not where they go: arguments, even empty ones, go before the variables and files that may say so.
func pipArgs(dir string) []string {
	return []string{"-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-cache-dir",
		"--no-user", "--target=", "--prefix=" + dir, "-r", "requirements.txt", "-c", "constraints.txt"}
}

// FindPython finds a Python that can make the environment, or says what to install.
func FindPython(ctx context.Context) (path, version string, err error) {
	const install = "install Python 3.10 or newer with its venv module " +
		"(Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python)"
	const script = `import sys
version = "%d.%d.%d" % sys.version_info[:3]
if sys.version_info < (3, 10): sys.exit("is Python " + version)
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
	return "", "", fmt.Errorf("no fitting Python (%s): %s", strings.Join(why, "; "), install)
}

// goSettings are what the tools are built from, which is Go's version and those of the modules in go.mod, and the
// user's GOFLAGS.
func (l *Lab) goSettings(ctx context.Context, goTool string) (toolVersions, goFlags string, err error) {
	out, err := l.command(ctx, l.Root, nil, goTool, "env", "GOVERSION", "GOFLAGS")
	if err != nil {
		return "", "", fmt.Errorf("go env failed: %w", err)
	}
	goVersion, goFlags, _ := strings.Cut(string(out), "\n")
	mod, err := os.ReadFile(filepath.Join(l.Root, "go.mod"))
	if err != nil {
		return "", "", err
	}
	versions := []string{goVersion}
	for line := range strings.Lines(string(mod)) {
		if f := strings.Fields(line); len(f) >= 2 && (f[0] == "github.com/janpfeifer/gonb" || f[0] == "golang.org/x/tools") {
			versions = append(versions, f[0]+" "+f[1])
		}
	}
	return strings.Join(versions, "\n"), strings.TrimSpace(goFlags), nil
}

// setupTools installs go.mod's tool block.
func (l *Lab) setupTools(ctx context.Context, goTool string) error {
	dir := l.toolsDir
	if stamped(dir, "") {
		return nil
	}
	const step = "GoNB and goimports"
	l.step(step, false)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if _, err := l.command(ctx, l.Root, append(os.Environ(), "GOBIN="+dir), goTool, "install", "tool"); err != nil {
		return fmt.Errorf("go install tool failed: %w", err)
	}
	l.step(step, true)
	return stamp(dir, "")
}

// setupWarm runs a notebook that uses what notebooks use, so that Go's build cache is warm, and so that a set-up that
// does not work fails here. It is done again when the modules change.
func (l *Lab) setupWarm(ctx context.Context, goTool, versions string) error {
	key, err := l.warmKey(versions)
	if err != nil {
		return err
	}
	if stamped(l.checkout(), key) {
		return nil
	}
	const step = "the Go packages that notebooks use (compiled once)"
	l.step(step, false)
	// GoNB resolves all of go.mod's modules in a cell, where nothing is fetched, and building this program took some of
	// them alone.
	if _, err := l.command(ctx, l.Root, nil, goTool, "mod", "download"); err != nil {
		return fmt.Errorf("go mod download failed: %w", err)
	}
	notebook := filepath.Join(l.checkout(), "warmup.ipynb")
	if err := durable.WriteFile(notebook, warmup, 0o644); err != nil {
		return err
	}
	if err := l.Execute(ctx, notebook, ExecuteOptions{}); err != nil {
		return fmt.Errorf("the first cells failed: %w", err)
	}
	l.step(step, true)
	return stamp(l.checkout(), key)
}

// warmKey is the stamp of a checkout whose packages are compiled.
func (l *Lab) warmKey(versions string) (string, error) {
	inputs := []byte(versions)
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(l.Root, name))
		if err != nil {
			return "", err
		}
		inputs = append(inputs, data...)
	}
	return hash(inputs, warmup), nil
}

// sweep removes old logs, and what kernels and set-ups that were killed have left in the folder for temporary files.
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

func (l *Lab) step(step string, done bool) {
	if l.Progress != nil {
		l.Progress(step, done)
	}
}

// command runs a program of the set-up in a folder, with this program's environment if env is nil, and returns its
// standard output. An error's text is the last line of standard error or, if nothing is there, of standard output.
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
		return nil, errors.New(text.LastLine(stdout.String()+"\n"+stderr.String(), err))
	}
	return stdout.Bytes(), nil
}

// The stamp of a folder is a file that is written when the folder is complete.
const stampName = ".complete"

func stamp(dir, key string) error {
	return durable.WriteFile(filepath.Join(dir, stampName), []byte(key), 0o644)
}

func stamped(dir, key string) bool {
	data, err := os.ReadFile(filepath.Join(dir, stampName))
	return err == nil && string(data) == key
}

// firstRequirement is the line of requirements.txt that names a package.
func firstRequirement(name string) string {
	for line := range strings.Lines(string(requirements)) {
		if strings.HasPrefix(line, name+"==") {
			return strings.TrimSpace(line)
		}
	}
	return name
}

// hash names a folder after what it depends on.
func hash(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

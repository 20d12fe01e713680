// Package doctor examines what a machine offers to this program: backends, compilers, Python, JupyterLab, folders.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/checkout"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/lab"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/internal/buildinfo"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// BuildWithSIMD returns the command that builds this program with SIMD for the Go backend: in a checkout, or of the
// version that was installed.
func BuildWithSIMD() string {
	command := "GOEXPERIMENT=simd go install "
	if version.Compare(runtime.Version(), "go1.27") >= 0 {
		command = "GOTOOLCHAIN=" + lab.SIMDToolchain + " " + command
	}
	if built := buildinfo.Get(); built.Sum != "" {
		return fmt.Sprintf("%s%s/dmlx/cmd/dmlx@%s", command, buildinfo.Module, built.Version)
	}
	return command + "./dmlx/cmd/dmlx"
}

// Report is what doctor prints; its JSON is the command's.
type Report struct {
	Backend   *backend.Choice   `json:"backend"` // Nil if none starts.
	Error     string            `json:"error,omitempty"`
	SIMD      string            `json:"go_backend_simd"`        // "yes", or "no" and the reason.
	GetSIMD   string            `json:"simd_command,omitempty"` // The command that builds this program with SIMD.
	Versions  map[string]string `json:"versions"`
	Go        string            `json:"go_command"`
	CCompiler string            `json:"c_compiler"`
	CGO       bool              `json:"xla_linked"`
	Plugins   []string          `json:"pjrt_plugins"`
	GPU       string            `json:"nvidia_gpu,omitempty"`
	Python    string            `json:"python"`
	Lab       *lab.Status       `json:"lab,omitempty"` // Nil if cells could not be compiled here.
	Cache     string            `json:"cache"`         // Folders.
	Store     string            `json:"store"`
	Missing   []Missing         `json:"missing"`
}

// Missing is something that this machine lacks: its name and purpose, and how to get it.
type Missing struct {
	What string `json:"what"`
	How  string `json:"how"`
}

// modules are the modules whose versions can change results, with the names that doctor prints.
var modules = map[string]string{
	"github.com/gomlx/gomlx": "gomlx", "github.com/gomlx/compute": "compute", "github.com/gomlx/go-xla": "go-xla",
	"github.com/janpfeifer/gonb": "gonb", "gonum.org/v1/plot": "gonum/plot",
}

// Examine examines this machine. store is the path of the run store; l is nil if cells could not be compiled here.
func Examine(ctx context.Context, store string, l *lab.Lab) *Report {
	goVersion := strings.TrimPrefix(runtime.Version(), "go") + " " + runtime.GOOS + "/" + runtime.GOARCH
	r := &Report{
		Versions:  map[string]string{"go": goVersion},
		Plugins:   append([]string{}, backend.Plugins()...),
		GPU:       nvidiaGPU(),
		CGO:       backend.Linked("xla"),
		CCompiler: firstOnPath(os.Getenv("CC"), "gcc", "clang", "cc"),
		Go:        firstOnPath("go"),
		Missing:   []Missing{},
	}
	if c, err := backend.Open(); err != nil {
		r.Error = text.OneLine(err.Error())
	} else {
		r.Backend = c
	}
	r.moduleVersions()
	switch {
	case backend.SIMD:
		r.SIMD = "yes"
	case runtime.GOARCH != "amd64":
		r.SIMD = "not on " + runtime.GOARCH
	default:
		r.SIMD, r.GetSIMD = "no, this program was built without it", BuildWithSIMD()
	}
	if path, version, err := lab.FindPython(ctx); err != nil {
		r.lacks("Python for JupyterLab", text.OneLine(err.Error()))
	} else {
		r.Python, r.Versions["python"] = path, version
	}
	if l != nil {
		s := l.Status(ctx)
		r.Lab = &s
		if !s.Ready {
			command := "go run ./dmlx/cmd/dmlx/lab"
			if l.Folder != "" { // Outside a checkout.
				command = "dmlx lab"
			}
			r.lacks("JupyterLab's set-up, for the notebooks (not yet installed: "+s.Missing+")",
				"run "+command+"; it needs a network and takes some minutes")
		}
	}
	if cache, err := datasets.CacheDir(); err == nil {
		r.Cache = cache
	} else {
		r.lacks("a cache folder", text.OneLine(err.Error()))
	}
	if store, err := filepath.Abs(store); err == nil {
		r.Store = store
	}
	r.backendLacks()
	return r
}

// moduleVersions sets the versions of the modules that this program was built with. GoNB is not linked into it: its
// version is read from go.mod.
func (r *Report) moduleVersions() {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return
	}
	r.Versions["dmlx"] = strings.Trim(runs.Version(), "()")
	if root, err := checkout.Root(); err == nil {
		if data, err := os.ReadFile(filepath.Join(root, "go.mod")); err == nil {
			for line := range strings.Lines(string(data)) {
				if f := strings.Fields(line); len(f) >= 2 && modules[f[0]] != "" {
					r.Versions[modules[f[0]]] = f[1]
				}
			}
		}
	}
	for _, m := range info.Deps {
		if name := modules[m.Path]; name != "" {
			r.Versions[name] = m.Version
		}
	}
}

// nvidiaGPU returns the model of the first NVIDIA GPU, or "" if the driver lists none.
func nvidiaGPU() string {
	files, _ := filepath.Glob("/proc/driver/nvidia/gpus/*/information")
	for _, file := range files {
		data, _ := os.ReadFile(file)
		for line := range strings.Lines(string(data)) {
			if model, ok := strings.CutPrefix(line, "Model:"); ok {
				return strings.TrimSpace(model)
			}
		}
	}
	if _, err := os.Stat("/proc/driver/nvidia/version"); err == nil {
		return "NVIDIA"
	}
	return ""
}

// backendLacks adds what a faster backend would need.
func (r *Report) backendLacks() {
	if r.Go == "" {
		r.lacks("the go command", "install Go from https://go.dev/dl; notebook cells are compiled with it")
	}
	cuda := slices.ContainsFunc(r.Plugins, func(p string) bool { return strings.Contains(filepath.Base(p), "cuda") })
	xla := r.Backend != nil && strings.HasPrefix(r.Backend.Name, "xla")
	switch {
	case !r.CGO && r.CCompiler == "":
		r.lacks("a C compiler, for the XLA backend",
			"Debian, Ubuntu: apt install gcc; macOS: xcode-select --install. Everything else works without it")
	case !r.CGO:
		r.lacks("the XLA backend in this program", "build it with CGO_ENABLED=1 and without the tag noxla; go-xla has "+
			"plugins for linux and darwin/arm64")
	case !xla && len(r.Plugins) == 0:
		r.lacks("a PJRT plugin, for the XLA backend", "run doctor with a network: go-xla then downloads one; or set "+
			"GOMLX_BACKEND=xla:/path/to/plugin.so to a plugin that you have")
	}
	if r.GPU != "" && !cuda && !(xla && strings.Contains(r.Backend.Name, "cuda")) {
		r.lacks("a CUDA plugin, for the NVIDIA GPU", "run doctor with a network: go-xla then downloads one; "+
			`or pip install "jax[cuda12]" into a Python environment and set `+
			`GOMLX_BACKEND=xla:<its site-packages>/jax_plugins/xla_cuda12/xla_cuda_plugin.so`)
	}
}

func (r *Report) lacks(what, how string) {
	r.Missing = append(r.Missing, Missing{what, how})
}

// Text returns the report as lines of text.
func (r *Report) Text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	name := "" // Of the backend.
	if r.Backend != nil {
		name = r.Backend.Name
		line("backend", "%s (%s)", name, r.Backend.Why)
		for i, d := range r.Backend.Devices {
			line("device", "%d: %s", i, d)
		}
	} else {
		line("backend", "none: %s", r.Error)
	}
	if name == "go" || name == "" { // No other backend uses it.
		line("SIMD", "%s", r.SIMD)
		if r.GetSIMD != "" {
			line("", "with SIMD matrix products are about ten times as fast: %s", r.GetSIMD)
		}
	}
	line("versions", "%s", strings.Join(r.versionList(), ", "))
	line("C compiler", "%s", cmp.Or(r.CCompiler, "none"))
	line("XLA plugins", "%s", cmp.Or(strings.Join(r.Plugins, ", "), "none"))
	if r.GPU != "" {
		line("GPU", "%s", r.GPU)
	}
	line("Python", "%s", cmp.Or(strings.TrimSpace(r.Versions["python"]+" "+r.Python), "none"))
	switch {
	case r.Lab == nil:
		line("JupyterLab", "unknown: neither a checkout of %s nor the sources of this program are here", checkout.Module)
	case r.Lab.Ready:
		line("JupyterLab", "%s with Python %s, set up", r.Lab.Jupyter, r.Lab.Python)
		line("", "cells are compiled by %s", r.Lab.Cells)
	default:
		line("JupyterLab", "not set up")
	}
	line("cache", "%s", r.Cache)
	line("run store", "%s", r.Store)
	if len(r.Missing) == 0 && r.Backend != nil {
		line("missing", "nothing")
	}
	for _, m := range r.Missing {
		line("missing", "%s", m.What)
		line("", "%s", m.How)
	}
	return b.String()
}

func (r *Report) versionList() []string {
	list := []string{}
	for _, name := range []string{"go", "dmlx", "gomlx", "compute", "go-xla", "gonb", "gonum/plot"} {
		if v := r.Versions[name]; v != "" {
			list = append(list, name+" "+v)
		}
	}
	return list
}

// firstOnPath returns the path of the first program that exists, or "".
func firstOnPath(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

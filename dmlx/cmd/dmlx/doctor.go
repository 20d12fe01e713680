package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/host"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/lab"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// report is what doctor tells; its JSON is the command's.
type report struct {
	Backend   *backend.Choice   `json:"backend"` // Null if none starts.
	Error     string            `json:"error,omitempty"`
	SIMD      string            `json:"go_backend_simd"`          // "yes", or "no" and why.
	GetSIMD   string            `json:"simd_command,omitempty"`   // The command that builds this program with SIMD.
	HugePages string            `json:"huge_pages"`               // "yes", or "no" and why.
	GetPages  string            `json:"huge_pages_env,omitempty"` // The environment variable that gets them.
	Versions  map[string]string `json:"versions"`
	Go        string            `json:"go_command"`
	CCompiler string            `json:"c_compiler"`
	CGO       bool              `json:"xla_linked"`
	Plugins   []string          `json:"pjrt_plugins"`
	GPU       string            `json:"nvidia_gpu,omitempty"`
	Python    string            `json:"python"`
	Lab       *lab.Status       `json:"lab,omitempty"` // Null outside a checkout.
	Cache     folder            `json:"cache"`
	Store     folder            `json:"store"`
	Missing   []missing         `json:"missing"`
}

type folder struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

// missing is something that is not there, what for, and how to get it.
type missing struct {
	What string `json:"what"`
	How  string `json:"how"`
}

func newDoctor(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "doctor",
		Short:   "Say which backend computes, which versions there are, and what is missing",
		Example: "  dmlx doctor\n  dmlx doctor --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := a.examine(cmd)
			if err := a.print(r, strings.TrimRight(r.text(), "\n")); err != nil {
				return err
			}
			if r.Backend == nil {
				return fmt.Errorf("nothing can be computed here: %s", r.Error)
			}
			return nil
		},
	}
}

// modules are those whose versions matter to what comes out, by the names that doctor gives them.
var modules = map[string]string{
	"github.com/gomlx/gomlx": "gomlx", "github.com/gomlx/compute": "compute", "github.com/gomlx/go-xla": "go-xla",
	"github.com/janpfeifer/gonb": "gonb", "gonum.org/v1/plot": "gonum/plot",
}

func (a *app) examine(cmd *cobra.Command) *report {
	r := &report{
		Versions: map[string]string{"go": strings.TrimPrefix(runtime.Version(),
			"go") + " " + runtime.GOOS + "/" + runtime.GOARCH},
		Plugins:   append([]string{}, backend.Plugins()...),
		GPU:       nvidiaGPU(),
		CGO:       backend.Linked("xla"),
		CCompiler: firstOnPath(os.Getenv("CC"), "gcc", "clang", "cc"),
		Go:        firstOnPath("go"),
		Missing:   []missing{},
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
		r.SIMD, r.GetSIMD = "no, this program was built without it", buildWithSIMD
	}
	var tunables string
	if r.HugePages, tunables = host.HugePages(); tunables != "" {
		r.GetPages = host.TunablesEnv + "=" + tunables
	}
	if path, version, err := lab.FindPython(cmd.Context()); err != nil {
		r.lacks("Python for JupyterLab", text.OneLine(err.Error()))
	} else {
		r.Python, r.Versions["python"] = path, version
	}
	if l, err := a.lab(); err == nil {
		s := l.Status(cmd.Context())
		r.Lab = &s
		if !s.Ready {
			r.lacks("JupyterLab's set-up: "+s.Missing,
				"run go run ./dmlx/cmd/dmlx lab, which sets it up (with a network, in some minutes)")
		}
	}
	if cache, err := datasets.CacheDir(); err == nil {
		r.Cache = folder{cache, size(cache)}
	} else {
		r.lacks("a cache folder", text.OneLine(err.Error()))
	}
	if store, err := filepath.Abs(a.storePath()); err == nil {
		r.Store = folder{store, size(store)}
	}
	r.backendLacks()
	return r
}

// moduleVersions are those that this program was built with, and of GoNB, which it does not link, that of go.mod.
func (r *report) moduleVersions() {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return
	}
	r.Versions["dmlx"] = strings.Trim(runs.Version(), "()")
	if root, err := moduleRoot(); err == nil {
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

// nvidiaGPU is the model of the first NVIDIA GPU, "" if the driver knows of none.
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

// backendLacks says what keeps a faster backend from being used.
func (r *report) backendLacks() {
	if r.Go == "" {
		r.lacks("the go command", "install Go from https://go.dev/dl: notebook cells are compiled with it")
	}
	cuda := false
	for _, p := range r.Plugins {
		cuda = cuda || strings.Contains(filepath.Base(p), "cuda")
	}
	xla := r.Backend != nil && strings.HasPrefix(r.Backend.Name, "xla")
	switch {
	case !r.CGO && r.CCompiler == "":
		r.lacks("a C compiler, for the XLA backend",
			"Debian, Ubuntu: apt install gcc; macOS: xcode-select --install; all else works without it")
	case !r.CGO:
		r.lacks("the XLA backend in this program", "build it with cgo (CGO_ENABLED=1, without the tag noxla), where "+
			"go-xla has a plugin: linux, darwin/arm64")
	case !xla && len(r.Plugins) == 0:
		r.lacks("a PJRT plugin, for the XLA backend", "go-xla downloads one when it is first used with a network; "+
			"or set GOMLX_BACKEND=xla:/path/to/plugin.so to one that you have")
	}
	if r.GPU != "" && !cuda && !(xla && strings.Contains(r.Backend.Name, "cuda")) {
		r.lacks("a CUDA plugin, for the NVIDIA GPU", "go-xla downloads one when it is first used with a network; "+
			`or pip install "jax[cuda12]" into a Python environment and set `+
			`GOMLX_BACKEND=xla:<its site-packages>/jax_plugins/xla_cuda12/xla_cuda_plugin.so`)
	}
}

func (r *report) lacks(what, how string) {
	r.Missing = append(r.Missing, missing{what, how})
}

func (r *report) text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	if r.Backend != nil {
		line("backend", "%s", strings.TrimPrefix(r.Backend.String(), "backend "))
		for i, d := range r.Backend.Devices {
			line("device", "%d: %s", i, d)
		}
	} else {
		line("backend", "none: %s", r.Error)
	}
	line("SIMD", "Go backend: %s", r.SIMD)
	if r.GetSIMD != "" {
		line("", "in the repository: %s", r.GetSIMD)
	}
	line("huge pages", "XLA on a CPU: %s", r.HugePages)
	if r.GetPages != "" {
		line("", "before the command: export %s", r.GetPages)
	}
	line("versions", "%s", strings.Join(r.versionList(), ", "))
	line("C compiler", "%s", orNone(r.CCompiler))
	line("plugins", "%s", orNone(strings.Join(r.Plugins, ", ")))
	if r.GPU != "" {
		line("GPU", "%s", r.GPU)
	}
	line("Python", "%s", orNone(strings.TrimSpace(r.Versions["python"]+" "+r.Python)))
	if r.Lab != nil && r.Lab.Ready {
		line("JupyterLab", "%s with Python %s, set up", r.Lab.Jupyter, r.Lab.Python)
	} else {
		line("JupyterLab", "not set up")
	}
	line("cache", "%s (%s)", r.Cache.Path, bytesText(r.Cache.Bytes))
	line("store", "%s (%s)", r.Store.Path, bytesText(r.Store.Bytes))
	if len(r.Missing) == 0 && r.Backend != nil {
		line("missing", "nothing")
	}
	for _, m := range r.Missing {
		line("missing", "%s: %s", m.What, m.How)
	}
	return b.String()
}

func (r *report) versionList() []string {
	list := []string{}
	for _, name := range []string{"go", "dmlx", "gomlx", "compute", "go-xla", "gonb", "gonum/plot"} {
		if v := r.Versions[name]; v != "" {
			list = append(list, name+" "+v)
		}
	}
	return list
}

// firstOnPath is the path of the first program that there is, "" if there is none.
func firstOnPath(names ...string) string {
	for _, name := range names {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// size is the sum of a folder's files.
func size(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}

func bytesText(n int64) string {
	switch {
	case n == 0:
		return "empty"
	case n < 1<<20:
		return fmt.Sprintf("%d kB", (n+1023)>>10)
	case n < 1<<30:
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

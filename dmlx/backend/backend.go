// Package backend chooses the GoMLX backend.
//
// The choice is GOMLX_BACKEND if it is set, else XLA if it is linked and starts, else the pure-Go backend, which always
// starts; for light work on a CPU it is the Go backend, see [OpenLight]. XLA is linked by importing
// [github.com/gradient-surgery/dml/dmlx/backend/xla] for its side effect.
package backend

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // The Go backend.

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
)

// Choice is a backend and the reason for its choice.
type Choice struct {
	Backend compute.Backend `json:"-"`
	// Name is "go", "xla:cpu", "xla:cuda", …, as in the results of runs.
	Name string `json:"name"`
	// Devices describes each device that the backend sees.
	Devices []string `json:"devices"`
	// Why is the reason for the choice, with the backends that did not start.
	Why string `json:"why"`
	// SIMD tells whether the program was built with GOEXPERIMENT=simd, which makes the Go backend's matrix products fast.
	SIMD bool `json:"simd"`
}

// String returns the choice on one line.
func (c *Choice) String() string {
	device := "no device"
	if len(c.Devices) > 0 {
		device = c.Devices[0]
	}
	if len(c.Devices) > 1 {
		device += fmt.Sprintf(" and %d more", len(c.Devices)-1)
	}
	simd := ""
	if c.Name == "go" && runtime.GOARCH == "amd64" {
		simd = ", without SIMD"
		if c.SIMD {
			simd = ", with SIMD"
		}
	}
	return fmt.Sprintf("backend %s (%s%s): %s", c.Name, device, simd, c.Why)
}

// AutoInstall turns go-xla's download of PJRT plugins on or off. Package xla sets it if XLA is linked.
var AutoInstall func(on bool)

// Open starts the backend: GOMLX_BACKEND if it is set, else XLA if it is linked and starts, else Go. It returns an
// error if the backend that GOMLX_BACKEND names does not start; it never replaces that one by another.
func Open() (*Choice, error) {
	if config, set := os.LookupEnv(compute.ConfigEnvVar); set && config != "" {
		b, err := start(config)
		if err != nil {
			return nil, fmt.Errorf("%s=%q does not start: %w; unset it, or set it to one of %s",
				compute.ConfigEnvVar, config, errs.Error(err), strings.Join(compute.List(), ", "))
		}
		return choice(b, config, compute.ConfigEnvVar+" is set to "+config), nil
	}
	why := "XLA is not linked into this program"
	if Linked("xla") {
		b, err := start("xla")
		if err == nil {
			return choice(b, "xla", "XLA starts"), nil
		}
		why = "XLA does not start: " + errs.Error(err).Error()
	}
	return openGo(why)
}

// OpenLight is [Open] for work that takes less time on the Go backend than XLA takes to compile it for a CPU. Unless
// GOMLX_BACKEND is set or the machine has an NVIDIA GPU, it starts the Go backend.
func OpenLight() (*Choice, error) {
	if os.Getenv(compute.ConfigEnvVar) != "" || nvidia() || !Linked("xla") {
		return Open()
	}
	return openGo("XLA would take longer to compile than Go takes to train; " + compute.ConfigEnvVar + "=xla chooses XLA")
}

func openGo(why string) (*Choice, error) {
	b, err := start("go")
	if err != nil {
		return nil, fmt.Errorf("the Go backend does not start: %w", err)
	}
	return choice(b, "go", why), nil
}

// Go starts the pure-Go backend without regard to GOMLX_BACKEND, for work that takes less time than the start of XLA.
func Go() (compute.Backend, error) { return start("go") }

// Linked tells whether the backend of that name, "xla" or "go", is part of this program.
func Linked(name string) bool { return slices.Contains(compute.List(), name) }

// start calls compute.NewWithConfig. A failed backend is nil, a panic becomes an error, a plugin is downloaded only if
// none is installed and the network answers, and go-xla's messages go to standard error.
func start(config string) (b compute.Backend, err error) {
	defer func() {
		if r := recover(); r != nil {
			b, err = nil, errs.Panicked(r)
		}
	}()
	if strings.HasPrefix(config, "xla") {
		if limit := addressSpace(); limit < xlaAddressSpace {
			return nil, fmt.Errorf("it needs 4 GB of address space, and ulimit -v allows %.1f GB", float64(limit)/1e9)
		}
	}
	if strings.HasPrefix(config, "xla") && AutoInstall != nil && !filepath.IsAbs(strings.TrimPrefix(config, "xla:")) {
		if !needsDownload() || !reachable() { // go-xla would download its own version beside one that works.
			AutoInstall(false)
		}
		stdout := os.Stdout
		os.Stdout = os.Stderr
		defer func() { os.Stdout = stdout }()
	}
	if kind, options, _ := strings.Cut(config, ":"); kind == "go" && !strings.Contains(options, "ops_") {
		// Operations run one after the other, each on all cores. Parallel operations wait for each other's workers, and
		// gomlx/compute v0.1.3 could then hang: on two cores a ResNet-18 did. With v0.1.6 one run of it ended.
		config = strings.TrimSuffix("go:ops_sequential,"+options, ",")
	}
	if kind, options, _ := strings.Cut(config, ":"); kind == "xla" && !strings.Contains(options, "tf32") {
		// By default go-xla's matrix products on CUDA have a mantissa of ten bits, and 2−2S of equal rows is not 0.
		config = "xla:" + options + ",tf32=false"
	}
	b, err = compute.NewWithConfig(config)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// xlaAddressSpace is the address space that XLA needs to start, in bytes. With less its C code aborts the program
// instead of returning an error: at 3 GB XLA for the CPU failed, at 4 GB it trained.
const xlaAddressSpace = 3_900_000_000

// needsDownload tells whether go-xla would download a plugin at its start: it finds no CPU plugin, or no CUDA plugin on
// a machine with an NVIDIA GPU.
func needsDownload() bool {
	installed := func(kind string) bool {
		return slices.ContainsFunc(Plugins(), func(p string) bool { return strings.Contains(filepath.Base(p), kind) })
	}
	return !installed("cpu") || nvidia() && !installed("cuda")
}

// nvidia tells whether the machine has an NVIDIA GPU with a driver.
func nvidia() bool {
	_, err := os.Stat("/proc/driver/nvidia")
	return err == nil
}

// pluginDirs returns the folders in which go-xla looks for plugins.
func pluginDirs() []string {
	dirs := filepath.SplitList(os.Getenv("PJRT_PLUGIN_LIBRARY_PATH"))
	dirs = append(dirs, "/usr/local/lib/go-xla")
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, filepath.Join(home, ".local/lib/go-xla"),
			filepath.Join(home, "Library/Application Support/go-xla"))
	}
	return dirs
}

// Plugins returns the PJRT plugin files that go-xla finds, which looks into no folders within its folders. A lock that
// a download has left is none.
func Plugins() []string {
	var out []string
	for _, dir := range pluginDirs() {
		found, _ := filepath.Glob(filepath.Join(dir, "pjrt*plugin*"))
		out = append(out, found...)
	}
	return slices.DeleteFunc(out, func(path string) bool { return filepath.Ext(path) == ".lock" })
}

func choice(b compute.Backend, config, why string) *Choice {
	name, _, _ := strings.Cut(config, ":")
	c := &Choice{Backend: b, Name: name, Why: why, SIMD: SIMD, Devices: devices(b)}
	if c.Name == "xla" {
		c.Name += ":" + Platform(b)
	}
	return c
}

// Platform returns the platform of an XLA backend: "cpu", "cuda", "rocm", "tpu" or "metal".
func Platform(b compute.Backend) string {
	platform := "cpu"
	about := strings.ToLower(b.Description() + " " + strings.Join(devices(b), " "))
	for _, p := range []string{"cuda", "rocm", "tpu", "metal"} {
		if strings.Contains(about, p) {
			platform = p
		}
	}
	return platform
}

func devices(b compute.Backend) []string {
	var out []string
	for d := range b.NumDevices() {
		out = append(out, strings.TrimSpace(b.DeviceDescription(compute.DeviceNum(d))))
	}
	return out
}

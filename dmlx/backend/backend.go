// Package backend chooses the GoMLX backend that everything here computes on.
//
// The choice is GOMLX_BACKEND if it is set, else XLA if it is linked and starts, else the pure-Go backend, which is
// always there. XLA is linked by importing [github.com/gradient-surgery/dml/dmlx/backend/xla] for its side effect.
package backend

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // The backend that needs no C and no plugin.

	"github.com/gradient-surgery/dml/dmlx/internal/brief"
)

// Choice says which backend runs and why.
type Choice struct {
	Backend compute.Backend `json:"-"`
	// Name is "go", "xla:cpu", "xla:cuda", …: what results carry.
	Name string `json:"name"`
	// Devices describes each device that the backend sees.
	Devices []string `json:"devices"`
	// Why says what decided, and what was tried before it.
	Why string `json:"why"`
	// SIMD is true if the program was built with GOEXPERIMENT=simd, which the Go backend's products need to be fast.
	SIMD bool `json:"simd"`
}

// String is the choice on one line.
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

// AutoInstall switches go-xla's own download of PJRT plugins on or off. Package xla sets it where XLA is linked.
var AutoInstall func(on bool)

// Open starts the backend: GOMLX_BACKEND if set, else XLA if linked and able to start, else Go. It fails only if
// GOMLX_BACKEND names something that does not start: a wish is not silently replaced by something else.
func Open() (*Choice, error) {
	if config, set := os.LookupEnv(compute.ConfigEnvVar); set && config != "" {
		b, err := start(config)
		if err != nil {
			return nil, fmt.Errorf("%s=%q does not start: %w; unset it, or set it to one of %s",
				compute.ConfigEnvVar, config, brief.Error(err), strings.Join(compute.List(), ", "))
		}
		return choice(b, config, compute.ConfigEnvVar+" is set to "+config), nil
	}
	why := "XLA is not linked into this program"
	if Linked("xla") {
		b, err := start("xla")
		if err == nil {
			return choice(b, "xla", "XLA starts"), nil
		}
		why = "XLA does not start: " + brief.Error(err).Error()
	}
	b, err := start("go")
	if err != nil {
		return nil, fmt.Errorf("the Go backend does not start: %w", err)
	}
	return choice(b, "go", why), nil
}

// Go starts the pure-Go backend, whatever GOMLX_BACKEND says: for work so small that starting another costs more.
func Go() (compute.Backend, error) { return start("go") }

// Linked tells whether the backend of that name ("xla", "go") is part of this program.
func Linked(name string) bool { return slices.Contains(compute.List(), name) }

// start is compute.NewWithConfig without its traps: a failed backend is nil, a panic is an error, the plugin's
// download is tried only where it can be reached, and what it prints goes to standard error.
func start(config string) (b compute.Backend, err error) {
	defer func() {
		if r := recover(); r != nil {
			b, err = nil, brief.Panicked(r)
		}
	}()
	if strings.HasPrefix(config, "xla") && AutoInstall != nil && !filepath.IsAbs(strings.TrimPrefix(config, "xla:")) {
		if needsDownload() && !reachable() {
			AutoInstall(false)
		}
		stdout := os.Stdout
		os.Stdout = os.Stderr
		defer func() { os.Stdout = stdout }()
	}
	if kind, options, _ := strings.Cut(config, ":"); kind == "go" && !strings.Contains(options, "ops_") {
		// Operations one after the other, each on all cores: those that run at once wait for each other's workers, and on
		// two cores a ResNet-18 has been seen to wait for ever (gomlx/compute v0.1.0).
		config = strings.TrimSuffix("go:ops_sequential,"+options, ",")
	}
	if kind, options, _ := strings.Cut(config, ":"); kind == "xla" && !strings.Contains(options, "tf32") {
		// On CUDA go-xla's matrix products have ten bits of mantissa unless told otherwise, and 2−2S of equal rows is no 0
		// then.
		config = "xla:" + options + ",tf32=false"
	}
	b, err = compute.NewWithConfig(config)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// needsDownload tells whether go-xla would go to the network at its start: no CPU plugin where it looks, or an NVIDIA
// GPU without a CUDA plugin.
func needsDownload() bool {
	installed := func(kind string) bool {
		for _, dir := range pluginDirs() {
			if found, _ := filepath.Glob(filepath.Join(dir, "pjrt*"+kind+"*plugin*")); len(found) > 0 {
				return true
			}
		}
		return false
	}
	gpu := false
	if _, err := os.Stat("/proc/driver/nvidia"); err == nil {
		gpu = true
	}
	return !installed("cpu") || gpu && !installed("cuda")
}

// pluginDirs are the folders in which go-xla looks for plugins.
func pluginDirs() []string {
	dirs := filepath.SplitList(os.Getenv("PJRT_PLUGIN_LIBRARY_PATH"))
	dirs = append(dirs, "/usr/local/lib/go-xla")
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, filepath.Join(home, ".local/lib/go-xla"),
			filepath.Join(home, "Library/Application Support/go-xla"))
	}
	return dirs
}

// Plugins lists the PJRT plugin files that go-xla would find.
func Plugins() []string {
	var out []string
	for _, dir := range pluginDirs() {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasPrefix(d.Name(), "pjrt") && strings.Contains(d.Name(), "plugin") {
				out = append(out, path)
			}
			return nil
		})
	}
	return out
}

// reachable tells within seconds whether the host of the plugins answers; without it go-xla waits for minutes.
func reachable() bool {
	conn, err := net.DialTimeout("tcp", "github.com:443", 2*time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func choice(b compute.Backend, config, why string) *Choice {
	name, _, _ := strings.Cut(config, ":")
	c := &Choice{Backend: b, Name: name, Why: why, SIMD: SIMD, Devices: devices(b)}
	if c.Name == "xla" {
		c.Name += ":" + Platform(b)
	}
	return c
}

// Platform is what an XLA backend computes on: "cpu", "cuda", "rocm", "tpu" or "metal".
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

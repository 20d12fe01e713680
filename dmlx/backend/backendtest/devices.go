package backendtest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/backend"
)

// devicesEnv is set in the process that [OnDevices] starts.
const devicesEnv = "DMLX_TEST_DEVICES"

// OnDevices returns the default backend with n virtual CPU devices, or nil where the test should return at once: XLA
// counts its devices when it starts, so that the test runs again in a process of its own, whose failure is the test's.
// flags are further XLA_FLAGS. The test is skipped without XLA on a CPU, and with -short. It must not be a subtest.
func OnDevices(t *testing.T, n int, flags ...string) *backend.Choice {
	t.Helper()
	if os.Getenv(devicesEnv) == t.Name() {
		c, err := backend.Open()
		if err != nil {
			t.Fatal(err)
		}
		if c.Name != "xla:cpu" {
			t.Skipf("the backend %s has no virtual devices; want xla:cpu", c.Name)
		}
		if got := c.Backend.NumDevices(); got != n {
			t.Fatalf("%d devices, want %d", got, n)
		}
		return c
	}
	if testing.Short() {
		t.Skip("compiles for several devices, in seconds each")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	// A loaded machine may keep one device waiting for another for longer than the 40 s after which XLA gives up.
	flags = append(flags, fmt.Sprintf("--xla_force_host_platform_device_count=%d", n),
		"--xla_cpu_collective_call_terminate_timeout_seconds=1200")
	cmd.Env = append(os.Environ(), devicesEnv+"="+t.Name(), "TF_CPP_MIN_LOG_LEVEL=2",
		"XLA_FLAGS="+strings.Join(append(flags, os.Getenv("XLA_FLAGS")), " "))
	out, err := cmd.CombinedOutput()
	switch text := strings.TrimSpace(string(out)); {
	case err != nil:
		t.Errorf("on %d virtual devices: %v\n%s", n, err, text)
	case strings.Contains(text, "--- SKIP: "+t.Name()+" "):
		t.Skipf("on %d virtual devices: %s", n, text)
	default:
		t.Log(text)
	}
	return nil
}

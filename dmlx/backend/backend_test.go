package backend_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/backend"
	_ "github.com/gradient-surgery/dml/dmlx/backend/xla"
)

func TestOpenAlwaysFindsABackend(t *testing.T) {
	t.Setenv("GOMLX_BACKEND", "")
	c, err := backend.Open()
	if err != nil {
		t.Fatal(err)
	}
	if c.Backend == nil || c.Name == "" || len(c.Devices) == 0 {
		t.Errorf("incomplete choice: %+v", c)
	}
	if strings.Contains(c.String(), "\n") {
		t.Errorf("not one line: %q", c)
	}
	t.Log(c)
}

func TestOpenObeysTheEnvironment(t *testing.T) {
	t.Setenv("GOMLX_BACKEND", "go")
	c, err := backend.Open()
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != "go" {
		t.Errorf("GOMLX_BACKEND=go opened %s", c.Name)
	}
	t.Setenv("GOMLX_BACKEND", "abacus")
	if c, err := backend.Open(); err == nil {
		t.Errorf("GOMLX_BACKEND=abacus opened %s", c.Name)
	} else if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "abacus") {
		t.Errorf("unclear error: %v", err)
	}
}

func TestPluginsAreNoLocks(t *testing.T) {
	dir := t.TempDir()
	plugin := filepath.Join(dir, "pjrt_c_api_cpu_v1_plugin.so")
	within := filepath.Join(dir, "within", "pjrt_c_api_cpu_plugin.so") // Where go-xla does not look.
	if err := os.Mkdir(filepath.Dir(within), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{plugin, plugin + ".lock", within} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PJRT_PLUGIN_LIBRARY_PATH", dir)
	if all := backend.Plugins(); !slices.Contains(all, plugin) || slices.Contains(all, plugin+".lock") ||
		slices.Contains(all, within) {
		t.Errorf("plugins %v, want %s without its lock and without %s", all, plugin, within)
	}
}

// Light work is for the Go backend, unless the user or a GPU says otherwise.
func TestOpenLight(t *testing.T) {
	if _, err := os.Stat("/proc/driver/nvidia"); err == nil {
		t.Skip("a machine with a GPU uses it")
	}
	for config, want := range map[string]string{"": "GOMLX_BACKEND=xla", "go": "GOMLX_BACKEND is set to go"} {
		t.Setenv("GOMLX_BACKEND", config)
		c, err := backend.OpenLight()
		unlinked := err == nil && config == "" && strings.Contains(c.Why, "XLA is not linked") // Without a C compiler.
		if err != nil || c.Name != "go" || !strings.Contains(c.Why, want) && !unlinked {
			t.Errorf("GOMLX_BACKEND=%q: %v, %v", config, c, err)
		}
	}
	t.Setenv("GOMLX_BACKEND", "abacus")
	if c, err := backend.OpenLight(); err == nil {
		t.Errorf("GOMLX_BACKEND=abacus opened %s", c.Name)
	}
}

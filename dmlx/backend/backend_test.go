package backend_test

import (
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

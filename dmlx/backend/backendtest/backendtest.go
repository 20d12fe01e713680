// Package backendtest runs tests on the Go backend and on XLA.
package backendtest

import (
	"testing"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/dmlx/backend"
	_ "github.com/gradient-surgery/dml/dmlx/backend/xla" // The default backend if it starts.
)

// OnEach runs a test on the Go backend, and on the default backend if that is another one.
func OnEach(t *testing.T, test func(t *testing.T, b compute.Backend)) {
	t.Helper()
	g, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	if !IsGo(g) {
		t.Fatalf("the Go backend has the new name %q: change IsGo", g.Name())
	}
	t.Run("go", func(t *testing.T) { test(t, g) })
	if c, err := backend.Open(); err != nil {
		t.Fatal(err)
	} else if c.Name != "go" {
		t.Run(c.Name, func(t *testing.T) { test(t, c.Backend) })
	}
}

// IsGo tells whether a backend is the Go backend, which compiles a graph at once; XLA takes seconds.
func IsGo(b compute.Backend) bool { return b.Name() == "Go Backend" }

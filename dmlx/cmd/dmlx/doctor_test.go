package main

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/doctor"
)

func TestDoctor(t *testing.T) {
	t.Setenv("GOMLX_BACKEND", "go")
	t.Setenv("DMLX_CACHE", t.TempDir())
	code, stdout, stderr := invoke(t, "doctor", "--json")
	var r doctor.Report
	if err := json.Unmarshal([]byte(stdout), &r); code != 0 || err != nil {
		t.Fatalf("code %d, %v, stderr %q, stdout %q", code, err, stderr, stdout)
	}
	if r.Backend == nil || r.Backend.Name != "go" || r.Lab == nil || r.Lab.Ready {
		t.Errorf("%+v", r)
	}
	for _, name := range []string{"go", "gomlx", "go-xla", "gonb"} {
		if r.Versions[name] == "" {
			t.Errorf("no version of %s in %v", name, r.Versions)
		}
	}
	if !backend.SIMD && runtime.GOARCH == "amd64" &&
		!strings.HasSuffix(r.GetSIMD, "GOEXPERIMENT=simd go install ./dmlx/cmd/dmlx") {
		t.Errorf("SIMD: %q, %q", r.SIMD, r.GetSIMD)
	}
	if backend.SIMD && (r.SIMD != "yes" || r.GetSIMD != "") {
		t.Errorf("SIMD: %q, %q", r.SIMD, r.GetSIMD)
	}
	told := false
	for _, m := range r.Missing {
		told = told || strings.Contains(m.What, "JupyterLab") && strings.Contains(m.How, "go run ./dmlx/cmd/dmlx/lab")
	}
	if !told {
		t.Errorf("missing: %v", r.Missing)
	}

	t.Setenv("GOMLX_BACKEND", "abacus")
	code, stdout, stderr = invoke(t, "doctor")
	if code != 1 || !strings.Contains(stdout, "none: ") || strings.Contains(stdout, "nothing") ||
		strings.Count(stderr, "\n") != 1 {
		t.Errorf("without a backend: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestDoctorTellsWhatIsMissing(t *testing.T) {
	t.Setenv("GOMLX_BACKEND", "go")
	t.Setenv("DMLX_CACHE", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	code, stdout, _ := invoke(t, "doctor")
	for _, want := range []string{"the go command", "Python"} {
		if code != 0 || !strings.Contains(stdout, "missing     "+want) {
			t.Errorf("code %d, %q is not said to be missing:\n%s", code, want, stdout)
		}
	}
}

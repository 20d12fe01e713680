//go:build unix

package lab

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Cells have SIMD if the modules build with it, by an older Go where they need one and may have it.
func TestCompiler(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("SIMD is for amd64")
	}
	older := SIMDToolchain
	for _, c := range []struct {
		name, toolchain, fails, experiment string
		xla                                bool
		want                               string
	}{
		{name: "builds", fails: "false", want: `GOEXPERIMENT="simd"`},
		{name: "with others", fails: "false", experiment: "greenteagc", want: `GOEXPERIMENT="greenteagc,simd"`},
		{name: "older", toolchain: "auto", fails: `[ -z "$GOTOOLCHAIN" ]`, want: "GOTOOLCHAIN=" + older},
		{name: "not needed", toolchain: "auto", fails: `[ -z "$GOTOOLCHAIN" ]`, xla: true},
		{name: "not allowed", toolchain: "local", fails: `[ -z "$GOTOOLCHAIN" ]`},
		{name: "not there", toolchain: "auto", fails: "true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("GOTOOLCHAIN", "")
			t.Setenv("GOEXPERIMENT", c.experiment)
			goTool := filepath.Join(t.TempDir(), "go")
			deps := ""
			if c.xla {
				deps = "github.com/gomlx/go-xla/pjrt"
			}
			script := "#!/bin/sh\ncase $1 in env) printf 'go9.9\\n" + c.toolchain + "\\n' ;; list) echo " + deps + " ;;\n" +
				"build) if " + c.fails + "; then exit 1; fi ;; esac\n"
			if err := os.WriteFile(goTool, []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			warned := ""
			l := newLab(t)
			l.Warn = func(message string) { warned = message }
			got, err := l.compiler(t.Context(), goTool)
			if err != nil {
				t.Fatal(err)
			}
			how, commands, _ := strings.Cut(got, "\n")
			if !strings.Contains(how, "go9.9") || strings.Contains(how, "without") != (c.want == "") {
				t.Errorf("it says %q", how)
			}
			if strings.Contains(commands, cellFlags+" $GOFLAGS") != (c.want != "") {
				t.Errorf("%q, want %s only with SIMD", commands, cellFlags)
			}
			if c.want == "" && commands != "" || !strings.Contains(commands, c.want) {
				t.Errorf("%q, want %q", commands, c.want)
			}
			if (warned != "") != (c.fails != "false") {
				t.Errorf("warned of %q", warned)
			}
		})
	}
}

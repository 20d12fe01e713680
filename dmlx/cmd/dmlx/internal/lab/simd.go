package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/buildinfo"
)

// cellFlags omit from the packages of cells what debuggers need, which linking a cell would read and drop. Cells alone
// have SIMD, so that no other program compiles the same packages: without it, each would be compiled twice.
const cellFlags = "-gcflags=all=-dwarf=false"

// SIMDToolchain is the newest Go with which the Go backend compiles with SIMD: Go 1.27 changed simd/archsimd, and
// gomlx/compute has not followed.
const SIMDToolchain = "go1.26.8"

// compiler returns the shell commands that set the environment in which cells are compiled, after a comment that says
// what it is. SIMD makes the Go backend's matrix products about ten times as fast. Whether it can be had is tried and
// not concluded from versions: simd/archsimd changes with Go, and the modules follow in their own time. Cells without
// SIMD and XLA are compiled by an older Go, which the go command downloads unless GOTOOLCHAIN=local forbids it.
func (l *Lab) compiler(ctx context.Context, goTool string) (script string, err error) {
	out, err := l.command(ctx, l.Root, nil, goTool, "env", "GOVERSION", "GOTOOLCHAIN")
	if err != nil {
		return "", fmt.Errorf("go env failed: %w", err)
	}
	version, toolchain, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if runtime.GOARCH != "amd64" {
		return "# " + version + " without SIMD, which is for amd64\n", nil
	}
	experiment := strings.TrimPrefix(os.Getenv("GOEXPERIMENT")+",simd", ",")
	builds := func(set ...string) bool {
		env := append(append(os.Environ(), "GOEXPERIMENT="+experiment), set...)
		_, err := l.behind(ctx, l.Root, env, goTool, "build", cellFlags,
			buildinfo.Module+"/dmlx/backend", buildinfo.Module+"/datasets")
		return err == nil
	}
	// The user's flags are those that win.
	script = fmt.Sprintf("export GOEXPERIMENT=%q GOFLAGS=\"%s $GOFLAGS\"\n", experiment, cellFlags)
	how := version + " with SIMD"
	if !builds() {
		how = version + " without SIMD, with which its packages do not build"
		if toolchain != "local" && !l.hasXLA(ctx, goTool) && builds("GOTOOLCHAIN="+SIMDToolchain) {
			how = SIMDToolchain + " with SIMD, with which packages do not build by " + version
			script += "export GOTOOLCHAIN=" + SIMDToolchain + "\n"
		} else {
			script = ""
		}
		if l.Warn != nil && ctx.Err() == nil {
			l.Warn("notebook cells are compiled by " + how)
		}
	}
	return "# " + how + "\n" + script, ctx.Err()
}

// hasXLA tells whether cells that import package xla have it, which takes a C compiler: without XLA they need SIMD more
// than the newest Go.
func (l *Lab) hasXLA(ctx context.Context, goTool string) bool {
	out, err := l.command(ctx, l.Root, nil, goTool, "list", "-deps", buildinfo.Module+"/dmlx/backend/xla")
	return err == nil && bytes.Contains(out, []byte("github.com/gomlx/go-xla/"))
}

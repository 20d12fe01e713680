package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/gofrs/flock"

	"github.com/gradient-surgery/dml/datasets"
)

// modulePath names this module in its go.mod.
const modulePath = "github.com/gradient-surgery/dml"

// simdEnv guards against building again and again; DMLX_SIMD=off keeps a program without SIMD as it is.
const simdEnv = "DMLX_SIMD"

// withSIMD replaces this process by the same program built with GOEXPERIMENT=simd, which makes the Go backend's matrix
// products some ten times faster and which a plain "go run" does not set. If it returns, that was not possible, and
// the text says why.
func (a *app) withSIMD() string {
	if runtime.GOARCH != "amd64" || os.Getenv(simdEnv) != "" {
		return ""
	}
	program, err := a.buildWithSIMD()
	if err != nil {
		return fmt.Sprintf("; no SIMD: %s", oneLine(err))
	}
	env := append(os.Environ(), simdEnv+"=on")
	if err := syscall.Exec(program, os.Args, env); err != nil {
		return fmt.Sprintf("; no SIMD: %s", oneLine(err))
	}
	return ""
}

// buildWithSIMD builds this command from the checkout around the working directory into the cache. Go itself sees
// whether the program there is up to date.
func (a *app) buildWithSIMD() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		return "", errors.New("no Go toolchain on PATH to build it with")
	}
	cache, err := datasets.CacheDir()
	if err != nil {
		return "", err
	}
	tags, cgo := buildSetting("-tags"), buildSetting("CGO_ENABLED")
	dir := filepath.Join(cache, "simd", shortHash(root, tags, cgo))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	if err := lock.Lock(); err != nil {
		return "", err
	}
	defer func() { _ = lock.Unlock() }()
	program := filepath.Join(dir, "dmlx")
	if _, err := os.Stat(program); err != nil {
		a.logf("building dmlx with SIMD for the Go backend, once (up to a minute) …")
	}
	args := []string{"build", "-o", program}
	if tags != "" {
		args = append(args, "-tags="+tags)
	}
	cmd := exec.Command(goTool, append(args, "./dmlx/cmd/dmlx")...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOEXPERIMENT=simd")
	if cgo != "" {
		cmd.Env = append(cmd.Env, "CGO_ENABLED="+cgo)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build failed: %s", lastLine(string(out), err))
	}
	return program, nil
}

// buildSetting is a setting that this program was built with, such as "-tags".
func buildSetting(key string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == key {
				return s.Value
			}
		}
	}
	return ""
}

// lastLine is the last line of a command's output that says something, or its error.
func lastLine(out string, err error) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return last
	}
	return err.Error()
}

// findModule looks for this module's go.mod in dir and the folders above it.
func findModule(dir string) (string, error) {
	for d := dir; ; {
		if isModule(filepath.Join(d, "go.mod")) {
			return d, nil
		}
		up := filepath.Dir(d)
		if up == d {
			return "", fmt.Errorf("%s is not inside a checkout of %s", dir, modulePath)
		}
		d = up
	}
}

func isModule(goMod string) bool {
	f, err := os.Open(goMod)
	if err != nil {
		return false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) == 2 && fields[0] == "module" {
			return fields[1] == modulePath
		}
	}
	return false
}

// shortHash names a file after what it depends on.
func shortHash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

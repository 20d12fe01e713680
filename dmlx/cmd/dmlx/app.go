package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"

	"github.com/gradient-surgery/dml/dmlx/backend"
	_ "github.com/gradient-surgery/dml/dmlx/backend/xla"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// app is what the commands share: the common flags and where output goes.
type app struct {
	preset   string // As given: "" if not.
	storeDir string // As given: "" if not.
	json     bool

	// ctx ends when the command is interrupted.
	ctx            context.Context
	stdout, stderr io.Writer
	line           *liveLine // Of stderr.
	warned         *sync.Map // The warnings so far.
}

// logf writes a line for people to standard error.
func (a *app) logf(format string, args ...any) {
	fmt.Fprintf(a.stderr, format+"\n", args...)
}

// print writes a result: v as one JSON object with --json, else text.
func (a *app) print(v any, text string) error {
	if !a.json {
		_, err := fmt.Fprintln(a.stdout, text)
		return err
	}
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// storePath is the folder of the run store: --store, else DMLX_STORE, else runs/ in this repository, else runs/ here.
func (a *app) storePath() string {
	if dir := cmp.Or(a.storeDir, os.Getenv("DMLX_STORE")); dir != "" {
		return dir
	}
	if root, err := moduleRoot(); err == nil {
		return filepath.Join(root, "runs")
	}
	return "runs"
}

// checkOut tells, before any work is done, whether a file can be written at each path, all different and none of those
// that are read; "" is none.
func checkOut(read []string, paths ...string) error {
	for i, path := range paths {
		if path == "" {
			continue
		}
		if slices.Contains(paths[:i], path) {
			return usagef("%s is to be written twice: want a file for each", path)
		}
		if info, err := os.Stat(path); err == nil {
			if info.IsDir() {
				return usagef("%s is a folder: want the name of a file to write", path)
			}
			for _, source := range read {
				if of, err := os.Stat(source); err == nil && os.SameFile(of, info) {
					return usagef("%s is read: want another file to write", path)
				}
			}
		}
		if err := tryIn(filepath.Dir(path)); err != nil { // Where it is written before it is renamed.
			return fmt.Errorf("%s cannot be written: %w", path, err)
		}
	}
	return nil
}

// checkOutDir tells, before any work is done, whether files can be written in a folder that may have to be made; "" is
// none.
func checkOutDir(dir string) error {
	if dir == "" {
		return nil
	}
	at := dir
	for {
		switch info, err := os.Stat(at); {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s cannot be a folder: %s is a file", dir, at)
		case err == nil:
			if err := tryIn(at); err != nil {
				return fmt.Errorf("%s cannot be written to: %w", dir, err)
			}
			return nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return err
		}
		at = filepath.Dir(at)
	}
}

// tryIn makes a file in a folder, and removes it.
func tryIn(dir string) error {
	file, err := os.CreateTemp(dir, ".dmlx-")
	var why *fs.PathError // Whose path is not the user's.
	if errors.As(err, &why) {
		return why.Err
	} else if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// backend opens the backend to compute on and says on standard error which one and why. A Go backend without SIMD costs
// so much time that a second line says how to build the program with it.
func (a *app) backend() (*train.Trainer, error) {
	t, err := train.Open()
	if err == nil {
		a.logf("%s", t.Choice)
		a.adviseSIMD(t.Choice)
	}
	return t, err
}

// buildWithSIMD is the command that builds this program with SIMD for the Go backend, in a checkout.
const buildWithSIMD = "GOEXPERIMENT=simd go install ./dmlx/cmd/dmlx"

// adviseSIMD says how to build the program with SIMD if the backend would be faster with it.
func (a *app) adviseSIMD(c *backend.Choice) {
	if c.Name == "go" && !c.SIMD && runtime.GOARCH == "amd64" {
		a.logf("With SIMD the Go backend multiplies matrices about ten times as fast. Build it in the repository: %s",
			buildWithSIMD)
	}
}

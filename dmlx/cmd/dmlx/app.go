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

	"golang.org/x/term"

	"github.com/gradient-surgery/dml/dmlx/backend"
	_ "github.com/gradient-surgery/dml/dmlx/backend/xla"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/checkout"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/doctor"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/progress"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

// app holds the common flags and the outputs of all commands.
type app struct {
	preset   string // "" if not given.
	storeDir string // "" if not given.
	json     bool

	// ctx ends when the command is interrupted.
	ctx             context.Context
	stdout, stderr  io.Writer
	width, typeface string // Of figures, see [app.checkStyle].
	style           figures.Style
	columns         int            // Of the terminal that stdout is; 0 if it is none.
	line            *progress.Line // On stderr.
	warned          *sync.Map      // The warnings that were printed.

	opening   *sync.Once // Of the backend.
	trainer   *train.Trainer
	noBackend error
}

// columnsOf returns the width of the terminal that a writer is, or 0 if it is a file or a pipe.
func columnsOf(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// logf prints a line on standard error.
func (a *app) logf(format string, args ...any) {
	fmt.Fprintf(a.stderr, format+"\n", args...)
}

// note prints a line on standard error, and ends that of the progress.
func (a *app) note(text string) {
	a.line.End()
	a.logf("%s", text)
}

// print prints a result: v as one JSON object with --json, else text, which is fitted to a terminal.
func (a *app) print(v any, body string) error {
	if !a.json {
		if a.columns > 0 {
			body = text.Fit(body, a.columns)
		}
		_, err := fmt.Fprintln(a.stdout, body)
		return err
	}
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// storePath returns the folder of the run store: --store, else DMLX_STORE, else runs/ in this repository, else runs/ in
// the working directory.
func (a *app) storePath() string {
	if dir := cmp.Or(a.storeDir, os.Getenv("DMLX_STORE")); dir != "" {
		return dir
	}
	if root, err := checkout.Root(); err == nil {
		return filepath.Join(root, "runs")
	}
	return "runs"
}

// checkOut checks, before any work, that a file can be written at each path, and that no path is written twice or is
// one of those that are read. An empty path is skipped.
func checkOut(read []string, paths ...string) error {
	for i, path := range paths {
		if path == "" {
			continue
		}
		if slices.Contains(paths[:i], path) {
			return usagef("two outputs have the path %s: want a file for each", path)
		}
		if info, err := os.Stat(path); err == nil {
			if info.IsDir() {
				return usagef("%s is a folder: want the name of a file to write", path)
			}
			for _, source := range read {
				if of, err := os.Stat(source); err == nil && os.SameFile(of, info) {
					return usagef("%s is an input: want another file to write", path)
				}
			}
		}
		if err := tryIn(filepath.Dir(path)); err != nil { // A file is written there and then renamed.
			return fmt.Errorf("%s cannot be written: %w", path, err)
		}
	}
	return nil
}

// checkOutDir checks, before any work, that files can be written in a folder, which need not exist yet. It skips an
// empty path.
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

// tryIn creates a file in a folder and removes it.
func tryIn(dir string) error {
	file, err := os.CreateTemp(dir, ".dmlx-")
	var why *fs.PathError // Its path is the temporary file's.
	if errors.As(err, &why) {
		return why.Err
	} else if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// store opens the run store. Its warnings go to standard error.
func (a *app) store() (*runs.Store, error) {
	s, err := runs.OpenStore(a.storePath())
	if err != nil {
		return nil, err
	}
	s.DataOptions = a.dataOptions()
	return s, nil
}

// find opens the run store and finds a run by its name or first digits.
func (a *app) find(prefix string) (store *runs.Store, hash string, err error) {
	if store, err = a.store(); err == nil {
		hash, err = store.Find(prefix)
	}
	return store, hash, err
}

// dataOptions returns the options with which data sets are opened: an interrupt ends the decoding of their images, and
// standard error shows its progress.
func (a *app) dataOptions() runs.DataOptions {
	return runs.DataOptions{Context: a.ctx, Warn: a.warn, Decoded: func(data string, done, total int) {
		a.line.Show("%s: %s", data, runs.Progress{Progress: train.Progress{Decoded: done, Images: total}}.OnImages())
		if done == total {
			a.line.End()
		}
	}}
}

// warn prints a warning once, though a data set is opened for its digest and again by each run on it.
func (a *app) warn(message string) {
	if _, said := a.warned.LoadOrStore(message, true); !said {
		a.note("warning: " + message)
	}
}

// backend opens the backend once, and prints its name and the reason for it on standard error. If it is a slow Go
// backend without SIMD, a second line says how to build the program with SIMD.
func (a *app) backend() (*train.Trainer, error) { return a.backendFor(false) }

// backendFor is backend for light work, see [runs.Spec.Light], or for any other.
func (a *app) backendFor(light bool) (*train.Trainer, error) {
	a.opening.Do(func() {
		open := train.Open
		if light {
			open = train.OpenLight
		}
		if a.trainer, a.noBackend = open(); a.noBackend == nil {
			a.logf("%s", a.trainer.Choice)
			if !light {
				a.adviseSIMD(a.trainer.Choice)
			}
		}
	})
	return a.trainer, a.noBackend
}

// adviseSIMD prints how to build the program with SIMD if the backend would be faster with it.
func (a *app) adviseSIMD(c *backend.Choice) {
	if c.Name == "go" && !c.SIMD && runtime.GOARCH == "amd64" {
		a.logf("With SIMD the Go backend multiplies matrices about ten times as fast: %s", doctor.BuildWithSIMD())
	}
}

// Package app is what commands that compute share: the store, the backend, the preset and the pictures.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/backend"
	_ "github.com/gradient-surgery/dml/dmlx/backend/xla"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/doctor"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// App is a command's console, and what it computes with.
type App struct {
	*cli.Console
	Preset string // "" if not given.

	ctx    context.Context // Ends when the command is interrupted.
	warned sync.Map        // The warnings that were printed.

	opening   sync.Once // Of the backend.
	trainer   *train.Trainer
	noBackend error
}

// New returns the state of a command that prints to these writers. Its context ends when it is interrupted.
func New(ctx context.Context, stdout, stderr io.Writer) *App {
	return &App{Console: cli.NewConsole(stdout, stderr), ctx: ctx}
}

// AddPreset adds the flag of the preset. Its value is checked when the preset is loaded.
func (a *App) AddPreset(f *pflag.FlagSet) {
	f.StringVar(&a.Preset, "preset", "", "size of data set, network and training: "+strings.Join(presets.Names(), ", ")+
		", or a TOML file of your own (default quick)")
}

// NotebookPreset returns the preset as notebooks get it, checked: its name, or an absolute path, since kernels run in
// other folders.
func (a *App) NotebookPreset() (string, error) {
	if a.Preset == "" {
		return "", nil
	}
	if _, err := presets.Load(a.Preset); err != nil {
		return "", cli.Usage(err)
	}
	if filepath.Ext(a.Preset) == ".toml" {
		return filepath.Abs(a.Preset)
	}
	return a.Preset, nil
}

// ReadStore is [App.Store] for a command that only reads: it creates nothing, and --store must be there.
func (a *App) ReadStore() (*runs.Store, error) {
	dir, err := filepath.Abs(a.StorePath())
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && a.StoreDir != "" {
		return nil, fmt.Errorf("--store %s: no such folder", a.StoreDir)
	}
	return &runs.Store{Dir: dir, DataOptions: a.DataOptions()}, nil
}

// Store opens the run store, and creates it. Its warnings go to standard error.
func (a *App) Store() (*runs.Store, error) {
	s, err := runs.OpenStore(a.StorePath())
	if err != nil {
		return nil, err
	}
	s.DataOptions = a.DataOptions()
	return s, nil
}

// WithStore returns the function of a command that needs the run store, which open opens.
func WithStore(open func() (*runs.Store, error), run func(ctx context.Context, store *runs.Store, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		store, err := open()
		if err != nil {
			return err
		}
		return run(cmd.Context(), store, args)
	}
}

// Find opens the run store to read it, and finds a run by its name or first digits.
func (a *App) Find(prefix string) (store *runs.Store, hash string, err error) {
	if store, err = a.ReadStore(); err == nil {
		hash, err = store.Find(prefix)
	}
	return store, hash, err
}

// DataOptions returns the options with which data sets are opened: an interrupt ends the decoding of their images, and
// standard error shows its progress.
func (a *App) DataOptions() runs.DataOptions {
	return runs.DataOptions{Context: a.ctx, Warn: a.Warn, Decoded: func(data string, done, total int) {
		a.Line.Show("%s: %s", data, runs.Progress{Progress: train.Progress{Decoded: done, Images: total}}.OnImages())
		if done == total {
			a.Line.End()
		}
	}}
}

// Warn prints a warning once, though a data set is opened for its digest and again by each run on it.
func (a *App) Warn(message string) {
	if _, said := a.warned.LoadOrStore(message, true); !said {
		a.Note("warning: " + message)
	}
}

// Backend opens the backend once, and prints its name and the reason for it on standard error. If it is a slow Go
// Backend without SIMD, a second line says how to build the program with SIMD.
func (a *App) Backend() (*train.Trainer, error) { return a.BackendFor(false) }

// BackendFor is backend for light work, see [runs.Spec.Light], or for any other.
func (a *App) BackendFor(light bool) (*train.Trainer, error) {
	a.opening.Do(func() {
		open := train.Open
		if light {
			open = train.OpenLight
		}
		if a.trainer, a.noBackend = open(); a.noBackend == nil {
			a.Logf("%s", a.trainer.Choice)
			if !light {
				a.AdviseSIMD(a.trainer.Choice)
			}
		}
	})
	return a.trainer, a.noBackend
}

// AdviseSIMD prints how to build the program with SIMD if the backend would be faster with it.
func (a *App) AdviseSIMD(c *backend.Choice) {
	if c.Name == "go" && !c.SIMD && runtime.GOARCH == "amd64" {
		a.Logf("With SIMD the Go backend multiplies matrices about ten times as fast: %s", doctor.BuildWithSIMD())
	}
}

// Training returns the progress of a run as one line.
func Training(p runs.Progress) string {
	if text := p.OnImages(); text != "" {
		return p.Spec.DataName() + ": " + text
	}
	line := fmt.Sprintf("epoch %d/%d  step %d/%d  violations %.0f %%", p.Epoch, p.Epochs, p.Step, p.Steps,
		100*p.ViolationRate)
	if p.Trial {
		line = "to choose by, without the held-out classes: " + line
	}
	if speed := p.Speed(); speed != "" {
		line += fmt.Sprintf("  %s  %s left", speed, p.Left)
	}
	return line
}

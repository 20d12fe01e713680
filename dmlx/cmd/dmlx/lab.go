package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/lab"
)

// newLab opens the notebooks.
func newLab(a *app) *cobra.Command {
	var (
		noBrowser bool
		port      int
		execute   bool
		timeout   time.Duration
	)
	cmd := &cobra.Command{
		Use:   "lab [--execute NOTEBOOK…]",
		Short: "Open the notebooks in JupyterLab, set up in a cache folder of its own",
		Long: `Open the notebooks in JupyterLab, in your browser.

The first start makes a Python environment with a pinned JupyterLab, installs GoNB and goimports, makes a Go kernel that
uses this checkout, and compiles what notebooks use. All of it is in a cache folder (DMLX_CACHE, else dmlx in your
user's cache); your own Jupyter and Go stay as they are. From then on it starts in seconds and needs no network.

With --execute, the notebooks named are run from top to bottom without a browser and saved with their outputs. If a cell
fails, the command says which and fails, and that notebook stays as it was.`,
		Example: `  go run ./dmlx/cmd/dmlx lab
  go run ./dmlx/cmd/dmlx lab --no-browser --port 8888
  go run ./dmlx/cmd/dmlx lab --execute notebooks/table2.ipynb --preset smoke`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case execute && len(args) == 0:
				return errors.New("lab --execute: name the notebooks to run")
			case !execute && len(args) > 1:
				return errors.New("lab: opens one notebook; --execute runs several")
			}
			l, err := a.lab()
			if err != nil {
				return err
			}
			if execute {
				return a.executeNotebooks(cmd, l, args, timeout)
			}
			open, err := openedFile(l.Root, args)
			if err != nil {
				return err
			}
			free, err := lab.FreePort(port) // Before the set-up: it may take minutes.
			if err != nil {
				return err
			}
			if err := l.Setup(cmd.Context()); err != nil {
				return err
			}
			err = l.Serve(cmd.Context(), free, open, func(url string) {
				a.logf("JupyterLab is at")
				_ = a.print(map[string]string{"url": url}, url)
				a.logf("Ctrl-C stops it.")
				if !noBrowser {
					openBrowser(url)
				}
			})
			if cmd.Context().Err() != nil {
				a.logf("JupyterLab has stopped.")
				return nil // It was asked to.
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&noBrowser, "no-browser", false, "do not open a browser, only print the address")
	flags.IntVar(&port, "port", 0, "port on localhost (default a free one)")
	flags.BoolVar(&execute, "execute", false, "run the notebooks named without a browser and save their outputs")
	flags.DurationVar(&timeout, "timeout", time.Hour, "with --execute: what one cell may take, 0 for no limit")
	return cmd
}

// lab is JupyterLab for the checkout around the working directory.
func (a *app) lab() (*lab.Lab, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	store, err := filepath.Abs(a.storePath())
	if err != nil {
		return nil, err
	}
	return &lab.Lab{Root: root, Cache: cache, Store: store, Preset: a.preset, Progress: a.steps()}, nil
}

// steps reports the steps of a set-up with the seconds they took.
func (a *app) steps() func(step string, done bool) {
	var start time.Time
	return func(step string, done bool) {
		if !done {
			start = time.Now()
			a.logf("setting up: %s …", step)
			return
		}
		a.logf("    done in %.0f s", time.Since(start).Seconds())
	}
}

func (a *app) executeNotebooks(cmd *cobra.Command, l *lab.Lab, notebooks []string, timeout time.Duration) error {
	for _, name := range notebooks { // A wrong name is told before the first one runs for minutes.
		if _, err := os.Stat(name); err != nil {
			return err
		}
	}
	if err := l.Setup(cmd.Context()); err != nil {
		return err
	}
	type result struct {
		Notebook string  `json:"notebook"`
		Seconds  float64 `json:"seconds"`
	}
	var results []result
	for _, name := range notebooks {
		start := time.Now()
		err := l.Execute(cmd.Context(), name, lab.ExecuteOptions{
			Timeout: timeout,
			Cell: func(cell, of int, seconds float64) {
				a.logf("%s: cell %d of %d, %.1f s", name, cell, of, seconds)
			},
		})
		if err != nil {
			return err
		}
		results = append(results, result{name, time.Since(start).Seconds()})
		if !a.json {
			fmt.Fprintf(a.stdout, "%s: saved, %.0f s\n", name, time.Since(start).Seconds())
		}
	}
	if a.json {
		return a.print(map[string]any{"notebooks": results}, "")
	}
	return nil
}

// openedFile is what JupyterLab opens, as a slash-separated path below the checkout: the file given, else the start
// page.
func openedFile(root string, args []string) (string, error) {
	if len(args) == 0 {
		if _, err := os.Stat(filepath.Join(root, "notebooks", "start.ipynb")); err == nil {
			return "notebooks/start.ipynb", nil
		}
		return "notebooks", nil
	}
	path, err := filepath.Abs(args[0])
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", err
	}
	rel, err := filepath.Rel(root, path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%s is not in the repository, %s", args[0], root)
	}
	return filepath.ToSlash(rel), nil
}

// openBrowser tries to; the address has been printed.
func openBrowser(url string) {
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	}
	if cmd := exec.Command(opener, url); cmd.Start() == nil {
		go func() { _ = cmd.Wait() }()
	}
}

// Package notebook has the commands that open notebooks and the page: lab and page.
package notebook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/checkout"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/lab"
	"github.com/gradient-surgery/dml/dmlx/internal/buildinfo"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/notebooks"
)

// NewLab opens the notebooks, at the preset that preset returns: its path or name, or "" to leave it to them.
func NewLab(c *cli.Console, preset func() (string, error)) *cobra.Command {
	var (
		noBrowser bool
		port      int
		execute   bool
		inPlace   bool
		install   bool
		timeout   time.Duration
		jobs      int
	)
	cmd := &cobra.Command{
		Use:   "lab [--execute | --install-kernel] [NOTEBOOK…]",
		Short: "Open the notebooks in JupyterLab, or run them",
		Long: `Open the notebooks in JupyterLab, in your browser.

The first start installs everything into a cache folder (DMLX_CACHE, else dmlx in your user's cache): a Python
environment with a pinned JupyterLab, GoNB, goimports, gopls and a Go kernel that uses this checkout. Your own Jupyter
and Go are not changed. Later starts take seconds and need no network. In a checkout, go run ./dmlx/cmd/dmlx/lab is this
command without --preset, and takes a quarter of the time to compile.

You work on copies of the notebooks, in the folder ` + carried + ` of the checkout, which git ignores. A copy that you
have changed is never overwritten; the others follow the checkout. Remove or rename a copy, and the next start brings
the notebook as shipped. Authors of notebooks open those of the checkout with --in-place.

Some cells show the playground as a page, which computes in the browser without a kernel:
notebooks/` + singleFile + `, built again at each start.

Outside a checkout, the notebooks are those that the program carries, and ` + carried + ` is in the working directory.
Their cells compile the program's own version of the module, which go install has put into Go's module cache, or the
sources that the program was built from.

With --execute, the named notebooks are run from top to bottom without a browser and saved with their outputs, --jobs of
them at a time. If a cell fails, the command names it and fails, and the notebook's file is not changed.

A notebook is a file, or one of this project by its name, such as start.

--install-kernel sets everything up and adds the kernel "` + lab.KernelTitle + `" to your own Jupyter, for
nbconvert, papermill, VS Code or a JupyterHub; jupyter kernelspec remove ` + lab.Kernel + ` takes it out again.

A notebook's cells are programs. They run with your rights: they can read, change and delete your files and use the
network. Run only notebooks that you trust.`,
		Example: `  dmlx lab
  dmlx lab start
  dmlx lab --no-browser --port 8888
  dmlx lab --execute notebooks/table2.ipynb`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case install && (execute || inPlace || len(args) > 0):
				return cli.Usagef("lab: --install-kernel takes no other flag and no notebook")
			case execute && len(args) == 0:
				return cli.Usagef("lab --execute: name the notebooks to run")
			case !execute && len(args) > 1:
				return cli.Usagef("lab opens one notebook; lab --execute runs several")
			case !execute && cmd.Flags().Changed("jobs"), !execute && cmd.Flags().Changed("timeout"):
				return cli.Usagef("lab: --jobs and --timeout are for notebooks that --execute runs")
			case jobs < 1 || jobs > maxNotebooks:
				return cli.Usagef("lab --jobs %d: want 1 to %d notebooks at a time", jobs, maxNotebooks)
			case timeout < 0:
				return cli.Usagef("lab --timeout %s: want 0 for no limit, or more", timeout)
			}
			l, err := Lab(c)
			if err != nil {
				return err
			}
			if l.Preset, err = preset(); err != nil {
				return err
			}
			if install {
				if err := setUpWhole(cmd.Context(), c, l); err != nil {
					return err
				}
				path, err := l.InstallKernel()
				if err != nil {
					return err
				}
				return c.Print(map[string]string{"kernel": path}, path)
			}
			copies := copiesOf(l)
			named := copies.Dir
			if (execute || inPlace) && l.Folder == "" {
				named = filepath.Join(l.Root, "notebooks")
			}
			if args, err = found(copies, named, args); err != nil {
				return err
			}
			if execute {
				return executeNotebooks(cmd.Context(), c, l, args, timeout, jobs)
			}
			if inPlace && l.Folder != "" {
				return fmt.Errorf("lab --in-place: %s is in no checkout", l.Folder)
			}
			free, err := lab.FreePort(port) // Checked before the set-up, which may take minutes.
			if err != nil {
				return err
			}
			own := inPlace || len(args) > 0
			for _, folder := range []string{copies.Dir, filepath.Join(l.Root, "notebooks")} {
				if name, ok := copies.Has(folder, strings.Join(args, "")); ok && !inPlace { // A shipped one, not the user's.
					own, args = false, []string{filepath.Join(copies.Dir, name)}
				}
			}
			if !own {
				if err := unpack(c, l, copies); err != nil {
					return err
				}
			}
			folder := cmp.Or(l.Folder, l.Root)
			open, err := openedFile(folder, args)
			if err != nil {
				return err
			}
			if err := setUp(cmd.Context(), c, l); err != nil {
				return err
			}
			ctx, fail := context.WithCancelCause(cmd.Context())
			var behind sync.WaitGroup
			defer behind.Wait()
			defer fail(nil)
			behind.Go(func() {
				if err := l.Ready(); err != nil {
					fail(err) // JupyterLab is of no use.
					return
				}
				if !own || l.Folder == "" {
					behind.Go(func() { labPage(ctx, c, l.Root, folder) })
				}
				finish(ctx, c, l)
			})
			l.Browser = !noBrowser
			err = l.Serve(ctx, free, open, func(url string) {
				c.Logf("JupyterLab is at")
				_ = c.Print(map[string]string{"url": url}, url)
				c.Logf("Ctrl-C stops it.")
			})
			if cmd.Context().Err() != nil {
				c.Logf("JupyterLab has stopped.")
				return nil // An interrupt is the normal end.
			}
			return cmp.Or(context.Cause(ctx), err)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&noBrowser, "no-browser", false, "print the address without opening a browser")
	flags.IntVar(&port, "port", 0, "port on localhost (default: any free port)")
	flags.BoolVar(&execute, "execute", false, "run the named notebooks without a browser and save their outputs")
	flags.BoolVar(&inPlace, "in-place", false, "open the notebooks of the checkout, not copies")
	flags.BoolVar(&install, "install-kernel", false, "add the kernel to your own Jupyter")
	flags.IntVar(&jobs, "jobs", 1, "with --execute: number of notebooks to run at a time")
	flags.DurationVar(&timeout, "timeout", time.Hour, "with --execute: time limit of a cell, 0 for no limit")
	return cmd
}

// found returns notebooks as paths of files. One that is no file is a shipped notebook by its name, in a folder.
func found(copies lab.Copies, folder string, names []string) ([]string, error) {
	out := slices.Clone(names)
	for i, name := range names {
		if _, err := os.Stat(name); err == nil {
			continue
		}
		if name = strings.TrimSuffix(name, ".ipynb"); !slices.Contains(copies.Names(), name) {
			return nil, errs.NoSuch(names[i]+" is neither a file nor a notebook of this project", name, copies.Names())
		}
		out[i] = filepath.Join(folder, name+".ipynb")
	}
	return out, nil
}

// Lab returns JupyterLab for the checkout around the working directory, whose code its notebooks compile. Outside a
// checkout they compile what this program was built from: a version of the module in Go's module cache, or the folder
// of the sources.
func Lab(c *cli.Console) (*lab.Lab, error) {
	cache, err := datasets.CacheDir()
	if err != nil {
		return nil, err
	}
	store, err := filepath.Abs(c.StorePath())
	if err != nil {
		return nil, err
	}
	l := &lab.Lab{Cache: cache, Store: store}
	if l.Root, err = checkout.Trusted(); !errors.Is(err, checkout.ErrOutside) {
		return l, err
	}
	here, wdErr := os.Getwd()
	if wdErr != nil {
		return nil, wdErr
	}
	l.Folder = here
	built := buildinfo.Get()
	public := strings.HasPrefix(built.Version, "v") && !strings.HasSuffix(built.Version, "+dirty")
	switch {
	case built.Sum != "" || built.Source == "" && public:
		l.Version, l.Sum = built.Version, built.Sum
		l.Root = lab.ModuleRoot(cache, built.Version)
	case built.Source != "":
		l.Root = built.Source
		if why, err := checkout.Foreign(l.Root); err != nil {
			return nil, err
		} else if why != "" {
			return nil, fmt.Errorf("the sources of this program are not used: %s; if you trust them, run the command in %s",
				why, l.Root)
		}
	default:
		return nil, fmt.Errorf("%w, and the sources that this program was built from are not here: run it in a checkout, or "+
			"install a version by go install %s/dmlx/cmd/dmlx@VERSION", err, checkout.Module)
	}
	return l, nil
}

// carried is the folder for the copies of notebooks, in the checkout or else in the working directory.
const carried = "dmlx-notebooks"

// copiesOf returns the copies of a checkout's notebooks or, outside a checkout, of those that this program carries.
func copiesOf(l *lab.Lab) lab.Copies {
	var shipped fs.FS = notebooks.Files
	if l.Folder == "" {
		shipped = os.DirFS(filepath.Join(l.Root, "notebooks"))
	}
	// Below notebooks as in a checkout, since cells and links name the folder.
	return lab.Copies{Shipped: shipped, Dir: filepath.Join(cmp.Or(l.Folder, l.Root), carried, "notebooks")}
}

// unpack brings the copies up to date, and makes their folder the one that JupyterLab shows.
func unpack(c *cli.Console, l *lab.Lab, copies lab.Copies) error {
	n, old, err := copies.Update()
	if err != nil {
		return fmt.Errorf("the notebooks could not be copied (%w): run lab in a clone or folder that you can write to", err)
	}
	outside := l.Folder != ""
	l.Folder = filepath.Dir(copies.Dir)
	if n > 0 {
		c.Logf("copied %d notebooks to %s, where you can change them", n, l.Folder)
	}
	if len(old) > 0 {
		c.Logf("notebooks that you have changed have newer versions: rename yours, and the next start brings them: %s",
			strings.Join(old, ", "))
	}
	if outside {
		from := l.Root
		if l.Version != "" {
			from = checkout.Module + " " + l.Version
		}
		c.Logf("the notebooks' cells compile %s", from)
	}
	return nil
}

// setUp sets up what a first cell needs, and prints the steps of the set-up, that of finish too, with their seconds.
func setUp(ctx context.Context, c *cli.Console, l *lab.Lab) error {
	stop := func() {}
	l.Warn = c.Note
	l.Progress = func(step string) (end func(err error)) {
		stop() // One line shows one step.
		started := time.Now()
		stop = c.Line.Clock("setting up: " + step)
		return func(err error) {
			stop()
			if err == nil {
				c.Logf("set up: %s, %.0f s", step, time.Since(started).Seconds())
			}
		}
	}
	return l.Setup(ctx)
}

// setUpWhole sets up all that cells need.
func setUpWhole(ctx context.Context, c *cli.Console, l *lab.Lab) error {
	if err := setUp(ctx, c, l); err != nil {
		return err
	}
	if err := l.Ready(); err != nil {
		return err
	}
	return l.Finish(ctx)
}

// finish completes the set-up while JupyterLab is used.
func finish(ctx context.Context, c *cli.Console, l *lab.Lab) {
	if err := l.Finish(ctx); err != nil && ctx.Err() == nil {
		c.Logf("the set-up is not complete, and goes on at the next start: %v", err)
	}
}

// maxNotebooks is the largest number of notebooks that run at a time.
const maxNotebooks = 64

// executeNotebooks runs notebooks, jobs of them at a time. If one fails, the others stop and stay as they were.
func executeNotebooks(ctx context.Context, c *cli.Console, l *lab.Lab, notebooks []string, timeout time.Duration,
	jobs int,
) error {
	for _, name := range notebooks {
		if err := lab.CheckNotebook(name); err != nil {
			return err
		}
	}
	if err := cli.CheckOut(nil, notebooks...); err != nil {
		return err
	}
	if err := setUpWhole(ctx, c, l); err != nil {
		return err
	}
	type result struct {
		Notebook string  `json:"notebook"`
		Seconds  float64 `json:"seconds"`
	}
	results := make([]result, len(notebooks))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(jobs)
	var writing sync.Mutex
	watch := c.Line.Clock
	if jobs > 1 {
		watch = func(string) (stop func()) { return func() {} } // One line cannot show several notebooks.
	}
	for i, name := range notebooks {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			start := time.Now()
			current := func(cell int) (stop func()) { return watch(fmt.Sprintf("%s: cell %d", name, cell)) }
			stop := current(1)
			defer func() { stop() }()
			err := l.Execute(ctx, name, lab.ExecuteOptions{Timeout: timeout, Cell: func(cell, of int, seconds float64) {
				stop()
				writing.Lock()
				defer writing.Unlock()
				c.Logf("%s: cell %d of %d, %.1f s", name, cell, of, seconds)
				if cell < of {
					stop = current(cell + 1)
				}
			}})
			if err != nil {
				return err
			}
			results[i] = result{name, time.Since(start).Seconds()}
			if !c.JSON {
				writing.Lock()
				defer writing.Unlock()
				fmt.Fprintf(c.Stdout, "%s: saved, %.0f s\n", name, results[i].Seconds)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if c.JSON {
		return c.Print(map[string]any{"notebooks": results}, "")
	}
	return nil
}

// openedFile returns the file that JupyterLab opens, as a slash-separated path below the folder that it shows: the
// argument, else the page of contents.
func openedFile(root string, args []string) (string, error) {
	if len(args) == 0 {
		if _, err := os.Stat(filepath.Join(root, "notebooks", "index.ipynb")); err == nil {
			return "notebooks/index.ipynb", nil
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
		return "", fmt.Errorf("%s is not in %s, the folder that JupyterLab shows: copy it there", args[0], root)
	}
	return filepath.ToSlash(rel), nil
}

package stored

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

func newExport(a *cli.App) *cobra.Command {
	var out string
	var checkpoints bool
	cmd := &cobra.Command{
		Use:   "export [RUN…] --out FILE",
		Short: "Write runs to an archive for another store: all finished runs, or those named",
		Long: `Write runs to an archive, which dmlx runs import reads into another store: all finished runs, or those named,
with the files behind their results. If the name ends in .gz or .tgz, the archive is compressed.`,
		Example: "  dmlx runs export --out runs.tar.gz",
		RunE: a.WithStore(func(_ context.Context, store *runs.Store, prefixes []string) error {
			if err := cli.CheckOut(nil, out); err != nil {
				return err
			}
			hashes, err := findAll(store, prefixes)
			if err != nil {
				return err
			}
			file, err := durable.Create(out, 0o644)
			if err != nil {
				return err
			}
			defer func() { _ = file.Cleanup() }() // It does nothing after the file is in its place.
			var w io.Writer = file
			z := gzip.NewWriter(file)
			compressed := strings.HasSuffix(out, ".gz") || strings.HasSuffix(out, ".tgz")
			if compressed {
				w = z
			}
			moved, err := store.Export(w, hashes, checkpoints)
			if err != nil {
				return err
			}
			if compressed {
				if err := z.Close(); err != nil {
					return err
				}
			}
			if err := file.CloseAtomicallyReplace(); err != nil {
				return err
			}
			leftOut(a, moved)
			return a.Print(map[string]any{"file": out, "moved": moved}, fmt.Sprintf("%d runs in %s", len(moved.Taken), out))
		}),
	}
	cmd.Flags().StringVar(&out, "out", "", "archive to write")
	cmd.Flags().BoolVar(&checkpoints, "checkpoints", false, "include the last weights, and unfinished runs")
	cli.Require(cmd, "out")
	return cmd
}

func newImport(a *cli.App) *cobra.Command {
	var maxSize int64
	cmd := &cobra.Command{
		Use:   "import FILE…",
		Short: "Add the runs of archives to the store",
		Long: `Add the runs of archives to the store. No run is overwritten; runs with other results than the store's are
named. A damaged archive adds nothing.`,
		Example: "  dmlx runs import runs.tar.gz",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			if maxSize < 1 || maxSize > math.MaxInt64>>30 {
				return cli.Usagef("--max-size %d: want 1 or more GiB", maxSize)
			}
			return takeFrom(a, files, func(store *runs.Store, name string) (*runs.Transfer, error) {
				f, err := os.Open(name)
				if err != nil {
					return nil, err
				}
				defer f.Close()
				return store.Import(cmd.Context(), f, runs.ImportOptions{MaxBytes: maxSize << 30})
			})
		},
	}
	cmd.Flags().Int64Var(&maxSize, "max-size", runs.DefaultMaxBytes>>30,
		"limit of the unpacked size of an archive, in GiB")
	return cmd
}

func newMerge(a *cli.App) *cobra.Command {
	var checkpoints bool
	cmd := &cobra.Command{
		Use:   "merge FOLDER…",
		Short: "Add the runs of other stores to this one",
		Long: `Add the runs of other stores to this one. No run is overwritten; runs with other results than this store's are
named.`,
		Example: "  dmlx runs merge /shared/runs --checkpoints",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			return takeFrom(a, dirs, func(store *runs.Store, dir string) (*runs.Transfer, error) {
				if _, err := os.Stat(dir); err != nil {
					return nil, err
				}
				source := &runs.Store{Dir: dir} // Not opened by OpenStore, since it may be read-only.
				return store.Merge(cmd.Context(), source, checkpoints)
			})
		},
	}
	cmd.Flags().BoolVar(&checkpoints, "checkpoints", false, "include the last weights, and unfinished runs")
	return cmd
}

// findAll returns the hashes of runs by their names or first digits.
func findAll(store *runs.Store, prefixes []string) ([]string, error) {
	hashes := make([]string, len(prefixes))
	for i, p := range prefixes {
		var err error
		if hashes[i], err = store.Find(p); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

// takeFrom adds the runs of sources one after the other, and fails at the end if there were conflicts.
func takeFrom(a *cli.App, sources []string, take func(*runs.Store, string) (*runs.Transfer, error)) error {
	store, err := a.Store()
	if err != nil {
		return err
	}
	out := make(map[string]*runs.Transfer)
	var texts []string
	conflicts := 0
	for _, source := range sources {
		moved, err := take(store, source)
		if err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
		out[source] = moved
		conflicts += len(moved.Conflicts)
		texts = append(texts, fmt.Sprintf("%s: %s", source, moved))
	}
	if err := a.Print(map[string]any{"store": store.Dir, "moved": out}, strings.Join(texts, "\n")); err != nil {
		return err
	}
	if conflicts > 0 {
		return fmt.Errorf("%d runs are in conflict: the same spec has other results on the same backend, which another "+
			"processor or a build without SIMD can cause; those of %s are kept", conflicts, store.Dir)
	}
	return nil
}

// leftOut warns of the runs that an export left out.
func leftOut(a *cli.App, m *runs.Transfer) {
	for _, hash := range m.Busy {
		a.Logf("warning: left out run %s: another process is training it", hash)
	}
	for _, why := range m.Unusable {
		a.Logf("warning: left out run %s", why)
	}
}

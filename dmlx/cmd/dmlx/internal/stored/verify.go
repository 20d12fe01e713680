package stored

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// newVerify checks the runs of the store.
func newVerify(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "verify [RUN…]",
		Short: "Check the files of runs by their checksums: all runs of the store, or those named",
		Long: `Check all runs of the store, or those named: that the spec has the hash that names the folder, that the
checksums of the result, its files and the checkpoint fit, that numbers are finite, and that there are no links. The
command names each damaged run and what is wrong, changes nothing, and fails if there is one.

A run is a folder that needs nothing outside itself. To take runs to another store, copy their folders, and verify them
there:
  rsync -a shared/runs/077c9ae1dfc0 runs/
  tar -C shared/runs -cz 077c9ae1dfc0 1f3b20c5d6e7 | ssh laptop tar -C runs -xz
Checksums show damage, not forgery: take runs only from people whom you trust to have trained them. The spec and the
result of a run on files of your own contain their paths.`,
		Example: "  dmlx runs verify\n  dmlx runs verify 077c9a --store /shared/runs",
		RunE: app.WithStore(a.ReadStore, func(_ context.Context, store *runs.Store, prefixes []string) error {
			return verifyRuns(a, store, prefixes)
		}),
	}
}

// damaged is the JSON of a run that [runs.Store.Verify] rejects.
type damaged struct {
	Run string `json:"run"`
	Dir string `json:"dir"`
	Why string `json:"why"`
}

func verifyRuns(a *app.App, store *runs.Store, prefixes []string) error {
	hashes, err := findAll(store, prefixes)
	if err == nil && len(prefixes) == 0 {
		hashes, err = store.Hashes()
	}
	if err != nil {
		return err
	}
	sound, busy, bad := []string{}, []string{}, []damaged{}
	for i, hash := range hashes {
		if bundled(store, hash) {
			return fmt.Errorf("run %s is only a result bundled with the program: its files are not in %s", hash, store.Dir)
		}
		a.Line.Show("verify: %d of %d runs", i, len(hashes))
		switch err := store.Verify(hash); {
		case err == nil:
			sound = append(sound, hash)
		case errors.Is(err, runs.ErrBusy):
			busy = append(busy, hash)
		default:
			bad = append(bad, damaged{hash, store.Path(hash), err.Error()})
		}
	}
	a.Line.End()
	var body strings.Builder
	for _, d := range bad {
		fmt.Fprintf(&body, "run %s is damaged: %s (%s)\n", d.Run, d.Why, d.Dir)
	}
	fmt.Fprintf(&body, "%d runs are sound, %d are damaged", len(sound), len(bad))
	if len(busy) > 0 {
		fmt.Fprintf(&body, "; other processes work on %s", strings.Join(busy, ", "))
	}
	err = a.Print(map[string]any{"store": store.Dir, "sound": sound, "damaged": bad, "busy": busy}, body.String())
	if err == nil && len(bad) > 0 {
		err = fmt.Errorf("%d of %d runs in %s are damaged: remove them (dmlx runs remove), or copy them again", len(bad),
			len(hashes), store.Dir)
	}
	return err
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

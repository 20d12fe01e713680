package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// storeRuns is the number of runs in the store, and storeStudy the table that is computed from it.
const (
	storeRuns  = 100_000
	storeStudy = "table3"
)

// store measures the use of a store with many runs, in a temporary folder. Their results are drawn; they take half a
// million small files in TMPDIR.
func (s *session) store(ctx context.Context) error {
	store, err := runs.OpenStore(filepath.Join(s.b.TempDir(), "runs"))
	if err != nil {
		return err
	}
	preset, err := presets.Parse("quick")
	if err != nil {
		return err
	}
	s.b.Logf("drawing %d runs …", storeRuns)
	if err := fillStore(ctx, store, preset, storeRuns); err != nil {
		return err
	}
	size := fmt.Sprintf("%d runs", storeRuns)
	request := report.Request{Store: store, Preset: preset, Options: runs.Options{CachedOnly: true, IgnoreBundled: true},
		Open: func() (*train.Trainer, error) { return nil, fmt.Errorf("%s needs no backend", storeStudy) }}
	for _, m := range []struct {
		name string
		do   func() error
	}{
		{"list of all runs", func() error { _, err := store.List(); return err }},
		{"dmlx runs list", func() error {
			root := newRoot(quietApp(store.Dir))
			root.SetArgs([]string{"runs", "list"})
			return root.ExecuteContext(ctx)
		}},
		{storeStudy + " from the store", func() error {
			r, err := paper.Make(ctx, storeStudy, request)
			if err == nil && r.Table.Missing > 0 {
				err = fmt.Errorf("%d runs of %s are missing", r.Table.Missing, storeStudy)
			}
			return err
		}},
		{"a run by its first digits", func() error {
			_, err := store.Find("0123")
			if err != nil && ctx.Err() == nil { // A run of this name may or may not exist.
				err = nil
			}
			return err
		}},
	} {
		var times []float64
		for range 3 {
			if err := ctx.Err(); err != nil {
				return err
			}
			start := time.Now()
			if err := m.do(); err != nil {
				return err
			}
			times = append(times, time.Since(start).Seconds())
		}
		s.report(measured(m.name, size, "s", times...))
	}
	return nil
}

// fillStore writes drawn results of runs: those of a table, and others that differ in their seeds.
func fillStore(ctx context.Context, store *runs.Store, preset presets.Preset, n int) error {
	study, err := paper.ParseStudy(storeStudy)
	if err != nil {
		return err
	}
	cells, err := study.Specs(preset, nil)
	if err != nil {
		return err
	}
	var specs []runs.Spec
	seen := make(map[string]bool)
	add := func(spec runs.Spec) {
		if hash := spec.Hash(); !seen[hash] {
			seen[hash] = true
			specs = append(specs, spec)
		}
	}
	for _, c := range cells {
		for _, spec := range c.Specs {
			add(spec)
		}
	}
	rule, err := dmlx.ParseRule("ours")
	if err != nil {
		return err
	}
	spec, err := preset.Spec(preset.FineGrained, rule, 0)
	if err != nil {
		return err
	}
	for spec.Seed = 1000; len(specs) < n; spec.Seed++ {
		add(spec)
	}
	group, drawing := errgroup.WithContext(ctx)
	group.SetLimit(4 * runtime.GOMAXPROCS(0)) // They mostly wait for the disk.
	for i, spec := range specs {
		if drawing.Err() != nil {
			break
		}
		group.Go(func() error {
			k := float64(i%1000) / 1000
			files := make(map[string][]byte)
			for _, name := range []string{"metrics.jsonl", train.EmbeddingsFile} {
				files[name] = fmt.Append(nil, name, i)
			}
			measures := train.Measures{Recall: map[int]float64{1: k, 2: k, 4: k, 8: k}, Queries: 1000}
			return put(store, &runs.Result{Spec: spec, Backend: "drawn", Machine: "none", Version: runs.Version(),
				DataDigest: "0", Date: time.Unix(int64(1e9+i), 0).UTC(), Seconds: 30, Measures: measures}, files)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// put writes a drawn result into a store, as a run does.
func put(store *runs.Store, r *runs.Result, files map[string][]byte) error {
	r.Hash, r.Files = r.Spec.Hash(), make(map[string]string)
	dir := store.Path(r.Hash)
	errs := []error{os.Mkdir(dir, 0o755), durable.WriteJSON(filepath.Join(dir, "spec.json"), r.Spec)}
	for name, raw := range files {
		r.Files[name] = durable.Sum(raw)
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), raw, 0o644))
	}
	sum, err := durable.SumOf(r)
	r.Sum = sum
	return errors.Join(append(errs, err, durable.WriteJSON(filepath.Join(dir, "result.json"), r))...)
}

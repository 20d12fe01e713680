package runs

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

// A bundle has the values that are bundled with the program, by the hashes of their runs. Each is read when it is asked
// for: to read all results takes a sixth of a second, which a cell of a notebook that needs a few would wait for.
type bundle[T any] map[string]func() (T, error)

// get returns the value of a run, or zero if there is none.
func (b bundle[T]) get(hash string) (v T, err error) {
	if read, ok := b[hash]; ok {
		return read()
	}
	return v, nil
}

// all returns all values.
func (b bundle[T]) all() (map[string]T, error) {
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for _, read := range b {
		group.Go(func() error {
			_, err := read()
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	out := make(map[string]T, len(b))
	for hash, read := range b {
		out[hash], _ = read() // It has them.
	}
	return out, nil
}

// openBundle returns the values of the files that match a pattern, as [writeBundle] has written them. read returns that
// of a line; of is the name of the file with the first digits of its digest. It is an error if two files have a run,
// since which of them counts would be chance, unless their values are the same.
func openBundle[T any](in fs.FS, pattern string, read func(of string, raw []byte) (T, error), same func(a, b T) bool,
) (bundle[T], error) {
	files, err := fs.Glob(in, pattern)
	if err != nil {
		return nil, err
	}
	out := make(bundle[T])
	for _, name := range files {
		file, err := fs.ReadFile(in, name)
		if err != nil {
			return nil, err
		}
		of := strings.TrimSuffix(strings.TrimPrefix(name, "bundled/"), ".json") + " " + durable.Sum(file)[:8]
		for raw := range bytes.Lines(bytes.Trim(file, "[]\n")) {
			raw = bytes.TrimRight(raw, ",\n")
			_, hash, ok := bytes.Cut(raw, []byte(`"run":"`))
			if hash, _, _ = bytes.Cut(hash, []byte(`"`)); !ok {
				return nil, fmt.Errorf("%s: a line has no run", name)
			}
			other := out[string(hash)]
			out[string(hash)] = sync.OnceValues(func() (v T, err error) {
				if v, err = read(of, raw); err != nil {
					return v, fmt.Errorf("%s: run %s %w", name, hash, err)
				}
				if other == nil {
					return v, nil
				}
				if before, err := other(); err != nil || !same(before, v) {
					return v, cmp.Or(err, fmt.Errorf("%s: run %s has another result in another file", name, hash))
				}
				return v, nil
			})
		}
	}
	return out, nil
}

// bundledHistograms are the histograms that come with the program, nil if they are of another recipe.
// [WriteBundledHistograms] wrote them.
var bundledHistograms = sync.OnceValues(func() (bundle[*Histograms], error) {
	return openBundle(bundledFiles, "bundled/histograms/*.json", func(of string, raw []byte) (*Histograms, error) {
		p, err := parseHistograms(raw)
		if err != nil || p.Recipe != HistogramsRecipe {
			return nil, err
		}
		p.Bundled, p.Result.Bundled, p.Result.Bundle = true, true, of
		return p, nil
	}, func(a, b *Histograms) bool { return a != nil && b != nil && a.Sum == b.Sum })
})

// WriteBundledHistograms writes histograms as a file for the folder bundled/histograms: one line per run, in the order
// of the hashes, without the checksums of files that stay in the store.
func WriteBundledHistograms(path string, all []*Histograms) error {
	lines := make(map[string]any)
	for _, p := range all {
		c, r := *p, *p.Result
		r.Spec, r.Files = r.Spec.Portable(), nil
		if err := r.seal(); err != nil {
			return err
		}
		c.Result = &r
		if err := c.seal(); err != nil {
			return err
		}
		lines[r.Hash] = c
	}
	return writeBundle(path, lines)
}

// writeBundle writes a JSON list with a line for each value, in the order of the hashes.
func writeBundle(path string, byHash map[string]any) error {
	var lines [][]byte
	for _, hash := range slices.Sorted(maps.Keys(byHash)) {
		raw, err := json.Marshal(byHash[hash])
		if err != nil {
			return err
		}
		lines = append(lines, raw)
	}
	file := append([]byte("[\n"), bytes.Join(lines, []byte(",\n"))...)
	return durable.WriteFile(path, append(file, "\n]\n"...), 0o644)
}

//go:embed bundled
var bundledFiles embed.FS

// bundledResults are the results that come with the program. [WriteBundled] wrote them.
var bundledResults = sync.OnceValues(func() (bundle[*Result], error) {
	return openBundle(bundledFiles, "bundled/*.json", func(of string, raw []byte) (*Result, error) {
		r, err := parseResult(raw, "")
		if err != nil {
			return nil, err
		}
		r.Bundled, r.Bundle = true, of
		return r, nil
	}, func(a, b *Result) bool { return a.Sum == b.Sum })
})

// Bundled returns the results that come with the program, by hash.
var Bundled = sync.OnceValues(func() (map[string]*Result, error) {
	results, err := bundledResults()
	if err != nil {
		return nil, err
	}
	return results.all()
})

// WriteBundled writes results as a file for the folder bundled and returns how many it wrote: each result once, one per
// line, in the order of the hashes, without the checksums of files that stay in the store.
func WriteBundled(path string, results []*Result) (int, error) {
	lines := make(map[string]any)
	for _, r := range results {
		c := *r
		c.Spec, c.Files = c.Spec.Portable(), nil
		if err := c.seal(); err != nil {
			return 0, err
		}
		lines[r.Hash] = c
	}
	return len(lines), writeBundle(path, lines)
}

package runs

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

// bundledHistograms are the histograms that come with the program, by the hashes of their runs.
// [WriteBundledHistograms] wrote them.
var bundledHistograms = sync.OnceValues(func() (map[string]*Histograms, error) {
	out := make(map[string]*Histograms)
	err := forEachBundled("bundled/histograms/*.json", "histograms", func(bundle string, raw []byte) error {
		p, err := parseHistograms(raw)
		if err == nil && p.Recipe == HistogramsRecipe {
			p.Bundled, p.Result.Bundled, p.Result.Bundle = true, true, bundle
			out[p.Result.Hash] = p
		}
		return err
	})
	return out, err
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

// Bundled returns the results that come with the program, by hash. [WriteBundled] wrote them. It is an error if two
// files have different results of a run: which of them counts would be chance.
var Bundled = sync.OnceValues(func() (map[string]*Result, error) {
	out := make(map[string]*Result)
	err := forEachBundled("bundled/*.json", "result", func(bundle string, raw []byte) error {
		r, err := parseResult(raw, "")
		switch {
		case err != nil:
			return err
		case out[r.Hash] != nil && out[r.Hash].Sum != r.Sum:
			return fmt.Errorf("is the run %s, of which another file has another result", r.Hash)
		}
		r.Bundled, r.Bundle = true, bundle
		out[r.Hash] = r
		return nil
	})
	return out, err
})

// forEachBundled calls read for each item of the JSON lists in the bundled files that match a pattern. bundle is the
// name of the file with the first digits of its digest.
func forEachBundled(pattern, what string, read func(bundle string, raw []byte) error) error {
	files, err := fs.Glob(bundledFiles, pattern)
	if err != nil {
		return err
	}
	for _, name := range files {
		raw, err := bundledFiles.ReadFile(name)
		if err != nil {
			return err
		}
		of := strings.TrimSuffix(strings.TrimPrefix(name, "bundled/"), ".json")
		bundle := of + " " + durable.Sum(raw)[:8]
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for i, raw := range list {
			if err := read(bundle, raw); err != nil {
				return fmt.Errorf("%s: %s %d %w", name, what, i, err)
			}
		}
	}
	return nil
}

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

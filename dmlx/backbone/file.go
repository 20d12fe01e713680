package backbone

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

// ReadFile reads a file of weights: a safetensors file, one of torch.save (.pth, .pt, .ckpt, .bin) in PyTorch's format
// of today or that before 1.6, or the index of such files (.index.json), whose tensors it joins to a safetensors file
// in float32. What it is, [DecodeWeights] finds out; a file that is no regular one, or beyond 8 GiB, is an error.
func ReadFile(path string) ([]byte, error) {
	data, err := durable.ReadFile(path)
	if err != nil || !strings.HasSuffix(path, ".json") {
		return data, err
	}
	var index struct {
		Files map[string]string `json:"weight_map"`
	}
	if len(data) > durable.MaxText || durable.ParseJSON(data, &index) != nil || len(index.Files) == 0 {
		return nil, fmt.Errorf("%s: want an index of weight files, with a weight_map of tensors' names to files", path)
	}
	out := newTensorFile(map[string]string{"format": "pt"})
	names := map[string]bool{}
	for _, name := range index.Files {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !filepath.IsLocal(name) || filepath.Base(name) != name {
			return nil, fmt.Errorf("%s: its file %s: want the name of a file in the same folder", path, clip(name, 60))
		}
		data, err := durable.ReadFile(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		f, err := parseTensors(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, name, err)
		}
		for _, tensor := range slices.Sorted(maps.Keys(f.entries)) {
			e := f.entries[tensor]
			if index.Files[tensor] != name || floating[e.DType] == nil {
				continue // Of another file, or a counter.
			}
			out.put(tensor, e.Shape, e.values(f.body))
			if len(out.body) > durable.MaxFile {
				return nil, fmt.Errorf("%s: its files have more than %d bytes of weights", path, int64(durable.MaxFile))
			}
		}
	}
	return safetensors(out.header, out.body)
}

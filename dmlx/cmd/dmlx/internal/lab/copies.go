package lab

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

// Copies are a user's copies of the shipped notebooks. Cells run and are saved in them, and a copy that has been
// changed is never overwritten.
type Copies struct {
	Shipped fs.FS  // Has the notebooks, *.ipynb.
	Dir     string // The folder of the copies, which need not exist.
}

// copied is the file, in the folder of the copies, with the sum of each notebook as it was copied. A copy with another
// sum has been changed.
const copied = ".shipped.json"

// Update copies the notebooks that are not there, and those that have changed since they were copied, if their copies
// have not. It returns how many it has written, and the names of changed copies of older notebooks.
func (c Copies) Update() (written int, old []string, err error) {
	names := c.files()
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return 0, nil, err
	}
	sums := c.sums()
	defer func() { err = cmp.Or(err, c.record(sums)) }()
	for _, name := range names {
		shipped, err := c.read(name)
		if err != nil {
			return written, old, err
		}
		now, before := sum(shipped), sums[name]
		mine, err := durable.ReadAtMost(filepath.Join(c.Dir, name), durable.MaxText)
		switch {
		case err == nil && sum(mine) == now:
			sums[name] = now
			continue
		case err == nil && sum(mine) != before:
			if now != before {
				old = append(old, name)
			}
			continue
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return written, old, err
		}
		if err := durable.WriteFile(filepath.Join(c.Dir, name), shipped, 0o644); err != nil {
			return written, old, err
		}
		sums[name] = now
		written++
	}
	return written, old, nil
}

// goVersion is Go's version in a notebook's metadata.
var goVersion = regexp.MustCompile(`("version": ?")go[^"]*"`)

// read returns a shipped notebook. It names the version of Go here: with another one JupyterLab shows a notebook that
// was only opened as changed.
func (c Copies) read(name string) ([]byte, error) {
	data, err := fs.ReadFile(c.Shipped, name)
	return goVersion.ReplaceAll(data, []byte("${1}"+runtime.Version()+`"`)), err
}

// files returns the names of the shipped notebooks.
func (c Copies) files() []string {
	names, _ := fs.Glob(c.Shipped, "*.ipynb") // The pattern is right, which is all that it checks.
	return names
}

// Names returns the names of the shipped notebooks, without .ipynb.
func (c Copies) Names() []string {
	names := c.files()
	for i, name := range names {
		names[i] = strings.TrimSuffix(name, ".ipynb")
	}
	return names
}

// Has returns the name of the shipped notebook that a path below a folder of them is, if it is one.
func (c Copies) Has(dir, file string) (name string, ok bool) {
	if file, err := filepath.Abs(file); err == nil {
		name, _ = filepath.Rel(dir, file)
	}
	return name, slices.Contains(c.files(), name)
}

// sums returns the recorded sums. Without a record that can be read, all copies that differ count as changed.
func (c Copies) sums() map[string]string {
	sums := make(map[string]string)
	raw, err := durable.ReadAtMost(filepath.Join(c.Dir, copied), durable.MaxText)
	if err == nil && (durable.ParseJSON(raw, &sums) != nil || sums == nil) { // "null" is JSON, too.
		return make(map[string]string)
	}
	return sums
}

func (c Copies) record(sums map[string]string) error {
	return durable.WriteJSON(filepath.Join(c.Dir, copied), sums)
}

// sum returns a digest of a notebook's cells. JupyterLab saves a notebook that was only opened, with other metadata and
// other line breaks in its file.
func sum(notebook []byte) string {
	var n struct {
		Cells []struct {
			Type        string `json:"cell_type"`
			ID          string `json:"id"`
			Source      any    `json:"source"`
			Outputs     any    `json:"outputs"`
			Attachments any    `json:"attachments"`
		} `json:"cells"`
	}
	if json.Unmarshal(notebook, &n) == nil && n.Cells != nil {
		for i := range n.Cells {
			c := &n.Cells[i]
			c.Source, c.Outputs = joined(c.Source), joined(c.Outputs)
		}
		if raw, err := json.Marshal(n.Cells); err == nil {
			notebook = raw
		}
	}
	return durable.Sum(notebook)
}

// joined returns a JSON value with lists of texts joined, since a text may be stored as a list of its lines, and
// without the counts of executions.
func joined(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "execution_count")
		for key, value := range v {
			v[key] = joined(value)
		}
	case []any:
		texts := make([]string, 0, len(v))
		for i, value := range v {
			v[i] = joined(value)
			if text, ok := v[i].(string); ok {
				texts = append(texts, text)
			}
		}
		if len(texts) == len(v) {
			return strings.Join(texts, "")
		}
	}
	return v
}

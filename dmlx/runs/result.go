package runs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Result contains the measures of a finished run, and where and how they were computed. It is stored as result.json.
type Result struct {
	Hash string `json:"run"`
	Spec Spec   `json:"spec"`

	// Backend is the name of the backend ("go", "xla:cpu", …). It is not part of the spec, because it changes only the
	// rounding.
	Backend string `json:"backend"`
	// Devices are the numbers of devices of that backend that the run was trained on, one after the other, and nil for
	// one device; see [train.Outcome]. They change only the rounding, too.
	Devices []int     `json:"devices,omitempty"`
	Machine string    `json:"machine"`
	Date    time.Time `json:"date"`
	Version string    `json:"version"` // [Version] of the program.
	Seconds float64   `json:"seconds"` // Of training and evaluation, without epochs that were lost when a run was stopped.
	// DataDigest is the digest of the images that the run trained and tested on.
	DataDigest string `json:"data_digest"`
	// Skipped is the number of images left out because they cannot be read; see [Spec].SkipBad.
	Skipped int `json:"skipped,omitempty"`

	train.Measures

	// Files are the SHA-256 of the run's other files, by name.
	Files map[string]string `json:"files,omitempty"`
	// Sum is the SHA-256 of all fields above, to detect damage.
	Sum string `json:"sum"`

	// Bundled is true for a result that comes with the program. Its directory is not in the store.
	Bundled bool `json:"-"`
	// Bundle is the bundled file that it comes from with the first digits of its digest, "quick 0123abcd".
	Bundle string `json:"-"`
}

// BackendText returns the backend, with the numbers of devices if they are not one: "xla:cuda on 4, then 1 devices".
func (r *Result) BackendText() string {
	if len(r.Devices) == 0 {
		return r.Backend
	}
	text := slice.Map(r.Devices, strconv.Itoa)
	return fmt.Sprintf("%s on %s devices", r.Backend, strings.Join(text, ", then "))
}

// seal computes Sum.
func (r *Result) seal() (err error) {
	r.Sum, err = r.sum()
	return err
}

func (r *Result) sum() (string, error) {
	c := *r
	c.Sum = ""
	return durable.SumOf(c)
}

// errNewer is the error for a result or a spec with unknown fields: a newer program wrote it, and it is not damaged.
var errNewer = errors.New("was written by a newer version of this program: update to read it")

// parseResult reads a result. It checks its checksum, its hash (hash "" accepts any), and that its files have the names
// of output files.
func parseResult(raw []byte, hash string) (*Result, error) {
	var r Result
	if err := durable.ParseJSON(raw, &r); err != nil {
		return nil, fmt.Errorf("is damaged: %w", err)
	}
	switch sum, err := r.sum(); {
	case err != nil:
		return nil, err
	case sum != r.Sum && !knowsAllFields(raw, new(Result)):
		return nil, errNewer
	case sum != r.Sum:
		return nil, errors.New("is damaged: wrong checksum")
	case hash != "" && r.Hash != hash:
		return nil, fmt.Errorf("belongs to another run, %s", r.Hash)
	case r.Spec.Recipe == Recipe && r.Spec.Hash() != r.Hash:
		return nil, fmt.Errorf("does not belong here: its spec has the hash %s", r.Spec.Hash())
	}
	for name := range r.Files {
		if !outputFile.MatchString(filepath.ToSlash(name)) {
			return nil, fmt.Errorf("lists %q, which is not an output file of a run", name)
		}
	}
	return &r, nil
}

// knowsAllFields reports whether this program knows all fields of the JSON of a value, which it reads into v.
func knowsAllFields(raw []byte, v any) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(v) == nil
}

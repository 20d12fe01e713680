package runs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gradient-surgery/dml/dmlx/train"
)

// Result is what a finished run found, and where and how. It is kept as result.json.
type Result struct {
	Hash string `json:"run"`
	Spec Spec   `json:"spec"`

	// Backend is that of the run ("go", "xla:cpu", …). It is no part of the spec: it changes rounding only.
	Backend string    `json:"backend"`
	Machine string    `json:"machine"`
	Date    time.Time `json:"date"`
	Version string    `json:"version"` // Of this module, as the Go toolchain stamped it.
	Seconds float64   `json:"seconds"` // Of training and evaluation, without those of stopped attempts' lost epochs.
	// DataDigest is that of the images trained and tested on.
	DataDigest string `json:"data_digest"`
	// Skipped is how many images were left out because they cannot be read, as [Spec].SkipBad allows.
	Skipped int `json:"skipped,omitempty"`

	train.Measures

	// Files are the run directory's other files with their SHA-256.
	Files map[string]string `json:"files,omitempty"`
	// Sum is the SHA-256 of all the above, so that damage shows.
	Sum string `json:"sum"`

	// Shipped is true for a result that came with the program: its directory is not in the store.
	Bundled bool `json:"-"`
}

// seal fills Sum.
func (r *Result) seal() error {
	sum, err := r.sum()
	r.Sum = sum
	return err
}

func (r *Result) sum() (string, error) {
	c := *r
	c.Sum = ""
	raw, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(raw)
	return hex.EncodeToString(h[:]), nil
}

// errNewer is that of a result with fields that this program does not know: nothing is wrong with it.
var errNewer = errors.New("was written by a newer version of this program, which can read it")

// parseResult reads a result and checks it against its own sum and the hash it must have, and that the files it rests on are
// those of a run.
func parseResult(raw []byte, hash string) (*Result, error) {
	var r Result
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("is damaged: %w", err)
	}
	switch sum, err := r.sum(); {
	case err != nil:
		return nil, err
	case sum != r.Sum && !knowsAllFields(raw):
		return nil, errNewer
	case sum != r.Sum:
		return nil, errors.New("is damaged: its checksum does not fit")
	case hash != "" && r.Hash != hash:
		return nil, fmt.Errorf("is that of another run, %s", r.Hash)
	case r.Spec.Recipe == Recipe && r.Spec.Hash() != r.Hash:
		return nil, fmt.Errorf("is foreign: its spec has the hash %s", r.Spec.Hash())
	}
	for name := range r.Files {
		if !archivable.MatchString(filepath.ToSlash(name)) {
			return nil, fmt.Errorf("rests on %q, which is no file of a run", name)
		}
	}
	return &r, nil
}

// known tells whether this program knows all fields of a result.
func knowsAllFields(raw []byte) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(new(Result)) == nil
}

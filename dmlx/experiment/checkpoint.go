package experiment

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/brief"
	"github.com/gradient-surgery/dml/dmlx/internal/durable"
)

const (
	checkpointDir = "checkpoint"
	stateFile     = "state.json"
)

// checkpoint is checkpoint/state.json: where a run stands at the end of an epoch. It is written last and names the
// weights that belong to it, so that a run killed between the two has the checkpoint before.
type checkpoint struct {
	Run        string  `json:"run"`
	Backend    string  `json:"backend"`
	DataDigest string  `json:"data_digest"`
	Epoch      int     `json:"epoch"` // Epochs done.
	Epochs     []Epoch `json:"epochs"`
	Seconds    float64 `json:"seconds"`
	Diverged   string  `json:"diverged,omitempty"`
	Weights    string  `json:"weights"`     // The file in the same directory,
	WeightsSum string  `json:"weights_sum"` // and its SHA-256.
	// Traces are the files of triplets that lie before it, by their names in the run's directory, with their SHA-256.
	// Older programs wrote none down.
	Traces map[string]string `json:"traces,omitempty"`
	Sum    string            `json:"sum"` // SHA-256 of all the above.
}

// flavour is the backend as far as rounding depends on it.
func flavour(c *backend.Choice) string {
	if c.Name == "go" && c.SIMD {
		return "go with simd"
	}
	return c.Name
}

// open makes the run's directory and its first weights, or those of the checkpoint. What is damaged, or is of another
// run, is set aside.
func (t *trainer) open(store *Store) error {
	hash := t.spec.Hash()
	t.dir = store.Path(hash)
	if err := ownDirectory(t.dir, hash); err != nil {
		var bad *unusable
		if !errors.As(err, &bad) {
			return err
		}
		if err := store.setAside(t.dir, bad); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(t.dir, checkpointDir), 0o777); err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	sweep(t.dir)
	if err := writeJSON(filepath.Join(t.dir, specFile), t.spec); err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	fresh := checkpoint{Run: hash, Backend: flavour(t.choice), DataDigest: t.set.Digest}
	err := t.load(fresh)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		if err := store.setAside(filepath.Join(t.dir, checkpointDir), brief.Error(err)); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(t.dir, checkpointDir), 0o777); err != nil {
			return err
		}
	}
	// Nothing of an attempt that is not gone on with may pass for this run's.
	for _, name := range []string{traceDir, metricsFile, EmbeddingsFile, LabelsFile, GalleryEmbeddingsFile, GalleryLabelsFile} {
		if err := os.RemoveAll(filepath.Join(t.dir, name)); err != nil {
			return fmt.Errorf("the run store cannot be written: %w", err)
		}
	}
	t.state = fresh
	return t.initialise()
}

// initialise sets the weights, and proxies if there are any, to the run's start.
func (t *trainer) initialise() error {
	if n := t.by.proxies; n > 0 {
		if err := backbone.SetProxies(t.engine.weights, firstProxies(n, t.spec.Dim, t.spec.Seed), n, t.spec.Dim); err != nil {
			return err
		}
	}
	if t.spec.Weights == Random {
		return backbone.Init(t.engine.weights, t.engine.key.arch, t.spec.Dim, t.spec.Seed)
	}
	raw, err := t.spec.pretrained()
	if err != nil {
		return err
	}
	if digest := digestOf(raw); digest != t.spec.WeightsDigest {
		return fmt.Errorf("the spec is for pretrained weights %s, this program has %s", t.spec.WeightsDigest, digest)
	}
	if _, err := backbone.DecodeWeights(raw, t.engine.weights, backbone.LoadOptions{Arch: t.engine.key.arch, WithoutHead: true}); err != nil {
		return fmt.Errorf("pretrained weights: %w", err)
	}
	return backbone.InitHead(t.engine.weights, t.engine.key.arch, t.spec.Dim, t.spec.Seed)
}

// ownDirectory tells whether a directory, if it is there, is that of the run. A directory without any spec is, while it
// has no checkpoint: it was made in the moment of a kill.
func ownDirectory(dir, hash string) error {
	if _, err := contents(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	raw, err := os.ReadFile(filepath.Join(dir, specFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, checkpointDir, stateFile)); err == nil {
			return &unusable{fmt.Errorf("has a checkpoint but no %s", specFile)}
		}
		return nil
	} else if err != nil {
		return err
	}
	var spec Spec
	if err := json.Unmarshal(raw, &spec); err != nil {
		return &unusable{fmt.Errorf("has a damaged %s: %w", specFile, err)}
	}
	if have := spec.Hash(); have != hash {
		return &unusable{fmt.Errorf("is foreign: its spec has the hash %s", have)}
	}
	return nil
}

// sweep removes what a killed process was about to write: the hidden files of [durable.WriteFile] and [Store.Refresh],
// of the names that a run has, and nothing else. dir has no symbolic links in it; see [contents].
func sweep(dir string) {
	for _, sub := range []string{"", checkpointDir, traceDir} {
		entries, _ := os.ReadDir(filepath.Join(dir, sub))
		for _, e := range entries {
			name, ok := durable.Temporary(e.Name())
			ours := ok && (archivable.MatchString(path.Join(sub, name)) || "."+name == refreshPrefix)
			if ours && e.Type().IsRegular() {
				_ = os.Remove(filepath.Join(dir, sub, e.Name())) // What stays does no harm.
			}
		}
	}
}

// addTrace writes down the sum of an epoch's triplets.
func (c *checkpoint) addTrace(dir string, epoch int) error {
	file := tracePath(dir, epoch)
	sum, err := fileSum(file)
	if err != nil {
		return err
	}
	if c.Traces == nil {
		c.Traces = make(map[string]string)
	}
	c.Traces[path.Join(traceDir, filepath.Base(file))] = sum
	return nil
}

// soundTraces tells what is wrong with the triplets before the checkpoint, as far as it has their sums.
func (c *checkpoint) soundTraces(dir string) error {
	for _, name := range slices.Sorted(maps.Keys(c.Traces)) {
		if path.Dir(name) != traceDir || !archivable.MatchString(name) {
			return fmt.Errorf("is damaged: %q is no file of triplets", name)
		}
		if sum, err := fileSum(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			return fmt.Errorf("is damaged: %v", err) // Not wrapped: this file's absence is no absence of a checkpoint.
		} else if sum != c.Traces[name] {
			return fmt.Errorf("is damaged: the checksum of %s does not fit", name)
		}
	}
	return nil
}

func readCheckpoint(dir string) (*checkpoint, error) {
	raw, err := os.ReadFile(filepath.Join(dir, checkpointDir, stateFile))
	if err != nil {
		return nil, err
	}
	var c checkpoint
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("is damaged: %s: %w", stateFile, err)
	}
	if c.sum() != c.Sum {
		return nil, fmt.Errorf("is damaged: the checksum of %s does not fit", stateFile)
	}
	return &c, nil
}

func (c checkpoint) sum() string {
	c.Sum = ""
	raw, _ := json.Marshal(c) // Its numbers are finite.
	h := sha256.Sum256(raw)
	return hex.EncodeToString(h[:])
}

// load reads the checkpoint, which must be of the run, backend and data of want. The error is fs.ErrNotExist if there is
// none; any other tells why there is none to be used.
func (t *trainer) load(want checkpoint) error {
	c, err := readCheckpoint(t.dir)
	if err != nil {
		return err
	}
	switch {
	case c.Run != want.Run:
		return fmt.Errorf("is foreign: of run %s", c.Run)
	case c.Backend != want.Backend:
		return fmt.Errorf("was made on backend %s, this is %s", c.Backend, want.Backend)
	case c.DataDigest != want.DataDigest:
		return fmt.Errorf("was made on other images of %s", t.spec.Data)
	case c.Epoch != len(c.Epochs) || c.Epoch < 1 || c.Epoch > t.spec.Epochs:
		return errors.New("is damaged: its epochs do not count up")
	}
	raw, err := os.ReadFile(filepath.Join(t.dir, checkpointDir, filepath.Base(c.Weights)))
	if err != nil {
		return fmt.Errorf("is damaged: %v", err) // Not wrapped: this file's absence is no absence of a checkpoint.
	}
	if h := sha256.Sum256(raw); hex.EncodeToString(h[:]) != c.WeightsSum {
		return fmt.Errorf("is damaged: the checksum of %s does not fit", c.Weights)
	}
	if _, err := backbone.DecodeWeights(raw, t.engine.weights, backbone.LoadOptions{Arch: t.engine.key.arch, Dim: t.spec.Dim, Proxies: t.by.proxies}); err != nil {
		return fmt.Errorf("is damaged: %v", err)
	}
	if err := c.soundTraces(t.dir); err != nil {
		return err
	}
	if c.Traces == nil { // Nothing was traced yet; or an older program wrote it, and the files are taken as they are.
		last := c.Epoch
		if strings.HasPrefix(c.Diverged, "not finite") {
			last-- // That epoch left none.
		}
		for epoch := max(t.spec.Epochs-tracedEpochs, 0) + 1; epoch <= last; epoch++ {
			if err := c.addTrace(t.dir, epoch); err != nil {
				return fmt.Errorf("is damaged: %v", err)
			}
		}
	}
	t.state = *c
	return t.writeMetrics() // A kill may have come between the metrics and the checkpoint.
}

// save writes weights, metrics and state, in this order, and removes the weights before.
func (t *trainer) save() error {
	old := t.state.Weights
	dir := filepath.Join(t.dir, checkpointDir)
	t.state.Weights = fmt.Sprintf("weights-%03d.safetensors", t.state.Epoch)
	raw, err := backbone.EncodeWeights(t.engine.weights, t.engine.key.arch, t.metadata())
	if err != nil {
		return err
	}
	h := sha256.Sum256(raw)
	t.state.WeightsSum = hex.EncodeToString(h[:])
	if err := durable.WriteFile(filepath.Join(dir, t.state.Weights), raw, 0o644); err != nil {
		return fmt.Errorf("the checkpoint cannot be written: %w", err)
	}
	if err := t.writeMetrics(); err != nil {
		return fmt.Errorf("the metrics cannot be written: %w", err)
	}
	t.state.Sum = t.state.sum()
	if err := writeJSON(filepath.Join(dir, stateFile), t.state); err != nil {
		return fmt.Errorf("the checkpoint cannot be written: %w", err)
	}
	if old != "" && old != t.state.Weights {
		_ = os.Remove(filepath.Join(dir, old)) // What stays does no harm.
	}
	return nil
}

// metadata is what a user of the weights needs beside them: how images are prepared for the network, and where it comes from.
func (t *trainer) metadata() map[string]string {
	p := backbone.Preprocessing{Resize: t.spec.Size, Crop: t.spec.Size, Mean: t.set.Mean, Std: t.set.Std}
	meta := p.Metadata()
	meta["run"], meta["epoch"] = t.state.Run, strconv.Itoa(t.state.Epoch)
	meta["data"], meta["rule"], meta["dim"] = t.set.Name, t.spec.Rule, strconv.Itoa(t.spec.Dim)
	if t.by.loss != nil {
		delete(meta, "rule")
		meta["loss"] = strings.TrimPrefix(t.spec.Objective(), "loss ")
	}
	if t.by.proxies > 0 { // Of the tensor "proxies.weight": the data set's label of each of its classes, in the order of rows.
		meta["proxy_classes"], meta["proxies_per_class"] = t.proxyClasses(), strconv.Itoa(t.by.perClass)
	}
	return meta
}

// writeMetrics writes all epochs so far, so that none is there twice however often the run was stopped.
func (t *trainer) writeMetrics() error {
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for _, e := range t.state.Epochs {
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	return durable.WriteFile(filepath.Join(t.dir, metricsFile), lines.Bytes(), 0o644)
}

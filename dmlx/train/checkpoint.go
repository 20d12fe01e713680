package train

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
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/brief"
	"github.com/gradient-surgery/dml/dmlx/internal/durable"
)

// checkpoint is checkpoint/state.json: where a run stands at the end of an epoch. It is written last and names the
// weights that belong to it, so that a run killed between the two has the checkpoint before.
type Checkpoint struct {
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
	Triplets map[string]string `json:"traces,omitempty"`
	Sum      string            `json:"sum"` // SHA-256 of all the above.
}

const (
	CheckpointDir  = "checkpoint"
	CheckpointFile = "state.json"
)

func ReadCheckpoint(dir string) (*Checkpoint, error) {
	raw, err := os.ReadFile(filepath.Join(dir, CheckpointDir, CheckpointFile))
	if err != nil {
		return nil, err
	}
	var c Checkpoint
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("is damaged: %s: %w", CheckpointFile, err)
	}
	if c.Checksum() != c.Sum {
		return nil, fmt.Errorf("is damaged: the checksum of %s does not fit", CheckpointFile)
	}
	return &c, nil
}

func (c Checkpoint) Checksum() string {
	c.Sum = ""
	raw, _ := json.Marshal(c) // Its numbers are finite.
	h := sha256.Sum256(raw)
	return hex.EncodeToString(h[:])
}

// soundTraces tells what is wrong with the triplets before the checkpoint, as far as it has their sums.
func (c *Checkpoint) CheckTriplets(dir string) error {
	for _, name := range slices.Sorted(maps.Keys(c.Triplets)) {
		if path.Dir(name) != TripletsDir || !trainingFiles.MatchString(name) {
			return fmt.Errorf("is damaged: %q is no file of triplets", name)
		}
		if sum, err := durable.FileSum(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			return fmt.Errorf("is damaged: %v", err) // Not wrapped: this file's absence is no absence of a checkpoint.
		} else if sum != c.Triplets[name] {
			return fmt.Errorf("is damaged: the checksum of %s does not fit", name)
		}
	}
	return nil
}

// addTrace writes down the sum of an epoch's triplets.
func (c *Checkpoint) addTriplets(dir string, epoch int) error {
	file := tripletsPath(dir, epoch)
	sum, err := durable.FileSum(file)
	if err != nil {
		return err
	}
	if c.Triplets == nil {
		c.Triplets = make(map[string]string)
	}
	c.Triplets[path.Join(TripletsDir, filepath.Base(file))] = sum
	return nil
}

// open reads the checkpoint, or sets the first weights. A checkpoint that is damaged, or is of another run, is set aside.
func (s *session) open() error {
	if err := os.MkdirAll(filepath.Join(s.Dir, CheckpointDir), 0o777); err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	removeTemporaries(s.Dir)
	fresh := Checkpoint{Run: s.ID, Backend: backendVariant(s.trainer.Choice), DataDigest: s.Set.Digest}
	err := s.load(fresh)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		if err := durable.SetAside(filepath.Join(s.Dir, CheckpointDir), brief.Error(err), s.Warn); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(s.Dir, CheckpointDir), 0o777); err != nil {
			return err
		}
	}
	// Nothing of an attempt that is not gone on with may pass for this run's.
	for _, name := range []string{TripletsDir, MetricsFile, EmbeddingsFile, LabelsFile, GalleryEmbeddingsFile, GalleryLabelsFile} {
		if err := os.RemoveAll(filepath.Join(s.Dir, name)); err != nil {
			return fmt.Errorf("the run store cannot be written: %w", err)
		}
	}
	s.state = fresh
	return s.initialize()
}

// initialise sets the weights, and proxies if there are any, to the run's start.
func (s *session) initialize() error {
	if n := s.objective.proxies; n > 0 {
		if err := backbone.SetProxies(s.step.weights, initialProxies(n, s.Dim, s.Seed), n, s.Dim); err != nil {
			return err
		}
	}
	if s.Weights == Random {
		return backbone.Init(s.step.weights, s.step.key.arch, s.Dim, s.Seed)
	}
	raw, err := s.pretrained()
	if err != nil {
		return err
	}
	if digest := DigestOf(raw); digest != s.WeightsDigest {
		return fmt.Errorf("the spec is for pretrained weights %s, this program has %s", s.WeightsDigest, digest)
	}
	if _, err := backbone.DecodeWeights(raw, s.step.weights, backbone.LoadOptions{Arch: s.step.key.arch, WithoutHead: true}); err != nil {
		return fmt.Errorf("pretrained weights: %w", err)
	}
	return backbone.InitHead(s.step.weights, s.step.key.arch, s.Dim, s.Seed)
}

// load reads the checkpoint, which must be of the run, backend and data of want. The error is fs.ErrNotExist if there is
// none; any other tells why there is none to be used.
func (s *session) load(want Checkpoint) error {
	c, err := ReadCheckpoint(s.Dir)
	if err != nil {
		return err
	}
	switch {
	case c.Run != want.Run:
		return fmt.Errorf("is foreign: of run %s", c.Run)
	case c.Backend != want.Backend:
		return fmt.Errorf("was made on backend %s, this is %s", c.Backend, want.Backend)
	case c.DataDigest != want.DataDigest:
		return fmt.Errorf("was made on other images of %s", s.Set.Name)
	case c.Epoch != len(c.Epochs) || c.Epoch < 1 || c.Epoch > s.Epochs:
		return errors.New("is damaged: its epochs do not count up")
	}
	raw, err := os.ReadFile(filepath.Join(s.Dir, CheckpointDir, filepath.Base(c.Weights)))
	if err != nil {
		return fmt.Errorf("is damaged: %v", err) // Not wrapped: this file's absence is no absence of a checkpoint.
	}
	if h := sha256.Sum256(raw); hex.EncodeToString(h[:]) != c.WeightsSum {
		return fmt.Errorf("is damaged: the checksum of %s does not fit", c.Weights)
	}
	if _, err := backbone.DecodeWeights(raw, s.step.weights, backbone.LoadOptions{Arch: s.step.key.arch, Dim: s.Dim, Proxies: s.objective.proxies}); err != nil {
		return fmt.Errorf("is damaged: %v", err)
	}
	if err := c.CheckTriplets(s.Dir); err != nil {
		return err
	}
	if c.Triplets == nil { // Nothing was traced yet; or an older program wrote it, and the files are taken as they are.
		last := c.Epoch
		if strings.HasPrefix(c.Diverged, "not finite") {
			last-- // That epoch left none.
		}
		for epoch := max(s.Epochs-tracedEpochs, 0) + 1; epoch <= last; epoch++ {
			if err := c.addTriplets(s.Dir, epoch); err != nil {
				return fmt.Errorf("is damaged: %v", err)
			}
		}
	}
	s.state = *c
	return s.writeMetrics() // A kill may have come between the metrics and the checkpoint.
}

// save writes weights, metrics and state, in this order, and removes the weights before.
func (s *session) save() error {
	old := s.state.Weights
	dir := filepath.Join(s.Dir, CheckpointDir)
	s.state.Weights = fmt.Sprintf("weights-%03d.safetensors", s.state.Epoch)
	raw, err := backbone.EncodeWeights(s.step.weights, s.step.key.arch, s.metadata())
	if err != nil {
		return err
	}
	h := sha256.Sum256(raw)
	s.state.WeightsSum = hex.EncodeToString(h[:])
	if err := durable.WriteFile(filepath.Join(dir, s.state.Weights), raw, 0o644); err != nil {
		return fmt.Errorf("the checkpoint cannot be written: %w", err)
	}
	if err := s.writeMetrics(); err != nil {
		return fmt.Errorf("the metrics cannot be written: %w", err)
	}
	s.state.Sum = s.state.Checksum()
	if err := durable.WriteJSON(filepath.Join(dir, CheckpointFile), s.state); err != nil {
		return fmt.Errorf("the checkpoint cannot be written: %w", err)
	}
	if old != "" && old != s.state.Weights {
		_ = os.Remove(filepath.Join(dir, old)) // What stays does no harm.
	}
	return nil
}

// metadata is what a user of the weights needs beside them: how images are prepared for the network, and where it comes from.
func (s *session) metadata() map[string]string {
	p := backbone.Preprocessing{Resize: s.Set.Train.Size, Crop: s.Set.Train.Size, Mean: s.Set.Mean, Std: s.Set.Std}
	meta := p.Metadata()
	meta["run"], meta["epoch"] = s.state.Run, strconv.Itoa(s.state.Epoch)
	meta["data"], meta["rule"], meta["dim"] = s.Set.Name, s.Rule, strconv.Itoa(s.Dim)
	if s.objective.loss != nil {
		delete(meta, "rule")
		meta["loss"] = strings.TrimPrefix(s.Objective(), "loss ")
	}
	if s.objective.proxies > 0 { // Of the tensor "proxies.weight": the data set's label of each of its classes, in the order of rows.
		meta["proxy_classes"], meta["proxies_per_class"] = s.proxyClasses(), strconv.Itoa(s.objective.perClass)
	}
	return meta
}

// writeMetrics writes all epochs so far, so that none is there twice however often the run was stopped.
func (s *session) writeMetrics() error {
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for _, e := range s.state.Epochs {
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	return durable.WriteFile(filepath.Join(s.Dir, MetricsFile), lines.Bytes(), 0o644)
}

// flavour is the backend as far as rounding depends on it.
func backendVariant(c *backend.Choice) string {
	if c.Name == "go" && c.SIMD {
		return "go with simd"
	}
	return c.Name
}

// written are the files that a training writes into its folder.
var trainingFiles = regexp.MustCompile(`^(metrics\.jsonl|(gallery_)?(embeddings|labels)\.npy|` +
	`triplets/epoch-[0-9]+\.npy|checkpoint/(state\.json|weights-[0-9]+\.safetensors))$`)

// sweep removes what a killed process was about to write of the files of a training, and nothing else. dir has no symbolic
// links in it.
func removeTemporaries(dir string) {
	for _, sub := range []string{"", CheckpointDir, TripletsDir} {
		durable.Sweep(filepath.Join(dir, sub), func(name string) bool { return trainingFiles.MatchString(path.Join(sub, name)) })
	}
}

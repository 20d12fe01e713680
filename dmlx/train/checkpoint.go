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
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/heads"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

// Checkpoint is the file checkpoint/state.json: the state of a training at the end of an epoch. The folder of a
// training holds
//
//	checkpoint/state.json                   this struct; written last
//	checkpoint/weights-003.safetensors      weights and proxies after epoch 3, with PyTorch's names
//	checkpoint/state-003.safetensors        what the optimizer keeps after epoch 3, if anything
//	metrics.jsonl                           an [Epoch] a line
//	triplets/epoch-003.npy                  S_ap and S_an of the triplets of one of the last five epochs
//
// Each file is written beside its place and then renamed. Since state.json comes last and names the weights by their
// SHA-256, a training killed at any moment still has the checkpoint before. There is no state of the schedule, the
// sampler or of random numbers: these depend only on the seed and the step. Nor does plain SGD have any.
type Checkpoint struct {
	Run        string  `json:"run"` // [Training].ID.
	Backend    string  `json:"backend"`
	Devices    []int   `json:"devices,omitempty"` // Numbers of devices; see [Outcome].
	DataDigest string  `json:"data_digest"`
	Epoch      int     `json:"epoch"`  // The number of epochs done.
	Epochs     []Epoch `json:"epochs"` // Their measures.
	Seconds    float64 `json:"seconds"`
	Diverged   string  `json:"diverged,omitempty"`
	Weights    string  `json:"weights"`     // The name of the weights file in the same folder.
	WeightsSum string  `json:"weights_sum"` // Its SHA-256.
	// State is the name of the file of the optimizer, and StateSum its SHA-256. They are empty if
	// neither keeps anything.
	State    string `json:"state,omitempty"`
	StateSum string `json:"state_sum,omitempty"`
	// Triplets has the SHA-256 of the files of triplets, by their paths in the folder of the training.
	Triplets map[string]string `json:"traces,omitempty"`
	// Head is what was chosen before the first epoch for a training with [Options].Start.
	Head *heads.Choice `json:"head,omitempty"`
	Sum  string        `json:"sum"` // SHA-256 of the JSON of all the above.
}

// The folder and file of a [Checkpoint].
const (
	CheckpointDir  = "checkpoint"
	CheckpointFile = "state.json"
)

// ReadCheckpoint reads the checkpoint of the training in a folder. The error is [fs.ErrNotExist] without one; other
// errors say what is damaged, to follow the name of a file. It does not read the weights.
func ReadCheckpoint(dir string) (*Checkpoint, error) {
	raw, err := durable.ReadAtMost(filepath.Join(dir, CheckpointDir, CheckpointFile), durable.MaxText)
	if err != nil {
		return nil, err
	}
	var c Checkpoint
	if err := durable.ParseJSON(raw, &c); err != nil {
		return nil, fmt.Errorf("is damaged: %s: %w", CheckpointFile, err)
	}
	if c.Checksum() != c.Sum {
		return nil, fmt.Errorf("is damaged: the checksum of %s does not fit", CheckpointFile)
	}
	return &c, nil
}

// NamedSum is the name of a file and its SHA-256.
type NamedSum struct{ Name, Sum string }

// Files returns the files beside state.json in the folder of the checkpoint that it needs.
func (c Checkpoint) Files() []NamedSum {
	files := []NamedSum{{filepath.Base(c.Weights), c.WeightsSum}}
	if c.State != "" {
		files = append(files, NamedSum{filepath.Base(c.State), c.StateSum})
	}
	return files
}

// Checksum returns the value that Sum must have.
func (c Checkpoint) Checksum() string {
	epochs := c.Epochs
	c.Sum, c.Epochs = "", nil
	raw, _ := json.Marshal(c)                                   // Its numbers are finite.
	before, after, _ := bytes.Cut(raw, []byte(`"epochs":null`)) // No text has these quotes without a backslash.
	h := sha256.New()
	h.Write(before)
	h.Write([]byte(`"epochs":`))
	for i, e := range epochs { // One by one, since as one text they take more memory than as numbers.
		raw, _ := json.Marshal(e)
		h.Write([]byte("[,")[min(i, 1):][:1])
		h.Write(raw)
	}
	switch {
	case epochs == nil:
		h.Write([]byte("null"))
	case len(epochs) == 0:
		h.Write([]byte("[]"))
	default:
		h.Write([]byte("]"))
	}
	h.Write(after)
	return hex.EncodeToString(h.Sum(nil))
}

// CheckTriplets returns an error if a file of triplets in the folder of the training is missing or has changed.
func (c *Checkpoint) CheckTriplets(dir string) error {
	for _, name := range slices.Sorted(maps.Keys(c.Triplets)) {
		if path.Dir(name) != TripletsDir || !trainingFiles.MatchString(name) {
			return fmt.Errorf("is damaged: %q is not the name of a file of triplets", name)
		}
		if sum, err := durable.FileSum(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			return fmt.Errorf("is damaged: %v", err) // Not wrapped: fs.ErrNotExist would mean that there is no checkpoint.
		} else if sum != c.Triplets[name] {
			return fmt.Errorf("is damaged: the checksum of %s does not fit", name)
		}
	}
	return nil
}

// addTriplets stores the SHA-256 of the triplets of an epoch.
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

// open loads the checkpoint of the training, or sets the initial weights if there is none. A checkpoint that is
// damaged or belongs to another training is renamed.
func (s *session) open() error {
	removeTemporaries(s.Dir)
	initial := Checkpoint{Run: s.ID, Backend: backendVariant(s.trainer.Choice), DataDigest: s.Data.Digest}
	err := s.load(initial)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		if err := durable.SetAside(filepath.Join(s.Dir, CheckpointDir), errs.Error(err), s.Warn); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(s.Dir, CheckpointDir), 0o777); err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	// Files of an earlier attempt must not be taken for those of this training.
	for _, name := range append([]string{TripletsDir}, outputs...) {
		if err := os.RemoveAll(filepath.Join(s.Dir, name)); err != nil {
			return fmt.Errorf("the run store cannot be written: %w", err)
		}
	}
	s.state = initial
	return s.initialize()
}

// initialize sets the initial weights, and the proxies if there are any.
func (s *session) initialize() error {
	if err := s.initializeWeights(); err != nil {
		return err
	}
	if err := s.setLast(); err != nil {
		return err
	}
	if err := s.step.markTrained(s.Options); err != nil {
		return err
	}
	return s.step.objective.options.resetState(s.step.weights)
}

func (s *session) initializeWeights() error {
	if n := s.step.objective.Proxies; n > 0 && s.HeadStart == "" {
		if err := backbone.SetProxies(s.step.weights, objectives.InitialProxies(n, s.Dim, s.Seed), n, s.Dim); err != nil {
			return err
		}
	}
	own, store := s.step.key.own, s.step.weights
	if own != nil || s.Weights == Random {
		if err := s.step.initialize(s.Seed); err != nil {
			return err
		}
	}
	if s.Weights == Random || s.NetworkFile != "" && s.weightsFile == "" {
		return nil
	}
	raw, err := s.pretrained()
	if err != nil {
		return err
	}
	if digest := weights.DigestOf(raw); digest != s.WeightsDigest {
		return fmt.Errorf("the spec wants pretrained weights with the digest %s, here they have %s", s.WeightsDigest, digest)
	}
	if err := s.loadStart(raw, store); err != nil {
		return fmt.Errorf("pretrained weights: %w", err)
	}
	if own != nil {
		return nil
	}
	return backbone.InitHead(store, s.step.key.arch, s.Dim, s.Seed)
}

// load reads the checkpoint and its weights. The checkpoint must be of the ID, backend and data of want. The error is
// [fs.ErrNotExist] if there is none; any other says why it cannot be used.
func (s *session) load(want Checkpoint) error {
	c, err := ReadCheckpoint(s.Dir)
	if err != nil {
		return err
	}
	switch {
	case c.Run != want.Run:
		return fmt.Errorf("is foreign: it belongs to run %s", c.Run)
	case c.Backend != want.Backend:
		return fmt.Errorf("was written on backend %s, this is %s", c.Backend, want.Backend)
	case c.DataDigest != want.DataDigest:
		return fmt.Errorf("was written with other images of %s", s.Data.Name)
	case c.Epoch != len(c.Epochs) || c.Epoch > s.Epochs || c.Epoch < 1 && s.HeadStart == "" && c.Head == nil:
		// A chosen start may stay.
		return errors.New("is damaged: its number of epochs is wrong")
	case s.Start != "" && !chosenWithin(c.Head, s.Epochs):
		return errors.New("is damaged: it does not say what was chosen for its network")
	}
	raw, err := s.readSummed(c.Weights, c.WeightsSum)
	if err != nil {
		return err
	}
	proxies := s.step.objective.Proxies
	if s.HeadStart != "" { // They are in the coordinates of the start.
		proxies = 0
	}
	if err := s.step.decode(raw, proxies); err != nil {
		return fmt.Errorf("is damaged: %v", err)
	}
	if err := s.step.markTrained(s.Options); err != nil {
		return err
	}
	if err := s.loadState(c); err != nil {
		return err
	}
	if err := c.CheckTriplets(s.Dir); err != nil {
		return err
	}
	s.state = *c
	return s.writeMetrics() // They may be ahead of the checkpoint if the process was killed between the two.
}

// readSummed reads a file of the checkpoint, which must have a SHA-256.
func (s *session) readSummed(name, sum string) ([]byte, error) {
	raw, err := durable.ReadFile(filepath.Join(s.Dir, CheckpointDir, filepath.Base(name)))
	if err != nil {
		return nil, fmt.Errorf("is damaged: %v", err) // Not wrapped: fs.ErrNotExist would mean that there is no checkpoint.
	}
	if durable.Sum(raw) != sum {
		return nil, fmt.Errorf("is damaged: the checksum of %s does not fit", name)
	}
	return raw, nil
}

// writeSummed writes a file of the checkpoint, and returns its name and SHA-256.
func (s *session) writeSummed(kind string, raw []byte) (name, sum string, err error) {
	name = fmt.Sprintf("%s-%03d.safetensors", kind, s.state.Epoch)
	if err := durable.WriteFile(filepath.Join(s.Dir, CheckpointDir, name), raw, 0o644); err != nil {
		return "", "", fmt.Errorf("the checkpoint cannot be written: %w", err)
	}
	return name, durable.Sum(raw), nil
}

// loadState reads what the optimizer keeps.
func (s *session) loadState(c *Checkpoint) error {
	store := s.step.weights
	if err := s.step.objective.options.resetState(store); err != nil {
		return err
	}
	paths := statePaths(store)
	if len(paths) == 0 && c.State == "" {
		return nil
	}
	raw, err := s.readSummed(c.State, c.StateSum)
	if err != nil {
		return err
	}
	if err := backbone.DecodeVariables(raw, store, paths, 0, 0); err != nil {
		return fmt.Errorf("is damaged: %s: %v", c.State, err)
	}
	return nil
}

// saveState writes what the optimizer keeps, if anything.
func (s *session) saveState() error {
	paths := statePaths(s.step.weights)
	if len(paths) == 0 {
		return nil
	}
	raw, err := backbone.EncodeVariables(s.step.weights, paths, nil)
	if err != nil {
		return err
	}
	s.state.State, s.state.StateSum, err = s.writeSummed("state", raw)
	return err
}

// save writes weights, metrics and state, in this order, and then removes the weights of the epoch before.
func (s *session) save() error {
	old := []string{s.state.Weights, s.state.State}
	raw, err := s.step.encode(s.metadata())
	if err != nil {
		return err
	}
	if s.state.Weights, s.state.WeightsSum, err = s.writeSummed("weights", raw); err != nil {
		return err
	}
	if err := s.saveState(); err != nil {
		return err
	}
	if err := s.writeMetrics(); err != nil {
		return fmt.Errorf("the metrics cannot be written: %w", err)
	}
	s.state.Sum = s.state.Checksum()
	if err := durable.WriteJSON(filepath.Join(s.Dir, CheckpointDir, CheckpointFile), s.state); err != nil {
		return fmt.Errorf("the checkpoint cannot be written: %w", err)
	}
	for _, name := range old {
		if name != "" && name != s.state.Weights && name != s.state.State {
			_ = os.Remove(filepath.Join(s.Dir, CheckpointDir, name)) // A file that stays does no harm.
		}
	}
	return nil
}

// metadata returns what users of the weights need: the preprocessing of images, and the origin of the weights.
func (s *session) metadata() map[string]string {
	meta := make(map[string]string)
	maps.Copy(meta, s.Data.Metadata)
	meta["run"], meta["epoch"] = s.state.Run, strconv.Itoa(s.state.Epoch)
	meta["data"], meta["rule"], meta["dim"] = s.Data.Name, s.Rule, strconv.Itoa(s.Dim)
	if !s.IsRule() {
		delete(meta, "rule")
		meta["loss"] = strings.TrimPrefix(s.Config.Objective.String(), "loss ")
	}
	if s.chosen != nil {
		meta["head_choice"] = s.chosen.Choice.String()
	}
	if s.state.Head != nil {
		meta["head_choice"] = s.state.Head.String()
	}
	if s.step.objective.Proxies > 0 && s.chosen == nil { // They describe the rows of the tensor "proxies.weight".
		meta["proxy_classes"], meta["proxies_per_class"] = s.proxyClasses(), strconv.Itoa(s.Config.Proxies())
	}
	return meta
}

// proxyClasses returns the labels of the classes that have proxies, in the order of the proxies' rows.
func (s *session) proxyClasses() string {
	labels := make([]string, len(s.classes))
	for label, i := range s.classes {
		labels[i] = fmt.Sprint(label)
	}
	return "[" + strings.Join(labels, ", ") + "]"
}

// writeMetrics rewrites the metrics of all epochs, so that resuming duplicates no line.
func (s *session) writeMetrics() error {
	return durable.WriteLines(filepath.Join(s.Dir, MetricsFile), s.state.Epochs, 0o644)
}

// backendVariant returns the backend as far as rounding depends on it.
func backendVariant(c *backend.Choice) string {
	if c.Name == "go" && c.SIMD {
		return "go with simd"
	}
	return c.Name
}

// trainingFiles matches the files that a training writes into its folder.
var trainingFiles = regexp.MustCompile(`^(metrics\.jsonl|(gallery_)?(embeddings|labels)\.npy|` +
	`triplets/epoch-[0-9]+\.npy|checkpoint/(state\.json|(weights|state)-[0-9]+\.safetensors))$`)

// removeTemporaries removes the temporary files that a killed training has left in its folder, and nothing else. No
// path below dir may be a symbolic link.
func removeTemporaries(dir string) {
	for _, sub := range []string{"", CheckpointDir, TripletsDir} {
		durable.Sweep(filepath.Join(dir, sub), func(name string) bool {
			return trainingFiles.MatchString(path.Join(sub, name))
		})
	}
}

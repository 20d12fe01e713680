package search

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/durable"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// Record is a line of a search's history: a trial at one length.
type Record struct {
	Trial  int    `json:"trial"` // From 0.
	Rung   int    `json:"rung"`  // From 0.
	Epochs int    `json:"epochs"`
	At     Point  `json:"at"`
	Run    string `json:"run"` // The hash of its spec.
	// HeldOut is Recall@1 of the training classes that are not trained on, a fraction; meaningless of a run that diverged.
	HeldOut  float64 `json:"held_out"`
	Diverged string  `json:"diverged,omitempty"`
	Seconds  float64 `json:"seconds"`
}

// Score is what a search maximises.
func (r Record) Score() float64 {
	if r.Diverged != "" {
		return math.Inf(-1)
	}
	return r.HeldOut
}

// dir is the folder of searches in a run store.
const dir = "searches"

const (
	settingsFile = "settings.json"
	historyFile  = "trials.jsonl"
)

var goodName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9._-]`)

// NameOf makes a text, such as a folder's name, part of a search's name.
func CleanName(text string) string { return notInNames.ReplaceAllString(text, "-") }

// Path is the folder of a search in a run store.
func Path(store *runs.Store, name string) (string, error) {
	if !goodName.MatchString(name) {
		return "", fmt.Errorf("%q is no name for a search: take letters, digits, and - _ . in it", name)
	}
	if err := noLinks(store, name); err != nil {
		return "", err
	}
	return filepath.Join(store.Dir, dir, name), nil
}

// noLinks fails if the folder of a search, or one of its files, is a symbolic link: whoever may write to a store could
// lead others elsewhere by it.
func noLinks(store *runs.Store, name string) error {
	for _, file := range []string{settingsFile, historyFile} {
		if err := durable.NoLink(store.Dir, filepath.Join(dir, name, file)); err != nil {
			return fmt.Errorf("search %s: %w", name, err)
		}
	}
	return nil
}

// List names the searches in a run store, and those shipped with the program.
func List(store *runs.Store) ([]string, error) {
	kept, err := os.ReadDir(filepath.Join(store.Dir, dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []string
	for _, e := range kept {
		folder := filepath.Join(store.Dir, dir, e.Name())
		if _, err := os.Lstat(filepath.Join(folder, settingsFile)); err == nil && noLinks(store, e.Name()) == nil {
			out = append(out, e.Name())
		}
	}
	more, err := bundled.ReadDir("bundled")
	if err != nil {
		return nil, err
	}
	for _, e := range more {
		if _, err := fs.Stat(bundled, path.Join("bundled", e.Name(), settingsFile)); err == nil {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

//go:embed bundled
var bundled embed.FS

// open reads a file of a search from a run store, or from those shipped with the program; which of them is decided by whether the
// store has the search.
func readSearchFile(folder, name, file string) ([]byte, error) {
	if _, err := os.Stat(filepath.Join(folder, settingsFile)); errors.Is(err, fs.ErrNotExist) {
		return bundled.ReadFile(path.Join("bundled", name, file))
	}
	return os.ReadFile(filepath.Join(folder, file))
}

// Open reads a search from a run store, or the one shipped with the program, with its history so far.
func Open(store *runs.Store, name string) (*Search, error) {
	folder, err := Path(store, name)
	if err != nil {
		return nil, err
	}
	raw, err := readSearchFile(folder, name, settingsFile)
	if errors.Is(err, fs.ErrNotExist) {
		names, _ := List(store)
		there := "none"
		if len(names) > 0 {
			there = strings.Join(names, ", ")
		}
		return nil, fmt.Errorf("no search %q in %s; there are %s", name, store.Dir, there)
	} else if err != nil {
		return nil, err
	}
	var s Search
	if err := json.Unmarshal(raw, &s.Settings); err != nil {
		return nil, fmt.Errorf("search %s: %s is damaged: %w", name, settingsFile, err)
	}
	if err := s.Settings.Check(); err != nil {
		return nil, fmt.Errorf("search %s: %w", name, err)
	}
	s.store, s.path = store, folder
	return &s, s.readHistory()
}

// Begin starts a search in a run store, or opens the one of this name to go on with it, which must have the same settings.
func Begin(store *runs.Store, settings Settings) (*Search, error) {
	if err := settings.Check(); err != nil {
		return nil, err
	}
	folder, err := Path(store, settings.Name)
	if err != nil {
		return nil, err
	}
	_, missing := os.Stat(filepath.Join(folder, settingsFile))
	if missing == nil {
		s, err := Open(store, settings.Name)
		if err != nil {
			return nil, err
		}
		if d := s.differences(settings); d != nil {
			return nil, fmt.Errorf("search %s in %s was begun with other settings: %s; go on with those, or take another --name",
				settings.Name, store.Dir, strings.Join(d, "; "))
		}
		s.base = settings.Base
		return s, nil
	}
	s := &Search{Settings: settings, base: settings.Base, store: store, path: folder}
	if known, err := Open(store, settings.Name); err == nil && known.differences(settings) == nil {
		s.Records = known.Records // Shipped with the program: it is gone on with.
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, fmt.Errorf("the search cannot be kept: %w", err)
	}
	raw, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return nil, err
	}
	if s.Records != nil { // Before the settings, with which the search is there.
		if err := s.saveHistory(); err != nil {
			return nil, err
		}
	}
	if err := durable.WriteFile(filepath.Join(folder, settingsFile), append(raw, '\n'), 0o666); err != nil {
		return nil, fmt.Errorf("the search cannot be kept: %w", err)
	}
	return s, nil
}

// differences lists how other settings differ from those of the search: as it has them, not as they are now.
func (s *Search) differences(now Settings) []string {
	out := s.Space.differences(now.Space)
	if out != nil {
		out = []string{"its space has " + strings.Join(out, ", ")}
	}
	was, is := flatSettings(s.Settings), flatSettings(now)
	for _, name := range slices.Sorted(unionKeys(was, is)) {
		if was[name] != is[name] {
			out = append(out, fmt.Sprintf("%s %s, not %s", name, orNone(was[name]), orNone(is[name])))
		}
	}
	return out
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func unionKeys(maps ...map[string]string) func(yield func(string) bool) {
	seen := make(map[string]bool)
	return func(yield func(string) bool) {
		for _, m := range maps {
			for k := range m {
				if !seen[k] {
					seen[k] = true
					if !yield(k) {
						return
					}
				}
			}
		}
	}
}

// fields are settings but their space, flat: those of the base spec under their own names.
func flatSettings(s Settings) map[string]string {
	out := make(map[string]string)
	add := func(raw []byte) {
		var m map[string]json.RawMessage
		if json.Unmarshal(raw, &m) == nil { // It was just written.
			for k, v := range m {
				out[k] = string(v)
			}
		}
	}
	add(s.Base.Canonical())
	seed := out["seed"]
	delete(out, "seed")
	raw, _ := json.Marshal(s) // Check has seen its numbers.
	add(raw)
	delete(out, "base")
	delete(out, "space")
	out["seed of the runs"] = seed
	return out
}

// read reads the history anew.
func (s *Search) readHistory() error {
	s.Records = nil
	raw, err := readSearchFile(s.path, s.Name, historyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for line := range bytes.Lines(raw) {
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("search %s: %s, line %d, is damaged: %w", s.Name, historyFile, len(s.Records)+1, err)
		}
		s.Records = append(s.Records, r)
	}
	return nil
}

// save writes the history anew, whole.
func (s *Search) saveHistory() error {
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for _, r := range s.Records {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	if err := durable.WriteFile(filepath.Join(s.path, historyFile), lines.Bytes(), 0o666); err != nil {
		return fmt.Errorf("the history of search %s cannot be written: %w", s.Name, err)
	}
	return nil
}

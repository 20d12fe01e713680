package search

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// Record is a line of the history of a search: a trial at one length.
type Record struct {
	Trial  int    `json:"trial"` // From 0.
	Rung   int    `json:"rung"`  // From 0.
	Epochs int    `json:"epochs"`
	At     Point  `json:"at"`
	Run    string `json:"run"` // Hash of the spec.
	// HeldOut is Recall@1 of the held-out training classes, a fraction. It is meaningless if the run diverged.
	HeldOut  float64 `json:"held_out"`
	Diverged string  `json:"diverged,omitempty"`
	Seconds  float64 `json:"seconds"`
}

// Score returns what a search maximizes: HeldOut, or −Inf if the run diverged.
func (r Record) Score() float64 {
	if r.Diverged != "" {
		return math.Inf(-1)
	}
	return r.HeldOut
}

// dir is the folder for searches in a run store.
const dir = "searches"

const (
	settingsFile = "settings.json"
	historyFile  = "trials.jsonl"
)

var goodName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9._-]`)

// CleanName replaces the characters of a text, such as the name of a folder, that the name of a search must not
// contain.
func CleanName(text string) string { return notInNames.ReplaceAllString(text, "-") }

// Path returns the folder of a search in a run store.
func Path(store *runs.Store, name string) (string, error) {
	if !goodName.MatchString(name) {
		return "", fmt.Errorf("%q is not a valid name of a search: use letters, digits, and - _ . after the first character",
			name)
	}
	if err := noLinks(store, name); err != nil {
		return "", err
	}
	return filepath.Join(store.Dir, dir, name), nil
}

// noLinks returns an error if the folder of a search or one of its files is a symbolic link, because anyone who may
// write to a store could redirect others with it.
func noLinks(store *runs.Store, name string) error {
	for _, file := range []string{settingsFile, historyFile} {
		if err := durable.NoLink(store.Dir, filepath.Join(dir, name, file)); err != nil {
			return fmt.Errorf("search %s: %w", name, err)
		}
	}
	return nil
}

// List returns the names of the searches in a run store and of those bundled with the program.
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

// readSearchFile reads a file of a search from a run store, or from the bundled searches if the store does not have the
// search.
func readSearchFile(folder, name, file string) ([]byte, error) {
	if _, err := os.Stat(filepath.Join(folder, settingsFile)); errors.Is(err, fs.ErrNotExist) {
		return bundled.ReadFile(path.Join("bundled", name, file))
	}
	return durable.ReadBelow(folder, file)
}

// Open opens a search of a run store, or else a bundled one, with its history so far.
func Open(store *runs.Store, name string) (*Search, error) {
	folder, err := Path(store, name)
	if err != nil {
		return nil, err
	}
	raw, err := readSearchFile(folder, name, settingsFile)
	if errors.Is(err, fs.ErrNotExist) {
		names, _ := List(store)
		return nil, fmt.Errorf("no search %q in %s; there are %s", name, store.Dir,
			cmp.Or(strings.Join(names, ", "), "none"))
	} else if err != nil {
		return nil, err
	}
	var s Search
	if err := durable.ParseJSON(raw, &s.Settings); err != nil {
		return nil, fmt.Errorf("search %s: %s is damaged: %w", name, settingsFile, err)
	}
	if err := s.Settings.Check(); err != nil {
		return nil, fmt.Errorf("search %s: %w", name, err)
	}
	s.store, s.path = store, folder
	return &s, s.readHistory()
}

// Begin starts a search in a run store. If a search of this name exists, Begin opens it to continue it; the settings
// must then be the same.
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
			return nil, fmt.Errorf("search %s in %s was started with other settings: %s; use those, or another --name",
				settings.Name, store.Dir, strings.Join(d, "; "))
		}
		s.base = settings.Base
		return s, nil
	}
	s := &Search{Settings: settings, base: settings.Base, store: store, path: folder}
	if known, err := Open(store, settings.Name); err == nil && known.differences(settings) == nil {
		s.Records = known.Records // A bundled search is continued.
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, fmt.Errorf("cannot store the search: %w", err)
	}
	if s.Records != nil { // Written before the settings, because a search exists once it has settings.
		if err := s.saveHistory(); err != nil {
			return nil, err
		}
	}
	if err := durable.WriteJSON(filepath.Join(folder, settingsFile), settings); err != nil {
		return nil, fmt.Errorf("cannot store the search: %w", err)
	}
	return s, nil
}

// differences lists where other settings differ from those of the search.
func (s *Search) differences(now Settings) []string {
	out := s.Space.differences(now.Space)
	if out != nil {
		out = []string{"its space has " + strings.Join(out, ", ")}
	}
	was, is := flatSettings(s.Settings), flatSettings(now)
	either := maps.Clone(was)
	maps.Copy(either, is)
	for _, name := range slices.Sorted(maps.Keys(either)) {
		if was[name] != is[name] {
			out = append(out, fmt.Sprintf("%s %s, not %s", name, cmp.Or(was[name], "none"), cmp.Or(is[name], "none")))
		}
	}
	return out
}

// flatSettings returns the settings without the space as a flat map. The fields of the base spec have their own names.
func flatSettings(s Settings) map[string]string {
	out := make(map[string]string)
	add := func(raw []byte) {
		var m map[string]json.RawMessage
		if json.Unmarshal(raw, &m) == nil { // Never fails, because raw was just marshaled.
			for k, v := range m {
				out[k] = string(v)
			}
		}
	}
	add(s.Base.Canonical())
	seed := out["seed"]
	delete(out, "seed")
	raw, _ := json.Marshal(s) // Never fails, because Check rejects NaN and Inf.
	add(raw)
	delete(out, "base")
	delete(out, "space")
	out["seed of the runs"] = seed
	return out
}

// readHistory reads the history again.
func (s *Search) readHistory() error {
	s.Records = nil
	raw, err := readSearchFile(s.path, s.Name, historyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if s.Records, err = durable.ParseLines[Record](raw); err != nil {
		return fmt.Errorf("search %s: %s, %w", s.Name, historyFile, err)
	}
	return nil
}

// saveHistory writes the whole history.
func (s *Search) saveHistory() error {
	if err := durable.WriteLines(filepath.Join(s.path, historyFile), s.Records, 0o666); err != nil {
		return fmt.Errorf("cannot write the history of search %s: %w", s.Name, err)
	}
	return nil
}

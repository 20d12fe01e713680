package runs

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A spec that is read and valid keeps its hash when it is written and read again.
func FuzzSpec(f *testing.F) {
	raw, err := json.Marshal(tiny())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"recipe":1,"data":"../../x","data_digest":"0","size":16,"loss":"ms?beta=40","miner":"ms"}`))
	f.Add([]byte(`{"recipe":1,"data":"minicar","size":9999999999999999999}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s, again Spec
		if json.Unmarshal(raw, &s) != nil {
			return
		}
		if hash := s.Hash(); !runName.MatchString(hash) {
			t.Fatalf("the hash is %q", hash)
		}
		if s.Validate() != nil {
			return
		}
		written, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(written, &again); err != nil || again.Hash() != s.Hash() {
			t.Errorf("%s has the hash %s, and %s when it is read again (%v)", written, s.Hash(), again.Hash(), err)
		}
	})
}

// An archive whose index is anything, with a sum that fits, is unpacked into its folder, or refused.
func FuzzArchiveIndex(f *testing.F) {
	index := func(x archiveIndex) []byte {
		x.Sum = x.sum()
		raw, err := json.Marshal(x)
		if err != nil {
			f.Fatal(err)
		}
		return raw
	}
	// The SHA-256 of "x".
	const sum = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
	run := func(files ...archivedFile) []archivedRun { return []archivedRun{{Hash: "0123456789ab", Files: files}} }
	for _, file := range []archivedFile{
		{"spec.json", 1, sum}, {"../../evil", 1, sum}, {"result.json", -1, sum}, {"metrics.jsonl", 1 << 62, sum},
	} {
		f.Add(index(archiveIndex{Format: archiveFormat, Runs: run(file)}), "0123456789ab/"+file.Name)
	}
	f.Add(index(archiveIndex{Format: archiveFormat, Runs: run(archivedFile{"spec.json", 1, sum})}), "/evil")
	f.Add(index(archiveIndex{Format: archiveFormat, Runs: append(run(), run()...)}), "")
	f.Add([]byte(`{"format":1,"runs":null}`), "0123456789ab")
	f.Fuzz(func(t *testing.T, raw []byte, name string) {
		var x archiveIndex
		if json.Unmarshal(raw, &x) == nil { // By chance no sum would fit.
			x.Sum = x.sum()
			if fixed, err := json.Marshal(x); err == nil {
				raw = fixed
			}
		}
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, e := range []struct{ name, content string }{{archiveManifest, string(raw)}, {name, "x"}} {
			h := &tar.Header{Name: e.name, Size: int64(len(e.content)), Mode: 0o644}
			if w.WriteHeader(h) != nil {
				return // A name that tar does not have.
			}
			if _, err := w.Write([]byte(e.content)); err != nil {
				return // That of a folder.
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		parent := t.TempDir()
		dir := filepath.Join(parent, "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		got, err := unpack(t.Context(), dir, &b, 1<<20)
		if entries, _ := os.ReadDir(parent); len(entries) != 1 {
			t.Fatalf("%q was unpacked beside its folder", name)
		}
		if err != nil {
			return
		}
		for _, run := range got.Runs {
			for _, file := range run.Files {
				if !runName.MatchString(run.Hash) || !filepath.IsLocal(file.Name) || strings.Contains(file.Name, "..") {
					t.Errorf("%q of run %q was unpacked", file.Name, run.Hash)
				}
			}
		}
	})
}

//go:build unix

package slurm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/runs"
)

// A manifest is refused, or what is made of it stays in its store, and its script has no command of the manifest's.
func FuzzManifest(f *testing.F) {
	store, err := runs.OpenStore(filepath.Join(f.TempDir(), "runs"))
	if err != nil {
		f.Fatal(err)
	}
	const id = "20260101-000000-abcd"
	m := manifest{ID: id, Digest: strings.Repeat("0a", 32), Chunk: 1000, Environment: []string{"GOMLX_BACKEND=go"}}
	for _, j := range jobs(2) {
		m.Tasks = append(m.Tasks, Task{Job: j, Hash: j.Spec.Hash()})
	}
	add := func(change func()) {
		change()
		raw, err := json.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	add(func() {})
	add(func() { m.Environment = []string{"DMLX_A$(touch evil)=1", "DMLX_B='; touch evil", "=", ""} })
	add(func() { m.Tasks[0].QueuedIn, m.Chunk, m.MaxParallel = "../../x", 1, -1 })
	add(func() { m.Tasks[0].Hash = "../../evil" })
	f.Add([]byte(`{"id":"` + id + `","chunk":1,"digest":"` + m.Digest + `","tasks":null}`))
	f.Add([]byte(`null`))
	dir := filepath.Join(store.Dir, folder, id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(filepath.Join(dir, manifestFile), raw, 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := Open(store, id)
		if err != nil {
			return
		}
		_ = s.Commands() // It only must not panic.
		bin := filepath.Join(store.Dir, folder, "bin")
		if !strings.HasPrefix(s.program(), bin+string(os.PathSeparator)) || strings.Contains(s.program(), "..") {
			t.Errorf("its program is %s", s.program())
		}
		for n, task := range s.Tasks {
			if store.Path(task.Hash) != filepath.Join(store.Dir, task.Hash) || !runName.MatchString(task.Hash) {
				t.Errorf("task %d is run %q", n, task.Hash)
			}
		}
		outside := script(t, s.Script())
		for line := range strings.Lines(outside) {
			known := false
			for _, begin := range []string{"#!/bin/bash", "export ", "program=", "[ ", "exec ", "sum=", "{ "} {
				known = known || strings.HasPrefix(line, begin)
			}
			if !known || strings.Contains(line, "`") {
				t.Errorf("its script has the line %q", line)
			}
		}
	})
}

// script is a script without what stands between single quotes, where a shell takes everything as it is.
func script(t *testing.T, text string) string {
	var out strings.Builder
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\'':
			quoted = !quoted
		case !quoted && c == '\\' && i+1 < len(text) && text[i+1] == '\'':
			i++
		case !quoted:
			out.WriteByte(c)
		}
	}
	if quoted {
		t.Errorf("a quote does not end in\n%s", text)
	}
	return out.String()
}

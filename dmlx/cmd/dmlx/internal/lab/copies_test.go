package lab

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// write writes a file, and read returns one, "" if it is not there.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(path string) string {
	raw, _ := os.ReadFile(path)
	return string(raw)
}

// Copies follow the shipped notebooks until somebody changes them; a changed one stays.
func TestCopiesUpdate(t *testing.T) {
	t.Parallel()
	c := Copies{Dir: filepath.Join(t.TempDir(), "new"),
		Shipped: fstest.MapFS{"a.ipynb": {Data: []byte("A")}, "b.ipynb": {Data: []byte("B")}, "go.mod": {}}}
	update := func(want int, wantOld ...string) {
		t.Helper()
		if n, old, err := c.Update(); n != want || !slices.Equal(old, wantOld) || err != nil {
			t.Errorf("%d written, old %q, %v; want %d, %q", n, old, err, want, wantOld)
		}
	}
	a, b := filepath.Join(c.Dir, "a.ipynb"), filepath.Join(c.Dir, "b.ipynb")
	update(2)
	update(0)
	if read(filepath.Join(c.Dir, "go.mod")) != "" || read(a) != "A" {
		t.Error("a file that is no notebook was copied, or a notebook was not")
	}
	write(t, a, "mine")
	if err := os.Remove(b); err != nil {
		t.Fatal(err)
	}
	update(1)
	c.Shipped = fstest.MapFS{"a.ipynb": {Data: []byte("A2")}, "b.ipynb": {Data: []byte("B2")}}
	update(1, "a.ipynb")
	if read(a) != "mine" || read(b) != "B2" {
		t.Errorf("%q and %q", read(a), read(b))
	}
	// Copies without a record, as an older program has left them.
	if err := os.Remove(filepath.Join(c.Dir, copied)); err != nil {
		t.Fatal(err)
	}
	update(0, "a.ipynb")
}

// A notebook that JupyterLab has opened and saved counts as unchanged, one whose cells differ does not.
func TestSum(t *testing.T) {
	t.Parallel()
	shipped := sum([]byte(`{"cells": [{"cell_type": "code", "id": "a", "execution_count": 1, "source": ["x\\n", "y"],
		"outputs": [{"output_type": "stream", "text": ["a\\n", "b"]}], "metadata": {}}], "metadata": {}}`))
	opened := sum([]byte(`{"metadata": {"language_info": {}}, "cells": [{"cell_type": "code", "id": "a",
		"metadata": {"trusted": true}, "source": "x\\ny", "outputs": [{"text": "a\\nb", "output_type": "stream"}]}]}`))
	if shipped != opened {
		t.Error("a notebook that was only opened counts as changed")
	}
	for _, changed := range []string{`{"cells": []}`, "not JSON", `{"cells": [{"cell_type": "code", "id": "a",
		"source": "x\\ny", "outputs": [{"text": "a\\nc", "output_type": "stream"}]}]}`} {
		if sum([]byte(changed)) == shipped {
			t.Errorf("%s counts as unchanged", changed)
		}
	}
}

// Whatever stands in the record of copies, changed copies are kept and others are written.
func TestRecordOfAStranger(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"null", "[]", `{"a.ipynb":1}`, "",
		"{" + strings.Repeat(`"a":"b",`, 1<<19) + `"c":"d"}`} {
		c := Copies{Shipped: fstest.MapFS{"a.ipynb": {Data: []byte("{}")}}, Dir: t.TempDir()}
		if err := os.WriteFile(filepath.Join(c.Dir, copied), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if n, _, err := c.Update(); err != nil || n != 1 {
			t.Errorf("%.10q: %d written, %v", text, n, err)
		}
	}
}

package datasets

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestSourcesKey(t *testing.T) {
	t.Parallel()
	key := func(files fstest.MapFS) string {
		h := newHash()
		hashSources(h, files)
		return hexDigest(h)
	}
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	want := key(fstest.MapFS{"a.go": file("x = 1"), "b.go": file("y = 2")})
	if again := key(fstest.MapFS{"b.go": file("y = 2"), "a.go": file("x = 1")}); again != want {
		t.Error("the key is not the same for the same code")
	}
	for name, files := range map[string]fstest.MapFS{
		"an edit":      {"a.go": file("x = 1"), "b.go": file("y = 3")},
		"a new file":   {"a.go": file("x = 1"), "b.go": file("y = 2"), "c.go": file("")},
		"a lost file":  {"a.go": file("x = 1")},
		"another name": {"a.go": file("x = 1"), "c.go": file("y = 2")},
		"moved code":   {"a.go": file("x = 1y"), "b.go": file(" = 2")},
		"no code":      {},
	} {
		if key(files) == want {
			t.Errorf("%s does not change the key", name)
		}
	}
}

// A new file must be put into sources, or here if no pixel comes from it.
func TestSourcesAreComplete(t *testing.T) {
	t.Parallel()
	apart := []string{"cache.go", "sources.go"}
	embedded, err := fs.Glob(sources, "*.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") && slices.Contains(embedded, file) == slices.Contains(apart, file) {
			t.Errorf("%s: want it in sources or among those apart", file)
		}
	}
	for _, file := range embedded {
		now, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if built, err := fs.ReadFile(sources, file); err != nil || string(built) != string(now) {
			t.Errorf("%s: not what was built, %v", file, err)
		}
	}
}

// The keys of drawn sets and of folders depend on the code.
func TestKeysHoldSources(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys := func(code fs.FS) [2]string {
		folder, err := folderKey(code, dir, 8, nil)
		if err != nil {
			t.Fatal(err)
		}
		return [2]string{drawnKey(code, "minicar", 8, minicar(2, 2)...), folder}
	}
	edited := keys(fstest.MapFS{"canvas.go": {Data: []byte("package datasets")}})
	for k, key := range keys(sources) {
		if key == edited[k] {
			t.Errorf("key %d is the same for edited code", k)
		}
	}
}

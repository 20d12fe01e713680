package datasets

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gradient-surgery/dml/datasets/internal/drawn"
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
		"nested code":  {"a.go": file("x = 1"), "b.go": file("y = 2"), "in/c.go": file("z = 3")},
		"moved code":   {"a.go": file("x = 1y"), "b.go": file(" = 2")},
		"no code":      {},
	} {
		if key(files) == want {
			t.Errorf("%s does not change the key", name)
		}
	}
}

// A new file must be put into sources or decoders, or here if no pixel comes from it.
func TestSourcesAreComplete(t *testing.T) {
	t.Parallel()
	apart := []string{"cache.go", "cars.go", "crop.go", "cub.go", "decoded.go", "folder.go",
		"inshop.go", "internal/mat5/mat5.go", "listing.go", "origin.go", "sop.go", "sources.go", "tree.go"}
	embedded := map[string]fs.FS{}
	for _, code := range []fs.FS{sources, decoders} {
		for _, pattern := range []string{"*.go", "internal/*/*.go"} {
			names, err := fs.Glob(code, pattern)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				embedded[name] = code
			}
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	nested, err := filepath.Glob("internal/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, nested...) {
		if !strings.HasSuffix(file, "_test.go") && (embedded[file] != nil) == slices.Contains(apart, file) {
			t.Errorf("%s: want it in sources, in decoders or among those apart", file)
		}
	}
	for file, code := range embedded {
		now, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if built, err := fs.ReadFile(code, file); err != nil || string(built) != string(now) {
			t.Errorf("%s: not what was built, %v", file, err)
		}
	}
}

// The keys of drawn sets and of folders depend on the code.
func TestKeysHoldSources(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys := func(code fs.FS) [2]string {
		folder, err := listingKey(code, &Listing{Root: dir}, &Options{Size: 8})
		if err != nil {
			t.Fatal(err)
		}
		return [2]string{drawnKey(code, "minicar", 8, drawn.Sets[0].Splits(2, 2)...), folder}
	}
	before, after := keys(sources), keys(fstest.MapFS{"canvas.go": {Data: []byte("package datasets")}})
	for k, key := range before {
		if key == after[k] {
			t.Errorf("key %d is the same for edited code", k)
		}
	}
}

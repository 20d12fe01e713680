package datasets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// notes collects what Open says.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) add(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, line)
}

// cacheFile is the one file of images in the cache.
func cacheFile(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "datasets", "*.images"))
	if err != nil || len(files) != 1 {
		t.Fatalf("cache files %v, %v", files, err)
	}
	return files[0]
}

func smallShop(dir string, n *notes) Options {
	return Options{Size: 8, TrainClasses: 3, TestClasses: 2, Cache: dir, Note: n.add}
}

func TestCacheIsUsedAgain(t *testing.T) {
	t.Parallel()
	dir, said := t.TempDir(), &notes{}
	drawn := open(t, "minishop", smallShop(dir, said))
	file := cacheFile(t, dir)
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	read := open(t, "minishop", smallShop(dir, said))
	after, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, after) {
		t.Error("the cache was written again")
	}
	for _, p := range [][2]*Images{{drawn.Train, read.Train}, {drawn.Test, read.Test}, {drawn.Gallery, read.Gallery}} {
		a, b := p[0], p[1]
		if a.N != b.N || a.Size != b.Size || a.Pad != b.Pad || !slices.Equal(a.Pixels, b.Pixels) ||
			!slices.Equal(a.Labels, b.Labels) || !slices.Equal(a.Names, b.Names) {
			t.Error("what is read is not what was drawn")
		}
	}
	if drawn.Digest != read.Digest || drawn.Mean != read.Mean || drawn.Std != read.Std ||
		drawn.TestClasses != read.TestClasses {
		t.Error("digest, statistics or counts differ")
	}
	if len(said.lines) > 0 {
		t.Errorf("said without need: %q", said.lines)
	}
}

// edited changes the JSON of a cache file, and the length that its tail gives to match.
func edited(old, new string) func([]byte) []byte {
	return func(b []byte) []byte {
		at := strings.Index(string(b), `{"key"`)
		line := strings.Replace(string(b[at:len(b)-tailLength]), old, new, 1)
		return fmt.Appendf(b[:at:at], "%s%s %016x\n", line, cacheFormat, len(line))
	}
}

func TestDamagedCacheIsMadeAnew(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func([]byte) []byte{
		"empty":        func(b []byte) []byte { return nil },
		"no header":    func(b []byte) []byte { return b[:20] },
		"cut short":    func(b []byte) []byte { return b[:len(b)-1] },
		"too long":     func(b []byte) []byte { return append(b, 0) },
		"a pixel":      func(b []byte) []byte { b[5] ^= 1; return b },
		"a lost pixel": func(b []byte) []byte { return b[3:] },
		"a name":       edited("train-001", "train-009"),
		"not JSON":     edited(`{"key"`, `!"key"`),
		"another's":    edited(`"key":"`, `"key":"f`),
		"another form": func(b []byte) []byte { return []byte(strings.Replace(string(b), "images 2", "images 9", 1)) },
		"long header":  func(b []byte) []byte { return []byte(strings.Replace(string(b), "images 2 0", "images 2 7", 1)) },
		"no length":    func(b []byte) []byte { return []byte(strings.Replace(string(b), "images 2 0", "images 2 x", 1)) },
		"huge":         edited(`"size":8`, `"size":1000`),
		"size zero":    edited(`"size":8`, `"size":0`),
		"negative":     edited(`"n":18`, `"n":-1`),
		"a label":      edited(`"labels":[0`, `"labels":[7`),
		"no splits":    edited(`"splits":[`, `"splits":[],"x":[`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, said := t.TempDir(), &notes{}
			want := open(t, "minishop", smallShop(dir, said))
			file := cacheFile(t, dir)
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, damage(content), 0o644); err != nil {
				t.Fatal(err)
			}
			got := open(t, "minishop", smallShop(dir, said))
			if got.Digest != want.Digest || !slices.Equal(got.Train.Pixels, want.Train.Pixels) {
				t.Error("the damaged cache was believed")
			}
			if len(said.lines) != 1 || !strings.Contains(said.lines[0], file) || !strings.Contains(said.lines[0], "made anew") {
				t.Errorf("said %q", said.lines)
			}
			if open(t, "minishop", smallShop(dir, said)); len(said.lines) != 1 {
				t.Errorf("the cache was not mended: %q", said.lines)
			}
		})
	}
}

func TestUnwritableCacheIsNoError(t *testing.T) {
	t.Parallel()
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	said := &notes{}
	s := open(t, "minishop", smallShop(blocked, said))
	if s.Train.N != 18 {
		t.Errorf("%d images", s.Train.N)
	}
	if len(said.lines) != 1 || !strings.Contains(said.lines[0], "no image cache") {
		t.Errorf("said %q", said.lines)
	}

	// A folder where the file shall be can be neither read nor replaced.
	dir := t.TempDir()
	open(t, "minishop", smallShop(dir, said))
	file := cacheFile(t, dir)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(file, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	said = &notes{}
	if s := open(t, "minishop", smallShop(dir, said)); s.Train.N != 18 {
		t.Errorf("%d images", s.Train.N)
	}
	if len(said.lines) != 2 || !strings.Contains(said.lines[1], "not kept") {
		t.Errorf("said %q", said.lines)
	}
}

// Photographs are kept in a file. Where none can be made, the error says what to do, before any is decoded.
func TestNoFileForPixels(t *testing.T) {
	t.Parallel()
	said := &notes{}
	o := Options{Size: 8, Cache: t.TempDir(), Note: said.add, Context: t.Context(), mapFrom: 1}
	key := strings.Repeat("k", 16)
	// Any longer is no name of a file.
	c := cached{name: strings.Repeat("x", 255-len("-8-.images")-len(key)), key: key, o: &o, patient: true}
	refused := func(want string) {
		t.Helper()
		_, err := c.openLarge([]*Images{{N: 1 << 20, Size: 8}}, func(func(int, []uint8) error) ([]string, []bool, error) {
			t.Error("decoded to nowhere")
			return nil, nil, nil
		})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "DMLX_CACHE") {
			t.Errorf("error %v, want …%s…", err, want)
		}
	}
	refused("keeping 0.2 GB of pixels in " + o.Cache)
	o.Cache = filepath.Join(o.Cache, "file")
	if err := os.WriteFile(o.Cache, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	refused("no folder to keep pixels in")
	if len(said.lines) != 1 || !strings.Contains(said.lines[0], "no image cache") {
		t.Errorf("said %q", said.lines)
	}
}

// What a process that was killed has left of a file is removed by the next that makes it.
func TestLeftoversOfTheCacheAreRemoved(t *testing.T) {
	t.Parallel()
	dir, said := t.TempDir(), &notes{}
	open(t, "minishop", smallShop(dir, said))
	file := cacheFile(t, dir)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	hidden := filepath.Join(filepath.Dir(file), "."+filepath.Base(file))
	old := time.Now().Add(-2 * time.Minute)
	for _, end := range []string{"123", "", "x"} {
		if err := errors.Join(os.WriteFile(hidden+end, nil, 0o644), os.Chtimes(hidden+end, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	open(t, "minishop", smallShop(dir, said))
	base := filepath.Base(file)
	if got := left(t, filepath.Dir(file)); !slices.Equal(got,
		[]string{"." + base, "." + base + "x", base, base + ".lock"}) || len(said.lines) > 0 {
		t.Errorf("left %q, said %q", got, said.lines)
	}
}

// While another process makes the file, Open waits for it and then reads it.
func TestOneMakesTheCacheOthersWait(t *testing.T) {
	t.Parallel()
	dir, said := t.TempDir(), &notes{}
	want := open(t, "minishop", smallShop(dir, said))
	file := cacheFile(t, dir)
	aside := filepath.Join(t.TempDir(), "aside")
	if err := os.Rename(file, aside); err != nil {
		t.Fatal(err)
	}
	lock := flock.New(file + ".lock")
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	done := make(chan *Set)
	go func() {
		s, err := Open("minishop", smallShop(dir, said))
		if err != nil {
			t.Error(err)
		}
		done <- s
	}()
	select {
	case <-done:
		t.Error("did not wait for the lock")
	case <-time.After(100 * time.Millisecond):
	}
	content, err := os.ReadFile(aside)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
	written, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if s := <-done; s == nil || s.Digest != want.Digest {
		t.Error("another set")
	}
	if now, err := os.Stat(file); err != nil || !os.SameFile(written, now) {
		t.Errorf("the file was made again (%v)", err)
	}
}

func TestManyOpenAtOnce(t *testing.T) {
	t.Parallel()
	dir, said := t.TempDir(), &notes{}
	var wg sync.WaitGroup
	sums := make([]string, 8)
	for k := range sums {
		wg.Go(func() {
			s, err := Open("minicar", Options{Size: 8, TrainClasses: 4, TestClasses: 2, Cache: dir, Note: said.add})
			if err != nil {
				t.Error(err)
				return
			}
			sums[k] = s.Digest
		})
	}
	wg.Wait()
	if len(slices.Compact(sums)) != 1 || len(said.lines) > 0 {
		t.Errorf("digests %q, said %q", sums, said.lines)
	}
}

func TestReadCacheOfNothing(t *testing.T) {
	t.Parallel()
	if _, err := readCache(filepath.Join(t.TempDir(), "none"), "", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// left are the names in a folder.
func left(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

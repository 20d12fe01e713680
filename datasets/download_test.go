package datasets

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gradient-surgery/dml/datasets/fixtures"
)

// tarball and zipball pack a folder as the published archives are packed.
func tarball(t *testing.T, dir string, more ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for _, h := range more {
		content := strings.Repeat("x", int(h.Size))
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipball(t *testing.T, dir string, more ...*zip.FileHeader) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for _, h := range more {
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte("/etc/passwd")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// host serves one archive. Its first answers end early, after so many bytes each.
type host struct {
	*httptest.Server
	mu      sync.Mutex
	content []byte
	tag     string
	cuts    []int    // Bytes of each of the first answers.
	asked   []string // The ranges that were asked for.
}

func newHost(t *testing.T, content []byte, cuts ...int) *host {
	h := &host{content: content, tag: `"one"`, cuts: cuts}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.asked = append(h.asked, r.Header.Get("Range"))
		if h.tag != "" {
			w.Header().Set("ETag", h.tag)
		}
		if len(h.cuts) > 0 {
			cut := h.cuts[0]
			h.cuts = h.cuts[1:]
			w = &cutter{ResponseWriter: w, left: cut}
		}
		http.ServeContent(w, r, "archive", time.Time{}, bytes.NewReader(h.content))
	}))
	t.Cleanup(h.Close)
	return h
}

// cutter breaks the connection off.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		_, _ = c.ResponseWriter.Write(p[:c.left])
		c.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

// of is a set as it is but for its archive.
func of(s publishedSet, a archive) *publishedSet {
	s.origin.archive = a
	return &s
}

// whole is the set as if its small fixture were what is published.
func whole(s publishedSet, a archive) *publishedSet {
	set := of(s, a)
	set.counts = []counts{{"train", 3, 12}, {"test", 2, 8}}
	if s.name == inshop.name {
		set.counts = []counts{{"train", 3, 12}, {"query", 2, 4}, {"gallery", 2, 4}}
	}
	return set
}

func sum(content []byte) string {
	h := md5.Sum(content)
	return hex.EncodeToString(h[:])
}

func getOptions(dir string, n *notes) *GetOptions {
	return &GetOptions{Dir: dir, Note: n.add, Progress: func(string, int64, int64) {}, Client: http.DefaultClient,
		pause: time.Millisecond}
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

func TestGet(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"cub", "cars", "cars-devkit", "sop", "inshop"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			from := fixture(t, form, fixtures.Size{})
			content := zipball(t, from)
			if form == "cub" || form == "cars-devkit" {
				content = tarball(t, from)
			}
			// The connection breaks three times.
			h := newHost(t, content, 1000, 1000, 500)
			set := whole(*published(setOf(form)), archive{file: "a.archive", url: h.URL, size: int64(len(content)),
				md5: sum(content)})
			dir, said := filepath.Join(t.TempDir(), "data"), &notes{}
			o := getOptions(dir, said)
			var whats []string
			o.Progress = func(what string, done, total int64) {
				if done > total || done < 0 {
					t.Errorf("%s: %d of %d", what, done, total)
				}
				if !slices.Contains(whats, what) {
					whats = append(whats, what)
				}
			}
			l, err := set.get(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			want := mustList(t, setOf(form), from)
			if fmt.Sprint(l.Splits) != fmt.Sprint(want.Splits) || len(l.Missing) > 0 {
				t.Errorf("got %+v, want %+v", l, want)
			}
			if want := []string{"", "bytes=1000-", "bytes=2000-", "bytes=2500-"}; !slices.Equal(h.asked, want) {
				t.Errorf("asked for %q, want %q", h.asked, want)
			}
			if !slices.Equal(whats, []string{"fetching a.archive", "checking", "unpacking"}) {
				t.Errorf("progress of %q", whats)
			}
			if got := left(t, dir); !slices.Equal(got, []string{set.name}) {
				t.Errorf("left: %q", got)
			}
			err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if strings.Contains(path, "._") {
					t.Errorf("unpacked %s", path)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			// Once more: it is there. By the published counts it is not whole, being a fixture.
			if _, err := set.get(t.Context(), o); err != nil || !strings.Contains(said.lines[len(said.lines)-1], "already") {
				t.Errorf("%v, said %q", err, said.lines)
			}
			_, err = of(*published(setOf(form)), set.origin.archive).get(t.Context(), o)
			checkErrorOf(t, err, "not as published", "remove")
		})
	}
}

// A part that an earlier command fetched is gone on with, unless the file has changed since.
func TestGetGoesOn(t *testing.T) {
	t.Parallel()
	content := zipball(t, fixture(t, "sop", fixtures.Size{}))
	for name, tc := range map[string]struct {
		change func(h *host, part string) error
		asked  []string
	}{
		"as it was": {func(*host, string) error { return nil }, []string{"", "bytes=700-"}},
		"changed":   {func(h *host, _ string) error { h.tag = `"two"`; return nil }, []string{"", "bytes=700-"}},
		"too long": {func(h *host, part string) error {
			return os.WriteFile(part, make([]byte, len(h.content)+5), 0o644)
		}, []string{"", fmt.Sprintf("bytes=%d-", len(content)+5), ""}},
		"all of it": {func(h *host, part string) error { return os.WriteFile(part, h.content, 0o644) },
			[]string{"", fmt.Sprintf("bytes=%d-", len(content))}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, content, 700)
			set := whole(sop, archive{file: "a.zip", url: h.URL, md5: sum(content)})
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			o := getOptions(dir, &notes{})
			o.Progress = func(_ string, done, _ int64) {
				if done == 700 {
					cancel()
				}
			}
			_, err := set.get(ctx, o)
			part := filepath.Join(dir, "a.zip.part")
			if !errors.Is(err, context.Canceled) || !strings.Contains(fmt.Sprint(err), "goes on with "+part) {
				t.Fatalf("error %v", err)
			}
			if got := left(t, dir); !slices.Equal(got, []string{"a.zip.part"}) {
				t.Errorf("left: %q", got)
			}
			if err := tc.change(h, part); err != nil {
				t.Fatal(err)
			}
			o.Progress = func(string, int64, int64) {}
			if _, err := set.get(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(h.asked, tc.asked) {
				t.Errorf("asked for %q, want %q", h.asked, tc.asked)
			}
			if got := left(t, dir); !slices.Equal(got, []string{"SOP"}) {
				t.Errorf("left: %q", got)
			}
		})
	}
}

func TestGetRefuses(t *testing.T) {
	t.Parallel()
	content := zipball(t, fixture(t, "sop", fixtures.Size{}))
	other := zipball(t, fixture(t, "cub", fixtures.Size{}))
	page := []byte(strings.Repeat("<html>sign in</html>", 40))
	flipped := tarball(t, fixture(t, "sop", fixtures.Size{}))
	flipped[len(flipped)-8] ^= 1 // Of gzip's checksum, as it would be of what it is the checksum of.
	for name, tc := range map[string]struct {
		served []byte
		of     archive
		want   []string
	}{
		"another file":   {content, archive{md5: sum(page)}, []string{"a.zip", "it has MD5", "published is", "was removed"}},
		"another length": {content, archive{size: int64(len(content)) + 1}, []string{"published are"}},
		"a longer one":   {content, archive{size: 9}, []string{"want at most 9"}},
		"a page":         {page, archive{}, []string{"a.zip", "neither a tar.gz nor a zip", "page", "was removed"}},
		"a pointer": {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:7\n"), archive{},
			[]string{"neither a tar.gz nor a zip archive: it is a Git LFS pointer"}},
		"another set":     {other, archive{}, []string{"a.zip", "lacks files of SOP", "was removed"}},
		"half an archive": {content[:len(content)/2], archive{}, []string{"a.zip", "damaged archive", "was removed"}},
		"a flipped bit":   {flipped, archive{}, []string{"damaged archive", "checksum"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, tc.served)
			tc.of.file, tc.of.url = "a.zip", h.URL
			dir := t.TempDir()
			_, err := of(sop, tc.of).get(t.Context(), getOptions(dir, &notes{}))
			checkErrorOf(t, err, tc.want...)
			if got := left(t, dir); len(got) > 0 {
				t.Errorf("left: %q", got)
			}
		})
	}

	gone := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(gone.Close)
	dir := t.TempDir()
	_, err := of(sop, archive{file: "a.zip", url: gone.URL}).get(t.Context(), getOptions(dir, &notes{}))
	checkErrorOf(t, err, "404", "by hand", "Stanford_Online_Products.zip", "cvgl.stanford.edu", filepath.Join(dir, "SOP"))

	calls := 0
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(down.Close)
	_, err = of(sop, archive{file: "a.zip", url: down.URL}).get(t.Context(), getOptions(dir, &notes{}))
	checkErrorOf(t, err, "503", "by hand", filepath.Join(dir, "SOP"))
	if strings.Contains(fmt.Sprint(err), "goes on") { // With nothing.
		t.Errorf("error %v", err)
	}
	if calls != attempts {
		t.Errorf("%d attempts, want %d", calls, attempts)
	}

	_, err = of(sop, archive{file: "a.zip", url: closed(t)}).get(t.Context(), getOptions(dir, &notes{}))
	checkErrorOf(t, err, "refused", "by hand")

	for _, address := range []string{"ftp://example.org/x.zip", "x.zip", "http://[::1"} {
		_, err = of(sop, archive{file: "a.zip", url: address}).get(t.Context(), getOptions(dir, &notes{}))
		checkErrorOf(t, err, "want http:// or https://")
	}
	// A set that cannot be fetched says what to do; so does an unknown name.
	_, err = Get(t.Context(), "inshop", GetOptions{Dir: dir})
	checkError(t, err, "In-shop", "agreement", "Img/img.zip", "list_eval_partition.txt", "InShopRetrieval.html", dir)
	_, err = Get(t.Context(), "mnist", GetOptions{})
	checkError(t, err, `no published set "mnist"`)
	// What is in the way is left alone.
	write(t, dir, "SOP/notes.txt", "mine")
	_, err = Get(t.Context(), "sop", GetOptions{Dir: dir, URL: "http://localhost/x"})
	checkError(t, err, "exists and is neither the data set nor an empty folder")
	for _, make := range []func(at string) error{
		func(at string) error { return os.Symlink(t.TempDir(), at) },
		func(at string) error { return os.WriteFile(at, nil, 0o644) },
	} {
		at := filepath.Join(t.TempDir(), "SOP")
		if err := make(at); err != nil {
			t.Fatal(err)
		}
		_, err = Get(t.Context(), "sop", GetOptions{Dir: filepath.Dir(at), URL: "http://localhost/x"})
		checkError(t, err, "exists and is neither the data set nor an empty folder")
		if _, err := os.Lstat(at); err != nil {
			t.Error(err)
		}
	}
}

// closed is an address at which nobody answers.
func closed(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	return server.URL
}

// A set whose lists cannot be read is neither fetched over nor taken for something else.
func TestGetOfADamagedSet(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "cub", fixtures.Size{})
	remove(t, dir, "CUB_200_2011/classes.txt")
	_, err := Get(t.Context(), "cub", GetOptions{Dir: dir, URL: closed(t)})
	checkError(t, err, "CUB_200_2011 is damaged", "no file classes.txt", "remove it first")
}

// A stop while the archive is unpacked is no fault of the archive's, and what a killed process left is cleared away.
func TestStoppedUnpackingGoesOn(t *testing.T) {
	t.Parallel()
	for _, pack := range []func(string) []byte{
		func(dir string) []byte { return tarball(t, dir) }, func(dir string) []byte { return zipball(t, dir) },
	} {
		h := newHost(t, pack(fixture(t, "sop", fixtures.Size{})))
		set := whole(sop, archive{file: "a", url: h.URL})
		dir := t.TempDir()
		write(t, dir, ".SOP-123/half.txt", "x")
		write(t, dir, ".SOP-mine/whole.txt", "x")
		ctx, cancel := context.WithCancel(t.Context())
		o := getOptions(dir, &notes{})
		o.Progress = func(what string, _, _ int64) {
			if what == "unpacking" {
				cancel()
			}
		}
		_, err := set.get(ctx, o)
		checkErrorOf(t, err, "stopped while unpacking; the same command goes on")
		if got := left(t, dir); !errors.Is(err, context.Canceled) ||
			!slices.Equal(got, []string{".SOP-mine", "a.part"}) {
			t.Errorf("%v, left: %q", err, got)
		}
		if _, err := set.get(t.Context(), getOptions(dir, &notes{})); err != nil {
			t.Error(err)
		}
		if got := left(t, dir); !slices.Equal(got, []string{".SOP-mine", "SOP"}) {
			t.Errorf("left in the end: %q", got)
		}
	}
}

func checkErrorOf(t *testing.T, err error, want ...string) {
	t.Helper()
	if err != nil {
		err = fmt.Errorf("datasets: %w", err)
	}
	checkError(t, err, want...)
}

// No path, link or size of an archive gets out of its folder, and nothing is left in the set's place.
func TestEvilArchives(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "sop", fixtures.Size{})
	link := &zip.FileHeader{Name: "out"}
	link.SetMode(fs.ModeSymlink | 0o777)
	for name, tc := range map[string]struct {
		content []byte
		want    string
	}{
		"tar up": {tarball(t, dir, &tar.Header{Name: "../evil.txt", Mode: 0o644, Size: 3, Typeflag: tar.TypeReg}),
			"leads out"},
		"tar inner up": {tarball(t, dir, &tar.Header{Name: "a/../../evil.txt", Mode: 0o644, Size: 3,
			Typeflag: tar.TypeReg}), "leads out"},
		"tar absolute": {tarball(t, dir, &tar.Header{Name: "/tmp/evil.txt", Mode: 0o644, Size: 3, Typeflag: tar.TypeReg}),
			"leads out"},
		"tar link": {tarball(t, dir, &tar.Header{Name: "out", Linkname: "../..", Typeflag: tar.TypeSymlink}),
			"is a link"},
		"tar inner link": {tarball(t, dir, &tar.Header{Name: "in", Linkname: "Ebay_train.txt", Typeflag: tar.TypeSymlink}),
			"is a link"},
		"tar hard link": {tarball(t, dir, &tar.Header{Name: "out", Linkname: "/etc/passwd", Typeflag: tar.TypeLink}),
			"is a link"},
		"tar device": {tarball(t, dir, &tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}),
			"device"},
		"zip up":        {zipball(t, dir, &zip.FileHeader{Name: "../evil.txt"}), "leads out"},
		"zip backslash": {zipball(t, dir, &zip.FileHeader{Name: `..\evil.txt`}), "leads out"},
		"zip drive":     {zipball(t, dir, &zip.FileHeader{Name: `C:evil.txt`}), "leads out"},
		"zip link":      {zipball(t, dir, link), "is a link"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, tc.content)
			above := t.TempDir()
			to := filepath.Join(above, "data")
			_, err := of(sop, archive{file: "a.zip", url: h.URL}).get(t.Context(), getOptions(to, &notes{}))
			checkErrorOf(t, err, "unsafe archive", tc.want)
			if got := left(t, to); len(got) > 0 {
				t.Errorf("left: %q", got)
			}
			if got := left(t, above); !slices.Equal(got, []string{"data"}) {
				t.Errorf("written outside: %q", got)
			}
		})
	}
	for name, content := range map[string][]byte{"tar": tarball(t, dir), "zip": zipball(t, dir)} {
		file := filepath.Join(t.TempDir(), "a")
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
		none := func(int64, int64) {}
		err := unpack(t.Context(), file, t.TempDir(), limits{100, 1000}, none)
		checkErrorOf(t, err, "unpacks to more")
		err = unpack(t.Context(), file, t.TempDir(), limits{1 << 20, 3}, none)
		checkErrorOf(t, err, "too many files")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := unpack(ctx, file, t.TempDir(), limits{1 << 20, 1000}, none); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An archive with paths that no folder can hold is broken: it is removed, so that the next attempt fetches another.
func TestPathsThatExcludeEachOther(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "sop", fixtures.Size{})
	file := func(name string) *tar.Header {
		return &tar.Header{Name: name, Mode: 0o644, Size: 3, Typeflag: tar.TypeReg}
	}
	folder := &tar.Header{Name: "a/", Mode: 0o755, Typeflag: tar.TypeDir}
	zipped := func(name string) *zip.FileHeader { return &zip.FileHeader{Name: name} }
	for name, tc := range map[string]struct {
		content []byte
		want    string
	}{
		"a file, then a folder":   {tarball(t, dir, file("a"), file("a/b")), `"a" is a file in it and a folder`},
		"a folder, then a file":   {tarball(t, dir, file("a/b"), file("a")), `"a" is a folder in it and a file`},
		"a file, then its folder": {tarball(t, dir, file("a"), folder), `"a" is a file in it and a folder`},
		"a file, then far below":  {tarball(t, dir, file("a"), file("a/b/c/d")), `"a" is a file in it and a folder`},
		"of a zip":                {zipball(t, dir, zipped("a"), zipped("a/b")), `"a" is a file in it and a folder`},
		"a name that is too long": {tarball(t, dir, file(strings.Repeat("a", 300))), "no file can have the path"},
		"a folder of such a name": {tarball(t, dir, file(strings.Repeat("a", 300)+"/b")), "no file can have the path"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := t.TempDir()
			set := of(sop, archive{file: "a.zip", url: newHost(t, tc.content).URL})
			_, err := set.get(t.Context(), getOptions(to, &notes{}))
			checkErrorOf(t, err, "damaged archive", tc.want, "it was removed")
			if got := left(t, to); len(got) > 0 {
				t.Errorf("left: %q", got)
			}
		})
	}
}

// What systems leave in archives is not unpacked.
func TestLeftoversAreNotUnpacked(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	for _, name := range []string{"a/1.jpg", "a/._1.jpg", "__MACOSX/a/1.jpg", ".DS_Store", "a/Thumbs.db"} {
		write(t, from, name, "x")
	}
	file, to := filepath.Join(t.TempDir(), "a"), t.TempDir()
	if err := os.WriteFile(file, tarball(t, from), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unpack(t.Context(), file, to, limits{1 << 20, 100}, func(int64, int64) {}); err != nil {
		t.Fatal(err)
	}
	if got := slices.Concat(left(t, to), left(t, filepath.Join(to, "a"))); !slices.Equal(got, []string{"a", "1.jpg"}) {
		t.Errorf("unpacked %q", got)
	}
}

func TestTwoDoNotFetchAtOnce(t *testing.T) {
	t.Parallel()
	content := zipball(t, fixture(t, "sop", fixtures.Size{}))
	h := newHost(t, content)
	set := of(sop, archive{file: "a.zip", url: h.URL})
	dir := t.TempDir()
	o := getOptions(dir, &notes{})
	tried := false
	o.Progress = func(what string, _, _ int64) {
		if !tried {
			tried = true
			_, err := set.get(t.Context(), getOptions(dir, &notes{}))
			checkErrorOf(t, err, "another process is fetching")
		}
	}
	if _, err := set.get(t.Context(), o); err != nil || !tried {
		t.Error(err)
	}
}

func TestSourcesAreSaid(t *testing.T) {
	t.Parallel()
	all := Sources()
	if len(all) != len(Published()) {
		t.Fatalf("%d sources", len(all))
	}
	for _, s := range all {
		if name, ok := PublishedName(s.Alias); !ok || name != s.Name || s.Page == "" || s.Want == "" ||
			(s.URL == "") != (s.Terms != "") {
			t.Errorf("%+v", s)
		}
		if s.MD5 != "" && len(s.MD5) != 32 {
			t.Errorf("%s: MD5 %q", s.Name, s.MD5)
		}
	}
}

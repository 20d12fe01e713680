package datasets

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

// origin says where a published set can be fetched from.
type origin struct {
	page    string  // the set's web page
	archive archive // the file that [Get] fetches; url is empty where there is none
	terms   string  // why nothing can be fetched
	want    string  // the files that the set consists of
}

// archive is a file to be fetched. Size and MD5 are 0 and empty where none is published.
type archive struct {
	file, url string
	size      int64
	md5       string
}

// advice returns a clause that says how to get the set.
func (o *origin) advice(alias, root string) string {
	if o.archive.url != "" {
		return fmt.Sprintf("get it by dmlx data get %s, or unpack %s from %s into %s (%s can name another folder)", alias,
			o.want, o.page, root, DataEnv)
	}
	return fmt.Sprintf("%s; get %s from %s and put them into %s (%s can name another folder)", o.terms, o.want, o.page,
		root, DataEnv)
}

// Source says where a published set can be fetched from.
type Source struct {
	Name  string `json:"name"`            // as in the paper
	Alias string `json:"alias"`           // on the command line
	Page  string `json:"page"`            // what says more about it
	URL   string `json:"url,omitempty"`   // of the archive that [Get] fetches, empty if that cannot be done
	Bytes int64  `json:"bytes,omitempty"` // of the archive, 0 if not published
	MD5   string `json:"md5,omitempty"`   // of the archive, empty if not published
	Want  string `json:"want"`            // what is needed of it
	Terms string `json:"terms,omitempty"` // why it cannot be fetched, if so
}

// Sources returns where the published sets can be fetched from, in the order of [Published].
func Sources() []Source {
	var all []Source
	for _, s := range publishedSets {
		a := s.origin.archive
		all = append(all, Source{s.name, s.alias, s.origin.page, a.url, a.size, a.md5, s.origin.want, s.origin.terms})
	}
	return all
}

// GetOptions say how [Get] fetches a set. The zero value fetches it into [DataDir].
type GetOptions struct {
	// Dir is the folder of the published sets; [DataDir] if empty. The set comes to lie in a folder of its name there.
	Dir string
	// URL, if not empty, is another address of the set's archive. Its checksum, where one is published, is the same.
	URL string
	// Note, if not nil, is called with one line about each thing that a user may want to know.
	Note func(string)
	// Progress, if not nil, is called with the present step and its bytes so far; total is 0 if it is not known.
	Progress func(what string, done, total int64)
	// Client fetches; if nil, one that waits a minute for an answer.
	Client *http.Client

	pause time.Duration // Before another attempt; a second if 0.
}

const (
	// attempts is how often in a row a fetch may fail without a byte gained.
	attempts = 5
	// maxArchive and maxUnpacked bound what is fetched and unpacked; the largest set, SOP, has 3 GB.
	maxArchive  = 16 << 30
	maxUnpacked = 16 << 30
	maxEntries  = 1 << 20
)

// Get fetches a published set's archive, checks its size and checksum where they are published, and those within the
// archive, unpacks it and returns the set's listing. A fetch that was interrupted goes on where it ended. The set's
// folder appears only when it is complete. A set that is there already is only listed.
func Get(ctx context.Context, name string, o GetOptions) (*Listing, error) {
	set := published(name)
	if set == nil {
		return nil, notPublished(name)
	}
	if o.Dir == "" {
		o.Dir = DataDir()
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if o.Client == nil {
		o.Client = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment,
			ResponseHeaderTimeout: time.Minute}}
	}
	if o.pause == 0 {
		o.pause = time.Second
	}
	l, err := set.get(ctx, &o)
	if err != nil {
		return nil, fmt.Errorf("datasets: %s: %w", set.name, err)
	}
	return l, nil
}

func (s *publishedSet) get(ctx context.Context, o *GetOptions) (*Listing, error) {
	if dir, err := s.locate(o.Dir); err == nil {
		l, err := s.read(dir)
		if err != nil {
			return nil, fmt.Errorf("the data set in %s is damaged: %w; to fetch it anew, remove it first", dir, err)
		}
		if len(l.Differs) > 0 {
			return nil, fmt.Errorf("the data set in %s is not as published: %s; to fetch it anew, remove it first", l.Root,
				strings.Join(l.Differs, "; "))
		}
		o.Note(fmt.Sprintf("%s is in %s already", s.name, l.Root))
		return l, nil
	}
	a := s.origin.archive
	if o.URL != "" {
		a.url = o.URL
		if a.file == "" {
			a.file = s.alias + ".archive"
		}
	}
	if a.url == "" {
		return nil, errors.New(s.origin.advice(s.alias, o.Dir))
	}
	target := filepath.Join(o.Dir, s.name)
	// An empty folder is in nobody's way.
	if info, err := os.Lstat(target); err == nil && (!info.IsDir() || os.Remove(target) != nil) {
		return nil, fmt.Errorf("%s exists and is neither the data set nor an empty folder: move it away", target)
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	part := filepath.Join(o.Dir, a.file+".part")
	lock := flock.New(part + ".lock")
	locked, lockErr := lock.TryLock()
	if lockErr == nil && !locked {
		return nil, fmt.Errorf("another process is fetching %s", a.file)
	}
	defer func() { // In this order: the lock of a removed file holds no one off.
		_ = os.Remove(part + ".lock")
		_ = lock.Close()
	}()
	if err := fetch(ctx, a, part, o); err != nil {
		goesOn := " with " + part
		if info, statErr := os.Stat(part); statErr == nil && info.Size() == 0 { // Nothing to go on with.
			_ = os.Remove(part)
			goesOn = ""
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("stopped; the same command goes on%s: %w", goesOn, ctx.Err())
		}
		return nil, fmt.Errorf("%w; by hand: unpack %s from %s into %s", err, s.origin.want, s.origin.page, target)
	}
	// A broken file would fail the next time too.
	unfit := func(err error) error {
		err = fmt.Errorf("%s: %w", a.file, err)
		if !errors.As(err, new(broken)) {
			return err
		}
		return errors.Join(fmt.Errorf("%w; it was removed: fetch it again, or from elsewhere", err), os.Remove(part))
	}
	if err := a.check(ctx, part, o); err != nil {
		return nil, unfit(err)
	}

	if locked { // No other process unpacks: what is there was left by one that was killed.
		if err := removeStale(o.Dir, "."+s.name+"-", true); err != nil {
			return nil, err
		}
	}
	aside, err := os.MkdirTemp(o.Dir, "."+s.name+"-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(aside)
	tell := func(done, total int64) { o.Progress("unpacking", done, total) }
	if err := unpack(ctx, part, aside, limits{maxUnpacked, maxEntries}, tell); err != nil {
		return nil, unfit(err)
	}
	if _, err := s.locate(aside); err != nil {
		return nil, unfit(broken{fmt.Errorf("it lacks files of %s: want %s", s.name, s.origin.want)})
	}
	if err := os.Chmod(aside, 0o755); err != nil {
		return nil, err
	}
	if err := os.Rename(aside, target); err != nil {
		return nil, err
	}
	dir, err := s.locate(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(part); err != nil {
		return nil, err
	}
	return s.read(dir)
}

// removeStale removes the folders that [os.MkdirTemp] made in dir with this beginning, or the files made so.
func removeStale(dir, beginning string, folders bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if number, ours := strings.CutPrefix(e.Name(), beginning); ours && e.IsDir() == folders && number != "" &&
			strings.Trim(number, "0123456789") == "" {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// check compares a file with its published size and checksum, where they are. A file that differs is broken.
func (a *archive) check(ctx context.Context, name string, o *GetOptions) error {
	file, err := durable.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if a.size != 0 && info.Size() != a.size {
		return broken{fmt.Errorf("it is not the published file: it has %d bytes, published are %d", info.Size(), a.size)}
	}
	if a.md5 == "" {
		return nil
	}
	h := md5.New() // Not against an adversary: it is what is published.
	in := &tally{in: file, ctx: ctx, tell: func(done int64) { o.Progress("checking", done, info.Size()) }}
	if _, err := io.Copy(h, in); ctx.Err() != nil {
		return fmt.Errorf("stopped while checking; the same command goes on: %w", ctx.Err())
	} else if err != nil {
		return err
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != a.md5 {
		return broken{fmt.Errorf("it is not the published file: it has MD5 %s, published is %s", sum, a.md5)}
	}
	return nil
}

// gone is an error that another attempt would not change.
type gone struct{ error }

// fetch fills part with the archive, from where it ends. It tries again where that may help.
func fetch(ctx context.Context, a archive, part string, o *GetOptions) error {
	address, err := url.Parse(a.url)
	if err != nil || address.Scheme != "http" && address.Scheme != "https" {
		return fmt.Errorf("address %q; want http:// or https://", a.url)
	}
	file, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	failures := 0
	for {
		before, err := file.Seek(0, io.SeekEnd)
		if err != nil {
			return err
		}
		done, err := fetchOnce(ctx, a, file, o)
		if err == nil && done {
			return file.Sync()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.As(err, new(gone)) {
			return err
		}
		now, _ := file.Seek(0, io.SeekEnd)
		if now > before {
			failures = 0
		}
		if failures++; failures == attempts {
			err = fmt.Errorf("%s: %w", address.Host, err)
			if now > 0 {
				err = fmt.Errorf("%w; the same command goes on with %s", err, part)
			}
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(o.pause << (failures - 1)):
		}
	}
}

// fetchOnce asks for the missing rest of a file, and tells whether the file is complete then.
func fetchOnce(ctx context.Context, a archive, file *os.File, o *GetOptions) (done bool, err error) {
	have, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return false, gone{err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url, nil)
	if err != nil {
		return false, gone{err}
	}
	request.Header.Set("Accept-Encoding", "identity")
	if have > 0 { // Of another version of the file: its checksum, or those within it, will tell.
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	response, err := o.Client.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	total := response.ContentLength
	switch code := response.StatusCode; {
	case code == http.StatusOK: // All of it, whatever was asked for.
		if have = 0; file.Truncate(0) != nil {
			return false, gone{fmt.Errorf("%s cannot be begun again", file.Name())}
		}
	case code == http.StatusPartialContent:
		var from, to int64
		if n, _ := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &total); n < 2 ||
			from != have {
			return false, errors.Join(file.Truncate(0), errors.New("the server sent another part than was asked for"))
		}
	case code == http.StatusRequestedRangeNotSatisfiable: // Nothing after what there is: all, or another file.
		var all int64
		if n, _ := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes */%d", &all); n == 1 && all == have {
			return true, nil
		}
		return false, errors.Join(file.Truncate(0), errors.New("the server has a shorter file than was fetched before"))
	case code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout:
		return false, fmt.Errorf("the server says %s", response.Status)
	default:
		return false, gone{fmt.Errorf("%s says %s", a.url, response.Status)}
	}
	limit := int64(maxArchive)
	if a.size != 0 {
		limit = a.size
	}
	if total > limit {
		return false, gone{fmt.Errorf("%s has %d bytes; want at most %d", a.url, total, limit)}
	}
	if _, err := file.Seek(have, io.SeekStart); err != nil {
		return false, gone{err}
	}
	in := &tally{in: io.LimitReader(response.Body, limit-have+1), ctx: ctx, tell: func(done int64) {
		o.Progress("fetching "+path.Base(a.file), have+done, max(0, total))
	}}
	n, err := io.Copy(file, in)
	have += n
	switch {
	case have > limit:
		return false, gone{fmt.Errorf("%s has more than %d bytes", a.url, limit)}
	case err != nil:
		return false, err
	case total >= 0 && have < total:
		return false, fmt.Errorf("the connection ended %d bytes early", total-have)
	}
	return true, nil
}

// tally counts the bytes that are read, and stops when ctx is done.
type tally struct {
	in   io.Reader
	ctx  context.Context
	tell func(done int64)
	done int64
}

func (t *tally) Read(p []byte) (int, error) {
	if err := t.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := t.in.Read(p)
	t.done += int64(n)
	t.tell(t.done)
	return n, err
}

package datasets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/edsrzf/mmap-go"
	"github.com/gofrs/flock"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

// A cache file holds the splits of one set: the pixels of each split as they are in memory, a line of JSON, and a tail
// that says how long the JSON is. It is written under another name and renamed. A file of up to mapFrom bytes of pixels
// is read into memory and used only if its content has the digest that its JSON gives. A larger one is mapped and only
// its length and its JSON are checked, because reading it whole would take longer than the first epoch needs of it.

const (
	cacheFormat = "dmlx images 2"
	tailLength  = len(cacheFormat) + 18 // A space, 16 digits and a line's end.
	maxHeader   = 256 << 20
	// lockWait bounds the wait for another process that is drawing the same set: after it both draw it, to the same end.
	lockWait  = 2 * time.Minute
	lockRetry = 20 * time.Millisecond
	mapFrom   = 256 << 20 // Bytes of pixels from which on they are mapped from the cache file.
)

type cacheHeader struct {
	Key     string       `json:"key"`
	Digest  string       `json:"digest"`
	Mean    [3]float32   `json:"mean"`
	Std     [3]float32   `json:"std"`
	Skipped []string     `json:"skipped,omitempty"`
	Splits  []cacheSplit `json:"splits"`
}

type cacheSplit struct {
	N      int      `json:"n"`
	Size   int      `json:"size"`
	Labels []int64  `json:"labels"`
	Names  []string `json:"names"`
}

// made is what a cache file holds.
type made struct {
	splits    []*Images
	digest    string
	mean, std [3]float32 // of the first split
	skipped   []string
	unmap     func() error
}

// complete takes the digest and the statistics from the pixels.
func (m *made) complete() *made {
	var digested sync.WaitGroup
	digested.Go(func() { m.digest = digest(m.splits) })
	m.mean, m.std = m.splits[0].Stats()
	digested.Wait()
	return m
}

func (m *made) header(key string) *cacheHeader {
	h := &cacheHeader{Key: key, Digest: m.digest, Mean: m.mean, Std: m.std, Skipped: m.skipped}
	for _, im := range m.splits {
		h.Splits = append(h.Splits, cacheSplit{im.N, im.Size, im.Labels, im.Names})
	}
	return h
}

// cached is a set that is kept in the cache under a key.
type cached struct {
	name, key string
	o         *Options
	patient   bool // Wait for another process without a limit: decoding takes long.
}

// open returns the set whose splits the cache holds, or else the one that produce makes in memory, and writes it to the
// cache. A cache that cannot be read or written is noted and is no error.
func (c *cached) open(produce func() (*made, error)) (*Set, error) {
	return c.with(func(path string) (*made, error) {
		m, err := produce()
		if err != nil {
			return nil, err
		}
		return c.keep(path, m), nil
	})
}

// keep completes what was made in memory and writes it to the cache, if there is one.
func (c *cached) keep(path string, m *made) *made {
	m.complete()
	if path != "" {
		if err := writeCache(path, c.key, m); err != nil {
			c.o.Note(fmt.Sprintf("datasets: images of %s not kept: %v", c.name, err))
		}
	}
	return m
}

// decoding puts the pixels of each image, by its number over all splits, in any order. It returns the paths of the
// images that cannot be decoded, and for each image whether it is one of them.
type decoding func(put func(i int, pixels []uint8) error) (skipped []string, bad []bool, err error)

// openLarge is open for splits that may not fit into memory. They have everything but their pixels, which decode puts.
// The images that it marks as bad are taken out of the splits. It needs a cache that can be written.
func (c *cached) openLarge(splits []*Images, decode decoding) (*Set, error) {
	return c.with(func(path string) (*made, error) {
		if path == "" {
			return nil, errors.New("no folder to keep pixels in: set DMLX_CACHE to one")
		}
		return c.buildFile(path, splits, decode)
	})
}

// with reads the file or has it made by one process while others wait. path is empty where there is no cache.
func (c *cached) with(produce func(path string) (*made, error)) (*Set, error) {
	path, err := c.o.cachePath(c.name, c.key)
	if err != nil {
		c.o.Note(fmt.Sprintf("datasets: no image cache: %v", err))
		path = ""
	}
	if path != "" {
		if m, err := readCache(path, c.key, c.o.mapFrom); err == nil {
			return newSet(c.name, m), nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			c.o.Note(fmt.Sprintf("datasets: made anew: %v", err))
		}
		// Without a lock (some network file systems) each process makes the file.
		lock := flock.New(path + ".lock")
		ctx := c.o.Context
		if !c.patient {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, lockWait)
			defer cancel()
		} else if free, err := lock.TryLock(); err == nil && !free {
			c.o.Note(fmt.Sprintf("datasets: another process is decoding %s: waiting for it", c.name))
		}
		if locked, err := lock.TryLockContext(ctx, lockRetry); err == nil && locked {
			defer lock.Close()
			if m, err := readCache(path, c.key, c.o.mapFrom); err == nil {
				return newSet(c.name, m), nil
			}
		}
		if err := c.o.Context.Err(); err != nil {
			return nil, err
		}
	}
	m, err := produce(path)
	if err != nil {
		return nil, err
	}
	return newSet(c.name, m), nil
}

// buildFile decodes straight into the file, so that memory holds a few images at a time, and maps it.
func (c *cached) buildFile(path string, splits []*Images, decode decoding) (*made, error) {
	stride, bytes := splits[0].stride(), int64(0)
	for _, im := range splits {
		bytes += int64(im.N) * int64(stride)
	}
	keep := func(err error) error {
		return fmt.Errorf("keeping %.1f GB of pixels in %s: %w; DMLX_CACHE can name another folder", float64(bytes)/1e9,
			filepath.Dir(path), err)
	}
	file, err := durable.Create(path, 0o644)
	if err != nil {
		return nil, keep(err)
	}
	defer file.Cleanup()
	skipped, bad, err := decode(func(i int, pixels []uint8) error {
		if _, err := file.WriteAt(pixels, int64(i)*int64(stride)); err != nil {
			return keep(err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// What is kept moves up over what is left out.
	if len(skipped) > 0 {
		kept := 0
		square := make([]uint8, stride)
		for i := range bad {
			if bad[i] {
				continue
			}
			if i > kept {
				if _, err := file.ReadAt(square, int64(i)*int64(stride)); err != nil {
					return nil, keep(err)
				}
				if _, err := file.WriteAt(square, int64(kept)*int64(stride)); err != nil {
					return nil, keep(err)
				}
			}
			kept++
		}
		if kept == 0 {
			return nil, errors.New("none of the images can be decoded")
		}
		bytes = int64(kept) * int64(stride)
		if err := file.Truncate(bytes); err != nil {
			return nil, keep(err)
		}
	}
	m := &made{splits: without(splits, bad), skipped: skipped}
	pixels, err := mmap.MapRegion(file.File, int(bytes), mmap.RDONLY, 0, 0)
	if err != nil {
		return nil, keep(err)
	}
	attach(m.splits, pixels)
	m.complete()
	if err := pixels.Unmap(); err != nil {
		return nil, keep(err)
	}
	if _, err := file.Seek(bytes, io.SeekStart); err != nil {
		return nil, keep(err)
	}
	if err := m.header(c.key).write(file); err != nil {
		return nil, keep(err)
	}
	if err := file.CloseAtomicallyReplace(); err != nil {
		return nil, keep(err)
	}
	return readCache(path, c.key, c.o.mapFrom)
}

// without returns the splits without the images marked as bad, which are numbered over all splits.
func without(splits []*Images, bad []bool) []*Images {
	out := make([]*Images, len(splits))
	at := 0
	for k, im := range splits {
		out[k] = &Images{Size: im.Size, Names: im.Names}
		for i, label := range im.Labels {
			if !bad[at+i] {
				out[k].Labels = append(out[k].Labels, label)
			}
		}
		at += len(im.Labels)
		out[k].N = len(out[k].Labels)
	}
	return out
}

// attach gives the splits their parts of the pixels.
func attach(splits []*Images, pixels []uint8) {
	for _, im := range splits {
		n := im.N * im.stride()
		im.Pixels, pixels = pixels[:n:n], pixels[n:]
	}
}

// cachePath is the file for key, in a folder that it makes.
func (o *Options) cachePath(name, key string) (string, error) {
	dir := o.Cache
	if dir == "" {
		var err error
		if dir, err = CacheDir(); err != nil {
			return "", err
		}
	}
	dir = filepath.Join(dir, "datasets")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return filepath.Join(dir, fmt.Sprintf("%s-%d-%s.images", name, o.Size, key[:16])), nil
}

// write ends a file with the header and the tail.
func (h *cacheHeader) write(to io.Writer) error {
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	_, err = to.Write(fmt.Appendf(line, "%s %016x\n", cacheFormat, len(line)))
	return err
}

// writeCache writes the file whole or not at all.
func writeCache(path, key string, m *made) error {
	file, err := durable.Create(path, 0o644)
	if err != nil {
		return err
	}
	defer file.Cleanup()
	for _, im := range m.splits {
		if _, err := file.Write(im.Pixels); err != nil {
			return err
		}
	}
	if err := m.header(key).write(file); err != nil {
		return err
	}
	return file.CloseAtomicallyReplace()
}

// readCache reads or, from mapFrom bytes of pixels on, maps the file's splits. Any fault is an error that names the
// file; it is fs.ErrNotExist if there is none.
func readCache(path, key string, mapFrom int64) (m *made, err error) {
	file, err := durable.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	defer func() {
		if err != nil {
			err = fmt.Errorf("cached images %s: %w", path, err)
		}
	}()
	header, pixels, err := readHeader(file)
	if err != nil {
		return nil, err
	}
	if header.Key != key {
		return nil, errors.New("foreign or of another version")
	}
	m = &made{digest: header.Digest, mean: header.Mean, std: header.Std, skipped: header.Skipped}
	// The lengths are checked before memory is asked for.
	left := pixels
	for _, s := range header.Splits {
		outside := func(label int64) bool { return label < 0 || label >= int64(len(s.Names)) }
		if s.N < 0 || s.Size < minSize || s.Size > maxSize || s.N != len(s.Labels) ||
			int64(s.N) > left/int64(s.Size*s.Size*3) ||
			slices.ContainsFunc(s.Labels, outside) {
			return nil, errors.New("damaged header")
		}
		left -= int64(s.N) * int64(s.Size*s.Size*3)
		m.splits = append(m.splits, &Images{N: s.N, Size: s.Size, Labels: s.Labels, Names: s.Names})
	}
	if left != 0 || len(m.splits) == 0 {
		return nil, errors.New("damaged: wrong length")
	}
	if pixels >= mapFrom && pixels > 0 {
		mapped, err := mmap.MapRegion(file, int(pixels), mmap.RDONLY, 0, 0)
		if err != nil {
			return nil, err
		}
		attach(m.splits, mapped)
		m.unmap = mapped.Unmap
		return m, nil
	}
	all := make([]uint8, pixels)
	if _, err := io.ReadFull(io.NewSectionReader(file, 0, pixels), all); err != nil {
		return nil, err
	}
	attach(m.splits, all)
	if digest(m.splits) != header.Digest {
		return nil, errors.New("damaged: wrong checksum")
	}
	m.mean, m.std = m.splits[0].Stats()
	return m, nil
}

// readHeader reads the end of a file: its header, and how many bytes of pixels there are before it.
func readHeader(file *os.File) (*cacheHeader, int64, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	tail := make([]byte, tailLength)
	end := info.Size() - int64(tailLength)
	if end < 0 {
		return nil, 0, errors.New("damaged: no header")
	}
	if _, err := file.ReadAt(tail, end); err != nil {
		return nil, 0, err
	}
	if string(tail[:len(cacheFormat)+1]) != cacheFormat+" " {
		return nil, 0, errors.New("foreign or of another version")
	}
	length, err := strconv.ParseInt(string(tail[len(cacheFormat)+1:tailLength-1]), 16, 64)
	if err != nil || length < 0 || length > min(end, maxHeader) {
		return nil, 0, errors.New("damaged header")
	}
	line := make([]byte, length)
	if _, err := file.ReadAt(line, end-length); err != nil {
		return nil, 0, err
	}
	var header cacheHeader
	if err := durable.ParseJSON(line, &header); err != nil {
		return nil, 0, errors.New("damaged header")
	}
	return &header, end - length, nil
}

// CacheEnv is the environment variable with the cache folder; see [CacheDir].
const CacheEnv = "DMLX_CACHE"

// CacheDir returns the absolute path of the cache folder: the value of [CacheEnv], else dmlx in the user's cache
// folder. Nothing else outside the repository is written to.
func CacheDir() (string, error) {
	if dir := os.Getenv(CacheEnv); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder: %w; set DMLX_CACHE to one", err)
	}
	return filepath.Join(dir, "dmlx"), nil
}

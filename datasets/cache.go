package datasets

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

// A cache file holds the splits of one set: a line of JSON, then the pixels of each split as they are in memory. It is
// written under another name and renamed, and believed only if its content has the digest that its first line gives.

const (
	cacheFormat = "dmlx images 1"
	// lockWait bounds the wait for another process that is making the same file: after it both make it, to the same end.
	lockWait  = 2 * time.Minute
	lockRetry = 20 * time.Millisecond
)

type cacheHeader struct {
	Format string       `json:"format"`
	Key    string       `json:"key"`
	Digest string       `json:"digest"`
	Splits []cacheSplit `json:"splits"`
}

type cacheSplit struct {
	N      int      `json:"n"`
	Size   int      `json:"size"`
	Labels []int64  `json:"labels"`
	Names  []string `json:"names"`
}

// openCached is the set whose splits the cache holds under key, or that produce makes for it. A cache that cannot be
// read or written costs time, not the set: it is only noted.
func openCached(name, key string, o *Options, produce func() ([]*Images, error)) (*Set, error) {
	path, err := o.cachePath(name, key)
	if err != nil {
		o.Note(fmt.Sprintf("datasets: no image cache: %v", err))
		path = ""
	}
	if path != "" {
		if splits, sum, err := readCache(path, key); err == nil {
			return newSet(name, splits, sum), nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			o.Note(fmt.Sprintf("datasets: made anew: %v", err))
		}
		// One process makes the file while others wait for it. Without a lock (some network file systems) each makes it.
		lock := flock.New(path + ".lock")
		ctx, cancel := context.WithTimeout(context.Background(), lockWait)
		defer cancel()
		if locked, err := lock.TryLockContext(ctx, lockRetry); err == nil && locked {
			defer lock.Close()
			if splits, sum, err := readCache(path, key); err == nil {
				return newSet(name, splits, sum), nil
			}
		}
	}
	splits, err := produce()
	if err != nil {
		return nil, err
	}
	sum := digest(splits)
	if path != "" {
		if err := writeCache(path, key, sum, splits); err != nil {
			o.Note(fmt.Sprintf("datasets: images of %s not kept: %v", name, err))
		}
	}
	return newSet(name, splits, sum), nil
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

// writeCache writes the file whole or not at all.
func writeCache(path, key, sum string, splits []*Images) error {
	header := cacheHeader{Format: cacheFormat, Key: key, Digest: sum}
	for _, im := range splits {
		header.Splits = append(header.Splits, cacheSplit{im.N, im.Size, im.Labels, im.Names})
	}
	file, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o644))
	if err != nil {
		return err
	}
	defer file.Cleanup()
	if err := json.NewEncoder(file).Encode(&header); err != nil {
		return err
	}
	for _, im := range splits {
		if _, err := file.Write(im.Pixels); err != nil {
			return err
		}
	}
	return file.CloseAtomicallyReplace()
}

// readCache reads the file's splits into memory once, and checks them. Any fault is an error that names the file;
// it is fs.ErrNotExist if there is none.
func readCache(path, key string) (splits []*Images, sum string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer file.Close()
	defer func() {
		if err != nil {
			err = fmt.Errorf("cached images %s: %w", path, err)
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, "", err
	}
	in := bufio.NewReader(file)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, "", errors.New("damaged: no header")
	}
	var header cacheHeader
	if err := json.Unmarshal(line, &header); err != nil {
		return nil, "", errors.New("damaged header")
	}
	if header.Format != cacheFormat || header.Key != key {
		return nil, "", errors.New("foreign or of another version")
	}
	// The lengths are checked before memory is asked for.
	left := info.Size() - int64(len(line))
	for _, s := range header.Splits {
		if s.N < 0 || s.Size < minSize || s.Size > maxSize || s.N != len(s.Labels) || int64(s.N) > left/int64(s.Size*s.Size*3) {
			return nil, "", errors.New("damaged header")
		}
		left -= int64(s.N) * int64(s.Size*s.Size*3)
	}
	if left != 0 || len(header.Splits) == 0 {
		return nil, "", errors.New("damaged: wrong length")
	}
	for _, s := range header.Splits {
		im := &Images{N: s.N, Size: s.Size, Labels: s.Labels, Names: s.Names}
		im.Pixels = make([]uint8, s.N*im.stride())
		if _, err := io.ReadFull(in, im.Pixels); err != nil {
			return nil, "", err
		}
		splits = append(splits, im)
	}
	if sum = digest(splits); sum != header.Digest {
		return nil, "", errors.New("damaged: wrong checksum")
	}
	return splits, sum, nil
}

// CacheDir is the one folder outside the repository that is written to: DMLX_CACHE, else dmlx in the user's cache.
func CacheDir() (string, error) {
	if dir := os.Getenv("DMLX_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder: %w; set DMLX_CACHE to one", err)
	}
	return filepath.Join(dir, "dmlx"), nil
}

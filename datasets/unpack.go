package datasets

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

// limits bound what an archive unpacks to.
type limits struct {
	bytes   int64
	entries int
}

// unpack writes an archive's files, a tar packed by gzip or a zip, below dir. A path that would leave dir, a link, a
// device, or more than the limits allow is an error. What macOS and Windows leave in archives is passed over.
func unpack(ctx context.Context, name, dir string, most limits, progress func(done, total int64)) error {
	file, err := durable.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir) // Which also keeps every path below dir.
	if err != nil {
		return err
	}
	defer root.Close()
	out := &unpacker{ctx: ctx, root: root, left: most}
	in := bufio.NewReader(&tally{in: file, ctx: ctx, tell: func(done int64) { progress(done, info.Size()) }})
	magic, err := in.Peek(512)
	switch {
	case err != nil && err != io.EOF:
	case strings.HasPrefix(string(magic), "\x1f\x8b"):
		err = out.tar(in)
	case strings.HasPrefix(string(magic), "PK"):
		err = out.zip(file, info.Size(), progress)
	default:
		err = fmt.Errorf("neither a tar.gz nor a zip archive: it is %s",
			cmp.Or(durable.Looks(magic), "something else, perhaps a page that the server sent in its place"))
	}
	switch {
	case err == nil || errors.As(err, new(*fs.PathError)): // Of the disk, not of the archive.
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("stopped while unpacking; the same command goes on: %w", ctx.Err())
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("damaged archive: it ends early")
	}
	return broken{err}
}

// broken is a fault of an archive itself, so that another attempt at unpacking it would not help.
type broken struct{ error }

type unpacker struct {
	ctx  context.Context
	root *os.Root
	left limits
}

func (u *unpacker) tar(in io.Reader) error {
	unzipped, err := gzip.NewReader(in)
	if err != nil {
		return fmt.Errorf("damaged archive: %w", err)
	}
	entries := tar.NewReader(unzipped)
	for {
		h, err := entries.Next()
		if err == io.EOF {
			return u.rest(unzipped)
		}
		if err != nil {
			return fmt.Errorf("damaged archive: %w", err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if err := u.entry(h.Name, h.FileInfo().Mode(), h.Typeflag == tar.TypeLink,
			func() (io.Reader, error) { return entries, nil }); err != nil {
			return err
		}
	}
}

// rest reads what gzip has after the end of a tar: its checksum is only compared at its own end. What else the file has
// behind that is passed over, as gzip does.
func (u *unpacker) rest(unzipped io.Reader) error {
	n, err := io.Copy(io.Discard, io.LimitReader(unzipped, u.left.bytes+1))
	switch {
	case n > u.left.bytes:
		return errors.New("unsafe archive: it unpacks to more than a data set has")
	case err != nil && !errors.Is(err, gzip.ErrHeader):
		return fmt.Errorf("damaged archive: %w", err)
	}
	return nil
}

func (u *unpacker) zip(file *os.File, size int64, progress func(done, total int64)) error {
	archive, err := zip.NewReader(file, size)
	if err != nil {
		return fmt.Errorf("damaged archive: %w", err)
	}
	var done, total int64
	for _, f := range archive.File {
		total += int64(f.CompressedSize64)
	}
	for _, f := range archive.File {
		err := func() error {
			var in io.ReadCloser
			defer func() {
				if in != nil {
					in.Close()
				}
			}()
			return u.entry(f.Name, f.Mode(), false, func() (_ io.Reader, err error) {
				in, err = f.Open()
				return in, err
			})
		}()
		if err != nil {
			return err
		}
		done += int64(f.CompressedSize64)
		progress(done, total)
	}
	return nil
}

// entry writes one file or folder.
func (u *unpacker) entry(name string, mode fs.FileMode, hardLink bool, open func() (io.Reader, error)) error {
	if err := u.ctx.Err(); err != nil {
		return err
	}
	if u.left.entries--; u.left.entries < 0 {
		return errors.New("it has too many files for a data set")
	}
	clean := strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/")
	if clean == "" || clean == "." {
		return nil
	}
	if !localPath(clean) {
		return fmt.Errorf("unsafe archive: the path %q leads out of its folder", name)
	}
	if leftover(clean) {
		return nil
	}
	switch {
	case mode.IsDir():
		return u.named(u.root.MkdirAll(clean, 0o755), clean)
	case !mode.IsRegular() || hardLink:
		return fmt.Errorf("unsafe archive: %q is a link or a device; want files and folders", name)
	}
	if err := u.root.MkdirAll(path.Dir(clean), 0o755); err != nil {
		return u.named(err, path.Dir(clean))
	}
	in, err := open()
	if err != nil {
		return fmt.Errorf("damaged archive: %s: %w", name, err)
	}
	out, err := u.root.OpenFile(clean, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		if info, statErr := u.root.Lstat(clean); statErr == nil && info.IsDir() {
			return fmt.Errorf("damaged archive: %q is a folder in it and a file", clean)
		}
		return u.named(err, clean)
	}
	defer out.Close()
	n, err := io.Copy(out, io.LimitReader(in, u.left.bytes+1))
	if u.left.bytes -= n; u.left.bytes < 0 {
		return errors.New("unsafe archive: it unpacks to more than a data set has")
	}
	if errors.As(err, new(*fs.PathError)) { // Of the disk, not of the archive.
		return err
	}
	if err != nil {
		return fmt.Errorf("damaged archive: %s: %w", name, err)
	}
	return out.Close()
}

// named returns the archive's fault if a path cannot be made because of its name, else the disk's, which is err.
func (u *unpacker) named(err error, name string) error {
	if err == nil {
		return nil
	}
	for above := name; above != "."; above = path.Dir(above) {
		if info, statErr := u.root.Lstat(above); statErr == nil && !info.IsDir() {
			return fmt.Errorf("damaged archive: %q is a file in it and a folder", above)
		}
	}
	for _, cause := range []error{syscall.ENAMETOOLONG, syscall.EINVAL, syscall.EILSEQ} {
		if errors.Is(err, cause) {
			return fmt.Errorf("damaged archive: no file can have the path %.100q: %v", name, cause)
		}
	}
	return err
}

// leftover tells whether a path is one of the files that macOS and Windows leave: AppleDouble files, thumbnails.
func leftover(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, "._") || part == "__MACOSX" || part == ".DS_Store" || part == "Thumbs.db" {
			return true
		}
	}
	return false
}

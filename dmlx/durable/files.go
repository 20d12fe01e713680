package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"
)

// SetAside renames a damaged file or folder, as [MoveAside] does, and warns in one line if warn is not nil. why
// completes a sentence that begins with the path.
func SetAside(path string, why error, warn func(string)) error {
	to, err := MoveAside(path, "damaged")
	if err != nil {
		return fmt.Errorf("%s %w, and cannot be set aside: %w", path, why, err)
	}
	if warn != nil {
		warn(fmt.Sprintf("%s %v; set aside as %s", path, why, filepath.Base(to)))
	}
	return nil
}

// MoveAside renames a file or folder to an unused name, the path with the word why and a number, and returns that
// name.
func MoveAside(path, why string) (to string, err error) {
	for i := 1; ; i++ {
		to = fmt.Sprintf("%s.%s-%d", path, why, i)
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		return to, os.Rename(path, to)
	}
}

// Open opens a regular file to read it. Anything else is an error: a pipe or a device that a stranger put in a file's
// place would block the reader for ever, or never end.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonBlocking, 0) // A pipe opens at once.
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Limits in bytes: of any file that is read at once, far beyond the largest network's weights, and of a file of text,
// such as JSON or a notebook.
const (
	MaxFile = 8 << 30
	MaxText = 64 << 20
)

// ReadFile reads a regular file of at most [MaxFile] bytes. A sparse file takes no disk, but would take memory.
func ReadFile(path string) ([]byte, error) { return ReadAtMost(path, MaxFile) }

// ReadAtMost reads a regular file of at most limit bytes. A larger one is an error before memory is taken for it.
func ReadAtMost(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes: want at most %d", path, info.Size(), limit)
	}
	buffer := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	if _, err = buffer.ReadFrom(io.LimitReader(f, limit+1)); err == nil && int64(buffer.Len()) > limit {
		err = fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return buffer.Bytes(), err
}

// ReadBelow reads a file of text below a folder that others can write to: regular, at most [MaxText] bytes, and no part
// of its path below dir a symbolic link.
func ReadBelow(dir, name string) ([]byte, error) {
	if err := NoLink(dir, name); err != nil {
		return nil, err
	}
	return ReadAtMost(filepath.Join(dir, name), MaxText)
}

// ParseJSON is [json.Unmarshal] for what strangers have written: a text of more than [MaxElements] elements, or of more
// than 64 MiB of the largest element that the lists of v have, is an error before memory is taken for it, since
// "[{},{},…" can take hundreds of times its length.
func ParseJSON(raw []byte, v any) error {
	elements, quoted, escaped := 0, false, false
	for _, b := range raw {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = b == '\\', b != '"'
		case b == '"':
			quoted = true
		case b == ',' || b == '[' || b == '{':
			elements++
		}
	}
	of := reflect.TypeOf(v)
	size, known := elementSizes.Load(of)
	if !known {
		size = elementSize(of, nil)
		elementSizes.Store(of, size)
	}
	if most := min(MaxElements, MaxText/size.(int)); elements > most {
		return fmt.Errorf("JSON of %d elements: want at most %d", elements, most)
	}
	return json.Unmarshal(raw, v)
}

var elementSizes sync.Map // From types to their [elementSize].

// elementSize returns the bytes of the largest element of a list or map within a type, at least 1. A type that reads
// its own JSON bounds it itself.
func elementSize(t reflect.Type, above []reflect.Type) int {
	own := reflect.TypeFor[json.Unmarshaler]()
	if slices.Contains(above, t) || reflect.PointerTo(t).Implements(own) {
		return 1
	}
	above = append(above, t)
	switch t.Kind() {
	case reflect.Slice, reflect.Map:
		return max(int(t.Elem().Size()), elementSize(t.Elem(), above))
	case reflect.Pointer, reflect.Array:
		return elementSize(t.Elem(), above)
	case reflect.Struct:
		most := 1
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() || f.Anonymous {
				most = max(most, elementSize(f.Type, above))
			}
		}
		return most
	}
	return 1
}

// ParseLines reads a file of JSON lines, each into a T by [ParseJSON], and returns an error that names the first line
// that is wrong. It also returns an error for more than MaxElements/8 lines or 64 MiB of values, which it allocates at
// once.
func ParseLines[T any](raw []byte) ([]T, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	n, most := bytes.Count(raw, []byte{'\n'}), min(MaxElements/8, MaxText/max(1, int(reflect.TypeFor[T]().Size())))
	if n > most {
		return nil, fmt.Errorf("%d lines: want at most %d", n, most)
	}
	out := make([]T, 0, n+1)
	for line := range bytes.Lines(raw) {
		out = append(out, *new(T))
		if err := ParseJSON(line, &out[len(out)-1]); err != nil {
			return nil, fmt.Errorf("line %d, is damaged: %w", len(out), err)
		}
	}
	return out, nil
}

// MaxElements is how many elements a JSON text of a stranger may have, in all its lists and objects: enough for the
// labels of two million images.
const MaxElements = 1 << 21

// WriteJSON writes a value as indented JSON by [WriteFile].
func WriteJSON(path string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(path, append(raw, '\n'), 0o644)
}

// Sum returns the SHA-256 of data in hexadecimal digits.
func Sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// SumOf returns the SHA-256 of a value's JSON.
func SumOf(v any) (string, error) {
	raw, err := json.Marshal(v)
	return Sum(raw), err
}

// WriteLines writes a list as a file of JSON lines, which [ParseLines] reads, by [WriteFile].
func WriteLines[T any](path string, list []T, perm os.FileMode) error {
	lines, err := Lines(list)
	if err != nil {
		return err
	}
	return WriteFile(path, lines, perm)
}

// Lines returns a list as JSON lines.
func Lines[T any](list []T) ([]byte, error) {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, v := range list {
		if err := encoder.Encode(v); err != nil {
			return nil, err
		}
	}
	return lines.Bytes(), nil
}

// FileSum returns the SHA-256 of a regular file of at most [MaxFile] bytes in hexadecimal digits.
func FileSum(path string) (string, error) {
	f, err := Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if n, err := io.Copy(h, io.LimitReader(f, MaxFile+1)); err != nil {
		return "", err
	} else if n > MaxFile {
		return "", fmt.Errorf("%s has more than %d bytes", path, int64(MaxFile))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Trim removes the files in a folder with an extension that were changed longest ago, until the rest has at most so
// many bytes. It leaves files of the last hour, which may be in use, and those that it cannot remove.
func Trim(dir, ext string, most int64) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var infos []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && filepath.Ext(e.Name()) == ext {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	total := int64(0)
	for _, info := range infos {
		if total += info.Size(); total > most && time.Since(info.ModTime()) > time.Hour {
			_ = os.Remove(filepath.Join(dir, info.Name()))
		}
	}
	return nil
}

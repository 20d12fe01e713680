package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
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

// ReadFile reads a regular file, as [os.ReadFile] does. Anything else is an error: a pipe or a device that a stranger
// put in a file's place would block the reader for ever, or never end.
func ReadFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // A pipe opens at once.
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	raw := make([]byte, 0, info.Size()+1)
	buffer := bytes.NewBuffer(raw)
	_, err = buffer.ReadFrom(f)
	return buffer.Bytes(), err
}

// WriteJSON writes a value as indented JSON by [WriteFile].
func WriteJSON(path string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(path, append(raw, '\n'), 0o644)
}

// FileSum returns the SHA-256 of a file in hexadecimal digits.
func FileSum(path string) (string, error) {
	raw, err := ReadFile(path)
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(raw)
	return hex.EncodeToString(h[:]), nil
}

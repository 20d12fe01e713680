package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// cacheDir is the one folder outside the repository that is written to: DMLX_CACHE, else dmlx in the user's cache.
func cacheDir() (string, error) {
	if dir := os.Getenv("DMLX_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder: %w; set DMLX_CACHE to one", err)
	}
	return filepath.Join(dir, "dmlx"), nil
}

// shortHash names a file after what it depends on.
func shortHash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

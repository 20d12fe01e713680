//go:build cgo && !noxla && ((linux && (amd64 || arm64)) || (darwin && arm64) || (windows && amd64))

package xla

import (
	"errors"
	"testing"

	"github.com/gomlx/go-xla/compute/xla"
)

// Since v0.4.5 go-xla downloads nothing, and says nothing, where its downloader is not imported.
func TestDownloaderIsLinked(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, proxy := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		t.Setenv(proxy, "http://127.0.0.1:1") // Nobody answers there, so nothing is downloaded.
	}
	if err := xla.AutoInstall(); err == nil || errors.Is(err, xla.ErrNoAutoInstaller) {
		t.Errorf("without a network AutoInstall returned %v, want the failed download", err)
	}
}

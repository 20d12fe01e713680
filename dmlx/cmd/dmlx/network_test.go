package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestWhatIsContacted runs commands behind a proxy that refuses everything: only those that environment.md names ask
// for a host, and for no other one.
func TestWhatIsContacted(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Host)
		http.Error(w, "refused", http.StatusForbidden)
	}))
	defer proxy.Close()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	environ := append(os.Environ(), "DMLX_TEST_COMMAND=1", "GOMLX_BACKEND=go", "DMLX_CACHE="+dir, "DMLX_DATA="+dir,
		"DMLX_STORE="+dir, "NO_PROXY=", "no_proxy=", "GOPROXY=off")
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		environ = append(environ, name+"="+proxy.URL)
	}
	for command, want := range map[string][]string{
		"--help":               {},
		"--version":            {},
		"doctor":               {},
		"data list":            {},
		"data verify cub":      {},
		"runs list":            {},
		"runs verify":          {},
		"train --preset smoke": {},
	} {
		cmd := exec.CommandContext(t.Context(), program, strings.Fields(command)...)
		cmd.Env, cmd.Dir = environ, dir
		out, err := cmd.CombinedOutput() // Most fail, for lack of data.
		if len(want) > 0 && err == nil {
			t.Errorf("dmlx %s succeeds behind a proxy that refuses: %s", command, out)
		}
		if !strings.Contains(string(out), " ") {
			t.Errorf("dmlx %s says %q, %v", command, out, err)
		}
		mu.Lock()
		got := slices.Compact(slices.Sorted(slices.Values(asked)))
		asked = nil
		mu.Unlock()
		if !slices.Equal(got, want) {
			t.Errorf("dmlx %s asks for %q; want %q", command, got, want)
		}
		t.Logf("dmlx %s: %.200s", command, out)
	}
}

package doctor

import (
	"strings"
	"testing"
)

func TestNeeds(t *testing.T) {
	r := Report{CGO: true, GPU: "H200"}
	r.backendLacks()
	text := r.Text()
	for _, want := range []string{"a PJRT plugin", "a CUDA plugin", `pip install "jax[cuda12]"`, "GOMLX_BACKEND=xla:"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not named:\n%s", want, text)
		}
	}
	r = Report{}
	if r.backendLacks(); !strings.Contains(r.Text(), "a C compiler") {
		t.Errorf("no C compiler:\n%s", r.Text())
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[int64]string{0: "empty", 1: "1 kB", 5 << 20: "5 MB", 3 << 29: "1.5 GB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

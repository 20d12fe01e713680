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

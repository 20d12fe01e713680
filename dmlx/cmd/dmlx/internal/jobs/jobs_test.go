package jobs

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

func TestAtATime(t *testing.T) {
	const gb = 1 << 30
	for _, c := range []struct {
		cores  int
		memory uint64
		gpus   int
		want   int
	}{{2, 0, 0, 1}, {1, 16 * gb, 0, 1}, {16, 64 * gb, 0, 8}, {16, 3*gb + 1, 0, 3}, {8, 1, 0, 1}, {16, 64 * gb, 1, 1},
		{16, 64 * gb, 4, 4}} {
		if got := atATime(c.cores, c.memory, c.gpus); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	for want, gpus := range map[string][]string{
		"0,1 2,3": {"0", "1", "2", "3", "4"}, "": {"0"},
	} {
		if got := strings.Join(shares(gpus, 2), " "); got != want {
			t.Errorf("pairs of %v: %q, want %q", gpus, got, want)
		}
	}
	t.Setenv("GOMLX_BACKEND", "go")
	o := runs.Options{Jobs: 1}
	if Set(&o, &runs.Store{Dir: filepath.Join(t.TempDir(), "runs")}); o.RunProcess != nil {
		t.Error("one run at a time is trained in a process of its own")
	}
	if o = (runs.Options{Devices: train.AllDevices}); visibleGPUs() == nil {
		if Set(&o, &runs.Store{Dir: filepath.Join(t.TempDir(), "runs")}); o.Jobs != 1 || o.RunProcess != nil {
			t.Errorf("on all devices %d runs are trained at a time", o.Jobs)
		}
	}
	if visibleGPUs() != nil {
		t.Error("the Go backend on a GPU")
	}
}

// A trace of Go's runtime becomes one line.
func TestEnded(t *testing.T) {
	t.Parallel()
	failed := errors.New("exit status 2")
	for stderr, want := range map[string]string{
		"": "exit status 2",
		"warning: x\ndmlx: minicar: no such rule\n":                                              "minicar: no such rule",
		"fatal error: runtime: out of memory\n\ngoroutine 1 [running]:\nmain.main()\n r15 0x0\n": "use fewer --jobs",
	} {
		if err := ended(stderr, failed); !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q becomes %q, want …%s", stderr, err, want)
		}
	}
}

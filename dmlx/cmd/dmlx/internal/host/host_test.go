package host

import (
	"runtime"
	"testing"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "linux" && Memory("meminfo", "MemTotal") < 1<<20 {
		t.Errorf("%d bytes of memory", Memory("meminfo", "MemTotal"))
	}
	if m := Memory("meminfo", "NoSuchLine"); m != 0 {
		t.Errorf("%d bytes in a line that is not there", m)
	}
}

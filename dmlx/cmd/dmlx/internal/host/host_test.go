package host

import (
	"runtime"
	"strings"
	"testing"
)

func TestHugePages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ offered, tunables, status, ask string }{
		{"always [madvise] never\n", "", "no, Linux", "glibc.malloc.hugetlb=1"},
		{"always [madvise] never\n", "glibc.malloc.check=1", "no, Linux", "glibc.malloc.check=1:glibc.malloc.hugetlb=1"},
		{"always [madvise] never\n", "glibc.malloc.hugetlb=0", "no, GLIBC_TUNABLES", ""},
		{"always [madvise] never\n", "glibc.malloc.check=1:glibc.malloc.hugetlb=1", "yes", ""},
		{"[always] madvise never\n", "", "yes", ""},
		{"always madvise [never]\n", "", "no, Linux has turned them off", ""},
		{"", "", "not on", ""},
	} {
		status, ask := hugePages(c.offered, c.tunables)
		if !strings.HasPrefix(status, c.status) || ask != c.ask {
			t.Errorf("hugePages(%q, %q) = %q, %q, want %q…, %q", c.offered, c.tunables, status, ask, c.status, c.ask)
		}
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "linux" && Memory("meminfo", "MemTotal") < 1<<20 {
		t.Errorf("%d bytes of memory", Memory("meminfo", "MemTotal"))
	}
	if m := Memory("meminfo", "NoSuchLine"); m != 0 {
		t.Errorf("%d bytes in a line that is not there", m)
	}
}

package main

import "testing"

func TestHugePages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		offered, tunables, with string
		ask                     bool
	}{
		{"always [madvise] never\n", "", "glibc.malloc.hugetlb=1", true},
		{"always [madvise] never\n", "glibc.malloc.check=1", "glibc.malloc.check=1:glibc.malloc.hugetlb=1", true},
		{"always [madvise] never\n", "glibc.malloc.hugetlb=0", "glibc.malloc.hugetlb=0", false},
		{"[always] madvise never\n", "", "", false},
		{"always madvise [never]\n", "", "", false},
		{"", "", "", false}, // Not Linux.
	} {
		if with, ask := hugePages(c.offered, c.tunables); with != c.with || ask != c.ask {
			t.Errorf("hugePages(%q, %q) = %q, %v, want %q, %v", c.offered, c.tunables, with, ask, c.with, c.ask)
		}
	}
}

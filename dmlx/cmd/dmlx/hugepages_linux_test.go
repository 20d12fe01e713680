//go:build cgo && !noxla

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A program asks glibc for huge pages where Linux gives them on demand, with the same arguments, and leaves what the
// user has set.
func TestHugePages(t *testing.T) {
	t.Parallel()
	mode, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	want := ""
	if err == nil && strings.Contains(string(mode), "[madvise]") {
		want = "glibc.malloc.hugetlb=1"
	}
	for set, want := range map[string]string{"": want, "glibc.malloc.arena_max=4": "glibc.malloc.arena_max=4"} {
		c := exec.Command(os.Args[0], "a b", "--c")
		for _, v := range append(os.Environ(), "DMLX_TEST_HUGE_PAGES=1") {
			if !strings.HasPrefix(v, "GLIBC_TUNABLES=") {
				c.Env = append(c.Env, v)
			}
		}
		if set != "" {
			c.Env = append(c.Env, "GLIBC_TUNABLES="+set)
		}
		if out, err := c.CombinedOutput(); err != nil || string(out) != "[a b --c]"+want {
			t.Errorf("with %q: %q, %v", set, out, err)
		}
	}
}

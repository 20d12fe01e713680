//go:build cgo && !noxla

package main

import (
	"os"
	"strings"
	"syscall"
)

// tunables is what glibc reads when a program starts, and only then.
const tunables = "GLIBC_TUNABLES"

// hugePages starts this program anew, in the same process, with large blocks of memory in huge pages, where Linux gives
// these on demand only and nobody has set tunables. For each step of a large network XLA's CPU asks for hundreds of
// megabytes and gives them back, and the system's share of a step of EfficientNet-Lite0 is a third with small pages.
// Programs that this one starts, such as the cells of notebooks, have them, too.
func hugePages() {
	_, chosen := os.LookupEnv(tunables)
	mode, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	self, unknown := os.Executable()
	if chosen || err != nil || unknown != nil || !strings.Contains(string(mode), "[madvise]") {
		return
	}
	// Where this fails all goes on with small pages.
	_ = syscall.Exec(self, os.Args, append(os.Environ(), tunables+"=glibc.malloc.hugetlb=1"))
}

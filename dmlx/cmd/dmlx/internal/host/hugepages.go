package host

import (
	"os"
	"runtime"
	"strings"
)

// TunablesEnv is read by glibc when a program starts, and never again.
const TunablesEnv = "GLIBC_TUNABLES"

const hugePagesTunable = "glibc.malloc.hugetlb"

// HugePages tells whether C code in this process, such as XLA's CPU plugin, gets huge pages of memory. A training step
// of a ResNet there takes a gigabyte of new pages, and about a tenth less time if they are huge.
//
// status is "yes", or "no" and why. ask is the value of GLIBC_TUNABLES with which a program gets huge pages, or "" if
// asking changes nothing.
func HugePages() (status, ask string) {
	offered, _ := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	return hugePages(string(offered), os.Getenv(TunablesEnv))
}

// hugePages is HugePages for what Linux offers, as in "always [madvise] never", and the value of GLIBC_TUNABLES.
func hugePages(offered, tunables string) (status, ask string) {
	switch {
	case offered == "":
		return "not on " + runtime.GOOS, ""
	case strings.Contains(offered, "[always]"):
		return "yes", ""
	case !strings.Contains(offered, "[madvise]"):
		return "no, Linux gives none", ""
	}
	for tunable := range strings.SplitSeq(tunables, ":") {
		if value, ok := strings.CutPrefix(tunable, hugePagesTunable+"="); ok && value == "0" {
			return "no, " + TunablesEnv + " forbids them", ""
		} else if ok {
			return "yes", ""
		}
	}
	return "no, Linux gives them on demand only", strings.TrimPrefix(tunables+":"+hugePagesTunable+"=1", ":")
}

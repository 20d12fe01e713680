package host

import (
	"os"
	"runtime"
	"strings"
)

// TunablesEnv is the environment variable that glibc reads, once, when a program starts.
const TunablesEnv = "GLIBC_TUNABLES"

const hugePagesTunable = "glibc.malloc.hugetlb"

// HugePages tells whether C code in this process, such as XLA's CPU plugin, gets huge pages of memory. A training step
// of a ResNet needs a gigabyte of new pages there, and about a tenth less time with huge pages.
//
// status is "yes", or "no" with the reason. ask is the value of GLIBC_TUNABLES that turns huge pages on, or "" if no
// value does.
func HugePages() (status, ask string) {
	offered, _ := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	return hugePages(string(offered), os.Getenv(TunablesEnv))
}

// hugePages returns the results of [HugePages] for the content of Linux's file, such as "always [madvise] never", and
// the value of GLIBC_TUNABLES.
func hugePages(offered, tunables string) (status, ask string) {
	switch {
	case offered == "":
		return "not on " + runtime.GOOS, ""
	case strings.Contains(offered, "[always]"):
		return "yes", ""
	case !strings.Contains(offered, "[madvise]"):
		return "no, Linux has turned them off", ""
	}
	for tunable := range strings.SplitSeq(tunables, ":") {
		if value, ok := strings.CutPrefix(tunable, hugePagesTunable+"="); ok && value == "0" {
			return "no, " + TunablesEnv + " turns them off", ""
		} else if ok {
			return "yes", ""
		}
	}
	return "no, Linux gives them only on request", strings.TrimPrefix(tunables+":"+hugePagesTunable+"=1", ":")
}

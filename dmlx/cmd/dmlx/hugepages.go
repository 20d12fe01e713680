package main

import (
	"os"
	"strings"
	"syscall"
)

// tunablesEnv is read by glibc when a program starts, and never again.
const tunablesEnv = "GLIBC_TUNABLES"

// withHugePages replaces this process by itself with huge pages for what C code allocates, where Linux gives them on
// demand: a training step of a ResNet on XLA's CPU plugin takes a gigabyte of pages anew, and a tenth of its time if they are
// of 4 kB. What it starts, JupyterLab's kernel among it, has them too. It returns if there is nothing to gain, or
// if it failed, which costs speed alone.
func withHugePages() {
	offered, _ := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	tunables, ask := hugePages(string(offered), os.Getenv(tunablesEnv))
	program, err := os.Executable()
	if !ask || err != nil || os.Setenv(tunablesEnv, tunables) != nil {
		return
	}
	_ = syscall.Exec(program, os.Args, os.Environ())
}

// hugePages adds glibc's wish for huge pages to its tunables, if Linux waits for it ("madvise") and nothing is said of it yet.
func hugePages(offered, tunables string) (with string, ask bool) {
	const name = "glibc.malloc.hugetlb"
	if !strings.Contains(offered, "[madvise]") || strings.Contains(tunables, name) {
		return tunables, false
	}
	return strings.TrimPrefix(tunables+":"+name+"=1", ":"), true
}

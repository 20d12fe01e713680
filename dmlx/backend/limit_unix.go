//go:build linux || darwin

package backend

import (
	"math"
	"syscall"
)

// addressSpace returns the limit on this process's address space in bytes, as ulimit -v sets it.
func addressSpace() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &limit); err != nil {
		return math.MaxUint64
	}
	return limit.Cur
}

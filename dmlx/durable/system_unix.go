//go:build unix

package durable

import (
	"io/fs"
	"syscall"
)

const nonBlocking = syscall.O_NONBLOCK

// Owner returns the number of the user to whom a file belongs, as [os.Getuid] does: -1 where there are no such numbers.
func Owner(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}

//go:build unix

package campaign

import (
	"fmt"
	"os"
	"syscall"
)

// smallDisk mounts a file system of so many kB on a folder, if this process may. grow makes it large enough.
func smallDisk(dir string, room int) (grow func() error, unmount func(), mounted bool) {
	if os.Geteuid() != 0 || syscall.Mount("campaign", dir, "tmpfs", 0, fmt.Sprintf("size=%dk", room)) != nil {
		return nil, nil, false
	}
	return func() error { return syscall.Mount("campaign", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m") },
		func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }, true
}

//go:build unix

package lab

import (
	"os/exec"
	"syscall"
)

// ownGroup starts a process in a group of its own, which a terminal's interrupt does not reach. This program stops the
// group instead: by SIGTERM when the command's context ends, and by force after stopWait.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = processAttributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = stopWait
}

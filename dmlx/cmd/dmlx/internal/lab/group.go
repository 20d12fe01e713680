package lab

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps a terminal's interrupt away from a process, so that it is this program that stops it and what it
// started: gently when the command's context ends, and if that does not help in stopWait, by force.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = processAttributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = stopWait
}

package lab

import "syscall"

// processAttributes starts a process in a group of its own; it gets SIGTERM even if this process is killed.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

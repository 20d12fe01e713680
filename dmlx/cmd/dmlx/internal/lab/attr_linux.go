package lab

import "syscall"

// processAttributes let a process end gently with this one even if this one is killed.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

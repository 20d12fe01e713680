//go:build !unix

package lab

import "os/exec"

const exeSuffix = ".exe"

// ownGroup lets a process that ignores the end of its context be killed.
func ownGroup(cmd *exec.Cmd) { cmd.WaitDelay = stopWait }

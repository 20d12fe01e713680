//go:build !unix

package lab

import "os/exec"

// ownGroup leaves the process to end with its context: there are no groups to signal.
func ownGroup(cmd *exec.Cmd) { cmd.WaitDelay = stopWait }

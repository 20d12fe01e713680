//go:build unix

package main

import "syscall"

const exeSuffix = ""

// replaceProcess runs another program in this process; it returns only an error.
func replaceProcess(program string, args, env []string) error {
	return syscall.Exec(program, args, env)
}

//go:build !unix

package main

import (
	"errors"
	"os"
	"os/exec"
)

const exeSuffix = ".exe"

// replaceProcess runs another program in this one's place and exits as it does; it returns only an error.
func replaceProcess(program string, args, env []string) error {
	cmd := exec.Command(program, args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) {
		os.Exit(cmd.ProcessState.ExitCode())
	}
	return err
}

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes of the command, except 0.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // As a shell reports an interrupt.
)

// usageError is an error of the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usage turns an error into one of the command line; nil stays nil.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

func usagef(format string, args ...any) error { return usage(fmt.Errorf(format, args...)) }

func isUsage(err error) bool {
	_, is := errors.AsType[usageError](err)
	return is
}

// strict turns cobra's errors about the arguments of a command and its subcommands into errors of the command line. An
// unknown command gets a suggestion.
func strict(cmd *cobra.Command) {
	accepts := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if accepts == nil {
			return nil
		}
		err := accepts(cmd, args)
		if err == nil || len(args) == 0 || !cmd.HasAvailableSubCommands() {
			return usage(err)
		}
		cmd.SuggestionsMinimumDistance = 2
		if meant := cmd.SuggestionsFor(args[0]); len(meant) > 0 {
			return usagef("%w; did you mean %s?", err, strings.Join(meant, " or "))
		}
		return usagef("%w; %s --help lists them", err, cmd.CommandPath())
	}
	for _, below := range cmd.Commands() {
		strict(below)
	}
}

// checkedWriter keeps the error of a failed write, since cobra does not report that its help was lost.
type checkedWriter struct {
	io.Writer
	err error // The first one.
}

func (w *checkedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

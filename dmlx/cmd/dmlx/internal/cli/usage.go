package cli

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
)

// usageError is an error of the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage turns an error into one of the command line; nil stays nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// Usagef returns an error of the command line.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// IsUsage tells whether an error is one of the command line: of its form, or of a name or value in it that nothing but
// another command line can make right. A file that is not there is none.
func IsUsage(err error) bool {
	_, is := errors.AsType[usageError](err)
	_, name := errors.AsType[*datasets.NameError](err)
	return (is || name || errs.IsInvalid(err)) && !errors.Is(err, fs.ErrNotExist)
}

// Require marks flags that must be given, and not empty.
func Require(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		_ = cmd.MarkFlagRequired(name) // It fails only for an unknown flag.
	}
}

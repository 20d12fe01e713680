package cli

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// CheckRequired checks the flags of [Require], as cobra does later, whose error would count as a failure.
func CheckRequired(cmd *cobra.Command, _ []string) error {
	err := cmd.ValidateRequiredFlags()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cobra.BashCompOneRequiredFlag] != nil && f.Value.String() == "" && err == nil {
			err = fmt.Errorf("--%s is empty: want %s", f.Name, f.Usage)
		}
	})
	return Usage(err)
}

// Numbers says what a flag of a type wants, instead of the text of package strconv.
var Numbers = map[string]string{"int": "a whole number", "bool": "true or false", "duration": "a time, as in 30s or 2h",
	"float64Slice": "numbers, as in 0.1,0.3"}

// FlagError is the error of a command line whose flags cannot be read. An unknown flag gets a suggestion.
func FlagError(cmd *cobra.Command, err error) error {
	if bad, is := errors.AsType[*pflag.InvalidValueError](err); is && Numbers[bad.GetFlag().Value.Type()] != "" {
		flag := bad.GetFlag()
		return Usagef("--%s %q: want %s", flag.Name, bad.GetValue(), Numbers[flag.Value.Type()])
	}
	unknown, is := errors.AsType[*pflag.NotExistError](err)
	if !is {
		return Usage(err)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := errs.Nearest(unknown.GetSpecifiedName(), names); near != "" {
		return Usagef("%w; did you mean --%s?", err, near)
	}
	return Usagef("%w; %s --help lists them", err, cmd.CommandPath())
}

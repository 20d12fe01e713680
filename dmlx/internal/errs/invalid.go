package errs

import (
	"errors"
	"fmt"
)

type invalid struct{ error }

func (e invalid) Unwrap() error { return e.error }

// Invalid marks an error as one about a value that was asked for and that no files, machine or network could make
// right: a command then exits as for a wrong command line. Nil stays nil.
func Invalid(err error) error {
	if err == nil {
		return nil
	}
	return invalid{err}
}

// IsInvalid tells whether an error is marked by [Invalid].
func IsInvalid(err error) bool {
	_, is := errors.AsType[invalid](err)
	return is
}

// AtLeast returns an error that names an integer setting if it is below its least value.
func AtLeast(name string, value, least int) error {
	if value < least {
		return fmt.Errorf("%s is %d, must be at least %d", name, value, least)
	}
	return nil
}

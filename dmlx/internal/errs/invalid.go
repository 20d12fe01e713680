package errs

import (
	"errors"
	"fmt"
	"slices"
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

// Finite returns an error that names the first value that is not finite, with what it is of before it. The values are
// rows of a width, behind a number of rows before.
func Finite(of string, values []float32, width int) error {
	i := slices.IndexFunc(values, func(v float32) bool { return v-v != 0 })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("%srow %d, column %d is %g: want finite values", of, i/width, i%width, values[i])
}

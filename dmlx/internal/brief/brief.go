// Package brief shortens errors to what a user reads: GoMLX's carry stacks below their first line.
package brief

import "strings"

// Error is an error with the first line of its message, which unwraps to the whole.
func Error(err error) error {
	if err == nil {
		return nil
	}
	first, _, cut := strings.Cut(err.Error(), "\n")
	if !cut {
		return err
	}
	return &line{first, err}
}

type line struct {
	text string
	err  error
}

func (l *line) Error() string { return l.text }
func (l *line) Unwrap() error { return l.err }

// Package brief shortens errors to what a user reads: GoMLX's carry stacks below their first line.
package brief

import "strings"

// Error is an error with the first line of its message, less the name of the graph that GoMLX was building. It unwraps to the whole.
func Error(err error) error {
	if err == nil {
		return nil
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	if _, cause, ok := strings.Cut(first, "\" panicked: "); ok {
		first = cause
	}
	if first == err.Error() {
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

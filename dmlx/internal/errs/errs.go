// Package errs shortens errors to what a user reads: GoMLX's carry stacks below their first line.
package errs

import (
	"fmt"
	"strings"
)

// executions begin what GoMLX and XLA say before the reason why a graph was not executed, up to a colon: functions and
// codes. They are no regular expression, whose package would be a thirtieth of the page's program.
var executions = []string{"Graph failed to execute", "failed to execute", `backend "`, "PJRT error (code="}

// Error is an error with the first line of its message, less the name of the graph that GoMLX was building or
// executing. It unwraps to the whole.
func Error(err error) error {
	if err == nil {
		return nil
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	if _, cause, ok := strings.Cut(first, "\" panicked: "); ok {
		first = cause
	}
	from, reason := len(first), 0
	for _, begins := range executions {
		if i := strings.LastIndex(first, begins); i >= 0 {
			if colon := strings.Index(first[i:], ": "); colon >= 0 {
				from, reason = min(from, strings.Index(first, begins)), max(reason, i+colon+2)
			}
		}
	}
	if reason > from {
		first = first[:from] + first[reason:]
	}
	if strings.HasSuffix(first, " bytes.") && strings.Contains(first, "Out of memory") {
		first += " That is more than there are: use fewer or smaller images in a batch, or in training --micro-batch"
	}
	if first == err.Error() {
		return err
	}
	return &line{first, err}
}

// Catch is deferred with a function's error. It makes a panic an error, since GoMLX panics where a graph cannot be
// built, and shortens any error as [Error] does. The function's other results stay as they are.
func Catch(err *error) {
	if r := recover(); r != nil {
		*err = Panicked(r)
	}
	*err = Error(*err)
}

// Panicked is what was recovered from a panic, as an error.
func Panicked(r any) error {
	if err, is := r.(error); is {
		return err
	}
	return fmt.Errorf("%v", r)
}

type line struct {
	text string
	err  error
}

func (l *line) Error() string { return l.text }
func (l *line) Unwrap() error { return l.err }

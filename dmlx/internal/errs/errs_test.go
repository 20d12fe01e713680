package errs

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestError(t *testing.T) {
	if Error(nil) != nil || Error(io.EOF) != io.EOF {
		t.Error("what is one line, or no error, is to stay as it is")
	}
	if err := Error(fmt.Errorf("shapes differ: %w\nstack\ntrace", io.EOF)); err.Error() != "shapes differ: EOF" ||
		!errors.Is(err, io.EOF) {
		t.Errorf("%q", err)
	}
}

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
	// As XLA said it of a step that was too large.
	const graph = `"Store.Exec:github.com/gomlx/gomlx/ml/model.convertExecFn[...].func11#1": `
	long := errors.New("step 1: failed to execute graph " + graph + `Graph failed to execute: backend "xla": failed to ` +
		"execute computation " + graph + "PJRT error (code=8): Out of memory allocating 12564606470 bytes.")
	const want = "step 1: Out of memory allocating 12564606470 bytes. That is more than there are: use fewer or smaller " +
		"images in a batch, or in training --micro-batch"
	if got := Error(long).Error(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if again := Error(Error(long)); again.Error() != Error(long).Error() {
		t.Errorf("twice: %q", again)
	}
}

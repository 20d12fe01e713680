package nb

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestStopLine(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{context.Canceled, "stopped; run the cell again to go on"},
		{fmt.Errorf("stopped in epoch 6 of 20; the same run resumes from there: %w", context.Canceled),
			"stopped in epoch 6 of 20; run the cell again to go on"},
		{fmt.Errorf("stopped while images were embedded: %w", context.Canceled), "stopped; run the cell again to go on"},
	} {
		if got := stopLine(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

// An error is no Stop unless the Stop button was pressed.
func TestStopped(t *testing.T) {
	for _, err := range []error{context.Canceled, context.DeadlineExceeded, errors.New("no rule")} {
		if stopped(err) {
			t.Errorf("%v counts as a Stop", err)
		}
	}
}

// Stop ends the line of the training in progress, and leaves one that is done as it is.
func TestStopEndsTheOpenLine(t *testing.T) {
	var shown []string
	line := newProgress("run", 0, func(fraction float64, text, kind string) { shown = append(shown, kind+": "+text) })
	line.Set(0.3, "epoch 6/20")
	sayStopped("stopped in epoch 6")
	line.Set(0.4, "too late")
	line.Done("")
	if want := []string{"progress: epoch 6/20", "stopped: stopped in epoch 6"}; fmt.Sprint(shown) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", shown, want)
	}
	if openLine.Load() != nil {
		t.Error("a line that has ended counts as open")
	}
}

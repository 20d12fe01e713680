package cli

import (
	"context"
	"fmt"
	"testing"
)

func TestStopped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, want string }{
		{"", "stopped"}, {"CUB: ", "stopped: CUB"}, {"datasets: SOP: stopped; the same command goes on: ",
			"datasets: SOP: stopped; the same command goes on"},
	} {
		if got := stopped(fmt.Errorf("%s%w", c.before, context.Canceled)); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

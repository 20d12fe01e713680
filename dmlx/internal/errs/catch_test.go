package errs

import (
	"errors"
	"testing"
)

func TestCatch(t *testing.T) {
	own := errors.New("mine\nwith a stack")
	for _, c := range []struct {
		fn   func() error
		want string
	}{
		{func() error { return nil }, ""},
		{func() error { return own }, "mine"},
		{func() error { panic(own) }, "mine"},
		{func() error { panic("not today") }, "not today"},
	} {
		err := func() (err error) {
			defer Catch(&err)
			return c.fn()
		}()
		switch {
		case c.want == "":
			if err != nil {
				t.Error(err)
			}
		case err == nil || err.Error() != c.want:
			t.Errorf("%v, want %s", err, c.want)
		case c.want == "mine" && !errors.Is(err, own):
			t.Errorf("%v does not unwrap to what was panicked with", err)
		}
	}
}

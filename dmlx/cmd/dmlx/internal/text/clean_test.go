package text

import (
	"bytes"
	"errors"
	"testing"
)

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

// What comes from strangers' files does not steer a terminal, and the rest stays as it is.
func TestCleaner(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a\tb\nc, é 漢 −":      "a\tb\nc, é 漢 −",
		"\x1b[2J":             `\u001b[2J`,
		"\x1b]0;title\x07":    `\u001b]0;title\u0007`,
		"over\rwritten\b":     `over\u000dwritten\u0008`,
		"\u202egnp.exe\u2066": `\u202egnp.exe\u2066`,
		"\u009b31m\x7f\x00":   `\u009b31m\u007f\u0000`,
		"a\xffb":              "a\xffb",
	} {
		var b bytes.Buffer
		n, err := Cleaner{&b}.Write([]byte(in))
		if err != nil || n != len(in) || b.String() != want {
			t.Errorf("%q became %q (%d of %d bytes, %v), want %q", in, b.String(), n, len(in), err, want)
		}
	}
	if n, err := (Cleaner{full{}}).Write([]byte("a")); err == nil || n != 0 {
		t.Errorf("%d bytes on a full disk, %v", n, err)
	}
}

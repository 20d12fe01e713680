package text

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Clean returns a text with its control characters, but for line breaks and tabs, and those that turn the direction of
// text, as escapes such as \u001b, which JSON has, too. Names and messages from strangers' files would otherwise steer
// the terminal.
func Clean(s string) string {
	steers := func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' || '\u202a' <= r && r <= '\u202e' ||
			'\u2066' <= r && r <= '\u2069'
	}
	if !strings.ContainsFunc(s, steers) {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		if steers(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// Cleaner is a writer that passes on texts as [Clean] returns them.
type Cleaner struct{ io.Writer }

func (c Cleaner) Write(p []byte) (int, error) {
	if _, err := io.WriteString(c.Writer, Clean(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

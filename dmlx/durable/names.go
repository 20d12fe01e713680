package durable

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Names returns the lines of a text of names or labels, whatever wrote it: without a byte order mark, with the line
// ends of any system, and without blanks around them. Names in the quotes of [JoinNames] are read without.
func Names(raw []byte) ([]string, error) {
	if err := Text(raw); err != nil {
		return nil, err
	}
	if bytes.IndexByte(raw, 0) >= 0 {
		return nil, errors.New("not a text of names in UTF-8, one a line")
	}
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(raw), "\ufeff"))
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
		if name, err := strconv.Unquote(lines[i]); err == nil && quoted(name) {
			lines[i] = name
		}
	}
	return lines, nil
}

// JoinNames is the text that [Names] reads. Names with a line break or another control character, with blanks around
// them or a quotation mark in front are quoted, as Go does.
func JoinNames(names []string) []byte {
	var out bytes.Buffer
	for _, name := range names {
		if quoted(name) {
			name = strconv.Quote(name)
		}
		out.WriteString(name + "\n")
	}
	return out.Bytes()
}

func quoted(name string) bool {
	return strings.ContainsFunc(name, unicode.IsControl) || strings.TrimSpace(name) != name ||
		strings.HasPrefix(name, `"`) || strings.HasPrefix(name, "\ufeff")
}

// Alike returns an error about two names that differ only in what cannot be seen: composed and decomposed letters,
// kinds of blanks, and marks without a width. Linux and Windows mostly compose letters, macOS decomposes them.
func Alike(names []string) error {
	seen := map[string]string{}
	for _, name := range names {
		visible := strings.TrimSpace(strings.Map(func(r rune) rune {
			switch {
			case unicode.Is(unicode.Cf, r):
				return -1
			case unicode.IsSpace(r):
				return ' '
			}
			return r
		}, norm.NFC.String(name)))
		if other, found := seen[visible]; found && other != name {
			return fmt.Errorf("the names %+q and %+q look alike but differ: want one spelling", other, name)
		}
		seen[visible] = name
	}
	return nil
}

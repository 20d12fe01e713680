package durable

import (
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"a\nb\n": {"a", "b"}, "\ufeffa\nb": {"a", "b"}, "a\r\nb\r\n": {"a", "b"}, "a\rb\r": {"a", "b"},
		"a  \n\tb\u00a0": {"a", "b"}, "a\n\nb": {"a", "", "b"}, "\"a\"\nb": {"\"a\"", "b"}, `"x\ny.png"`: {"x\ny.png"},
	} {
		if got, err := Names([]byte(text)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	if _, err := Names([]byte("\xff\xfea\x00\n\x00")); err == nil {
		t.Error("no error about UTF-16")
	}
	for text, want := range map[string]string{"version https://git-lfs.github.com/spec/v1\noid": "git lfs pull",
		"<!DOCTYPE html>": "a page of HTML", "\x1f\x8b\x08a": "packed by gzip"} {
		if _, err := Names([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	names := []string{"a b", " a", "a ", "x\ny", "x\r", `"a"`, `"`, "\ufeffa", "é", "tab\there", `back\slash`, "\xe9"}
	if got, err := Names(JoinNames(names)); err != nil || !slices.Equal(got, names) {
		t.Errorf("%q, %v, want %q", got, err, names)
	}
}

func TestAlike(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, want string }{
		{"caf\u00e9", "cafe\u0301", `"caf\u00e9" and "cafe\u0301" look alike`}, {"a b", "a\u00a0b", "look alike"},
		{"ab", "a\u200bb", "look alike"}, {"a", "a \u200b", "look alike"},
		{"a", "a", ""}, {"a", "A", ""}, {"cafe", "café", ""}, {"2", "²", ""},
	} {
		if err := Alike([]string{c.a, "other", c.b}); (err != nil) != (c.want != "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+q, %+q: %v, want %q", c.a, c.b, err, c.want)
		}
	}
}

package errs

import (
	"fmt"
	"strings"
)

// Nearest returns the name that somebody who typed got most likely meant, or "" if none is near: one that differs in
// few letters, or the only one that begins with got. Upper and lower case are the same. Cobra's own search for names
// is for commands only and not exported.
func Nearest(got string, names []string) string {
	got = strings.ToLower(got)
	if got == "" {
		return ""
	}
	best, least, begins := "", max(1, min(2, len(got)/3))+1, []string{}
	for _, name := range names {
		if d := distance(got, strings.ToLower(name)); d < least {
			best, least = name, d
		}
		if strings.HasPrefix(strings.ToLower(name), got) {
			begins = append(begins, name)
		}
	}
	if best == "" && len(begins) == 1 {
		return begins[0]
	}
	return best
}

// ThereAre ends the message for a name that does not exist: "there are a, b", after "did you mean a?" if a is near.
func ThereAre(got string, names []string) string {
	list := "here are " + strings.Join(names, ", ")
	if near := Nearest(got, names); near != "" {
		return "did you mean " + near + "? T" + list
	}
	return "t" + list
}

// NoSuch is the error for a name that does not exist: what is wrong, then [ThereAre]. It is [Invalid].
func NoSuch(what, got string, names []string) error {
	return Invalid(fmt.Errorf("%s; %s", what, ThereAre(got, names)))
}

// distance returns how many letters must be inserted, removed, replaced or exchanged with their neighbor to make b of
// a: the optimal string alignment distance (Damerau 1964), with which "trian" is 1 from "train".
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, last, now := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := range s {
		now[0] = i + 1
		for j := range t {
			differ := 1
			if s[i] == t[j] {
				differ = 0
			}
			now[j+1] = min(last[j+1]+1, now[j]+1, last[j]+differ)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				now[j+1] = min(now[j+1], before[j-1]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(t)]
}

package nb

import (
	"strings"
	"testing"
)

func TestGuessCheck(t *testing.T) {
	answers := []Answer{{"the paper", []float64{1, 2}}}
	for _, c := range []struct {
		of   Guess
		want string
	}{
		{Guess{Items: []string{"a", "b"}, Answers: answers}, ""},
		{Guess{X: []float64{0, 1}, Answers: answers}, ""},
		{Guess{Answers: answers}, "a guess of 0 items and 0 places"},
		{Guess{Items: []string{"a", "b"}, X: []float64{0, 1}, Answers: answers}, "a guess of 2 items and 2 places"},
		{Guess{X: []float64{0, 0.5, 1}, Answers: answers}, "the paper has 2 numbers; want 3"},
	} {
		if err := c.of.check(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want %q", c.of, err, c.want)
		}
	}
}

package nb

import (
	"encoding/json"
	"fmt"
	"net/url"
)

// Guess is a question that a reader answers before [Ask] shows a result: by an order of Items, what has most first, or
// by a curve over X.
type Guess struct {
	Question string `json:"question"` // With symbols as S_{ap}.
	// Items are names in the order in which they are asked, which should not be the answer; or X are the places, rising,
	// of a curve from 0 to 1.5.
	Items   []string  `json:"items,omitempty"`
	X       []float64 `json:"x,omitempty"`
	XTitle  string    `json:"xTitle,omitempty"`
	Answers []Answer  `json:"answers"`
}

// Answer is what is so by one source: a number for each item or place.
type Answer struct {
	Name string    `json:"name"` // "the paper", or a curve's name.
	Y    []float64 `json:"y"`
}

// check returns an error if the guess asks for neither or both, or an answer has not as many numbers.
func (g Guess) check() error {
	if (len(g.Items) < 2) == (len(g.X) < 2) {
		return fmt.Errorf("nb: a guess of %d items and %d places; want at least two of the one or of the other",
			len(g.Items), len(g.X))
	}
	for _, a := range g.Answers {
		if want := max(len(g.Items), len(g.X)); len(a.Y) != want {
			return fmt.Errorf("nb: a guess: %s has %d numbers; want %d", a.Name, len(a.Y), want)
		}
	}
	return nil
}

// Ask hides what the cell has displayed until the reader has committed to a guess, which is then shown beside what is
// so, or has skipped it. Where scripts may not run nothing is hidden, nor by a guess without an answer. A guess is
// asked for once in an opened document, and kept nowhere. An error ends the cell.
func Ask(g Guess) {
	Check(g.check())
	if len(g.Answers) == 0 {
		return
	}
	raw := Must(json.Marshal(g)) // An error is that of a number which is none.
	wake(liveScript("view=guess&guess="+url.PathEscape(string(raw))), "In JupyterLab this cell asks for a guess first.")
}

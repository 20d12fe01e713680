package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

const grouped = `Table.
         │      ours     │  the paper's  
 Row     │   A   │   B   │   C   │   D   
─────────┼───────┼───────┼───────┼───────
 e^euc   │ 1 ± 2 │ 3 ± 4 │ 5 ± 6 │ 7 ± 8 
 e^cos   │ 2 ± 1 │ 4 ± 3 │ 6 ± 5 │ 8 ± 7 
A note of several words below it.`

func TestFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		width      int
		want       string
	}{
		{"wide enough", grouped, 41, grouped},
		{"a group each", grouped, 30, `Table.
         │      ours     
 Row     │   A   │   B   
─────────┼───────┼───────
 e^euc   │ 1 ± 2 │ 3 ± 4 
 e^cos   │ 2 ± 1 │ 4 ± 3 

         │  the paper's  
 Row     │   C   │   D   
─────────┼───────┼───────
 e^euc   │ 5 ± 6 │ 7 ± 8 
 e^cos   │ 6 ± 5 │ 8 ± 7 
A note of several words below
it.`},
		{"a column each", grouped, 20, `Table.
         │  ours 
 Row     │   A   
─────────┼───────
 e^euc   │ 1 ± 2 
 e^cos   │ 2 ± 1 

         │  ours 
 Row     │   B   
─────────┼───────
 e^euc   │ 3 ± 4 
 e^cos   │ 4 ± 3 

         │the pap
 Row     │   C   
─────────┼───────
 e^euc   │ 5 ± 6 
 e^cos   │ 6 ± 5 

         │the pap
 Row     │   D   
─────────┼───────
 e^euc   │ 7 ± 8 
 e^cos   │ 8 ± 7 
A note of several
words below it.`},
		{"without groups", "Row │ A12345 │ B12345 │ C12345\n────┼────────┼────────┼───────\n" +
			"x   │ 1      │ 2      │ 3     ", 22,
			"Row │ A12345 │ B12345 \n────┼────────┼────────\nx   │ 1      │ 2      \n\n" +
				"Row │ C12345\n────┼───────\nx   │ 3     "},
		{"a row of columns", "run   data     rule\n077c  minicar  cos-orth/lin-ms/cir", 26,
			"run   data     rule\n077c  minicar\n    cos-orth/lin-ms/cir"},
		{"an indented line", "  one two three four five", 20, "  one two three four\n  five"},
		{"a long word", "see /a/long/path/without/spaces now", 20, "see\n/a/long/path/without/spaces\nnow"},
		{"one long word", strings.Repeat("x", 30), 20, strings.Repeat("x", 30)},
		{"no terminal", "a line of several words", 10, "a line of several words"},
	} {
		if got := Fit(c.text, c.width); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
	// Nothing is lost, and each line fits that can.
	for width := 20; width < 45; width++ {
		text := Fit(grouped, width)
		for _, word := range strings.Fields(grouped) {
			name := word == "paper's" && width < 25 // It is cut in a narrow column.
			if !strings.Contains(text, word) && !name && !strings.HasPrefix(word, "─") {
				t.Errorf("width %d: %q is lost", width, word)
			}
		}
		for line := range strings.Lines(text) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > width {
				t.Errorf("width %d: %q", width, line)
			}
		}
	}
}

package query

import "strings"

// Nearest returns the name that a mistyped one is nearest to, by the number of letters to insert, delete or replace, or
// "" if none is near. It is short enough not to take a module for it.
func Nearest(typed string, names []string) string {
	best, least := "", max(1, min((len(typed)+1)/3, 3))+1
	for _, name := range names {
		if d := distance(strings.ToLower(typed), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance is Levenshtein's, over bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

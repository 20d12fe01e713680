package nb

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strings"
	"sync"
)

//go:embed captions.csv
var captionsCSV string

var paperCaptions = sync.OnceValues(func() ([][]string, error) {
	return csv.NewReader(strings.NewReader(captionsCSV)).ReadAll()
})

// paperCaption returns the paper's own caption of a figure or table, such as "Figure 4" or "Table 2". It is Markdown:
// text with formulas between dollar signs. The error for an unknown number lists the known ones.
func paperCaption(number string) (string, error) {
	records, err := paperCaptions()
	if err != nil {
		return "", fmt.Errorf("the paper's captions: %w", err)
	}
	var known []string
	for _, r := range records[1:] {
		if r[0] == number {
			return r[1], nil
		}
		known = append(known, r[0])
	}
	return "", fmt.Errorf("the paper has no caption of %q; use one of %s", number, strings.Join(known, ", "))
}

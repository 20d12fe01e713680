package claims

import (
	"fmt"

	"github.com/gradient-surgery/dml/figures"
)

// BoldError is a number that the paper prints bold although another of its column is better, or that is the best of its
// column and not bold.
type BoldError struct{ Cell, Best figures.PaperResult }

// String says what is wrong.
func (e BoldError) String() string {
	if e.Cell.Bold {
		return fmt.Sprintf("Printed bold, but %s has %.1f.", e.Best.Method, e.Best.Mean)
	}
	return "The best of its column, but not printed bold."
}

// BoldErrors returns the numbers with the wrong type, in the order of the results. A column is a data set and a metric,
// and its best number should be bold.
func BoldErrors(results []figures.PaperResult) []BoldError {
	type column struct{ data, metric string }
	best := make(map[column]figures.PaperResult)
	for _, r := range results {
		if b, known := best[column{r.Dataset, r.Metric}]; !known || r.Mean > b.Mean {
			best[column{r.Dataset, r.Metric}] = r
		}
	}
	var out []BoldError
	for _, r := range results {
		if b := best[column{r.Dataset, r.Metric}]; r.Bold != (r.Mean == b.Mean) {
			out = append(out, BoldError{r, b})
		}
	}
	return out
}

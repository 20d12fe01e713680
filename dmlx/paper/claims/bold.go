package claims

import (
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/scores"
)

// BoldError is a number that the paper prints bold although another of its column is better, or that is the best of its
// column and not bold.
type BoldError struct{ Cell, Best scores.Row }

// String says what is wrong.
func (e BoldError) String() string {
	if e.Cell.Bold {
		return fmt.Sprintf("Printed bold, but %s has %.1f.", e.Best.Method, e.Best.Value.Mean)
	}
	return "The best of its column, but not printed bold."
}

// BoldErrors returns the numbers with the wrong type, in the order of the results. A column is a data set and a metric,
// and its best number should be bold.
func BoldErrors(results scores.Table) []BoldError {
	type column struct{ data, metric string }
	best := make(map[column]scores.Row)
	for _, r := range results {
		if b, known := best[column{r.Data, r.Measure}]; !known || r.Value.Mean > b.Value.Mean {
			best[column{r.Data, r.Measure}] = r
		}
	}
	var out []BoldError
	for _, r := range results {
		if b := best[column{r.Data, r.Measure}]; r.Bold != (r.Value.Mean == b.Value.Mean) {
			out = append(out, BoldError{r, b})
		}
	}
	return out
}

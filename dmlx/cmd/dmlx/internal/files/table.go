package files

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
)

// ReadGrades reads how well each of m items answers each of n queries: a matrix [n, m] (.npy), or the columns query,
// item and grade of a table, numbers of rows from 0. What is not in the table does not answer.
func ReadGrades(path string, n, m int) (retrieval.Relevance, error) {
	out := make([][]retrieval.Relevant, n)
	add := func(i, j int, grade float64) error {
		if !(grade >= 0 && grade <= 1e30) {
			return fmt.Errorf("%s: grade %v of query %d and item %d: want 0 or a positive number", path, grade, i, j)
		}
		if grade > 0 {
			out[i] = append(out[i], retrieval.Relevant{Item: j, Grade: grade})
		}
		return nil
	}
	if filepath.Ext(path) == ".npy" {
		values, shape, err := npy.ReadFloat32(path)
		if err == nil && (len(shape) != 2 || shape[0] != n || shape[1] != m) {
			err = fmt.Errorf("%s: shape %v, want [%d, %d], a grade for each query and item", path, shape, n, m)
		}
		for k := 0; k < len(values) && err == nil; k++ {
			err = add(k/m, k%m, float64(values[k]))
		}
		return func(i int) []retrieval.Relevant { return out[i] }, err
	}
	columns, err := npy.ReadTable(path, "query", "item", "grade")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for k, query := range columns[0] {
		i, bad := strconv.Atoi(query)
		j, worse := strconv.Atoi(columns[1][k])
		grade, worst := strconv.ParseFloat(columns[2][k], 64)
		if bad != nil || worse != nil || worst != nil || i < 0 || i >= n || j < 0 || j >= m {
			return nil, fmt.Errorf("%s: line %d: query %q, item %q, grade %q: want rows 0…%d and 0…%d and a number", path, k+2,
				query, columns[1][k], columns[2][k], n-1, m-1)
		}
		if err := add(i, j, grade); err != nil {
			return nil, err
		}
	}
	for i, of := range out {
		slices.SortFunc(of, func(a, b retrieval.Relevant) int { return a.Item - b.Item })
		for k := 1; k < len(of); k++ {
			if of[k].Item == of[k-1].Item {
				return nil, fmt.Errorf("%s: query %d has two grades for item %d: want one", path, i, of[k].Item)
			}
		}
	}
	return func(i int) []retrieval.Relevant { return out[i] }, nil
}

package figures

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

//go:embed paper/results.csv
var paperCSV string

//go:embed paper/captions.csv
var captionsCSV string

var paperCaptions = sync.OnceValues(func() ([][]string, error) {
	return csv.NewReader(strings.NewReader(captionsCSV)).ReadAll()
})

// PaperCaption returns the paper's own caption of a figure or table, such as "Figure 4" or "Table 2". It is Markdown:
// text with formulas between dollar signs. The error for an unknown number lists the known ones.
func PaperCaption(number string) (string, error) {
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

// PaperResult is one number of the paper's tables, in percent.
type PaperResult struct {
	Table, Row int    // Row is the table's line, from 1.
	Dataset    string // CUB, CAR, SOP, In-shop.
	Method     string // Table 5 only.
	// Direction, Pair and Triplet are the rule; empty for numbers from the literature. Triplet includes the mask, as
	// in cos+sc1.
	Direction, Pair, Triplet string
	Backbone                 string
	Dim, BatchSize, Epochs   int     // 0 if the paper does not say.
	LR                       float64 // Tables 6 to 8 only, else 0.
	Metric                   string  // R@1, …
	Mean                     float64
	Std                      float64 // 0 in Table 5, which prints none: see HasStd.
	HasStd, Bold             bool
}

// Score returns the number as a mean over the number of runs that the paper's text gives.
func (r PaperResult) Score() stats.Mean {
	n := 5 // The component tables; "we run the test 5 times".
	if r.Table == 5 {
		n = 1
		if r.Direction != "" {
			n = 3
		}
	}
	return stats.Mean{Mean: r.Mean, Std: r.Std, N: n}
}

var paperResults = sync.OnceValues(func() ([]PaperResult, error) { return parsePaper(paperCSV) })

// AllPaperResults returns all numbers of all tables of the paper, in its order.
func AllPaperResults() ([]PaperResult, error) {
	all, err := paperResults()
	return slices.Clone(all), err
}

// PaperResults returns all numbers of a table of the paper, 2 to 8, in its order. It returns an error for other tables.
func PaperResults(table int) ([]PaperResult, error) {
	all, err := paperResults()
	if err != nil {
		return nil, err
	}
	var out []PaperResult
	for _, r := range all {
		if r.Table == table {
			out = append(out, r)
		}
	}
	if out == nil {
		return nil, fmt.Errorf("the paper has no numbers in a table %d: want 2 to 8", table)
	}
	return out, nil
}

// Paper returns the one number of the paper whose fields equal all nonzero fields of key. The metric defaults to R@1.
// It returns an error if the paper has no such number, or several.
func Paper(key PaperResult) (PaperResult, error) {
	if key.Metric == "" {
		key.Metric = "R@1"
	}
	all, err := PaperResults(key.Table)
	if err != nil {
		return PaperResult{}, err
	}
	var found []PaperResult
	for _, r := range all {
		text := func(want, have string) bool { return want == "" || want == have }
		number := func(want, have int) bool { return want == 0 || want == have }
		if number(key.Row, r.Row) && text(key.Dataset, r.Dataset) && text(key.Method, r.Method) &&
			text(key.Direction, r.Direction) &&
			text(key.Pair, r.Pair) && text(key.Triplet, r.Triplet) && text(key.Metric, r.Metric) &&
			text(key.Backbone, r.Backbone) &&
			number(key.Dim, r.Dim) && number(key.BatchSize, r.BatchSize) && number(key.Epochs, r.Epochs) &&
			(key.LR == 0 || key.LR == r.LR) {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		return PaperResult{}, fmt.Errorf("the paper's table %d prints %d numbers for %s", key.Table, len(found),
			key.describe())
	}
	return found[0], nil
}

func (r PaperResult) describe() string {
	var parts []string
	for _, s := range []string{r.Dataset, r.Method, r.Direction, r.Pair, r.Triplet, r.Metric} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if r.LR != 0 {
		parts = append(parts, fmt.Sprintf("lr %g", r.LR))
	}
	if r.BatchSize != 0 {
		parts = append(parts, fmt.Sprintf("batch size %d", r.BatchSize))
	}
	return strings.Join(parts, " ")
}

func parsePaper(text string) ([]PaperResult, error) {
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("the paper's numbers: %w", err)
	}
	const header = "table,row,dataset,method,direction,pair_weight,triplet_weight,backbone,embedding_dim,batch_size," +
		"epochs,lr,metric,mean,std,note"
	if len(records) == 0 || strings.Join(records[0], ",") != header {
		return nil, fmt.Errorf("the paper's numbers: want the columns %s", header)
	}
	out := make([]PaperResult, 0, len(records)-1)
	for i, f := range records[1:] {
		fail := func(column string, err error) error {
			return fmt.Errorf("the paper's numbers: line %d, %s: %w", i+2, column, err)
		}
		r := PaperResult{Dataset: f[2], Method: f[3], Direction: f[4], Pair: f[5], Triplet: f[6], Backbone: f[7],
			Metric: f[12], HasStd: f[14] != "", Bold: f[15] == "bold"}
		for _, field := range []struct {
			name string
			text string
			to   *int
		}{{"table", f[0], &r.Table}, {"row", f[1], &r.Row}, {"embedding_dim", f[8], &r.Dim},
			{"batch_size", f[9], &r.BatchSize}, {"epochs", f[10], &r.Epochs}} {
			if field.text == "" {
				continue
			}
			if *field.to, err = strconv.Atoi(field.text); err != nil {
				return nil, fail(field.name, err)
			}
		}
		for _, field := range []struct {
			name string
			text string
			to   *float64
		}{{"lr", f[11], &r.LR}, {"mean", f[13], &r.Mean}, {"std", f[14], &r.Std}} {
			if field.text == "" {
				continue
			}
			if *field.to, err = strconv.ParseFloat(field.text, 64); err != nil {
				return nil, fail(field.name, err)
			}
		}
		out = append(out, r)
	}
	return out, nil
}

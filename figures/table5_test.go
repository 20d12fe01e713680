package figures

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

func TestTable5(t *testing.T) {
	results, err := PaperResults(5)
	if err != nil {
		t.Fatal(err)
	}
	notes := make(map[PaperResult]Markup)
	for _, r := range results {
		if r.Dataset != "SOP" || r.Metric != "R@10" {
			continue
		}
		switch {
		case r.Bold:
			notes[r] = "Printed bold, but SCT has 92.6."
		case r.Method == "SCT":
			notes[r] = "The best of its column, but not printed bold."
		}
	}
	table, err := Table5(notes)
	checkText(t, "table5", table, err)
	if len(table.Rows) != 14 || len(table.Columns) != 14 {
		t.Errorf("%d × %d", len(table.Rows), len(table.Columns))
	}
}

// batches returns invented results on two data sets.
func batches() []BatchEntry {
	var out []BatchEntry
	for i, r := range []struct {
		method string
		times  int
	}{{"MS*", 1}, {"DR-MS*", 1}, {"Ours", 1}, {"Ours", 2}, {"Ours", 3}, {"Ours", 4}, {"Ours, rate scaled", 2},
		{"Ours, rate scaled", 3}} {
		at := func(mean float64) stats.Mean {
			return stats.Mean{Mean: mean + float64(i), Std: 0.4 + 0.1*float64(i), N: 3}
		}
		out = append(out,
			BatchEntry{r.method, 64 * r.times, r.times, "minicar", "CAR",
				map[int]stats.Mean{1: at(70), 2: at(80), 4: at(88), 8: at(90)}},
			BatchEntry{r.method, 64 * r.times, r.times, "minishop", "In-shop",
				map[int]stats.Mean{1: at(78), 10: at(90), 20: at(92)}})
	}
	return out
}

func TestCompareBatches(t *testing.T) {
	entries := batches()
	entries[2].Recall[1] = stats.Mean{Mean: 70.5, Std: 1, N: 2, Diverged: 1}
	b, err := CompareBatches(entries, somewhere)
	if err != nil {
		t.Fatal(err)
	}
	table, err := b.Table()
	checkText(t, "table5batches", table, err)
	checkText(t, "table5gains", b.Gains(), nil)
	if got := Plain(table.Rows[3][7].markup()); got != "85.5" || table.Rows[3][0].Text != "Ours (B128)" {
		t.Errorf("beside %s stands %s", table.Rows[3][0].Text, got)
	}
	// A row whose batches differ between data sets is named by its factor.
	entries[1].Batch = 60
	b, err = CompareBatches(entries, "")
	if err != nil || b.rows[3].label != "Ours (×2)" {
		t.Errorf("%v, %v", b, err)
	}
	for want, wrong := range map[string][]BatchEntry{
		"no results":  nil,
		"twice":       append(batches(), batches()[0]),
		"beside":      append(batches(), BatchEntry{Method: "MS*", Times: 9, Data: "minicar", Paper: "CUB"}),
		"no data set": {{Method: "MS*", Times: 1, Data: "minicar", Paper: "Flowers"}},
	} {
		if _, err := CompareBatches(wrong, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestBatchesPlot(t *testing.T) {
	entries := batches()
	entries[1].Recall[1] = Missing
	b, err := CompareBatches(entries, somewhere)
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "table5batches", b.Plot(), nil)
}

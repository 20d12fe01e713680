package figures

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

func TestTable5(t *testing.T) {
	printed := scores.Printed().Select(scores.Row{Table: 5})
	notes := make(map[scores.Row]Markup)
	for _, r := range printed.Select(scores.Row{Data: "SOP", Measure: "R@10"}) {
		switch {
		case r.Bold:
			notes[r] = "Printed bold, but SCT has 92.6."
		case r.Method == "SCT":
			notes[r] = "The best of its column, but not printed bold."
		}
	}
	table, err := Table5(printed, notes)
	checkText(t, "table5", table, err)
	if len(table.Rows) != 14 || len(table.Columns) != 14 {
		t.Errorf("%d × %d", len(table.Rows), len(table.Columns))
	}
}

// batches returns invented results on two data sets.
func batches() scores.Table {
	var out scores.Table
	for i, r := range []struct {
		method string
		times  int
	}{{"MS*", 1}, {"DR-MS*", 1}, {"Ours", 1}, {"Ours", 2}, {"Ours", 3}, {"Ours", 4}, {"Ours, rate scaled", 2},
		{"Ours, rate scaled", 3}} {
		for _, s := range []struct {
			data, role, measure string
			mean                float64
		}{{"minicar", "CAR", "R@1", 70}, {"minicar", "CAR", "R@2", 80}, {"minicar", "CAR", "R@4", 88},
			{"minicar", "CAR", "R@8", 90}, {"minishop", "In-shop", "R@1", 78}, {"minishop", "In-shop", "R@10", 90},
			{"minishop", "In-shop", "R@20", 92}} {
			out = append(out, scores.Row{Method: r.method, Batch: 64 * r.times, Times: r.times, Data: s.data, Role: s.role,
				Measure: s.measure, Value: stats.Mean{Mean: s.mean + float64(i), Std: 0.4 + 0.1*float64(i), N: 3}})
		}
	}
	return out
}

func TestCompareBatches(t *testing.T) {
	printed := scores.Printed().Select(scores.Row{Table: 5})
	ours := batches()
	ours[7].Value = stats.Mean{Mean: 70.5, Std: 1, N: 2, Diverged: 1}
	b, err := CompareBatches(ours, printed, somewhere)
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
	for i := 4; i < 7; i++ {
		ours[i].Batch = 60
	}
	b, err = CompareBatches(ours, printed, "")
	if err != nil || b.rows[3].label != "Ours (×2)" {
		t.Errorf("%v, %v", b, err)
	}
	for want, wrong := range map[string]scores.Table{
		"no results":  nil,
		"twice":       append(batches(), batches()[0]),
		"beside":      append(batches(), scores.Row{Method: "MS*", Times: 9, Data: "minicar", Role: "CUB", Measure: "R@1"}),
		"no data set": {{Method: "MS*", Times: 1, Data: "minicar", Role: "Flowers", Measure: "R@1"}},
	} {
		if _, err := CompareBatches(wrong, printed, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestBatchesPlot(t *testing.T) { checkGolden(t, "table5batches", batchesPlot(t), nil) }

func batchesPlot(t *testing.T) *Figure {
	t.Helper()
	ours := batches()
	ours[4].Value = Missing
	b, err := CompareBatches(ours, scores.Printed().Select(scores.Row{Table: 5}), somewhere)
	if err != nil {
		t.Fatal(err)
	}
	return b.Plot()
}

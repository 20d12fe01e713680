package paper

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

// madeUp returns a table of rules on a data set, with two runs of each that have the recalls given, in percent, and a
// point more and less.
func madeUp(preset string, rules []string, recalls ...float64) *Table {
	t := &Table{Preset: preset, Runs: 2 * len(rules)}
	for i, rule := range rules {
		c := Cell{Objective: presets.Named(rule), Data: "minicar", PaperData: "CAR", Preset: preset,
			Specs: make([]runs.Spec, 2)}
		c.Specs[0].Epochs, c.Specs[0].StepsPerEpoch, c.Specs[0].Data = 2, 30, c.Data
		if recalls[i] == 0 {
			t.Missing += 2
		} else {
			for _, off := range []float64{-1, 1} {
				c.Specs[0].Seed++
				c.Runs = append(c.Runs, &runs.Result{Hash: preset + rule + map[float64]string{-1: "a", 1: "b"}[off],
					Version: "123", Seconds: 1800, Spec: c.Specs[0],
					Measures: train.Measures{Recall: map[int]float64{1: (recalls[i] + off) / 100}}})
			}
		}
		t.Cells = append(t.Cells, c)
	}
	return t
}

// The paper's Table 2 on CAR is 69.5, 75.5, 66.9, 77.0 for euc, cos, euc-orth, cos-orth.
func TestOrders(t *testing.T) {
	t.Parallel()
	rules := Rules([]string{"euc", "cos", "euc-orth", "cos-orth"}, []string{"con"}, []string{"con"})
	short, long := madeUp("short", rules, 60, 50, 70, 40), madeUp("long", rules, 60, 70, 50, 80)
	orders, err := Orders(2, short, long)
	if err != nil {
		t.Fatal(err)
	}
	if len(orders) != 1 || orders[0].Best() != 3 || orders[0].Paper[3].Mean != 77 || orders[0].Scores.Rows[0].Steps != 60 {
		t.Fatalf("%+v", orders)
	}
	texts := func(of *figures.Table, row int) string {
		var out []string
		for _, c := range of.Rows[row] {
			text := c.Text
			if c.Score != nil {
				text = c.Score.String()
			}
			out = append(out, strings.ReplaceAll(figures.Plain(text), "\u00a0", " "))
		}
		return strings.Join(out, " | ")
	}
	if got := texts(OrderTable(orders, ""), 3); got != "2 | minicar | e^cos-orth | 40.0 ± 1.4 | 80.0 ± 1.4 | 77.0 ± 0.7" {
		t.Error(got)
	}
	agreement, err := AgreementTable(orders, "")
	if err != nil {
		t.Fatal(err)
	}
	// Of 24 orders one agrees as well as the same one, and the reverse of it as badly.
	if got := texts(agreement, 0); got != "2 | minicar | 4 | −1.00 [−1.00, 0.82], p = 1 | 1.00 [−0.82, 1.00], p = 0.042 "+
		"| −1.00 [−1.00, 0.82], p = 1" {
		t.Error(got)
	}
	// Two runs each at ±1 have a variance of 2, so the difference one of 2; t for 2 degrees of freedom is 4.303.
	lead := LeadTable(orders, "")
	if got := texts(lead, 0); got != "2 | minicar | e^cos-orth − e^euc | −20.0 [−26.1, −13.9] | 20.0 [13.9, 26.1] | "+
		"7.5 [6.5, 8.5]" {
		t.Error(got)
	}
	if got := texts(CostTable(short, long), 1); got != "long | 8 | 60 | 4.0 | 1800 |  ·  · 0001-01-01 | 123" {
		t.Error(got)
	}

	// With a rule that lacks runs there is no order of the column.
	partial, err := Orders(2, short, madeUp("long", rules, 60, 70, 50, 0))
	if err != nil {
		t.Fatal(err)
	}
	if agreement, err = AgreementTable(partial, ""); err != nil {
		t.Fatal(err)
	}
	if got := texts(agreement, 0); !strings.HasSuffix(got, "p = 1 | – | –") {
		t.Error(got)
	}
	if got := texts(LeadTable(partial, ""), 0); !strings.Contains(got, "| – | 7.5") {
		t.Error(got)
	}

	birds := madeUp("long", rules, 60, 70, 50, 80)
	for i := range birds.Cells {
		birds.Cells[i].Data = "birds"
		for _, r := range birds.Cells[i].Runs {
			r.Spec.Data = "birds"
		}
	}
	for want, of := range map[string][]*Table{
		"minicar is at short, and birds at long: want the same": {short, birds},
		"occurs twice": {short, short},
		"is no rule":   {{Cells: []Cell{{Row: "loss ms", Objective: presets.Named("loss ms")}}}},
	} {
		if _, err := Orders(2, of...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want …%s", err, want)
		}
	}
	if _, err := Orders(5, short); err == nil || !strings.Contains(err.Error(), "want 2, 3 or 4") {
		t.Error(err)
	}
}

// TestFullAsFixed checks that the bundled runs of the preset full are those that full.md fixed before the first: all of
// Tables 2 and 3, and of Table 4 nothing else.
func TestFullAsFixed(t *testing.T) {
	t.Parallel()
	bundled, err := runs.Bundled()
	if err != nil {
		t.Fatal(err)
	}
	fixed := make(map[string]bool)
	for _, name := range []string{"table2", "table3", "table4"} {
		cells, err := Cells(name, report.Request{Preset: FullPreset()})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cells {
			for _, s := range c.Specs {
				fixed[s.Hash()] = true
				if name != "table4" && bundled[s.Hash()] == nil {
					t.Errorf("%s: %s on %s with seed %d is not bundled", name, s.Rule, s.Data, s.Seed)
				}
			}
		}
	}
	if len(fixed) != 260 {
		t.Errorf("%d runs, and full.md has 260", len(fixed))
	}
	for hash, r := range bundled {
		if r.Version == "3298f4d4025d" && !fixed[hash] { // The commit that added full.md.
			t.Errorf("%s is bundled and not in full.md: %s", hash, r.Spec.Canonical())
		}
	}
}

package scores

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

// run is Recall@1 of a rule on minicar by one seed.
func run(rule string, seed uint64, value float64) Row {
	r := Row{Whose: Ours, Data: "minicar", Role: "CAR", LR: 0.3, Seed: seed, Measure: "R@1",
		Value: stats.Mean{Mean: value, N: 1}}
	r.SetRule(rule)
	return r
}

func TestPrinted(t *testing.T) {
	t.Parallel()
	all := Printed()
	counts := map[string]int{}
	for _, g := range all.Group(OfTable.Of) {
		counts[g.Key] = len(g.Rows)
	}
	for table, want := range map[string]int{"2": 8, "3": 24, "4": 28, "5": 154, "6": 32, "7": 96, "8": 80} {
		if counts[table] != want {
			t.Errorf("table %s has %d numbers, want %d", table, counts[table], want)
		}
	}
	r := all.Select(Row{Table: 7, Data: "CAR", Rule: "cos/lin-ms/con", LR: 0.4})
	if len(r) != 1 || r[0].Value != (stats.Mean{Mean: 78.8, Std: 0.9, N: 5}) || r[0].Whose != Paper ||
		r[0].Setting != PapersOwn {
		t.Errorf("%+v", r)
	}
	r = all.Select(Row{Table: 5, Data: "In-shop", Batch: 512, Measure: "R@20", Pair: "lin-ms"})
	if len(r) != 1 || r[0].Value != (stats.Mean{Mean: 97.9, N: 1}) || r[0].Times != 4 || r[0].Method != "Ours" {
		t.Errorf("%+v", r)
	}
	for _, key := range []Row{{Table: 1}, {Table: 2, Data: "CAR"}, {Table: 2, Data: "CAR", Direction: "up"}} {
		if len(all.Select(key)) == 1 {
			t.Errorf("%+v is one number of the paper", key)
		}
	}
}

func TestPivot(t *testing.T) {
	t.Parallel()
	diverged := run("cos/lin/con", 2, math.NaN())
	diverged.Value = stats.Mean{Mean: math.NaN(), Diverged: 1}
	all := Table{run("euc/con/con", 1, 60), run("euc/con/con", 2, 62), run("cos/con/con", 1, 70),
		run("cos/lin/con", 1, 80), diverged}
	p, err := all.Pivot(Pair.Of, Direction.Of)
	if err != nil || !slices.Equal(p.Rows, []string{"con", "lin"}) || !slices.Equal(p.Columns, []string{"euc", "cos"}) {
		t.Fatalf("%+v, %v", p, err)
	}
	if m := p.At("con", "euc").Mean(); m.Mean != 61 || math.Abs(m.Std-math.Sqrt2) > 1e-12 || m.N != 2 {
		t.Errorf("%+v", m)
	}
	if m := p.At("lin", "cos").Mean(); m != (stats.Mean{Mean: 80, N: 1, Diverged: 1}) {
		t.Errorf("%+v", m)
	}
	if p.At("lin", "euc") != nil || p.At("sig", "cos") != nil {
		t.Error("there are scores of rules without a run")
	}
	if d := Difference(p.At("con", "euc"), all.Select(Row{Direction: "euc"})).Difference; d.Value != 0 {
		t.Errorf("%+v", d)
	}
	other := run("cos/con/con", 2, 71)
	other.LR = 0.6
	for want, more := range map[string]Row{"twice": all[2], "one cell": other} {
		_, err := append(all[:5:5], more).Pivot(Pair.Of, Direction.Of)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want …%s…", err, want)
		}
	}
}

// What is written is read again, also without values and with a mean of zero.
func TestCSV(t *testing.T) {
	t.Parallel()
	all := append(Printed(), run("cos/lin/cir?tau=2", 18446744073709551615, 0), run("loss ms, miner ms", 2, 71.25))
	missing := run("cos/con/con", 3, 0)
	missing.Value = Missing()
	all = append(all, missing)
	for _, name := range []string{"=cmd|' /C calc'!A0", "+1+cmd", "@SUM(1)", "-a", "'quoted", "'=quoted", "a,\"b\""} {
		stranger := run("cos/con/con", 4, 50)
		stranger.Data = name
		all = append(all, stranger)
	}
	var b bytes.Buffer
	if err := all.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, formula := range []string{",=", ",+1", ",@", ",-a"} {
		if strings.Contains(b.String(), formula) {
			t.Errorf("a spreadsheet computes %q", formula)
		}
	}
	again, err := Read(&b)
	if err != nil || len(again) != len(all) {
		t.Fatalf("%d rows, %v", len(again), err)
	}
	for i, r := range again {
		want := all[i]
		if math.IsNaN(r.Value.Mean) && math.IsNaN(want.Value.Mean) {
			r.Value, want.Value = stats.Mean{}, stats.Mean{}
		}
		if r != want {
			t.Errorf("%+v, want %+v", r, want)
		}
	}
	for text, want := range map[string]string{"": "no line", "a,b\n1,2\n": `column "a"`, "seed\nx\n": "line 2, seed"} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want …%s…", text, err, want)
		}
	}
}

// A spreadsheet writes what it has read in its own way.
func TestReadOfSpreadsheets(t *testing.T) {
	t.Parallel()
	if rows, err := Read(strings.NewReader("lr,bold\n.5,TRUE\n")); err != nil || rows[0].LR != 0.5 || !rows[0].Bold {
		t.Errorf("%+v, %v", rows, err)
	}
	if _, err := Read(strings.NewReader("lr\nhalf\n")); err == nil || !strings.Contains(err.Error(), "line 2, lr: ") {
		t.Error(err)
	}
}

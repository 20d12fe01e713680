package figures

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/plot/cmpimg"
)

// checkText compares a table in all its formats with testdata/NAME.FORMAT.golden; -regen writes those anew.
func checkText(t *testing.T, name string, table *Table, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range table.Formats() {
		got, err := Bytes(table, format)
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+"."+format+".golden")
		if *cmpimg.GenerateTestData {
			if err := os.WriteFile(golden, got, 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s.%s is\n%s\nwant\n%s", name, format, got, want)
		}
	}
}

func TestTable2(t *testing.T) {
	table, err := Table2(prototype(), somewhere)
	checkText(t, "table2", table, err)
	b, err := Bytes(table, "csv")
	if err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(bytes.NewReader(b)).ReadAll() // Fails on ragged rows.
	if err != nil || len(records) != 5 || records[3][3] != "2" || records[3][4] != "1" {
		t.Errorf("CSV %q, error %v", records, err)
	}
	if _, err := Bytes(table, "docx"); err == nil || !strings.Contains(err.Error(), "txt, md, csv, html, tex") {
		t.Errorf("docx: %v", err)
	}
	if _, err := Table2([]Entry{{Row: "sideways", Column: "minicar", Paper: "CAR"}}, ""); err == nil {
		t.Error("a direction that the paper has not stood in Table 2")
	}
	if _, err := Table2(nil, ""); err == nil {
		t.Error("a table of nothing was set")
	}
}

// The shades of the paper's own Table 2, by its LaTeX source, follow from its means up to their printed digit.
func TestShadeIsThePapers(t *testing.T) {
	var entries []Entry
	for _, d := range []string{"euc", "cos", "euc-orth", "cos-orth"} {
		r, err := Paper(PaperResult{Table: 2, Dataset: "CAR", Direction: d})
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, Entry{Row: d, Column: "CAR", Score: r.Score()})
	}
	table, err := Table2(entries, "")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][3]int{{0xF9, 0xDE, 0xDC}, {0xEA, 0x90, 0x88}, {0xFF, 0xFF, 0xFF}, {0xE6, 0x7C, 0x73}} {
		k := table.tint(table.Rows[i][1].Shade)
		for j, got := range []int{int(k.R), int(k.G), int(k.B)} {
			if got-want[j] > 1 || want[j]-got > 1 {
				t.Errorf("row %d: shade %v, the paper has %v", i, k, want)
				break
			}
		}
	}
}

func TestTable1(t *testing.T) {
	table, err := Table1([]LossRow{
		{Loss: "triplet-euc", Rule: "euc/euc/con", Stated: 4, Measured: 4, Error: 1.2e-6, Cosine: 1, Note: "With $m = 4$ the hinge is never at rest."},
		{Loss: "circle", Rule: "cos/lin/cir", Stated: 2, Measured: 2.0000001, Error: 3e-7, Cosine: 1},
		{Loss: "dr-ms", Rule: "cos-orth/sig-ms/con", Measured: 1.87, Error: 0.41, Cosine: 0.912},
		{Loss: "sct", Rule: "cos/con/cos+sc1", Stated: 1, Measured: 1, Error: 0, Cosine: 1},
	}, "batch of 64, D = 32, go")
	checkText(t, "table1", table, err)
	if _, err := Table1([]LossRow{{Rule: "cos"}}, ""); err == nil {
		t.Error("a rule of one part stood in Table 1")
	}
}

func TestPaper(t *testing.T) {
	all, err := paperResults()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[int]int{}
	for _, r := range all {
		counts[r.Table]++
	}
	for table, want := range map[int]int{2: 8, 3: 24, 4: 28, 5: 154, 6: 32, 7: 96, 8: 80} {
		if counts[table] != want {
			t.Errorf("table %d has %d numbers, want %d", table, counts[table], want)
		}
	}
	r, err := Paper(PaperResult{Table: 7, Dataset: "CAR", Direction: "cos", Pair: "lin-ms", LR: 0.4})
	if err != nil || r.Mean != 78.8 || r.Std != 0.9 {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = Paper(PaperResult{Table: 5, Dataset: "In-shop", BatchSize: 512, Metric: "R@20", Direction: "cos-orth", Pair: "lin-ms"})
	if err != nil || r.Mean != 97.9 || r.HasStd {
		t.Errorf("%+v, %v", r, err)
	}
	for _, key := range []PaperResult{{Table: 1}, {Table: 2, Dataset: "CAR"}, {Table: 2, Dataset: "CAR", Direction: "up"}} {
		if _, err := Paper(key); err == nil {
			t.Errorf("%+v is a number of the paper", key)
		}
	}
	if _, err := parsePaper("a,b\n1,2\n"); err == nil {
		t.Error("foreign columns were read")
	}
}

func TestAgreement(t *testing.T) {
	scores := func(means ...float64) []Score {
		out := make([]Score, len(means))
		for i, m := range means {
			out[i] = Score{Mean: m, N: 3}
		}
		return out
	}
	// Without noise the interval is the value itself.
	for _, c := range []struct {
		x, y   []float64
		rho, p float64
	}{
		{[]float64{1, 2, 3, 4}, []float64{10, 20, 30, 40}, 1, 1.0 / 24},
		{[]float64{1, 2, 3, 4}, []float64{4, 3, 2, 1}, -1, 1},
		// Differences of rank 1, 1, 0, 0: 1 − 6·2/(4·15) = 0.8; 1 + 3 of 24 orders reach it.
		{[]float64{1, 2, 3, 4}, []float64{2, 1, 3, 4}, 0.8, 4.0 / 24},
		// Ties share ranks 1.5: correlation of (1.5, 1.5, 3) and (1, 2, 3) is √3/2; two of six orders.
		{[]float64{5, 5, 6}, []float64{1, 2, 3}, math.Sqrt(3) / 2, 2.0 / 6},
	} {
		a, err := Agreement(scores(c.x...), scores(c.y...))
		if err != nil || math.Abs(a.Rho-c.rho) > 1e-12 || math.Abs(a.P-c.p) > 1e-12 || math.Abs(a.Low-c.rho) > 1e-12 || math.Abs(a.High-c.rho) > 1e-12 {
			t.Errorf("%v against %v: %+v, %v; want ρ %v, p %v", c.x, c.y, a, err, c.rho, c.p)
		}
	}
	x := scores(1, 2, 3, math.NaN(), 4)
	a, err := Agreement(x, scores(1, 2, 3, 9, 4))
	if err != nil || a.N != 4 || a.Rho != 1 {
		t.Errorf("with a missing mean: %+v, %v", a, err)
	}
	x[0].Std = 5
	a, _ = Agreement(x, scores(1, 2, 3, 9, 4))
	again, _ := Agreement(x, scores(1, 2, 3, 9, 4))
	if !(a.Low < 1) || a != again {
		t.Errorf("with noise: %+v, again %+v", a, again)
	}
	if a, _ := Agreement(scores(1, 1, 1), scores(1, 2, 3)); !math.IsNaN(a.Rho) {
		t.Errorf("a constant side: %+v", a)
	}
	if _, err := Agreement(scores(1), scores(1, 2)); err == nil {
		t.Error("one score was compared with two")
	}
	many := make([]Score, 20)
	for i := range many {
		many[i] = Score{Mean: float64(i), N: 1}
	}
	if a, _ := Agreement(many, many); a.Rho != 1 || a.P > 1e-3 {
		t.Errorf("20 in the same order: %+v", a)
	}
}

func TestMarkup(t *testing.T) {
	for _, c := range []struct{ in, plain, html string }{
		{"plain & <b>", "plain & <b>", "plain &amp; &lt;b&gt;"},
		{"$S_{ap}$", "S_ap", "<i>S</i><sub><i>ap</i></sub>"},
		{`$\mathbf{e}_p^{cos-orth}$`, "e_p^cos-orth", "<b>e</b><sub><i>p</i></sub><sup><i>cos</i>-<i>orth</i></sup>"},
		{`$\sqrt{1-S^2}$`, "√(1 − S²)", "√(1\u2009−\u2009<i>S</i><sup>2</sup>)"},
		{`$S_{ap}(2-S_{ap})$`, "S_ap(2 − S_ap)", "<i>S</i><sub><i>ap</i></sub>(2\u2009−\u2009<i>S</i><sub><i>ap</i></sub>)"},
		{`$-\mathbf{e}$`, "−e", "−<b>e</b>"},
		{`$P_+$`, "P_+", "<i>P</i><sub>+</sub>"},
		{`costs \$5`, "costs $5", "costs $5"},
		{"a $ b", "a $ b", "a $ b"},
		{`$\nonsense{x}_$`, `\nonsensex`, `\nonsense<i>x</i>`},
		{"$", "$", "$"}, {"", "", ""}, {"$}{$", "", ""}, {"$x^{2$", "x²", "<i>x</i><sup>2</sup>"},
	} {
		if got := Plain(c.in); got != c.plain {
			t.Errorf("Plain(%q) = %q, want %q", c.in, got, c.plain)
		}
		if got := HTML(c.in); got != c.html {
			t.Errorf("HTML(%q) = %q, want %q", c.in, got, c.html)
		}
	}
	if got, want := latex(`50 % of $S_{ap}$ ± 1`), `50 \% of $S_{ap}$ $\pm$ 1`; got != want {
		t.Errorf("latex: %q, want %q", got, want)
	}
}

func FuzzMarkup(f *testing.F) {
	f.Add(`$\mathbf{e}_p^{cos-orth}$ and \$`)
	f.Fuzz(func(t *testing.T, s string) {
		Plain(s)
		HTML(s)
		latex(s)
		handler().set(s, style(10, ink).Font)
	})
}

func TestSave(t *testing.T) {
	f, err := Directions(nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for format, start := range map[string]string{"svg": "<?xml", "png": "\x89PNG", "pdf": "%PDF"} {
		path := filepath.Join(dir, "new", "figure2."+format)
		if err := Save(f, path); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(b, []byte(start)) {
			t.Errorf("%s begins with %q, %v", format, b[:min(len(b), 8)], err)
		}
	}
	if err := Save(f, filepath.Join(dir, "figure2.gif")); err == nil || !strings.Contains(err.Error(), "svg, png, pdf") {
		t.Errorf("gif: %v", err)
	}
	if _, err := Bytes(&Figure{}, "svg"); err == nil {
		t.Error("a figure without a size was drawn")
	}
}

package figures

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot/cmpimg"
)

// checkText compares a table in all its formats with testdata/NAME.FORMAT.golden, which -regen rewrites.
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
	c, err := Compare("table2", prototype(), somewhere)
	if err != nil {
		t.Fatal(err)
	}
	checkText(t, "table2", c.Table(), nil)
	b, err := Bytes(c.Table(), "csv")
	if err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(bytes.NewReader(b)).ReadAll() // Fails on ragged rows.
	if err != nil || len(records) != 5 || records[3][3] != "2" || records[3][4] != "1" {
		t.Errorf("CSV %q, error %v", records, err)
	}
	if _, err := Bytes(c.Table(), "docx"); err == nil || !strings.Contains(err.Error(), "txt, md, csv, html, tex") {
		t.Errorf("docx: %v", err)
	}
}

func TestTable3And4(t *testing.T) {
	entries := papers(t, 3, -3, 1)
	entries[3].Score = meanOf(math.NaN(), 0, 0, 3)
	entries[4].Score.N, entries[4].Score.Diverged = 2, 1
	for table, entries := range map[string][]Entry{"table3": entries, "table4": papers(t, 4, -3, 1)} {
		c, err := Compare(table, entries, somewhere)
		if err != nil {
			t.Fatal(err)
		}
		checkText(t, table, c.Table(), nil)
		checkText(t, table+"gains", c.Gains(), nil)
		b, err := Bytes(c.Table(), "csv")
		if err != nil {
			t.Fatal(err)
		}
		records, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
		if err != nil || len(records) != 1+len(entries)/2 || records[2][0] != "minicar beside CAR" ||
			records[len(records)-1][0] != "minishop beside In-shop" {
			t.Errorf("%s: CSV %q, error %v", table, records, err)
		}
	}
	// Without the paper ours stands alone.
	for i := range entries {
		entries[i].Paper = ""
	}
	c, err := Compare("table3", entries, "")
	if err != nil || len(c.Table().Columns) != 4 || len(c.Table().Notes) != 0 || c.Table().check() != nil {
		t.Errorf("%v, %v", c, err)
	}
}

func TestGain(t *testing.T) {
	// Two samples of three with equal spread: t(0.975, 4) = 2.776, standard error √(2/3).
	for _, c := range []struct {
		a, b stats.Mean
		want string
		bold bool
	}{
		{stats.Mean{Mean: 5, Std: 1, N: 3}, stats.Mean{Mean: 3, Std: 1, N: 3}, "+2.0 [−0.3, +4.3]", false},
		{stats.Mean{Mean: 3, Std: 1, N: 3}, stats.Mean{Mean: 6, Std: 1, N: 3}, "−3.0 [−5.3, −0.7]", true},
		// Freedom (0.25+1)²/(0.25²/3 + 1/3) = 4.41: t = 2.68.
		{stats.Mean{Mean: 10, Std: 1, N: 4}, stats.Mean{Mean: 0, Std: 2, N: 4}, "+10.0 [+7.0, +13.0]", true},
		{stats.Mean{Mean: 3, N: 1}, stats.Mean{Mean: 6, Std: 1, N: 3}, "−3.0", false},
		{stats.Mean{Mean: 3, N: 3}, stats.Mean{Mean: 3.01, N: 3}, "+0.0", false},
		{Missing, stats.Mean{Mean: 6, Std: 1, N: 3}, "–", false},
	} {
		table := Table{Rows: [][]Cell{{gain(c.a, c.b)}}}
		table.MarkSignificant()
		got := table.Rows[0][0]
		if Plain(strings.ReplaceAll(got.Text, "\u00a0", " ")) != c.want || got.Bold != c.bold {
			t.Errorf("%v − %v: %q %v, want %q", c.a, c.b, got.Text, got.Bold, c.want)
		}
	}
}

func TestCompareRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		table   string
		entries []Entry
		want    string
	}{
		"table":     {"table9", prototype(), "table2, table3, table4"},
		"nothing":   {"table2", nil, "no results"},
		"data":      {"table2", []Entry{{Rule: "cos/con/con", Data: "drawings", Paper: "SOP"}}, "SOP"},
		"held part": {"table2", []Entry{{Rule: "cos/lin/con", Data: "minicar", Paper: "CAR"}}, "lin"},
		"no rule":   {"table3", []Entry{{Rule: "cos", Data: "minicar"}}, "direction/pair/triplet"},
		"twice":     {"table2", append(prototype(), prototype()[0]), "twice"},
		"two sets": {"table2", []Entry{{Rule: "cos/con/con", Data: "minicar", Paper: "CAR"},
			{Rule: "euc/con/con", Data: "minicar"}}, "beside"},
	} {
		if _, err := Compare(c.table, c.entries, ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v does not say %q", name, err, c.want)
		}
	}
}

// The shades of the paper's own tables, by its LaTeX source, follow from its means up to their printed digit.
func TestShadeIsThePapers(t *testing.T) {
	for table, want := range map[string][]uint32{
		"table2": {0xf9dedc, 0xea9088, 0xffffff, 0xe67c73}, // CAR.
		"table3": {
			0xffffff, 0xb0dfc8, 0xb4e1cb, 0x8cd1af, 0x95d4b5, 0x75c79f, 0x68c296, 0x57bb8a, 0xdff2e9, 0xc0e6d4, 0xbce4d1,
			0xa2dabf,
			0xffffff, 0xceecdd, 0xd0ecdf, 0xdbf1e7, 0x6cc499, 0x70c69c, 0x67c296, 0x73c79e, 0xafdfc8, 0x57bb8a, 0xd9f0e5,
			0xa5dbc1,
		},
		"table4": {
			0xfcfdff, 0x7facf8, 0xeff5ff, 0x8eb6f9, 0xaac8fb, 0x4587f5, 0xa0c2fa, 0x5b95f6, 0xffffff, 0x6098f6, 0xa9c8fa,
			0x6ea1f7, 0xbfd6fc, 0x4285f4,
			0xc9ddfc, 0x5d97f6, 0xa4c4fa, 0x4285f4, 0xd0e1fd, 0x5e97f6, 0xeff5ff, 0x76a7f7, 0xa0c2fa, 0x4d8cf5, 0xdce9fd,
			0x649bf6, 0xffffff, 0x73a5f7,
		},
	} {
		c, err := Compare(table, papers(t, int(table[5]-'0'), 0, 0), "")
		if err != nil {
			t.Fatal(err)
		}
		set := c.Table()
		var cells []Cell
		for _, row := range set.Rows {
			if table == "table2" {
				cells = append(cells, row[1])
			} else {
				cells = append(cells, row[2:4]...)
			}
		}
		if len(cells) != len(want) {
			t.Fatalf("%s has %d cells", table, len(cells))
		}
		for i, w := range want {
			k := set.tint(cells[i].Shade)
			for j, got := range []uint8{k.R, k.G, k.B} {
				if d := int(got) - int(uint8(w>>(16-8*j))); d > 6 || d < -6 {
					t.Errorf("%s, cell %d: shade %02x%02x%02x, the paper has %06x", table, i, k.R, k.G, k.B, w)
					break
				}
			}
		}
	}
	// However few scores there are.
	for _, c := range []struct{ means, want []float64 }{
		{nil, nil}, {[]float64{1}, []float64{0}}, {[]float64{2, 2}, []float64{0, 0}}, {[]float64{1, 3}, []float64{0, 1}},
		{[]float64{1, 2, 9}, []float64{0, 0.5, 1}}, {[]float64{1, 9, 9}, []float64{0, 1, 1}},
		{[]float64{1, 1, 9}, []float64{0, 0, 1}},
	} {
		cells := make([]*Cell, len(c.means))
		for i, m := range c.means {
			scored := Scored(stats.Mean{Mean: m, N: 3})
			cells[i] = &scored
		}
		ShadeAroundMedian(cells...)
		for i, w := range c.want {
			if math.Abs(cells[i].Shade-w) > 1e-12 {
				t.Errorf("%v: shade %d is %v, want %v", c.means, i, cells[i].Shade, w)
			}
		}
	}
}

func TestTable1(t *testing.T) {
	table, err := Table1([]LossRow{
		{Loss: "triplet-euc", Rule: "euc/euc/con", Stated: 4, Measured: 4, Error: 1.2e-6, Cosine: 1,
			Note: "With $m = 4$ the hinge is never at rest."},
		{Loss: "table1-circle", Rule: "cos/lin/cir", Stated: 2, Measured: 2.0000001, Error: 3e-7, Cosine: 1},
		{Loss: "table1-dr-ms", Rule: "cos-orth/sig-ms/con", Measured: 1.87, Error: 0.41, Cosine: 0.912},
		{Loss: "table1-sct", Rule: "cos/con/cos+sc1", Stated: 1, Measured: 1, Error: 0, Cosine: 1},
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
	r, err = Paper(PaperResult{Table: 5, Dataset: "In-shop", BatchSize: 512, Metric: "R@20", Direction: "cos-orth",
		Pair: "lin-ms"})
	if err != nil || r.Mean != 97.9 || r.HasStd {
		t.Errorf("%+v, %v", r, err)
	}
	for _, key := range []PaperResult{{Table: 1}, {Table: 2, Dataset: "CAR"},
		{Table: 2, Dataset: "CAR", Direction: "up"}} {
		if _, err := Paper(key); err == nil {
			t.Errorf("%+v is a number of the paper", key)
		}
	}
	if _, err := parsePaper("a,b\n1,2\n"); err == nil {
		t.Error("foreign columns were read")
	}
}

func TestMarkup(t *testing.T) {
	for _, c := range []struct{ in, plain, html string }{
		{"plain & <b>", "plain & <b>", "plain &amp; &lt;b&gt;"},
		{"$S_{ap}$", "S_ap", "<i>S</i><sub><i>ap</i></sub>"},
		{`$\mathbf{e}_p^{cos-orth}$`, "e_p^cos-orth", "<b>e</b><sub><i>p</i></sub><sup><i>cos</i>-<i>orth</i></sup>"},
		{`$\sqrt{1-S^2}$`, "√(1 − S²)", "√(1\u2009−\u2009<i>S</i><sup>2</sup>)"},
		{`$S_{ap}(2-S_{ap})$`, "S_ap(2 − S_ap)",
			"<i>S</i><sub><i>ap</i></sub>(2\u2009−\u2009<i>S</i><sub><i>ap</i></sub>)"},
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

package figures

import (
	"bytes"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/scores"
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
		table := Table{Rows: [][]Cell{{gain(stats.Welch(c.a, c.b))}}}
		table.MarkSignificant()
		got := table.Rows[0][0]
		if Plain(strings.ReplaceAll(got.Text, "\u00a0", " ")) != c.want || got.Bold != c.bold {
			t.Errorf("%v − %v: %q %v, want %q", c.a, c.b, got.Text, got.Bold, c.want)
		}
	}
}

// The shades of the paper's own tables, by its LaTeX source, follow from its means up to their printed digit.
func TestShadeIsThePapers(t *testing.T) {
	for table, want := range map[int][]uint32{
		2: {0xf9dedc, 0xea9088, 0xffffff, 0xe67c73}, // CAR.
		3: {
			0xffffff, 0xb0dfc8, 0xb4e1cb, 0x8cd1af, 0x95d4b5, 0x75c79f, 0x68c296, 0x57bb8a, 0xdff2e9, 0xc0e6d4, 0xbce4d1,
			0xa2dabf,
			0xffffff, 0xceecdd, 0xd0ecdf, 0xdbf1e7, 0x6cc499, 0x70c69c, 0x67c296, 0x73c79e, 0xafdfc8, 0x57bb8a, 0xd9f0e5,
			0xa5dbc1,
		},
		4: {
			0xfcfdff, 0x7facf8, 0xeff5ff, 0x8eb6f9, 0xaac8fb, 0x4587f5, 0xa0c2fa, 0x5b95f6, 0xffffff, 0x6098f6, 0xa9c8fa,
			0x6ea1f7, 0xbfd6fc, 0x4285f4,
			0xc9ddfc, 0x5d97f6, 0xa4c4fa, 0x4285f4, 0xd0e1fd, 0x5e97f6, 0xeff5ff, 0x76a7f7, 0xa0c2fa, 0x4d8cf5, 0xdce9fd,
			0x649bf6, 0xffffff, 0x73a5f7,
		},
	} {
		parts := []scores.Column{"", scores.Direction, scores.Pair, scores.Triplet}
		c := compared(t, table, papers(table, 0, 0), parts[table-1], parts[table-2])
		c.Tint = [...]color.NRGBA{Red, LeafGreen, BrightSky}[table-2]
		if table == 3 {
			c.Shade = ShadeAroundMedian
		}
		set := c.Table()
		var cells []Cell
		for _, row := range set.Rows {
			if table == 2 {
				cells = append(cells, row[1])
			} else {
				cells = append(cells, row[2:4]...)
			}
		}
		if len(cells) != len(want) {
			t.Fatalf("table %d has %d cells", table, len(cells))
		}
		for i, w := range want {
			k, _ := set.ground(cells[i])
			for j, got := range []uint8{k.R, k.G, k.B} {
				if d := int(got) - int(uint8(w>>(16-8*j))); d > 6 || d < -6 {
					t.Errorf("table %d, cell %d: shade %02x%02x%02x, the paper has %06x", table, i, k.R, k.G, k.B, w)
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

// CSV has a column for the setting, since it has no caption.
func TestSettingInCSV(t *testing.T) {
	table := &Table{Columns: []Column{{Title: "Rule"}, {Title: "R@1"}}, Setting: "quick with tau=2"}
	score := meanOf(70, 1, 3, 0)
	table.Rows = [][]Cell{{Text("a"), {Score: &score}}}
	raw, err := Bytes(table, "csv")
	if want := "Rule,R@1 mean,R@1 std,R@1 runs,R@1 diverged,setting\na,70,1,3,0,quick with tau=2\n"; err != nil ||
		string(raw) != want {
		t.Errorf("%s, %v, want %s", raw, err, want)
	}
}

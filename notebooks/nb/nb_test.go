package nb

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/janpfeifer/gonb/gonbui/protocol"
	"gonum.org/v1/plot"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/figures"
)

// TestFormats sees that each output has the formats that the package comment names.
func TestFormats(t *testing.T) {
	plotted := figures.Of(plot.New(), 96, 72)
	plotted.Alt = `a "dot" < 1`
	data, metadata, err := formats(plotted)
	if err != nil {
		t.Fatal(err)
	}
	content, _ := data["image/png"].(string)
	if _, err := base64.StdEncoding.DecodeString(content); err != nil || content == "" || data["text/html"] != nil ||
		data["text/plain"] != `[a "dot" < 1]` {
		t.Errorf("a picture is %v, %v", data, err)
	}
	if want := map[string]any{"image/png": map[string]int{"width": 128}, "alt": plotted.Alt}; !reflect.DeepEqual(metadata,
		want) {
		t.Errorf("metadata %v; want %v", metadata, want)
	}
	plotted.Photographs = true
	if _, metadata, err := formats(plotted); err != nil || metadata["needs_background"] != "light" {
		t.Errorf("metadata of a picture with photographs: %v, %v", metadata, err)
	}
	table := &figures.Table{Columns: []figures.Column{{Title: "$S_{ap}$"}}, Rows: [][]figures.Cell{{figures.Text("50 %")}}}
	data, _, err = formats(table)
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[protocol.MIMEType]string{"text/html": "<td", "text/markdown": "| $S_{ap}$ |",
		"text/latex": `50 \%`, "text/plain": "S_ap"} {
		if text, _ := data[kind].(string); !strings.Contains(text, want) {
			t.Errorf("%s of a table: %q; want %q in it", kind, text, want)
		}
	}
	table.Columns = nil
	for name, o := range map[string]figures.Output{"a row too long": table, "no size": &figures.Figure{},
		"failed": figures.Failed(errors.New("no runs"))} {
		if _, _, err := formats(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestCaptions(t *testing.T) {
	got, err := captioned([]string{"What to **see**.", "Table 2"}, "x_1 * $2\nline")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"What to **see**.\n\n<details><summary>The paper's caption of Table 2</summary>\n\n> Comparing",
		`> x\_1 \* \$2` + "\n> \n> line\n\n</details>"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if got, err := captioned(nil, "words"); err != nil || got != "" {
		t.Errorf("without a caption: %q, %v", got, err)
	}
	for _, wrong := range [][]string{{"See.", "Figure 99"}, {"See.", "Figure 1", "Figure 2"}} {
		if _, err := captioned(wrong, ""); err == nil {
			t.Errorf("%q: no error", wrong)
		}
	}
}

func TestPlain(t *testing.T) {
	text := "A lead of $\\mathbf{e^{cos}}$ at $S_{ap} = \\rho$, \\$2 and `a$b`." + folded("In words", "x\\_1\n$P_+$")
	if got, want := plain(text), "A lead of e^cos at S_ap = ρ, $2 and `a$b`.\n\nIn words:\n\nx_1\nP_+"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
}

// The first update is shown at once, later ones at intervals, and the last one always.
func TestProgressIsThrottled(t *testing.T) {
	var mu sync.Mutex
	var shown []string
	const every = 50 * time.Millisecond
	p := newProgress("run", every, func(fraction float64, text, _ string) {
		mu.Lock()
		defer mu.Unlock()
		shown = append(shown, fmt.Sprintf("%.2f %s", fraction, text))
	})
	start := time.Now()
	for i := range 1000 {
		p.Set(float64(i)/1000, fmt.Sprint(i))
	}
	soon := time.Since(start)
	time.Sleep(2 * every)
	mu.Lock()
	if most := 3 + int(soon/every); len(shown) > most || shown[0] != "0.00 0" || shown[len(shown)-1] != "1.00 999" {
		t.Errorf("shown: %q", shown)
	}
	mu.Unlock()
	p.Set(7, "beyond")
	p.Done("end")
	p.Set(0.5, "too late")
	p.Done("twice")
	time.Sleep(2 * every)
	mu.Lock()
	defer mu.Unlock()
	if last := shown[len(shown)-1]; last != "1.00 end" {
		t.Errorf("last shown: %q", last)
	}
}

func TestProgressHTML(t *testing.T) {
	if got := progressHTML("a<b", 0.25, "c&d"); !strings.Contains(got, `value="0.250"`) ||
		!strings.Contains(got, "a&lt;b: c&amp;d") {
		t.Error(got)
	}
	if got := progressHTML("a", 1, "done"); strings.Contains(got, "<progress") {
		t.Error(got)
	}
}

func TestErrorsAreOneLine(t *testing.T) {
	var b bytes.Buffer
	if code := fail(&b, errors.New("no rule\nstack trace")); code != 1 || b.String() != "no rule\n" {
		t.Errorf("code %d, %q", code, b.String())
	}
	b.Reset()
	cell := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(cell, []byte("package main\n\tw[2]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_ = fail(&b, fmt.Errorf("rule r: %w", &dmlx.PartError{Part: "mask m", What: "is nil", File: cell, Line: 2}))
	if want := "rule r: mask m: is nil; the line is w[2]\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestPresetAndStore(t *testing.T) {
	t.Setenv("DMLX_PRESET", "")
	t.Setenv("DMLX_STORE", "")
	if got := Preset(); got != "quick" {
		t.Errorf("preset %q", got)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if got := Store(); got != filepath.Join(root, "runs") {
		t.Errorf("store %q", got)
	}
	t.Setenv("DMLX_PRESET", "smoke")
	t.Setenv("DMLX_STORE", "elsewhere")
	if Preset() != "smoke" || Store() != "elsewhere" {
		t.Errorf("%q, %q", Preset(), Store())
	}
}

// Linking XLA would make every cell that draws slow.
func TestLinksNoXLA(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command")
	}
	cmd := exec.Command(goTool, "list", "-deps", ".")
	cmd.Env = append(os.Environ(), "GOPROXY=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, heavy := range []string{"gomlx/go-xla", "gomlx/gomlx"} {
		if strings.Contains(string(out), heavy) {
			t.Errorf("nb depends on %s", heavy)
		}
	}
}

func TestSymbolsAreFormulas(t *testing.T) {
	for text, want := range map[string]string{
		"ρ = 0.80, p ≤ 0.05":        `$\rho$ = 0.80, p $\le$ 0.05`,
		"along d\\_⊥ at `τ=2`":      "along d\\_$\\perp$ at `τ=2`",
		`$β = 10$ costs \$5 at β`:   `$β = 10$ costs \$5 at $\beta$`,
		"Recall@1 ± 0.3 [−1, +2] ×": "Recall@1 ± 0.3 [−1, +2] ×",
	} {
		if got := setSymbols(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// label is a string by another name, and speaker says one: they are as little trusted as a string.
type label string

type speaker struct{ text string }

func (s speaker) String() string { return s.text }

// Nothing that a sentence takes from a run, an archive or an error is HTML, a picture from elsewhere or a terminal's.
func TestSayKeepsStrangersText(t *testing.T) {
	for _, evil := range []string{"<script>alert(1)</script>", "<img src=x onerror=alert(1)>",
		"![x](http://example.org/x)",
		"a\x1b[2Jb", "a\rb", "a\u009b31mb", "\u202egnp.exe", "a\x00b", "a\x07b"} {
		got := sentence("%s, %v, %s, %v, %v, %+v, %q, %s", evil, errors.New(evil), label(evil), speaker{evil}, []string{evil},
			struct{ Name string }{evil}, evil, &speaker{evil})
		for _, part := range []string{"<", "![", "\x1b", "\r", "\u009b", "\u202e", "\x00", "\x07"} {
			if strings.Contains(got, part) {
				t.Errorf("%q leaves %q in %q", evil, part, got)
			}
		}
		figure := figures.Of(plot.New(), 96, 72)
		figure.Alt = evil
		data, metadata, err := formats(figure)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []any{data["text/plain"], metadata["alt"]} {
			if strings.ContainsAny(fmt.Sprint(text), "\x1b\r\u009b\u202e\x00\x07") {
				t.Errorf("a picture is called %q", text)
			}
		}
	}
	want := "at $\\alpha$ = 0.50 of   7, **+1.2** %, `b` and true"
	got := sentence("at %s = %.2f of %*d, **%+.1f** %%, `%s` and %t", "$\\alpha$", 0.5, 3, 7, 1.2, "b", true)
	if got != want {
		t.Errorf("%q; want %q", got, want)
	}
}

package figures

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

// A statement's answers stand in all formats, and in HTML the repetitions behind them at their places.
func TestAnswers(t *testing.T) {
	t.Parallel()
	a := &Answers{Caption: "Does it hold?", Kinds: []Markup{"in drawn images", "in photographs"},
		Notes: []Markup{"a note"}, Provenance: "preset x",
		Statements: []Answer{{Says: "$S_{ap}$ <rises>", ReadAs: "a above b",
			Of: []Evidence{
				{Answer: Cell{Text: "reproduced", Background: Confirming}, Reason: "1 of 1 cell", Numbers: []Difference{{
					Name: "a − b", First: []float64{80, 90}, Second: []float64{70},
					Cell: Text(stats.Point(15).String()), From: `runs "1" 2`}}},
				{Answer: Text("–")}}}}}
	for format, want := range map[string][]string{
		"html": {"in drawn images: <span", `background:#`, ">reproduced<", "&lt;rises&gt;", "1 cell</summary>",
			`title="runs &#34;1&#34; 2"`, `left:0%">○`, `left:50%">●`, `left:100%">●`, "from 70.0 to 90.0", "a note"},
		"txt": {"reproduced", "In drawn images: 1 of 1 cell.", "S_ap <rises>", "preset x"},
		"csv": {"in photographs", "reproduced,–"},
		"tex": {"reproduced"}, "md": {"reproduced"}} {
		b, err := Bytes(a, format)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(string(b), text) {
				t.Errorf("%s has no %q:\n%s", format, text, b)
			}
		}
		if strings.Contains(string(b), "<rises>") && (format == "html" || format == "md") {
			t.Errorf("%s has a stranger's tag:\n%s", format, b)
		}
	}
	a.Statements[0].Of = a.Statements[0].Of[:1]
	for _, format := range a.Formats() {
		if _, err := Bytes(a, format); err == nil || !strings.Contains(err.Error(), "statement 0 has 1 answers; want 2") {
			t.Errorf("%s: %v", format, err)
		}
	}
}

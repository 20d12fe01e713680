package figures

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"gonum.org/v1/plot"

	"github.com/gradient-surgery/dml/dmlx/scores"
)

// Names of strangers do nothing in any format: no TeX command, no HTML, no spreadsheet's formula, no terminal's.
func TestNamesOfStrangers(t *testing.T) {
	t.Parallel()
	names := []string{`\input{/etc/passwd}`, `$\input{/etc/passwd}$`, `$\write18{id}$`, "a\r\\input{x}", `$^^5cinput{x}$`,
		"=cmd|' /C calc'!A0", "+1+cmd|' /C calc'!A0", "@SUM(1)", "<script>alert(1)</script>", "![x](http://example.org/x)",
		"\x1b[2J", "\u202egnp.exe", "$}\\input{x}{$", `$\catcode1$`}
	table := &Table{Caption: names[0], Columns: []Column{{Title: "name"}}, Provenance: "of\rme", Setting: "=1+1"}
	for _, name := range names {
		table.Rows = append(table.Rows, []Cell{Text(name)})
	}
	for format, forbidden := range map[string][]string{
		"tex":  {`\input`, `\write`, `\catcode`, "\r", "\x1b", "^^"},
		"md":   {"<script", "![", "\x1b", "\u202e", "\r"},
		"csv":  {"\n=", "\n+", "\n@", ",=", "\x1b"},
		"txt":  {"\x1b", "\u202e", "\r"},
		"html": {"<script"},
	} {
		raw, err := Bytes(table, format)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range forbidden {
			if strings.Contains(string(raw), part) {
				t.Errorf("%s has %q:\n%s", format, part, raw)
			}
		}
	}
	for _, name := range names {
		figure := Of(plot.New(), 96, 72)
		figure.Alt = name
		raw, err := Bytes(figure, "svg")
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"<script", "\x1b", "\u202e"} {
			if strings.Contains(string(raw), part) {
				t.Errorf("svg has %q: %.300s", part, raw)
			}
		}
		// What a picture is called does not come into the metadata of PNG and PDF, and nothing there acts.
		raw, err = Bytes(figure, "png")
		if err != nil {
			t.Fatal(err)
		}
		for at := 8; at < len(raw); at += 12 + int(binary.BigEndian.Uint32(raw[at:])) {
			if kind := string(raw[at+4 : at+8]); !strings.Contains("IHDR PLTE tRNS pHYs IDAT IEND", kind) {
				t.Errorf("png has a chunk %s", kind)
			}
		}
		if raw, err = Bytes(figure, "pdf"); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{name, "/Title", "/Author", "/Subject", "/Keywords", "/Metadata", "/JavaScript", "/URI",
			"/Launch"} {
			if bytes.Contains(raw, []byte(part)) {
				t.Errorf("pdf has %q", part)
			}
		}
	}
	for _, same := range []string{"+0.5 [−5.8, +6.8]", "-3", "cos/con/con", "+2.20 to +9.20", "–", ""} {
		if got := scores.CellText(same); got != same {
			t.Errorf("%q became %q", same, got)
		}
	}
}

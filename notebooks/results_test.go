package notebooks

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"gonum.org/v1/plot/cmpimg"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/paper/ledger"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/figures"
)

// TestResults checks that every number in README.md and report.md is read off the bundled runs. A page is made from a
// template in testdata, whose text has no decimal of its own: each is an expression in << >>, such as
//
//	<<cell "table5" "gains" "Ours (B64)" "minicar">>   the cell of a table's part, by texts of its row and its column
//	<<rho "table3" "minicar" "cos">>                   the rank correlation with the paper, by texts of its note
//
// With -regen the pages are written anew.
func TestResults(t *testing.T) {
	quick, err := presets.Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := paper.Ledger(t.Context(), report.Request{Store: store, Preset: quick})
	if err != nil {
		t.Fatal(err)
	}
	r := results{of: func(name string) *paper.Report { return shipped(t, name, quick) },
		made: make(map[string]*paper.Report), ledger: rows}
	for _, page := range []string{"README.md", "report.md"} {
		r.check(t, page)
	}
}

// check makes a page from its template and compares it with the committed one.
func (r results) check(t *testing.T, page string) {
	source := filepath.Join("testdata", page+".tmpl")
	raw, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	own := regexp.MustCompile(`(?s)<<.*?>>`).ReplaceAllString(string(raw), "")
	if typed := regexp.MustCompile(`(?:^|[^§\d.])\d+\.\d+`).FindAllString(own, -1); typed != nil {
		t.Errorf("%s has the numbers %v in its text: make them expressions", source, typed)
	}
	parsed, err := template.New(source).Delims("<<", ">>").Funcs(template.FuncMap{
		"cell": r.cell, "rho": r.rho, "protocol": r.protocol, "less": r.less, "omega": r.omega,
		"seconds":    func() string { return quickRunSeconds(t) },
		"provenance": r.provenance, "places": r.places, "claims": r.claims, "findings": r.findings, "caption": r.caption,
	}).Parse(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := parsed.Execute(&out, nil); err != nil {
		t.Fatal(err)
	}
	if *cmpimg.GenerateTestData {
		if err := durable.WriteFile(page, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(out.String(), "\n")
	for i, line := range strings.Split(string(committed), "\n") {
		if i >= len(want) || line != want[i] {
			t.Fatalf("%s, line %d is not what the runs say; change %s, then: go test ./notebooks -run Results -regen\n%s",
				page, i+1, source, line)
		}
	}
}

// results reads numbers off tables.
type results struct {
	of   func(name string) *paper.Report
	made map[string]*paper.Report

	ledger []ledger.Row
}

// table returns a part of a report that is a table.
func (r results) table(name, part string) (*figures.Table, error) {
	if r.made[name] == nil {
		r.made[name] = r.of(name)
	}
	table, ok := r.made[name].Part(part).(*figures.Table)
	if !ok {
		return nil, fmt.Errorf("%s has no table %q", name, part)
	}
	return table, nil
}

// find returns the one cell whose row has cells with all texts but the last, and whose column's title has the last.
func (r results) find(name, part string, keys []string) (*figures.Cell, error) {
	table, err := r.table(name, part)
	if err != nil {
		return nil, err
	}
	columns, rows := keys[len(keys)-1], keys[:len(keys)-1]
	column := slices.IndexFunc(table.Columns, func(c figures.Column) bool {
		return strings.Contains(figures.Plain(strings.Trim(c.Group+", "+c.Title, ", ")), columns)
	})
	var found []*figures.Cell
	for i := range table.Rows {
		matches := func(key string) bool {
			return slices.ContainsFunc(table.Rows[i], func(c figures.Cell) bool {
				text := figures.Plain(c.Text)
				return text == key || strings.HasSuffix(text, "; "+key) || strings.HasPrefix(text, key+" beside ")
			})
		}
		if column >= 0 && !slices.ContainsFunc(rows, func(key string) bool { return !matches(key) }) {
			found = append(found, &table.Rows[i][column])
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%s %q has %d cells for %q", name, part, len(found), keys)
	}
	return found[0], nil
}

func (r results) cell(name, part string, keys ...string) (string, error) {
	c, err := r.find(name, part, keys)
	if err != nil {
		return "", err
	}
	if c.Score != nil {
		return c.Score.String(), nil
	}
	return figures.Plain(c.Text), nil
}

// caption returns the caption of a table, for one that counts something.
func (r results) caption(name, part string) (string, error) {
	table, err := r.table(name, part)
	if err != nil {
		return "", err
	}
	return figures.Plain(table.Caption), nil
}

// less returns the mean of one row less that of another; the other keys pick both.
func (r results) less(name, part, row, other string, keys ...string) (string, error) {
	a, err := r.find(name, part, append([]string{row}, keys...))
	if err != nil {
		return "", err
	}
	b, err := r.find(name, part, append([]string{other}, keys...))
	if err != nil {
		return "", err
	}
	if a.Score == nil || b.Score == nil {
		return "", fmt.Errorf("%s %q: %q and %q are no scores", name, part, row, other)
	}
	return fmt.Sprintf("%.1f", a.Score.Mean-b.Score.Mean), nil
}

// rho returns the rank correlation with the paper from the one note about it that has all texts.
func (r results) rho(name string, texts ...string) (string, error) {
	table, err := r.table(name, "")
	if err != nil {
		return "", err
	}
	var found []string
	for _, n := range table.Notes {
		note := figures.Plain(n)
		all := strings.HasPrefix(note, "Order") && strings.Contains(note, "against the paper's")
		for _, text := range texts {
			all = all && strings.Contains(note, text)
		}
		if m := rhoIn.FindStringSubmatch(note); all && m != nil {
			found = append(found, m[1])
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s has %d rank correlations for %q", name, len(found), texts)
	}
	return found[0], nil
}

var rhoIn = regexp.MustCompile(`ρ = (.*?), n =`)

// protocol returns the rank correlation of a sweep with the paper under a protocol: "test" or "held-out classes".
func (r results) protocol(name, data, chosen string) (string, error) {
	table, err := r.table(name, "protocols")
	if err != nil {
		return "", err
	}
	for _, n := range table.Notes {
		if note := figures.Plain(n); strings.HasPrefix(note, "Order on "+data+" against") {
			_, rest, _ := strings.Cut(note, "chosen on "+chosen)
			if m := rhoIn.FindStringSubmatch(rest); m != nil {
				return m[1], nil
			}
		}
	}
	return "", fmt.Errorf("%s has no rank correlation on %s, chosen on %s", name, data, chosen)
}

// omega returns the partial ω² of an effect in the grid.
func (r results) omega(data, effect string) (string, error) {
	return r.cell("grid", "anova", data, effect, "ω")
}

// provenance returns the preset, data, seeds, backend, machine and dates of the runs of a report.
func (r results) provenance(name string) (string, error) {
	_, err := r.table(name, "")
	return r.made[name].Provenance, err
}

// place is a row of the report's table of verdicts.
type place struct {
	Name    string
	Entries int
	Counts  []int
}

// places returns the counts of verdicts, as the ledger's summary has them.
func (r results) places() ([]place, error) {
	var out []place
	for _, row := range ledger.Summary(r.ledger, "").Rows {
		p := place{Name: row[0].Text}
		for _, c := range row[1:] {
			n, err := strconv.Atoi(c.Text)
			if err != nil {
				return nil, err
			}
			p.Counts = append(p.Counts, n)
		}
		p.Entries, p.Counts = p.Counts[0], p.Counts[1:]
		out = append(out, p)
	}
	return out, nil
}

// claims returns the number of claims in the ledger.
func (r results) claims() int {
	return len(slices.DeleteFunc(slices.Clone(r.ledger), func(row ledger.Row) bool {
		return !strings.HasPrefix(row.Place, "Claim")
	}))
}

// findings returns how many claims have a finding on the "paper" numbers or on "ours".
func (r results) findings(on, verdict string) (int, error) {
	n := 0
	for _, row := range r.ledger {
		finding := row.Ours
		if on == "paper" {
			finding = row.Paper
		} else if on != "ours" {
			return 0, fmt.Errorf("findings on %q: want paper or ours", on)
		}
		if strings.HasPrefix(row.Place, "Claim") && finding == verdict {
			n++
		}
	}
	return n, nil
}

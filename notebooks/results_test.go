package notebooks

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"gonum.org/v1/plot/cmpimg"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/paper/evidence"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// TestResults checks that every number in report.md is read off the bundled runs. The page is made from a
// template in testdata, whose text has no decimal of its own: each is an expression in << >>, such as
//
//	<<cell "table5" "gains" "Ours (B64)" "minicar">>   the cell of a table's part, by texts of its row and its column
//	<<rho "table3" "minicar" "cos">>                   the rank correlation with the paper, by texts of its note
//
// With -regen the page is written anew.
func TestResults(t *testing.T) {
	quick, err := presets.Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	q := report.Request{Store: store, Preset: quick}
	r := results{of: func(name string) *paper.Report {
		switch set, of, _ := strings.Cut(name, "/"); set {
		case "photographs":
			return shipped(t, of, paper.PhotographsPreset())
		case "long photographs":
			return shipped(t, of, paper.LongPhotographsPreset(), presets.Named("cos/lin/con"), presets.Named("cos/lin-ms/con"),
				presets.Named("cos-orth/lin-ms/cir"), presets.Named("cos/sig-ms/con"), presets.Named("cos-orth/sig-ms/con"))
		case "birds":
			return shipped(t, of, paper.BirdsPreset(), presets.Named("cos-orth/lin-ms/cir"))
		}
		return shipped(t, name, quick)
	},
		made: make(map[string]*paper.Report), ledger: bundledLedger(t), request: q, seconds: quickRunSeconds(t)}
	r.check(t, "report.md")
	picture, err := evidence.Picture(r.ledger.Entries, "")
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile("ledger.ipynb"); err != nil || !strings.Contains(string(raw), picture.Alt) {
		t.Errorf("ledger.ipynb does not say %q: dmlx lab --execute notebooks/ledger.ipynb; %v", picture.Alt, err)
	}
}

// photographed says how many runs on photographs are bundled, and how long they took.
func photographed() (string, error) {
	bundled, err := runs.Bundled()
	count, seconds := 0, 0.0
	for _, r := range bundled {
		if strings.HasPrefix(r.Bundle, "photographs ") {
			count, seconds = count+1, seconds+r.Seconds
		}
	}
	return fmt.Sprintf("%d, longer | %.0f h", count, seconds/3600), err
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
		"cell": r.cell, "rho": r.rho, "protocol": r.protocol, "less": r.less, "order": r.order, "recall": r.recall,
		"bundled": bundledRuns,
		"seconds": func() string { return r.seconds }, "minutes": r.minutes, "provenance": r.provenance,
		"summary":  func() (string, error) { return markdown(evidence.Summary(r.ledger.Entries, "")) },
		"power":    func() (string, error) { return markdown(evidence.PowerTable(r.ledger.Powers, "")) },
		"meanings": meanings, "findings": r.findings, "own": r.own, "note": r.note, "ahead": r.ahead,
		"counts": r.counts, "photographed": photographed, "least": least, "triplets": r.triplets,
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

	ledger  *evidence.Ledger
	request report.Request
	seconds string // Of a quick run.
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

// provenance returns the preset, data, seeds, backend, machine and dates of the runs of a report.
func (r results) provenance(name string) (string, error) {
	_, err := r.table(name, "")
	return r.made[name].Provenance, err
}

// markdown returns a table as Markdown, without its caption and notes.
func markdown(table *figures.Table) (string, error) {
	text, err := figures.Bytes(table, "md")
	rows, _, _ := strings.Cut(string(text), "\n\n")
	return rows, err
}

// meanings explains the verdicts, a line each.
func meanings() string {
	var out strings.Builder
	for _, m := range evidence.Meanings {
		fmt.Fprintf(&out, "- *%s*: %s.\n", m.Verdict, m.Says)
	}
	return strings.TrimRight(out.String(), "\n")
}

// counts returns how many entries of a kind, "Table" or "Claim", have which verdict in a setting, in words. Claims read
// the tables' numbers again, so no count has both.
func (r results) counts(setting, kind string) string {
	of := evidence.In(r.ledger.Entries, evidence.Setting(setting))
	return evidence.Words(slices.DeleteFunc(of, func(e evidence.Entry) bool { return !strings.HasPrefix(e.Place, kind) }))
}

// findings returns how many claims have a finding on our runs on drawn images.
func (r results) findings(verdict string) int {
	n := 0
	for _, e := range r.ledger.Entries {
		if strings.HasPrefix(e.Place, "Claim") && e.Ours == verdict && e.Setting != evidence.Photographs {
			n++
		}
	}
	return n
}

// own returns how many claims the paper's own numbers bear out ("hold"), contradict in some cells ("some") or in all
// ("none"), or show to be misprints ("misprint"), and how many claims there are ("all").
func (r results) own(what string) (int, error) {
	n := 0
	for _, e := range r.ledger.Entries {
		f := e.PaperFinding
		if !strings.HasPrefix(e.Place, "Claim") || e.Setting == evidence.Photographs {
			continue
		}
		itself := f.Verdict == evidence.ContradictsItself && !f.Misprint
		is, known := map[string]bool{"all": true, "hold": f.Verdict == evidence.Reproduced, "misprint": f.Misprint,
			"some": itself && f.Holding > 0, "none": itself && f.Holding == 0}[what]
		if !known {
			return 0, fmt.Errorf("own %q: want all, hold, some, none or misprint", what)
		}
		if is {
			n++
		}
	}
	return n, nil
}

// minutes returns how long runs take: their number, less those that are shared, by the seconds of a quick run.
func (r results) minutes(n, shared int) (string, error) {
	var low, high int
	if _, err := fmt.Sscanf(r.seconds, "%d to %d", &low, &high); err != nil {
		return "", err
	}
	round := func(seconds int) int { return int(math.Round(float64((n-shared)*seconds) / 60)) }
	return fmt.Sprintf("%d to %d min", round(low), round(high)), nil
}

// note returns the one note of a table that has a text, without the data set before it.
func (r results) note(name, part, text string) (string, error) {
	table, err := r.table(name, part)
	if err != nil {
		return "", err
	}
	var found []string
	for _, n := range table.Notes {
		if strings.Contains(n, text) {
			_, rest, _ := strings.Cut(n, ": ")
			found = append(found, rest)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s %q has %d notes with %q", name, part, len(found), text)
	}
	return found[0], nil
}

// least returns the lowest rank correlation of n rows whose 95 % interval excludes 0.
func least(n int) string {
	for squares := n * (n*n - 1) / 3; squares >= 0; squares -= 2 { // Of the differences of ranks: an even number.
		rho := 1 - 6*float64(squares)/float64(n*(n*n-1))
		if low, _ := stats.SpearmanInterval(rho, n); low > 0 {
			return fmt.Sprintf("%.2f", rho)
		}
	}
	return "more than 1"
}

// runsOf returns the available runs of rules on a data set at a preset, quick or full.
func (r results) runsOf(preset, data string, rules ...string) (*paper.Table, error) {
	p := r.request.Preset
	switch preset {
	case "full":
		p = paper.FullPreset()
	case "long photographs":
		p = paper.LongPhotographsPreset()
	}
	var cells []paper.Cell
	for _, rule := range rules {
		cells = append(cells, paper.Cell{Row: rule, Data: data, Objective: presets.Named(rule)})
	}
	cells, err := paper.Specify(p, cells, p.Seeds)
	if err != nil {
		return nil, err
	}
	q := r.request
	q.Preset, q.CachedOnly = p, true
	return paper.Fill(context.Background(), q, cells)
}

// ahead returns by how many points of Recall@1 a rule is ahead of another, with the uncorrected p-value of Welch's t.
func (r results) ahead(preset, data, rule, other string) (string, error) {
	t, err := r.runsOf(preset, data, rule, other)
	if err != nil {
		return "", err
	}
	test := stats.Welch(t.Cells[0].Recall(1).Times(100), t.Cells[1].Recall(1).Times(100))
	if math.IsNaN(test.P) {
		return "", fmt.Errorf("%s and %s on %s at %s: no runs", rule, other, data, preset)
	}
	return fmt.Sprintf("%s, p = %.2g", test.Difference, test.P), nil
}

// triplets returns the lowest and the highest lead over constant triplet weights, and the largest p-value, with P^con.
func (r results) triplets(preset, data string) (string, error) {
	low, high, p := math.Inf(1), math.Inf(-1), 0.0
	for _, w := range []string{"cos", "cos+sc1", "cos+sc2", "cir", "cir+sc1", "cir+sc2"} {
		t, err := r.runsOf(preset, data, "cos/con/"+w, "cos/con/con")
		if err != nil {
			return "", err
		}
		test := stats.Welch(t.Cells[0].Recall(1).Times(100), t.Cells[1].Recall(1).Times(100))
		low, high, p = min(low, test.Difference.Value), max(high, test.Difference.Value), max(p, test.P)
	}
	return fmt.Sprintf("%+.1f to %+.1f points, each p ≤ %.2g", low, high, p), nil
}

// Four rows exclude no order, whatever they are, and six need the correlation that the pages name.
func TestLeast(t *testing.T) {
	if four, six := least(4), least(6); four != "more than 1" || six != "0.89" {
		t.Errorf("%s and %s", four, six)
	}
}

// order returns how the order of our rules agrees with that of one of the paper's tables. The star in the rules stands
// for the parts that the table varies.
func (r results) order(preset, data string, table int, rules string) (string, error) {
	levels := map[int][]string{2: {"euc", "cos", "euc-orth", "cos-orth"},
		3: {"con", "euc", "lin", "lin-ms", "sig", "sig-ms"},
		4: {"con", "cos", "cos+sc1", "cos+sc2", "cir", "cir+sc1", "cir+sc2"}}[table]
	var names []string
	for _, level := range levels {
		names = append(names, strings.Replace(rules, "*", level, 1))
	}
	t, err := r.runsOf(preset, data, names...)
	if err != nil {
		return "", err
	}
	var ours, theirs []stats.Mean
	for _, c := range t.Cells {
		c.PaperData = map[string]string{"minicar": "CAR", "minishop": "In-shop"}[data]
		ours, theirs = append(ours, c.Recall(1)), append(theirs, c.Printed(table))
	}
	a, err := stats.CompareRanks(ours, theirs)
	return strings.Replace(a.String(), fmt.Sprintf(", n = %d", a.N), "", 1), err
}

// recall returns Recall@1 of a rule or loss at quick.
func (r results) recall(data, objective string) (string, error) {
	t, err := r.runsOf("quick", data, objective)
	if err != nil {
		return "", err
	}
	return t.Cells[0].Recall(1).Times(100).String(), nil
}

// bundledRuns returns the provenance of the bundled runs on drawn images.
func bundledRuns() (string, error) {
	all, err := runs.Bundled()
	p := report.Provenance{Preset: "quick and full", Data: []string{"minicar", "minishop"}}
	for _, hash := range slices.Sorted(maps.Keys(all)) {
		if r := all[hash]; !strings.HasPrefix(r.Bundle, "photographs ") {
			p.Results = append(p.Results, r)
		}
	}
	p.Runs = len(p.Results)
	return p.String(), err
}

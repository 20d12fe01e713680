package figures

import (
	"cmp"
	"fmt"
	"image/color"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"
)

// Verdict says how a claim of the paper stands on some numbers.
type Verdict string

// The verdicts. On printed numbers a comparison counts by its means. On measured ones it counts only where its 95 %
// interval excludes the contrary, and is open otherwise.
const (
	Holds       Verdict = "holds"        // In all cells that it speaks of; for "in most cases", in more than half.
	Fails       Verdict = "fails"        // In none, and on measured numbers to the contrary in at least one; "most": in half of them.
	Mixed       Verdict = "mixed"        // In some and not in others.
	WithinNoise Verdict = "within noise" // Open in all cells; "most": in more than half.
	NotYetRun   Verdict = "not yet run"  // None of its runs is there.
	Uncheckable Verdict = "–"            // These numbers do not speak of it.
)

// Verdicts lists them.
func Verdicts() []Verdict {
	return []Verdict{Holds, Mixed, Fails, WithinNoise, NotYetRun, Uncheckable}
}

// colour is light enough for black text; the words carry the meaning, and the colours differ in lightness too.
func (v Verdict) colour() color.NRGBA {
	switch v {
	case Holds:
		return color.NRGBA{0xa9, 0xd3, 0xee, 0xff} // Okabe and Ito's blue, pale.
	case Mixed:
		return color.NRGBA{0xf9, 0xf3, 0xb4, 0xff} // Yellow.
	case Fails:
		return color.NRGBA{0xee, 0xa5, 0x77, 0xff} // Vermilion.
	case WithinNoise:
		return color.NRGBA{0xe4, 0xe4, 0xe4, 0xff}
	}
	return color.NRGBA{}
}

// Finding is a verdict with the numbers that it rests on.
type Finding struct {
	Verdict  Verdict
	Evidence Markup
}

// Claim is a sentence of the paper that says something measurable.
type Claim struct {
	Part    string // Which part of the audit it belongs to; see [ClaimParts].
	Section string // "Abstract", "§5.2", "App. C", …
	Quote   Markup // As printed, shortened.
	Asks    Markup // How it is checked.

	check func(n *Numbers) Finding
}

// Fact is a number that claims are checked on.
type Fact struct {
	Table  int     // Of the paper, 2 to 8; 0 for what is in none.
	Data   string  // The paper's data set, whichever set stands for it.
	Method string  // Table 5 only.
	Rule   string  // direction/pair/triplet; empty for the literature.
	Times  int     // Table 5: the batch as a multiple of the smallest.
	LR     float64 // Tables 6 to 8.
	Metric string  // R@1, …; or one of the shares below.
	Score  Score
}

// Shares of triplets in percent that are no recall, as metrics of [Fact].
const (
	Overlapping = "overlap"     // Of the distributions of nearest-positive and nearest-negative similarities, test set.
	EdgeLast    = "edge, last"  // S_ap > 0.9, last five epochs of training.
	CornerTrain = "corner"      // S_ap and S_an > 0.9, whole train set.
	CornerTest  = "corner test" // The same, whole test set.
	SpreadTrain = "spread"      // √(var S_ap + var S_an) times 100, whole train set.
	SpreadTest  = "spread test" // The same, whole test set.
	Positive    = "positive"    // Pairs with S > 0 in training, last five epochs.
)

// Numbers are what claims are checked on: those that the paper prints or those of runs.
type Numbers struct {
	measured bool
	labels   map[string]string // What stands for the paper's data sets.
	facts    map[Fact]Score    // By the fact without its score.
	order    []Fact
	pooled   map[string]pool // Of measured numbers, by data set and metric.
	printed  []PaperResult   // The paper's own only.
}

// pool is the deviation that cells over several seeds have in common.
type pool struct{ variance, freedom float64 }

// PaperNumbers are all that the paper prints.
func PaperNumbers() (*Numbers, error) {
	results, err := paperResults()
	if err != nil {
		return nil, err
	}
	return paperNumbers(results)
}

func paperNumbers(results []PaperResult) (*Numbers, error) {
	var facts []Fact
	labels := make(map[string]string)
	for _, r := range results {
		f := Fact{Table: r.Table, Data: r.Dataset, Method: r.Method, LR: r.LR, Metric: r.Metric, Score: r.Score()}
		if r.Direction != "" {
			f.Rule = r.Direction + "/" + r.Pair + "/" + r.Triplet
		}
		if r.Table == 5 {
			f.Score.N = 1 // Printed without a deviation.
			f.Times = r.BatchSize / paperBatch
		}
		facts = append(facts, f)
		labels[r.Dataset] = r.Dataset
	}
	n, err := newNumbers(facts, labels)
	if err != nil {
		return nil, err
	}
	n.printed = results
	return n, nil
}

// RunNumbers are those of runs. labels names the data set that stands for each of the paper's.
func RunNumbers(facts []Fact, labels map[string]string) (*Numbers, error) {
	n, err := newNumbers(facts, labels)
	if err != nil {
		return nil, err
	}
	n.measured, n.pooled = true, make(map[string]pool)
	for f, s := range n.facts {
		if s.N < 2 || f.Table > 5 { // Sweeps hold runs of rates that are far off.
			continue
		}
		p := n.pooled[f.Data+" "+f.Metric]
		p.variance += s.Std * s.Std * float64(s.N-1)
		p.freedom += float64(s.N - 1)
		n.pooled[f.Data+" "+f.Metric] = p
	}
	for k, p := range n.pooled {
		n.pooled[k] = pool{p.variance / p.freedom, p.freedom}
	}
	return n, nil
}

func newNumbers(facts []Fact, labels map[string]string) (*Numbers, error) {
	n := &Numbers{labels: labels, facts: make(map[Fact]Score)}
	for _, f := range facts {
		s := f.Score
		f.Score = Score{}
		if labels[f.Data] == "" {
			return nil, fmt.Errorf("claims: a number on %q, of which no one says what stands for it", f.Data)
		}
		if _, there := n.facts[f]; there {
			return nil, fmt.Errorf("claims: the number of table %d for %s %s %s %s lr %g is there twice", f.Table, f.Data, f.Method, f.Rule, f.Metric, f.LR)
		}
		n.facts[f] = s
		n.order = append(n.order, f)
	}
	return n, nil
}

// sets are the paper's data sets of those given that something stands for.
func (n *Numbers) sets(of ...string) []string {
	return slices.DeleteFunc(slices.Clone(of), func(s string) bool { return n.labels[s] == "" })
}

var (
	componentSets = []string{"CAR", "In-shop"}
	allSets       = []string{"CUB", "CAR", "SOP", "In-shop"}
)

// rates are those of a rule in a sweep, rising.
func (n *Numbers) rates(table int, data, rule string) []float64 {
	var out []float64
	for _, f := range n.order {
		if f.Table == table && f.Data == data && f.Rule == rule && f.Metric == "R@1" {
			out = append(out, f.LR)
		}
	}
	slices.Sort(out)
	return out
}

// term is a number with its weight in a sum.
type term struct {
	weight float64
	fact   Fact
}

// difference is a sum of weighted numbers with half the width of its 95 % interval, NaN if that is not known.
type difference struct {
	what        Markup
	value, half float64
}

func (d difference) String() string {
	if math.IsNaN(d.half) {
		return fmt.Sprintf("%s (%s)", signed(d.value), d.what)
	}
	return fmt.Sprintf("%s [%s,\u00a0%s] (%s)", signed(d.value), signed(d.value-d.half), signed(d.value+d.half), d.what)
}

func signed(v float64) string {
	return strings.ReplaceAll(strings.ReplaceAll(fmt.Sprintf("%+.1f", v), "-0.0", "+0.0"), "-", "−")
}

// comparisons are those that a claim speaks of.
type comparisons struct {
	n    *Numbers
	list []difference
	// missing counts those that lack a run, diverged those that have none that is finite.
	missing, diverged int
}

// above adds a comparison: how far one number lies above another.
func (c *comparisons) above(what Markup, a, b Fact) { c.sum(what, term{1, a}, term{-1, b}) }

// sum adds a comparison of more than two numbers by its sum of terms, with the interval of Welch and Satterthwaite. A
// measured number of a single seed takes the deviation that its data set's other cells have in common.
func (c *comparisons) sum(what Markup, terms ...term) {
	d := difference{what: what}
	variance, parts := 0.0, 0.0
	for _, t := range terms {
		if t.fact.Metric == "" {
			t.fact.Metric = "R@1"
		}
		s, there := c.n.facts[t.fact]
		if there && s.N == 0 && s.Diverged > 0 {
			c.diverged++
			return
		}
		if !there || s.N == 0 || math.IsNaN(s.Mean) {
			c.missing++
			return
		}
		d.value += t.weight * s.Mean
		v, freedom := s.Std*s.Std/float64(s.N), float64(s.N-1)
		if s.N < 2 {
			p, known := c.n.pooled[t.fact.Data+" "+t.fact.Metric]
			v, freedom = math.NaN(), 1
			if known {
				v, freedom = p.variance, p.freedom
			}
		}
		v *= t.weight * t.weight
		variance += v
		parts += v * v / freedom
	}
	switch {
	case math.IsNaN(variance):
		d.half = math.NaN()
	case variance > 0:
		d.half = distuv.StudentsT{Sigma: 1, Nu: variance * variance / parts}.Quantile(0.975) * math.Sqrt(variance)
	}
	c.list = append(c.list, d)
}

// answer is whether a comparison is as the claim has it.
type answer int

const (
	open answer = iota
	yes
	no
)

// slack is what rounding may do to a difference of printed numbers.
const slack = 1e-9

// isAbove: is the difference above a bound.
func (c *comparisons) isAbove(d difference, bound float64) answer {
	switch {
	case !c.n.measured && d.value > bound+slack, c.n.measured && d.value-d.half > bound:
		return yes
	case !c.n.measured, d.value+d.half < bound:
		return no
	}
	return open
}

func reversed(a answer) answer { return map[answer]answer{yes: no, no: yes, open: open}[a] }

// isWithin: is the difference at most so large, whatever its sign.
func (c *comparisons) isWithin(d difference, bound float64) answer {
	d.value = math.Abs(d.value)
	return reversed(c.isAbove(d, bound))
}

// all is the finding on a claim about all cells: that each is above a bound.
func (c *comparisons) all(bound float64) Finding {
	return c.judge(func(d difference) answer { return c.isAbove(d, bound) }, false)
}

// none is that on a claim that no cell is above a bound.
func (c *comparisons) none(bound float64) Finding {
	return c.judge(func(d difference) answer { return reversed(c.isAbove(d, bound)) }, false)
}

// most is that on a claim that more than half of the cells are above 0.
func (c *comparisons) most() Finding {
	return c.judge(func(d difference) answer { return c.isAbove(d, 0) }, true)
}

// within is that on a claim that no cell is further from 0 than a bound.
func (c *comparisons) within(bound float64) Finding {
	return c.judge(func(d difference) answer { return c.isWithin(d, bound) }, false)
}

func (c *comparisons) judge(is func(difference) answer, most bool) Finding {
	switch {
	case len(c.list) > 0:
	case c.missing > 0:
		return Finding{NotYetRun, fmt.Sprintf("%d cells.", c.missing)}
	case c.diverged > 0:
		return Finding{Uncheckable, fmt.Sprintf("All of %d cells diverged.", c.diverged)}
	default:
		return Finding{Uncheckable, "No such numbers."}
	}
	count := make(map[answer]int)
	for _, d := range c.list {
		count[is(d)]++
	}
	f := Finding{Verdict: Mixed}
	n := len(c.list)
	switch {
	case count[yes] == n, most && 2*count[yes] > n:
		f.Verdict = Holds
	case count[open] == n, most && 2*count[open] > n:
		f.Verdict = WithinNoise
	case count[yes] == 0 && !most, most && 2*count[no] >= n:
		f.Verdict = Fails
	}
	f.Evidence = c.words(count)
	return f
}

// words tell how many cells there are and the smallest and the largest.
func (c *comparisons) words(count map[answer]int) Markup {
	low := slices.MinFunc(c.list, func(a, b difference) int { return cmp.Compare(a.value, b.value) })
	high := slices.MaxFunc(c.list, func(a, b difference) int { return cmp.Compare(a.value, b.value) })
	cellsOf := "cells"
	if len(c.list) == 1 {
		cellsOf = "cell"
	}
	text := fmt.Sprintf("%d of %d %s", count[yes], len(c.list), cellsOf)
	if c.n.measured {
		text += " beyond noise"
		if count[no] > 0 {
			text += fmt.Sprintf(", %d to the contrary", count[no])
		}
	}
	if len(c.list) == 1 {
		text += ": " + low.String()
	} else {
		text += fmt.Sprintf("; lowest %s, highest %s", low, high)
	}
	if c.diverged > 0 {
		text += fmt.Sprintf("; %d more diverged", c.diverged)
	}
	if c.missing > 0 {
		text += fmt.Sprintf("; %d more not run yet", c.missing)
	}
	return text + "."
}

// best is the highest, or with sign −1 the lowest, of some numbers that are there.
func (n *Numbers) best(sign float64, of []Fact) (Fact, bool) {
	at, found := Fact{}, math.Inf(-1)
	for _, f := range of {
		if f.Metric == "" {
			f.Metric = "R@1"
		}
		if s, there := n.facts[f]; there && s.N > 0 && sign*s.Mean > found {
			at, found = f, sign*s.Mean
		}
	}
	return at, !math.IsInf(found, -1)
}

// spread adds the terms of how far some numbers lie apart, highest minus lowest, times a weight. Where one is missing
// there is no saying: it is then asked for and found missing.
func (n *Numbers) spread(weight float64, of []Fact) []term {
	for _, f := range of {
		if f.Metric == "" {
			f.Metric = "R@1"
		}
		if s, there := n.facts[f]; !there || s.N == 0 {
			return []term{{weight, f}}
		}
	}
	high, _ := n.best(1, of)
	low, _ := n.best(-1, of)
	return []term{{weight, high}, {-weight, low}}
}

// ClaimParts are the parts of the audit, in the paper's order, with their titles.
var ClaimParts = []struct{ Name, Title string }{
	{"overview", "Abstract, Introduction, Background"},
	{"framework", "§3: The gradient, by its formulas"},
	{"directions", "§5.1 and §5.4: Directions"},
	{"pairs", "§5.2: Pair weights"},
	{"triplets", "§5.3: Triplet weights"},
	{"best", "§6 and Table 5: The best combination"},
	{"conclusion", "§7 and §8: Limitations and conclusion"},
	{"appendix", "Appendix"},
}

// Audited is a claim with its findings.
type Audited struct {
	Claim
	Paper, Ours Finding
}

// Audit checks all claims on the paper's own numbers and on those of runs, which may be nil.
func Audit(paper, runs *Numbers) []Audited {
	all := Claims()
	out := make([]Audited, len(all))
	for i, c := range all {
		out[i] = Audited{Claim: c, Paper: c.check(paper), Ours: Finding{NotYetRun, ""}}
		if runs != nil {
			out[i].Ours = c.check(runs)
		}
	}
	return out
}

// AuditTable sets claims with their verdicts: those of the parts given, all if there are none.
func AuditTable(audited []Audited, provenance string, parts ...string) *Table {
	t := &Table{
		Columns: []Column{
			{Title: "Where", Left: true}, {Title: "The paper says", Left: true, Wrap: 38}, {Title: "Checked", Left: true, Wrap: 30},
			{Group: "on the paper's own numbers", Title: "Verdict"}, {Group: "on the paper's own numbers", Title: "Evidence", Left: true, Wrap: 36},
			{Group: "on our runs", Title: "Verdict"}, {Group: "on our runs", Title: "Evidence", Left: true, Wrap: 36},
		},
		Caption:    "The paper's claims, audited. Differences are in points of Recall@1 unless said otherwise.",
		Provenance: provenance,
		Notes: []Markup{"On the paper's numbers a cell counts by its printed means; on ours by its 95 % interval (Welch), so that holds and fails mean beyond the noise of the seeds, " +
			"which chance still passes once in twenty cells. Brackets are that interval, of the paper's printed deviations too. Single seeds take the deviation that their set's other cells have in common. " +
			"Where the best or the highest and lowest of several are compared, nothing is allowed for their being picked by the same numbers."},
	}
	verdict := func(f Finding) []Cell {
		return []Cell{{Text: string(f.Verdict), Background: f.Verdict.colour()}, Text(f.Evidence)}
	}
	for i, a := range audited {
		if len(parts) > 0 && !slices.Contains(parts, a.Part) {
			continue
		}
		row := []Cell{Text(a.Section), Text("“" + a.Quote + "”"), Text(a.Asks)}
		t.Rows = append(t.Rows, slices.Concat(row, verdict(a.Paper), verdict(a.Ours)))
		if i+1 < len(audited) && audited[i+1].Part != a.Part {
			t.Rules = append(t.Rules, len(t.Rows))
		}
	}
	return t
}

// AuditSummary counts the verdicts by part of the paper.
func AuditSummary(audited []Audited, provenance string) *Table {
	t := &Table{
		Columns:    []Column{{Title: "Part", Left: true}, {Title: "Claims"}},
		Caption:    "How many of the paper's claims stand how.",
		Provenance: provenance,
	}
	for _, group := range []string{"on the paper's own numbers", "on our runs"} {
		for _, v := range Verdicts() {
			if v == NotYetRun && group != "on our runs" || v == WithinNoise && group != "on our runs" {
				continue
			}
			title := string(v)
			if v == Uncheckable {
				title = "not checkable"
			}
			t.Columns = append(t.Columns, Column{Group: group, Title: title})
		}
	}
	line := func(title string, in func(Audited) bool) {
		claims := 0
		paper, ours := make(map[Verdict]int), make(map[Verdict]int)
		for _, a := range audited {
			if in(a) {
				claims++
				paper[a.Paper.Verdict]++
				ours[a.Ours.Verdict]++
			}
		}
		row := []Cell{Text(title), Text(fmt.Sprint(claims))}
		add := func(count map[Verdict]int, v Verdict) {
			cell := Cell{Text: fmt.Sprint(count[v])}
			if count[v] > 0 {
				cell.Background = v.colour()
			}
			row = append(row, cell)
		}
		for _, v := range Verdicts() {
			if v != NotYetRun && v != WithinNoise {
				add(paper, v)
			}
		}
		for _, v := range Verdicts() {
			add(ours, v)
		}
		t.Rows = append(t.Rows, row)
	}
	for _, p := range ClaimParts {
		line(p.Title, func(a Audited) bool { return a.Part == p.Name })
	}
	t.Rules = []int{len(t.Rows)}
	line("All", func(Audited) bool { return true })
	return t
}

// Contradicted lists the claims that do not hold on the paper's own numbers, as a table.
func Contradicted(audited []Audited) *Table {
	var own []Audited
	for _, a := range audited {
		if a.Paper.Verdict == Fails || a.Paper.Verdict == Mixed {
			own = append(own, a)
		}
	}
	t := AuditTable(own, "the paper's own numbers")
	t.Columns, t.Notes, t.Rules = t.Columns[:5], nil, nil
	for i := range t.Rows {
		t.Rows[i] = t.Rows[i][:5]
	}
	t.Caption = "What the paper's own numbers contradict, wholly or in part."
	return t
}

// sortedKeys are a map's keys in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

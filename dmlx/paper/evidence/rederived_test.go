package evidence

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestLedgerByAnotherRoute judges the 422 printed numbers once more, from the files of the bundled results and of the
// printed numbers, with means, t-tests and corrections of its own: nothing below calls what the ledger is made by.
func TestLedgerByAnotherRoute(t *testing.T) {
	t.Parallel()
	l, err := Of(t.Context(), request(t, "quick"))
	if err != nil {
		t.Fatal(err)
	}
	rows, powers := l.Entries, l.Powers
	all := rawRuns(t)
	numbers := rawNumbers(t)
	byTable := make(map[int][]*rawNumber)
	for _, n := range numbers {
		byTable[n.table] = append(byTable[n.table], n)
	}
	found := make(map[string]map[string]int) // By table and verdict.
	i := 0
	for _, table := range slices.Sorted(maps.Keys(byTable)) {
		of := byTable[table]
		for _, n := range of {
			n.lookUp(of, all)
		}
		judgeAgain(of, all)
		place := fmt.Sprintf("Table %d", table)
		found[place] = make(map[string]int)
		for _, n := range of {
			found[place][n.verdict]++
			r := rows[i]
			i++
			effect, _, _ := strings.Cut(strings.ReplaceAll(r.OurEffect, "−", "-"), " ")
			shown, err := strconv.ParseFloat(effect, 64)
			if r.Place != place || string(r.Verdict) != n.verdict || n.tested != (err == nil) ||
				n.tested && math.Abs(shown-n.ours) > 0.051 { // Of a value that ends on 5 rounding may go either way.
				t.Errorf("%s, %s: %s with %q in the ledger, %s with %.2f by the other route", r.Place, r.What, r.Verdict, effect,
					n.verdict, n.ours)
			}
		}
	}
	if i != 422 {
		t.Errorf("%d numbers, the paper prints 422", i)
	}
	// What another program, with other noise, expected to be reproduced if the paper were exactly true here.
	audited := map[string]float64{"Table 2": 3.8, "Table 3": 8.2, "Table 4": 0.2, "Table 5": 1.7, "Table 6": 6.8,
		"Table 8": 4.5}
	for _, p := range powers {
		if strings.HasPrefix(p.Preset, "photographs") {
			continue
		}
		if p.Found != found[p.Place]["reproduced"] {
			t.Errorf("%s: %d reproduced, %d by the other route", p.Place, p.Found, found[p.Place]["reproduced"])
		}
		if want, known := audited[p.Place]; known && math.Abs(p.Expected()-want) > 0.5+0.2*want {
			t.Errorf("%s: %.1f expected to be reproduced, %.1f by another program", p.Place, p.Expected(), want)
		}
	}
	clearGains(t, rows, all)
}

// clearGains counts the cells of one sentence again: "all pair weights provide a clear performance gain".
func clearGains(t *testing.T, rows []Entry, all []rawRun) {
	beyond := 0
	for _, data := range []string{"minicar", "minishop"} {
		for _, d := range []string{"euc", "cos"} {
			base := moments(recalls(all, func(r rawRun) bool { return r.full(data, d+"/con/con") }, "1"))
			for _, p := range []string{"euc", "lin", "lin-ms", "sig", "sig-ms"} {
				m := moments(recalls(all, func(r rawRun) bool { return r.full(data, d+"/"+p+"/con") }, "1"))
				if difference, p := welchAgain(m, base); difference > 0 && p <= 0.05 {
					beyond++
				}
			}
		}
	}
	i := slices.IndexFunc(rows, func(r Entry) bool { return strings.Contains(r.What, "all pair weights provide") })
	if want := fmt.Sprintf("%d of 20 cells beyond noise", beyond); i < 0 || !strings.HasPrefix(rows[i].OurEffect, want) {
		t.Errorf("%s by the other route: %+v", want, rows[i])
	}
}

// rawRun is what is read of a bundled result.
type rawRun struct {
	Spec struct {
		Data, Rule, Loss string
		LR               float64
		Epochs, HeldOut  int
		Classes          int `json:"classes_per_batch"`
		Held             int `json:"held_out"`
		Seed             int
	}
	Recall   map[string]float64
	HeldOut  map[string]float64 `json:"held_out_recall"`
	Diverged string
}

var (
	quickEpochs = map[string]int{"minicar": 24, "minishop": 20}
	baseClasses = map[string]int{"minicar": 8, "minishop": 16}
)

// plain reports whether a run is of a rule on all training classes, at a batch of so many times the smallest.
func (r rawRun) plain(data, rule string, times int) bool {
	return r.Spec.Data == data && r.Spec.Rule == rule && r.Spec.Loss == "" && r.Spec.Held == 0 &&
		r.Spec.Classes == times*baseClasses[data]
}

func (r rawRun) full(data, rule string) bool {
	return r.plain(data, rule, 1) && r.Spec.Epochs == 4*quickEpochs[data] && r.Spec.Seed <= 5
}

func (r rawRun) quick(data, rule string, times int) bool {
	return r.plain(data, rule, times) && r.Spec.Epochs <= quickEpochs[data] && r.Spec.Seed <= 3
}

func rawRuns(t *testing.T) (all []rawRun) {
	files, err := filepath.Glob("../../runs/bundled/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var list []rawRun
		if err := json.Unmarshal(raw, &list); err != nil {
			t.Fatal(err)
		}
		all = append(all, list...)
	}
	return all
}

// recalls returns Recall@k in percent of the runs that are taken, each seed once.
func recalls(all []rawRun, take func(rawRun) bool, k string) (out []float64) {
	seen := make(map[int]bool)
	for _, r := range all {
		if take(r) && !seen[r.Spec.Seed] && r.Diverged == "" {
			seen[r.Spec.Seed] = true
			out = append(out, 100*r.Recall[k])
		}
	}
	return out
}

// rawNumber is a printed number with what is found for it.
type rawNumber struct {
	table, times               int
	data, method, rule, metric string
	lr, mean, std              float64
	baseline                   *rawNumber

	mine, base     moment // Of our runs in the roles of the number and its baseline.
	theirs         float64
	papersBaseline *rawNumber // With a printed mean, for the comparison.
	pooled         bool
	verdict        string
	tested         bool
	ours           float64
}

// moment is a sample: its size, mean and variance.
type moment struct{ n, mean, variance float64 }

func moments(values []float64) moment {
	m := moment{n: float64(len(values))}
	for _, v := range values {
		m.mean += v / m.n
	}
	for _, v := range values {
		m.variance += (v - m.mean) * (v - m.mean) / max(m.n-1, 1)
	}
	return m
}

func rawNumbers(t *testing.T) (out []*rawNumber) {
	f, err := os.Open("../../scores/printed.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		field := func(name string) string { return line[slices.Index(lines[0], name)] }
		number := func(name string) float64 { v, _ := strconv.ParseFloat(field(name), 64); return v }
		n := &rawNumber{table: int(number("table")), data: field("data"), method: field("method"), metric: field("measure"),
			lr: number("lr"), mean: number("mean"), std: number("std"), times: int(number("batch")) / 128}
		if field("direction") != "" {
			n.rule = field("direction") + "/" + field("pair") + "/" + field("triplet")
		}
		out = append(out, n)
	}
	return out
}

// family returns the other rates of a number's rule in its sweep, in rising order.
func (n *rawNumber) family(of []*rawNumber) []*rawNumber {
	same := slices.DeleteFunc(slices.Clone(of), func(o *rawNumber) bool { return o.data != n.data || o.rule != n.rule })
	slices.SortFunc(same, func(a, b *rawNumber) int { return cmp.Compare(a.lr, b.lr) })
	return same
}

// lookUp finds the baseline and our runs of a number.
func (n *rawNumber) lookUp(of []*rawNumber, all []rawRun) {
	data, drawn := map[string]string{"CAR": "minicar", "In-shop": "minishop"}[n.data]
	if n.rule == "" || !drawn {
		n.verdict = "not run"
		return
	}
	part := strings.Split(n.rule, "/")
	base := map[int]string{2: "euc/con/con", 3: part[0] + "/con/con", 4: "cos/" + part[1] + "/con", 5: "cos/sig-ms/con",
		6: "euc/con/con", 7: part[0] + "/con/con", 8: "cos/" + part[1] + "/con"}[n.table]
	for _, o := range of {
		if o.data == n.data && o.rule == base && o.lr == n.lr && o.metric == n.metric {
			n.baseline = o
		}
	}
	n.papersBaseline = n.baseline
	k := strings.TrimPrefix(n.metric, "R@")
	switch {
	case n.table <= 4:
		n.mine = moments(recalls(all, func(r rawRun) bool { return r.full(data, n.rule) }, k))
		n.base = moments(recalls(all, func(r rawRun) bool { return r.full(data, base) }, k))
	case n.table == 5:
		rate := map[string]map[string]float64{"minicar": {"lin-ms": 0.75, "sig-ms": 0.12},
			"minishop": {"lin-ms": 2, "sig-ms": 0.4}}[data]
		n.mine = moments(recalls(all, func(r rawRun) bool {
			return r.quick(data, n.rule, n.times) && r.Spec.LR == rate[part[1]]
		}, k))
		n.base = moments(recalls(all, func(r rawRun) bool { return r.quick(data, base, 1) }, k))
	default:
		n.sweep(of, all, data, base)
	}
}

// sweep finds the runs of a sweep's number: at its rank of the rates, or at the best rates where the rates differ from
// the baseline's.
func (n *rawNumber) sweep(of []*rawNumber, all []rawRun, data, base string) {
	swept := func(rule string) (out []rawRun) {
		for _, r := range all {
			if r.Spec.Data == data && r.Spec.Rule == rule && r.Spec.Held == 4 && r.Spec.Seed == 1 && r.Spec.Loss == "" {
				out = append(out, r)
			}
		}
		slices.SortFunc(out, func(a, b rawRun) int { return cmp.Compare(a.Spec.LR, b.Spec.LR) })
		return slices.CompactFunc(out, func(a, b rawRun) bool { return a.Spec.LR == b.Spec.LR })
	}
	family := n.family(of)
	own, other := swept(n.rule), swept(base)
	at := slices.Index(family, n)
	mine, others := own[at], other[at]
	n.pooled = true
	if mine.Spec.LR != others.Spec.LR {
		best := slices.MaxFunc(family, func(a, b *rawNumber) int { return cmp.Compare(a.mean, b.mean) })
		if best != n {
			n.verdict = "different setting"
			return
		}
		held := func(a, b rawRun) int { return cmp.Compare(a.HeldOut["1"], b.HeldOut["1"]) }
		mine, others = slices.MaxFunc(own, held), slices.MaxFunc(other, held)
		n.papersBaseline = slices.MaxFunc(n.baseline.family(of), func(a, b *rawNumber) int {
			return cmp.Compare(a.mean, b.mean)
		})
	}
	n.mine, n.base = moments([]float64{100 * mine.Recall["1"]}), moments([]float64{100 * others.Recall["1"]})
}

// judgeAgain gives the numbers of a table their verdicts.
func judgeAgain(of []*rawNumber, all []rawRun) {
	type test struct {
		of          *rawNumber
		paper, ours float64
		// Errors and degrees of freedom.
		paperErr, paperFreedom, err, freedom float64
	}
	var tests []*test
	for _, n := range of {
		switch {
		case n.verdict != "":
			continue
		case n.baseline == n:
			n.verdict = "different setting"
			continue
		}
		n.tested, n.ours, n.theirs = true, n.mine.mean-n.base.mean, n.mean-n.papersBaseline.mean
		own := &test{of: n, paper: math.NaN()}
		if n.std > 0 {
			first := n.papersBaseline
			a, b := moment{5, n.mean, n.std * n.std}, moment{5, first.mean, first.std * first.std}
			_, own.paper = welchAgain(a, b)
			own.paperErr, own.paperFreedom = errorAgain(a, b)
		}
		if n.pooled {
			variance, freedom := noiseAgain(map[string]string{"CAR": "minicar", "In-shop": "minishop"}[n.data], all)
			own.err, own.freedom = math.Sqrt(2*variance), freedom
			own.ours = twoSided(n.ours/own.err, freedom)
		} else {
			own.err, own.freedom = errorAgain(n.mine, n.base)
			_, own.ours = welchAgain(n.mine, n.base)
		}
		tests = append(tests, own)
	}
	told := func(p func(*test) float64) map[*rawNumber]bool { // By Holm's steps: the smallest against 0.05/m, and so on.
		sorted := slices.DeleteFunc(slices.Clone(tests), func(t *test) bool { return math.IsNaN(p(t)) })
		slices.SortFunc(sorted, func(a, b *test) int { return cmp.Compare(p(a), p(b)) })
		out := make(map[*rawNumber]bool)
		for i, t := range sorted {
			if p(t)*float64(len(sorted)-i) > 0.05 {
				break
			}
			out[t.of] = true
		}
		return out
	}
	inPaper, inOurs := told(func(t *test) float64 { return t.paper }), told(func(t *test) float64 { return t.ours })
	for _, t := range tests {
		n := t.of
		if n.std == 0 {
			inPaper[n] = n.theirs != 0
		}
		within := func(difference, err, freedom float64) bool { // Two one-sided tests at 0.025, of a point.
			return err > 0 && math.Abs(difference) < 1 && twoSided((1-math.Abs(difference))/err, freedom)/2 <= 0.025
		}
		n.verdict = "undecided"
		switch {
		case inPaper[n] && inOurs[n] && n.theirs*n.ours > 0:
			n.verdict = "reproduced"
		case inPaper[n] && inOurs[n]:
			n.verdict = "contradicted"
		case !inPaper[n] && within(n.theirs, t.paperErr, t.paperFreedom) && within(n.ours, t.err, t.freedom):
			n.verdict = "no difference in either"
		}
	}
}

// noiseAgain pools the variance of the quick runs of Tables 2 to 5 on a data set, each rule once.
func noiseAgain(data string, all []rawRun) (variance, freedom float64) {
	var groups []moment
	add := func(rule string, times int, rate float64) {
		groups = append(groups, moments(recalls(all, func(r rawRun) bool {
			return r.quick(data, rule, times) && (rate == 0 || r.Spec.LR == rate)
		}, "1")))
	}
	rules := make(map[string]bool)
	for _, d := range []string{"euc", "cos", "euc-orth", "cos-orth"} {
		rules[d+"/con/con"] = true
	}
	for _, p := range []string{"con", "euc", "lin", "lin-ms", "sig", "sig-ms"} {
		rules["euc/"+p+"/con"], rules["cos/"+p+"/con"] = true, true
	}
	for _, w := range []string{"con", "cos", "cos+sc1", "cos+sc2", "cir", "cir+sc1", "cir+sc2"} {
		rules["cos/con/"+w], rules["cos/lin/"+w] = true, true
	}
	rules["cos-orth/sig-ms/con"], rules["cos-orth/lin-ms/cir"] = true, true
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		add(rule, 1, 0)
	}
	for times := 2; times <= 4; times++ {
		add("cos-orth/lin-ms/cir", times, map[string]float64{"minicar": 0.75, "minishop": 2}[data])
	}
	for _, g := range groups {
		variance, freedom = variance+(g.n-1)*g.variance, freedom+g.n-1
	}
	return variance / freedom, freedom
}

func errorAgain(a, b moment) (err, freedom float64) {
	va, vb := a.variance/a.n, b.variance/b.n
	return math.Sqrt(va + vb), (va + vb) * (va + vb) / (va*va/(a.n-1) + vb*vb/(b.n-1))
}

func welchAgain(a, b moment) (difference, p float64) {
	err, freedom := errorAgain(a, b)
	return a.mean - b.mean, twoSided((a.mean-b.mean)/err, freedom)
}

// twoSided returns the two-sided p-value of Student's t by integrating its density, in x = √ν tan θ, by Simpson's rule:
// the integrand is cos^(ν−1) θ.
func twoSided(t, freedom float64) float64 {
	const steps = 4000
	integral := func(from, to float64) float64 {
		h, sum := (to-from)/steps, 0.0
		for i := 0; i <= steps; i++ {
			weight := 2.0 + 2*float64(i%2)
			if i == 0 || i == steps {
				weight = 1
			}
			sum += weight * math.Pow(math.Cos(from+float64(i)*h), freedom-1)
		}
		return sum * h / 3
	}
	edge := math.Atan(math.Abs(t) / math.Sqrt(freedom))
	tail := integral(edge, math.Pi/2-1e-12)
	return tail / (tail + integral(0, edge))
}

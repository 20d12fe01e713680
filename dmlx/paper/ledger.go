package paper

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/paper/claims"
	"github.com/gradient-surgery/dml/dmlx/paper/formulas"
	"github.com/gradient-surgery/dml/dmlx/paper/ledger"
	"github.com/gradient-surgery/dml/dmlx/paper/verdicts"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// ledgerOf gives each number, figure and claim of the paper a verdict by the available runs. It trains none.
func ledgerOf(ctx context.Context, q report.Request, entries ...ledger.Filter) (*Report, error) {
	rows, powers, r, err := Ledger(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, f := range entries {
		if rows, err = f.Select(rows); err != nil {
			return nil, err
		}
	}
	if len(rows) > 0 {
		picture, err := ledger.Map(rows, r.Provenance)
		if err != nil {
			return nil, err
		}
		r.Parts = []report.Part{{Of: picture}}
	}
	r.Parts = append(r.Parts, []report.Part{{Name: "summary", Of: ledger.Summary(rows, r.Provenance)},
		{Name: "power", Of: ledger.PowerTable(powers, r.Provenance)},
		{Name: "rows", Of: ledger.Table(rows, r.Provenance)}, {Name: "settings", Of: ledger.Settings()}}...)
	r.Text, err = ledger.Text(rows, r.Provenance)
	return r, err
}

// Ledger returns a row for each printed number, figure and measurable claim of the paper, and a report of the runs
// that they were judged by. It reads the available runs of the request's preset and trains none. At the preset quick
// it takes those of [FullPreset] where they are complete, as [LedgerOf] does: longer runs are the better evidence.
// There, rows of their own follow for what the runs of [PhotographsPreset] have evidence of: no verdict mixes settings.
func Ledger(ctx context.Context, q report.Request) ([]ledger.Row, []ledger.Power, *Report, error) {
	rows, powers, r, err := LedgerOf(ctx, q, judgedBy(q)...)
	if err != nil || q.Preset.String() != "quick" {
		return rows, powers, r, err
	}
	q.Seeds = nil
	more, morePowers, photographed, err := LedgerOf(ctx, q, PhotographsPreset())
	if err != nil {
		return nil, nil, nil, err
	}
	rows = append(rows, slices.DeleteFunc(more, func(r ledger.Row) bool { return r.Setting != verdicts.Photographs })...)
	powers = append(powers, slices.DeleteFunc(morePowers, func(p ledger.Power) bool { return p.Compared == 0 })...)
	if r.Results = append(r.Results, photographed.Results...); len(photographed.Results) > 0 {
		r.Runs += photographed.Runs
		r.Provenance += "; " + photographed.Provenance
	}
	return rows, powers, r, nil
}

// LedgerOf is [Ledger] by the runs of one or more presets. No verdict mixes presets: a table is judged by the last
// preset that has all runs of all its rows, since its numbers are compared with its first row and corrected together;
// a claim is judged by the last preset that has all runs of it; and a figure by the verdicts of its claims. What no
// preset has all of is judged by what the first one has. Each row says its preset. Beside the rows it returns what the
// tests of Tables 2 to 8 can find.
func LedgerOf(ctx context.Context, q report.Request, presets ...presets.Preset) ([]ledger.Row, []ledger.Power, *Report,
	error) {
	e, err := gather(ctx, q, presets)
	if err != nil {
		return nil, nil, nil, err
	}
	of := make([]ledger.Row, len(e.audited))
	for i, a := range e.audited {
		p := e.of[i]
		of[i] = ledger.OfClaim(a, p.Name, settingOf(p), "dmlx reproduce claims "+presetFlags(p))
	}
	shown, err := ledgerFigures(e.audited, of)
	if err != nil {
		return nil, nil, nil, err
	}
	e.report.Title = ""
	var rows []ledger.Row
	var powers []ledger.Power
	for _, numbers := range e.tables {
		rows, powers = append(rows, ledger.Judge(numbers)...), append(powers, ledger.Assess(numbers))
	}
	return slices.Concat(rows, shown, of), powers, e.report, nil
}

// judgedBy returns the presets whose runs judge at a request's preset.
func judgedBy(q report.Request) []presets.Preset {
	if q.Preset.String() == "quick" {
		return []presets.Preset{q.Preset, FullPreset()}
	}
	return []presets.Preset{q.Preset}
}

// evidence is what claims and tables are judged by.
type evidence struct {
	audited []claims.Audited
	of      []presets.Preset // Of the runs of each claim.
	tables  [][]*ledger.Number
	report  *Report
}

// gather returns the evidence of one or more presets, as [LedgerOf] takes it.
func gather(ctx context.Context, q report.Request, ps []presets.Preset) (*evidence, error) {
	var e evidence
	for i, p := range ps {
		q.Preset = p
		all, err := ourTables(ctx, q)
		if err != nil {
			return nil, err
		}
		its, report, err := audit(ctx, q, all)
		if err != nil {
			return nil, err
		}
		numbers, err := tableNumbers(p, all)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			e = evidence{its, slices.Repeat([]presets.Preset{p}, len(its)), numbers, report}
			continue
		}
		for k, a := range its {
			if a.Ours.Complete() {
				a.Ours.Evidence += fmt.Sprintf(" At `%s`.", p.Name)
				e.audited[k], e.of[k] = a, p
			}
		}
		var taken []*Table
		for k, t := range all {
			if t.Missing == 0 && t.Runs > 0 {
				e.tables[k], taken = numbers[k], append(taken, t)
				e.report.add(t)
			}
		}
		if taken != nil {
			e.report.Provenance += "; " + Together(taken...).Provenance()
		}
	}
	return &e, nil
}

// tableNumbers returns the printed numbers of Tables 2 to 8 with the runs in their role, of our tables at a preset.
func tableNumbers(p presets.Preset, tables []*Table) ([][]*ledger.Number, error) {
	var all [][]*ledger.Number
	seen := make(map[string]bool)
	groups := make(map[string][]stats.Mean) // Of the cells with several seeds, by data set and metric.
	for i, t := range tables {
		numbers, err := ledgerNumbers(p, t, 2+i)
		if err != nil {
			return nil, err
		}
		all = append(all, numbers)
		for _, n := range numbers {
			key := n.Data + n.Printed.Measure
			cell := key + strings.Join(n.Runs, " ") // Tables share cells.
			if 2+i <= 5 && !seen[cell] {            // Sweeps hold runs at rates that are far off.
				seen[cell] = true
				groups[key] = append(groups[key], n.Ours)
			}
		}
	}
	for _, numbers := range all {
		for _, n := range numbers {
			n.Noise = stats.PoolNoise(groups[n.Data+n.Printed.Measure])
		}
	}
	return all, nil
}

// settingOf returns what the runs of a preset are evidence of.
func settingOf(p presets.Preset) verdicts.Setting {
	switch {
	case p.Like(paperPreset):
		return verdicts.PapersOwn
	case slices.Contains(datasets.Names(), p.FineGrained) && slices.Contains(datasets.Names(), p.CoarseGrained):
		return verdicts.Drawn
	}
	return verdicts.Photographs
}

// presetFlags returns what asks on the command line for a preset, with the seeds that full.md has, or with the images
// and the network of photographs.md.
func presetFlags(p presets.Preset) string {
	if p.Name == "full" && len(p.Seeds) == fullSeeds {
		return fmt.Sprintf("--preset full --seeds 1-%d", fullSeeds)
	}
	if p.FineGrained == photographs {
		return photographsFlags
	}
	return "--preset " + p.Name
}

// cellKey finds the cell of a printed number: row is the rule, or the method of Table 5 with its batch, and rate the
// rank of the learning rate among those of the rule, from the highest.
type cellKey struct {
	data, row string
	rate      int
}

// ledgerNumbers returns the printed numbers of a table with the runs in their role, of our table at a preset.
func ledgerNumbers(preset presets.Preset, t *Table, table int) ([]*ledger.Number, error) {
	printed := scores.Printed().Select(scores.Row{Table: table})
	ours := make(scores.Table, len(t.Cells))
	for i, c := range t.Cells {
		ours[i] = scores.Row{Table: table, Data: c.PaperData, Rule: c.Rule, Method: c.Method, Times: c.Times, LR: c.LR}
	}
	cells := make(map[cellKey]*Cell)
	for i := range t.Cells {
		cells[keyOf(ours[i], ours)] = &t.Cells[i]
	}
	command := fmt.Sprintf("dmlx reproduce table%d %s", table, presetFlags(preset))
	numbers := make([]*ledger.Number, len(printed))
	of := make(map[scores.Row]*ledger.Number)
	heldOut := make(map[*ledger.Number]float64)
	for i, p := range printed {
		n := &ledger.Number{Printed: p, Command: command, Preset: preset.Name, Setting: settingOf(preset)}
		numbers[i] = n
		of[baselineKey(p)] = n
		switch c := cells[keyOf(p, printed)]; {
		case p.Direction == "":
			n.Command, n.Missing = "", "another paper's number, which takes that paper's own program"
		case c == nil && table == 5:
			n.Command = "dmlx reproduce table5 --preset " + paperPreset
			n.Missing = fmt.Sprintf("takes %s and ResNet-50 on a GPU: no drawn data set stands for it", p.Data)
		case c == nil:
			n.Missing = "this preset has no runs of it"
		default:
			n.Data, n.LR = c.Data, c.LR
			var k int
			if _, err := fmt.Sscanf(p.Measure, "R@%d", &k); err != nil {
				return nil, fmt.Errorf("table %d: metric %q, want R@ and a number", table, p.Measure)
			}
			n.Ours, heldOut[n] = c.Recall(k).Times(100), c.HeldOutRecall(k).Mean
			for _, run := range c.Runs {
				n.Runs = append(n.Runs, run.Hash)
			}
		}
	}
	for _, n := range numbers {
		if b := of[baselineKey(baseline(n.Printed))]; b != n && n.Missing == "" {
			n.Baseline = b
		}
	}
	if table > 5 && settingOf(preset) != verdicts.PapersOwn {
		atBest(numbers, heldOut)
	}
	return numbers, nil
}

// atBest compares the rules of a sweep whose learning rates are another grid than their baseline's. Only the number at
// the paper's best rate, by its test recall, is compared, with the same of the baseline. Our runs are those at the best
// rate by the recall on held-out classes.
func atBest(numbers []*ledger.Number, heldOut map[*ledger.Number]float64) {
	best := func(of scores.Row) (printed, ours *ledger.Number) {
		for _, n := range numbers {
			if !sameButRate(n.Printed, of) {
				continue
			}
			if printed == nil || n.Printed.Value.Mean > printed.Printed.Value.Mean {
				printed = n
			}
			if h := heldOut[n]; h > 0 && (ours == nil || h > heldOut[ours]) { // Not if it is NaN.
				ours = n
			}
		}
		return printed, ours
	}
	together := make(map[*ledger.Number]*ledger.Number) // By the number at the paper's best rate.
	at := func(of scores.Row) *ledger.Number {
		printed, ours := best(of)
		if together[printed] == nil {
			n := *printed
			if n.AtBest = true; ours != nil {
				n.Ours, n.LR, n.Runs = ours.Ours, ours.LR, ours.Runs
			} else {
				n.Apart = "it has no recall on held-out classes to choose a rate by"
			}
			together[printed] = &n
		}
		return together[printed]
	}
	compared := make(map[*ledger.Number]ledger.Number)
	for _, n := range numbers {
		b := n.Baseline
		if b == nil || n.Ours.N == 0 || b.Ours.N == 0 || n.LR == b.LR {
			continue
		}
		own := *n
		if printed, _ := best(n.Printed); printed == n {
			own = *at(n.Printed)
			own.Baseline = at(b.Printed)
		} else {
			own.Apart = "its rates are another grid than those of the first row: it is compared at its best one"
		}
		compared[n] = own
	}
	for n, own := range compared {
		*n = own
	}
}

// keyOf returns the key of a number or cell among all of its table. A preset with fewer rates than the paper lacks its
// lowest.
func keyOf(r scores.Row, all scores.Table) cellKey {
	key := cellKey{data: r.Data, row: r.Rule}
	switch {
	case r.Table == 5:
		key.row = fmt.Sprintf("%s×%d", r.Method, r.Times)
	case r.Table > 5:
		key.rate = len(all.Where(func(other scores.Row) bool { return sameButRate(other, r) && other.LR > r.LR }))
	}
	return key
}

// sameButRate reports whether two numbers of a sweep differ at most in their learning rate.
func sameButRate(a, b scores.Row) bool {
	return a.Data == b.Data && a.Rule == b.Rule
}

// baselineKey reduces a printed number to what identifies it in its table.
func baselineKey(p scores.Row) scores.Row {
	return scores.Row{Table: p.Table, Data: p.Data, Method: p.Method, Direction: p.Direction, Pair: p.Pair,
		Triplet: p.Triplet, Batch: p.Batch, LR: p.LR, Measure: p.Measure}
}

// baseline returns the number that a printed one is compared to: in Tables 2 and 6 that of the direction euc, in 3 and
// 7 that of constant pair weights, in 4 and 8 that of constant triplet weights, and in Table 5 that of MS*.
func baseline(p scores.Row) scores.Row {
	switch p.Table {
	case 2, 6:
		p.Direction = dmlx.DirectionEuc.Name
	case 3, 7:
		p.Pair = dmlx.PairCon.Name
	case 4, 8:
		p.Triplet = dmlx.TripletCon.Name
	case 5:
		ms := table5Rules[0]
		parts := strings.Split(ms.rule, "/")
		p.Method, p.Direction, p.Pair, p.Triplet, p.Batch = ms.method, parts[0], parts[1], parts[2], scores.PrintedBatch
	}
	return p
}

// ledgerFigures returns a row for each figure. Figures 1 and 2 are computed again; the others have the verdict of the
// claims that the paper reads off them.
func ledgerFigures(audited []claims.Audited, of []ledger.Row) ([]ledger.Row, error) {
	b, err := backend.Go()
	if err != nil {
		return nil, err
	}
	_, step, err := formulas.Figure1()
	if err != nil {
		return nil, err
	}
	_, lengths, err := formulas.ProjectionErrors(b, 64)
	if err != nil {
		return nil, err
	}
	rows := []ledger.Row{ledger.Computed("Figure 1", "A loss's gradient at the embeddings is direction × pair weight × "+
		"triplet weight", step, "largest difference between autodiff of the loss and the rule, relative to the largest entry",
		"dmlx reproduce figure1"),
		ledger.Computed("Figure 2", "The lengths of the directions' gradients along and across a pair", lengths,
			"largest difference between the op's gradients and the closed forms", "dmlx reproduce appendix")}
	for _, f := range []struct {
		number  string
		what    string
		command string
	}{
		{"3", "Triplet weights and masks over the triplet diagram", ""},
		{"4", "Nearest-positive and nearest-negative similarities after training", "dmlx reproduce figure4"},
		{"5", "Triplets under the Euclidean and the cosine direction", "dmlx reproduce figure5"},
		{"6", "sig-ms and lin-ms with relative similarity", "dmlx reproduce appendix"},
	} {
		var own []ledger.Row
		for i, a := range audited {
			if strings.Contains(a.Section, "Fig. "+f.number) {
				own = append(own, of[i])
			}
		}
		row, err := ledger.OfFigure("Figure "+f.number, f.what, own)
		if err != nil {
			return nil, err
		}
		row.Command = f.command
		rows = append(rows, row)
	}
	return rows, nil
}

package paper

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// fullSeeds is the number of seeds that full.md fixed for the preset full.
const fullSeeds = 5

// FullPreset returns the preset full with the seeds that full.md fixed before the first run.
func FullPreset() presets.Preset {
	p, err := presets.Parse("full")
	if err != nil {
		panic(err) // It is one of the package's own.
	}
	p.Seeds = p.Seeds[:fullSeeds]
	return p
}

// full shows the request's preset beside full, for Tables 2 to 4. It trains no runs; full.md has the command that does.
func full(ctx context.Context, q report.Request) (*Report, error) {
	q.CachedOnly = true
	short, long := q, q
	if short.Preset.Like("full") {
		var err error
		if short.Preset, err = presets.Parse("quick"); err != nil {
			return nil, err
		}
	}
	long.Preset = FullPreset()
	long.Preset.FineGrained, long.Preset.CoarseGrained = short.Preset.FineGrained, short.Preset.CoarseGrained
	r := &Report{}
	var orders []Order
	at := []*Table{{}, {}} // All cells of a preset.
	for number := 2; number <= 4; number++ {
		s, err := ParseStudy(fmt.Sprintf("table%d", number))
		if err != nil {
			return nil, err
		}
		tables := make([]*Table, len(at))
		for i, q := range []report.Request{short, long} {
			if tables[i], err = Reproduce(ctx, q.Open, q.Store, s, q.Preset, q.Options); err != nil {
				return nil, err
			}
			r.add(tables[i])
			at[i].join(tables[i])
		}
		columns, err := Orders(number, tables...)
		if err != nil {
			return nil, err
		}
		orders = append(orders, columns...)
	}
	r.Provenance = Together(at...).Provenance()
	agreements, err := AgreementTable(orders, r.Provenance)
	if err != nil {
		return nil, err
	}
	var pairs []scores.Group
	for _, o := range orders {
		if o.Table == 3 {
			pairs = append(pairs, o.Scores)
		}
	}
	picture, err := figures.Lengths(r.Provenance, pairs...)
	if err != nil {
		return nil, err
	}
	r.Parts = []report.Part{{Of: OrderTable(orders, r.Provenance)}, {Name: "orders", Of: agreements},
		{Name: "leads", Of: LeadTable(orders, r.Provenance)},
		{Name: "cost", Of: CostTable(at...)},
		{Name: "picture", Of: picture}}
	return r, nil
}

// join adds the cells and counts of another table, of the same preset or another.
func (t *Table) join(other *Table) {
	names := strings.Split(t.Preset, " and ")
	if t.Preset == "" {
		names = nil
	}
	t.Preset = strings.Join(runs.AddNew(names, other.Preset), " and ")
	t.Cells = append(t.Cells, other.Cells...)
	t.Runs, t.Ran, t.Missing = t.Runs+other.Runs, t.Ran+other.Ran, t.Missing+other.Missing
}

// Together returns the cells of several tables as one, for what is told about all their runs.
func Together(tables ...*Table) *Table {
	out := new(Table)
	for _, t := range tables {
		out.join(t)
	}
	return out
}

// Results returns the runs of the table's cells, each once.
func (t *Table) Results() []*runs.Result {
	seen := make(map[string]bool)
	var out []*runs.Result
	for _, c := range t.Cells {
		for _, r := range c.Runs {
			if !seen[r.Hash] {
				seen[r.Hash] = true
				out = append(out, r)
			}
		}
	}
	return out
}

// Order is a column of one of the paper's Tables 2 to 4: rules on a data set that differ in one part, which the paper
// puts in an order.
type Order struct {
	Table int // Of the paper.
	// Scores are ours. Their key names the column: the data set, and the part that the table's other column has otherwise.
	Scores        scores.Group
	*scores.Pivot              // Of Scores, by rule and preset.
	Paper         []stats.Mean // Of the rules, in percent; NaN where the paper has none.
	part          component
}

// Orders returns the columns of one of the paper's Tables 2 to 4, in the order of the cells, by our tables, one for
// each preset. It returns an error for another table of the paper, for a cell that is no rule, for two cells of one
// rule at one preset, and for tables of different data sets.
func Orders(number int, at ...*Table) ([]Order, error) {
	part, err := componentOf(number)
	if err != nil {
		return nil, err
	}
	var out []Order
	sets := Together(at...).Sets()
	for _, set := range sets {
		columns := set.Rows.Group(func(r scores.Row) string {
			if part.columns == "" {
				return r.Data
			}
			return r.Data + ", " + figures.PartLabel(part.columns, part.columns.Of(r))
		})
		for _, column := range columns {
			o := Order{Table: number, Scores: column, part: part}
			if o.Pivot, err = column.Rows.Pivot(scores.Rule.Of, scores.Preset.Of); err != nil {
				return nil, fmt.Errorf("orders: %w", err)
			}
			if first := sets[0].Rows.Values(scores.Preset.Of); !slices.Equal(o.Columns, first) {
				return nil, fmt.Errorf("orders: %s is at %s, and %s at %s: want the same", sets[0].Key,
					strings.Join(first, " and "), column.Key, strings.Join(o.Columns, " and "))
			}
			for _, rule := range o.Rows {
				if ruleOf(rule).Direction == "" {
					return nil, fmt.Errorf("orders: %q is no rule", rule)
				}
				o.Paper = append(o.Paper, printed(number, set.Rows[0].Role, rule))
			}
			out = append(out, o)
		}
	}
	return out, nil
}

// means returns our means of the rules at each preset, and then the paper's.
func (o Order) means() (out [][]stats.Mean) {
	for _, preset := range o.Columns {
		out = append(out, o.Means(preset, o.Rows))
	}
	return append(out, o.Paper)
}

// label names one of the rules by the part in which they differ.
func (o Order) label(rule string) figures.Markup {
	return figures.PartLabel(o.part.rows, o.part.rows.Of(ruleOf(rule)))
}

// Best returns the place of the rule that the paper has highest among those after the first, to which it compares the
// others. No run of ours has a part in that choice. It is 0 if the paper has none of them.
func (o Order) Best() int {
	best := 0
	for i := 1; i < len(o.Paper); i++ {
		if !math.IsNaN(o.Paper[i].Mean) && (best == 0 || o.Paper[i].Mean > o.Paper[best].Mean) {
			best = i
		}
	}
	return best
}

// OrderTable returns the means of columns at each preset beside the paper's. Each is shaded by itself.
func OrderTable(orders []Order, provenance string) *figures.Table {
	t := orderTable("Recall@1 in percent, mean ± standard deviation over seeds.", "Rule", "", orders, provenance)
	t.Columns = append(t.Columns, figures.Column{Title: "the paper's"})
	for _, o := range orders {
		first := len(t.Rows)
		for i, rule := range o.Rows {
			row := figures.Row(o.Table, o.Scores.Key, o.label(rule))
			for _, means := range o.means() {
				row = append(row, figures.Scored(means[i]))
			}
			t.Rows = append(t.Rows, row)
		}
		for column := 3; column < len(t.Columns); column++ {
			var cells []*figures.Cell
			for _, row := range t.Rows[first:] {
				cells = append(cells, &row[column])
			}
			figures.Shade(cells...)
		}
		t.Rules = append(t.Rules, len(t.Rows))
	}
	return t
}

// AgreementTable returns the rank correlations of columns: the order at each preset against the paper's, and at the
// first preset against that at the last.
func AgreementTable(orders []Order, provenance string) (*figures.Table, error) {
	t := orderTable("Spearman's rank correlation ρ of the rules of a column, with its 95 % interval.", "rules",
		" against the paper", orders, provenance)
	if len(orders) > 0 && len(orders[0].Columns) > 1 {
		p := orders[0].Columns
		t.Columns = append(t.Columns, figures.Column{Title: p[0] + " against " + p[len(p)-1]})
	}
	t.Notes = []figures.Markup{figures.RankNote}
	for _, o := range orders {
		lists := o.means() // The paper's last, in whose place is the first preset against the last.
		last := len(lists) - 1
		against := slices.Repeat([][]stats.Mean{o.Paper}, len(lists))
		if lists[last], against[last] = lists[0], lists[last-1]; last == 1 {
			lists = lists[:1]
		}
		row := figures.Row(o.Table, o.Scores.Key, len(o.Rows))
		for i := range lists {
			a, err := stats.CompareRanks(lists[i], against[i])
			if err != nil {
				return nil, err
			}
			text := "–"
			if a.N == len(o.Rows) { // The order of some of the rules would be that of another column.
				text = strings.TrimPrefix(strings.Replace(a.String(), fmt.Sprintf(", n = %d", a.N), "", 1), "ρ = ")
			}
			row = append(row, figures.Text(text))
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

// LeadTable returns how far the rule of [Order.Best] is ahead of the first of its column, in points of Recall@1, by
// Welch's t: at each preset and in the paper.
func LeadTable(orders []Order, provenance string) *figures.Table {
	t := orderTable("The paper's best rule of a column less the column's first rule, in points of Recall@1.",
		"Rule less first", "", orders, provenance)
	t.Columns = append(t.Columns, figures.Column{Title: "the paper's"})
	t.Notes = []figures.Markup{"In brackets: 95 % by Welch's t over seeds. The rule is chosen by the paper's means, not " +
		"by ours, so that choosing it adds nothing to our difference."}
	for _, o := range orders {
		best := o.Best()
		row := figures.Row(o.Table, o.Scores.Key, o.label(o.Rows[best])+" − "+o.label(o.Rows[0]))
		for _, means := range o.means() {
			test := stats.Welch(means[best], means[0])
			if best == 0 || math.IsNaN(test.Difference.Value) {
				row = append(row, figures.Text("–"))
				continue
			}
			row = append(row, figures.Tested(test, test.Difference.String()))
		}
		t.Rows = append(t.Rows, row)
	}
	t.MarkSignificant()
	return t
}

// orderTable returns a table without rows, whose columns name the paper's table and its column, then something of a
// rule, and then the presets with a text after each.
func orderTable(caption, third, after figures.Markup, orders []Order, provenance string) *figures.Table {
	t := &figures.Table{Caption: caption, Provenance: provenance, Columns: []figures.Column{
		{Title: "Table", Merged: true}, {Title: "Column", Left: true, Merged: true}, {Title: third, Left: true}}}
	if len(orders) > 0 {
		for _, p := range orders[0].Columns {
			t.Columns = append(t.Columns, figures.Column{Title: p + after})
		}
	}
	return t
}

// CostTable returns what the runs of tables cost, a row for each: runs, hours, dates, machines and commits, as the runs
// recorded them.
func CostTable(at ...*Table) *figures.Table {
	t := &figures.Table{Caption: "What the runs cost, by their own records.",
		Columns: []figures.Column{{Title: "Preset", Left: true}, {Title: "runs"}, {Title: "steps of a run"},
			{Title: "hours in all"}, {Title: "median seconds of a run"},
			{Title: "backend, machine, dates", Left: true, Wrap: 40},
			{Title: "commit", Left: true}}}
	for _, table := range at {
		results := table.Results()
		var seconds []float64
		var steps, commits []string
		total := 0.0
		for _, r := range results {
			total += r.Seconds
			seconds = append(seconds, r.Seconds)
			steps, commits = runs.AddNew(steps, fmt.Sprint(r.Spec.Steps())), runs.AddNew(commits, r.Version)
		}
		slices.Sort(seconds)
		median, provenance := "–", "–"
		if len(seconds) > 0 {
			median, provenance = fmt.Sprintf("%.0f", seconds[len(seconds)/2]), runs.Provenance(results)
		}
		count := fmt.Sprint(len(results))
		if table.Missing > 0 {
			count += fmt.Sprintf("; %d missing", table.Missing)
		}
		t.Rows = append(t.Rows, figures.Row(table.Preset, count, strings.Join(steps, ", "), fmt.Sprintf("%.1f", total/3600),
			median, provenance, strings.Join(commits, ", ")))
	}
	t.Notes = []figures.Markup{"Seconds are those of training and evaluation while the machine may have done other " +
		"work, so they compare no presets and no machines. (devel) is a program that recorded no commit."}
	return t
}

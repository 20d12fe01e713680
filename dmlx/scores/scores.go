// Package scores has the one form of a result: a table whose rows are a measure of one run, or a number that the paper
// prints. Tables, figures and claims are selections, means, differences and pivots of it:
//
//	recall := rows.Select(scores.Row{Data: "minicar", Measure: "R@1"})
//	cos := recall.Select(scores.Row{Rule: "cos/con/con"}).Mean() // Over seeds.
//	printed := scores.Printed().Select(scores.Row{Table: 2, Data: "CAR", Direction: "cos"}).Mean()
//	all, err := recall.Pivot(scores.Pair.Of, scores.Direction.Of)
package scores

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/formula"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// Whose a score is.
const (
	Ours  = "ours"  // Of a run of this program.
	Paper = "paper" // Printed in the paper.
)

// The settings of the evidence, which no count mixes.
const (
	Drawn       = "drawn"       // Images that the program draws.
	Photographs = "photographs" // Photographs, at a smaller scale than the paper's.
	PapersOwn   = "paper"       // The paper's data sets, networks and image size.
)

// percent is the unit of the values.
const percent = 100

// Row is one score: a measure of a run, or a number that the paper prints. What does not apply is zero.
type Row struct {
	Whose string // [Ours] or [Paper].
	// Table is the paper's table that prints the number, or whose run it is, and Line the line of a printed number.
	Table, Line int
	// Data is the data set, and Role the paper's data set in the same role, "" without one.
	Data, Role string
	Setting    string // [Drawn], [Photographs] or [PapersOwn].
	Preset     string
	// Protocol says what the run was trained and measured on where that is not all training classes and the test classes.
	Protocol string
	Method   string // Of Table 5, or a loss whose parts are exchanged.
	// Rule is the objective: a rule as "cos/lin/cir?tau=2", or a loss as "loss ms"; "" for numbers from the literature.
	// Direction, Pair, Triplet (with its mask) and Options are the parts of a rule.
	Rule, Direction, Pair, Triplet, Options string
	Exchange                                string // The part of a loss that is exchanged: "pair=lin-ms".
	// Own marks a rule or loss of the user's own in a table of the paper, and Label is its name there, if it has one.
	Own     bool
	Label   string
	Network string
	Dim     int // Of the embedding.
	Batch   int // Images.
	Times   int // The batch or the length as a multiple of the table's smallest, where a table varies it.
	Epochs  int
	Steps   int // Of all epochs.
	LR      float64
	Seed    uint64
	Run     string // The hash of the run.
	Measure string // R@1, MAP@R, …
	// Value is in percent: of one run, or as printed, over the number of runs that its deviation is over. A run that
	// diverged counts as such. A run that is planned and not trained has a mean of NaN over no runs.
	Value stats.Mean
	Bold  bool // As printed.

	fraction float64 // Value as the run has it: means are over these, and rounded once.
}

// SetMeasure sets a measure of a run that did not diverge, which is a fraction of images.
func (r *Row) SetMeasure(measure string, fraction float64) {
	r.Measure, r.Value, r.fraction = measure, stats.Mean{Mean: percent * fraction, N: 1}, fraction
}

// SetRule sets the objective, and the parts of a rule from its name, direction/pair/triplet with options behind it.
func (r *Row) SetRule(objective string) {
	r.Rule, r.Direction, r.Pair, r.Triplet, r.Options = objective, "", "", "", ""
	name, options, _ := strings.Cut(objective, "?")
	if parts := formula.Split(name, "/"); len(parts) == 3 {
		r.Direction, r.Pair, r.Triplet, r.Options = parts[0], parts[1], parts[2], options
	}
}

// Missing is the value of a run that has not been trained.
func Missing() stats.Mean { return stats.Mean{Mean: math.NaN()} }

// Table is a list of scores.
type Table []Row

// Where returns the rows for which keep is true.
func (t Table) Where(keep func(Row) bool) Table {
	var out Table
	for _, r := range t {
		if keep(r) {
			out = append(out, r)
		}
	}
	return out
}

// Select returns the rows that have all nonzero fields of a key but its Value.
func (t Table) Select(key Row) (out Table) {
	key.Value = stats.Mean{}
	of := reflect.ValueOf(key)
	want := slices.DeleteFunc(slices.Clone(fields), func(f field) bool { return f.text(&key) == "" })
	for i := range t {
		row := reflect.ValueOf(&t[i]).Elem()
		differs := func(f field) bool { return !row.FieldByIndex(f.index).Equal(of.FieldByIndex(f.index)) }
		if !slices.ContainsFunc(want, differs) {
			out = append(out, t[i])
		}
	}
	return out
}

// Mean returns the mean over the runs of all rows. That of a single row is its own. Without a run it is NaN.
func (t Table) Mean() stats.Mean {
	if len(t) == 1 {
		return t[0].Value
	}
	var values []float64
	diverged := 0
	for _, r := range t {
		values = append(values, cmp.Or(r.fraction, r.Value.Mean/percent))
		diverged += r.Value.Diverged
	}
	m := stats.MeanOf(values).Times(percent)
	m.Diverged = diverged
	return m
}

// Difference returns how far the mean of a is above that of b, by Welch's t over their runs.
func Difference(a, b Table) stats.Test { return stats.Welch(a.Mean(), b.Mean()) }

// Values returns the different values of a column, in the order of the rows.
func (t Table) Values(of func(Row) string) []string {
	return slice.AddNew(nil, slice.Map(t, of)...)
}

// Group is the rows with one value of a column.
type Group struct {
	Key  string
	Rows Table
}

// Beside returns the paper's data set in the role of the group's, "" without one. Two of them are an error, and so is a
// group without rows.
func (g Group) Beside() (string, error) {
	roles := g.Rows.Values(Role.Of)
	if len(roles) == 0 {
		return "", fmt.Errorf("%q has no scores: want at least one", g.Key)
	} else if len(roles) > 1 {
		return "", fmt.Errorf("%s stands beside %q and beside %q: want one of the paper's data sets", g.Key, roles[0],
			roles[1])
	}
	return roles[0], nil
}

// Group splits the rows by a column, in the order of the rows.
func (t Table) Group(by func(Row) string) []Group {
	var out []Group
	for _, key := range t.Values(by) {
		out = append(out, Group{key, t.Where(func(r Row) bool { return by(r) == key })})
	}
	return out
}

// Pivot is a table laid out by two columns.
type Pivot struct {
	Rows, Columns []string  // In the order of the scores.
	Cells         [][]Table // By row and column; empty where there is no score.
}

// Pivot lays the scores out by two columns, as Column.Of. It returns an error if a cell has scores that differ in more
// than the seed, or a seed twice: no mean is over these.
func (t Table) Pivot(row, column func(Row) string) (*Pivot, error) {
	p := &Pivot{Rows: t.Values(row), Columns: t.Values(column)}
	for _, of := range t.Group(row) {
		line := make([]Table, len(p.Columns))
		for i, c := range p.Columns {
			line[i] = of.Rows.Where(func(r Row) bool { return column(r) == c })
			if err := line[i].sameButSeed(); err != nil {
				return nil, err
			}
		}
		p.Cells = append(p.Cells, line)
	}
	return p, nil
}

// sameButSeed returns an error unless the rows are the runs of one cell, a row for each seed.
func (t Table) sameButSeed() error {
	seeds := make(map[uint64]bool)
	for _, r := range t {
		if seeds[r.Seed] {
			return fmt.Errorf("%s occurs twice", r.name())
		}
		seeds[r.Seed] = true
		a, b := t[0], r
		for _, x := range []*Row{&a, &b} {
			x.Seed, x.Run, x.Value, x.fraction = 0, "", stats.Mean{}, 0
		}
		if a != b {
			return fmt.Errorf("%s and %s would be one cell", t[0].name(), r.name())
		}
	}
	return nil
}

// name says which score a row is, for errors.
func (r Row) name() string {
	empty := func(s string) bool { return s == "" }
	parts := slices.DeleteFunc([]string{r.Method, r.Rule, "on " + r.Data, r.Measure}, empty)
	for _, c := range []Column{LR, Batch, Epochs, Seed} {
		if v := c.Of(r); v != "" {
			parts = append(parts, string(c)+" "+v)
		}
	}
	return strings.Join(parts, " ")
}

// At returns the scores of a cell, none if the pivot has no such row or column.
func (p *Pivot) At(row, column string) Table {
	i, j := slices.Index(p.Rows, row), slices.Index(p.Columns, column)
	if i < 0 || j < 0 {
		return nil
	}
	return p.Cells[i][j]
}

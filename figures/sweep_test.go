package figures

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// sweepOf returns a sweep in which our curves are the paper's own. Each recall is moved by shift and by a little of its
// own, and each rate is multiplied by a factor. Held-out recall moves differently. A change may alter points.
func sweepOf(t *testing.T, table int, shift, factor float64,
	change func(rule, set string, lr *float64, test, heldOut *stats.Mean)) SweepData {
	t.Helper()
	d := map[int]SweepData{
		6: {Compared: "gradient directions", RowTitle: "Direction"},
		7: {Compared: "pair weights", RowTitle: "PairWeight", BlockTitle: "Direction"},
		8: {Compared: "triplet weights", RowTitle: "TripletWeight", BlockTitle: "PairWeight"},
	}[table]
	d.Number, d.Provenance, d.Sets = table, somewhere, []SweepSet{{"minicar", "CAR"}, {"minishop", "In-shop"}}
	for i, r := range scores.Printed().Select(scores.Row{Table: table}) {
		rule := r.Rule
		at := slices.IndexFunc(d.Rows, func(row SweepRow) bool { return row.Rule == rule })
		if at < 0 {
			at = len(d.Rows)
			row := SweepRow{Rule: rule, Cells: make([]SweepCell, len(d.Sets))}
			switch direction, pair, triplet, _ := RuleLabels(rule); table {
			case 6:
				row.Label = direction
			case 7:
				row.Label, row.Block = pair, direction
			case 8:
				row.Label, row.Block = triplet, pair
			}
			d.Rows = append(d.Rows, row)
		}
		lr := math.Round(1e6*factor*r.LR) / 1e6
		test := stats.Mean{Mean: r.Value.Mean + shift + math.Sin(float64(7*i)), N: 1}
		heldOut := stats.Mean{Mean: r.Value.Mean + 4 + 2*math.Cos(float64(3*i)), N: 1}
		if change != nil {
			change(rule, r.Data, &lr, &test, &heldOut)
		}
		c := &d.Rows[at].Cells[slices.IndexFunc(d.Sets, func(s SweepSet) bool { return s.Paper == r.Data })]
		c.Ours = append(c.Ours, scores.AtRate{LR: lr, Test: test, HeldOut: heldOut})
		c.Theirs = append(c.Theirs, scores.AtRate{LR: r.LR, Test: r.Value})
	}
	for set := range d.Sets {
		var chosen []*SweepChoice
		for _, r := range d.Rows {
			c := &r.Cells[set]
			c.Choice.Paper.Test = c.Theirs.Peak()
			if i, j := c.Ours.Best(), c.Ours.BestHeldOut(); i >= 0 && j >= 0 {
				c.Choice.ByTest, c.Choice.ByHeldOut = SelectedRate{AtRate: c.Ours[i]}, SelectedRate{AtRate: c.Ours[j]}
				chosen = append(chosen, &c.Choice)
			}
		}
		for _, of := range []func(*SweepChoice) *SelectedRate{func(c *SweepChoice) *SelectedRate { return &c.Paper },
			func(c *SweepChoice) *SelectedRate { return &c.ByTest },
			func(c *SweepChoice) *SelectedRate { return &c.ByHeldOut }} {
			order := slices.Clone(chosen)
			slices.SortStableFunc(order, func(a, b *SweepChoice) int { return cmp.Compare(of(b).Test.Mean, of(a).Test.Mean) })
			for i, c := range order {
				of(c).Rank = i
			}
		}
	}
	return d
}

func drawSweep(t *testing.T, d SweepData) *Sweep {
	t.Helper()
	s, err := DrawSweep(d)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSweepPictures(t *testing.T) {
	severalSeeds := func(_, _ string, _ *float64, test, heldOut *stats.Mean) { test.N, test.Std, heldOut.N = 3, 1.2, 3 }
	// Some runs diverged and some are missing, and one pair weight has other rates.
	gaps := func(rule, set string, lr *float64, test, heldOut *stats.Mean) {
		if strings.Contains(rule, "/sig-ms/") {
			*lr /= 4
			if set == "In-shop" && *lr >= 3 {
				*test, *heldOut = meanOf(math.NaN(), 0, 0, 1), meanOf(math.NaN(), 0, 0, 1)
			}
		}
		if rule == "cos/euc/con" && *lr > 0.5 && set == "CAR" || rule == "euc/lin/con" {
			*test, *heldOut = Missing, Missing
		}
	}
	for name, d := range map[string]SweepData{"sweep6": sweepOf(t, 6, -3, 3, severalSeeds),
		"sweep7": sweepOf(t, 7, -4, 3, gaps), "sweep8": sweepOf(t, 8, -3, 2, nil)} {
		s := drawSweep(t, d)
		checkGolden(t, name+"curves", s.Curves(), nil)
		checkGolden(t, name+"order", s.Orders(), nil)
	}
}

// Our recalls are far below the paper's, and the provenance needs two lines.
func TestSweepFarFromThePaper(t *testing.T) {
	d := sweepOf(t, 6, -50, 3, func(rule, _ string, _ *float64, test, heldOut *stats.Mean) {
		if strings.HasPrefix(rule, "euc-orth/") {
			*test, *heldOut = meanOf(math.NaN(), 0, 0, 1), meanOf(math.NaN(), 0, 0, 1)
		}
	})
	d.Provenance += strings.Repeat(" · a machine of a long name, 2 cores, linux", 4)
	checkGolden(t, "sweep6far", drawSweep(t, d).Curves(), nil)
}

func TestDrawSweepRejects(t *testing.T) {
	for want, change := range map[string]func(*SweepData){
		"0 data sets":            func(d *SweepData) { d.Sets = nil },
		"0 rows":                 func(d *SweepData) { d.Rows = nil },
		"cos/con/con has 1 cell": func(d *SweepData) { d.Rows[1].Cells = d.Rows[1].Cells[:1] },
		"2 and 0 decisions on \"a is better\"": func(d *SweepData) {
			d.Statements = []SweepStatement{{Says: "a is better", Decisions: []SweepDecision{{Theirs: make([]Markup, 2)}}}}
		},
	} {
		d := sweepOf(t, 6, 0, 1, nil)
		d.Rows[1].Rule = "cos/con/con"
		change(&d)
		if _, err := DrawSweep(d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A panel shows our best recall and the paper's, however far apart they are. It is cut only where a curve falls far
// below both.
func TestSweepScale(t *testing.T) {
	rows := func(ours, theirs []float64) []SweepRow {
		var cell SweepCell
		for _, v := range ours {
			cell.Ours = append(cell.Ours, scores.AtRate{Test: stats.Mean{Mean: v, N: 1}})
		}
		for _, v := range theirs {
			cell.Theirs = append(cell.Theirs, scores.AtRate{Test: stats.Mean{Mean: v, N: 1}})
		}
		return []SweepRow{{Cells: []SweepCell{cell}}}
	}
	none := []float64{math.NaN()}
	for _, c := range []struct {
		rows      []SweepRow
		low, high float64 // Without the room around them.
	}{
		{rows([]float64{70, 60}, []float64{80}), 60, 80},
		{rows([]float64{70, 5}, []float64{80}), 40, 80},
		{rows([]float64{25, 17}, []float64{77}), 17, 77},
		{rows([]float64{40, 1}, []float64{90}), 20, 90},
		{rows([]float64{60, 1}, none), 20, 60},
	} {
		s := &Sweep{SweepData{Rows: c.rows}}
		room := max(0.08*(c.high-c.low), 0.5)
		if low, high := s.recalls(0); math.Abs(low-(c.low-room)) > 1e-9 || math.Abs(high-(c.high+room)) > 1e-9 {
			t.Errorf("%g to %g, want %g to %g with %g around", low, high, c.low, c.high, room)
		}
	}
	if low, high := (&Sweep{SweepData{Rows: rows(none, none)}}).recalls(0); low != 0 || high != 100 {
		t.Errorf("nothing: %g to %g", low, high)
	}
}

package figures

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// sweepOf returns the panels of a sweep in which our curves are the paper's own. Each recall is moved by
// shift and by a little of its own, and each rate is multiplied by a factor. Held-out recall moves differently. A
// change may alter points.
func sweepOf(table int, shift, factor float64,
	change func(rule, set string, lr *float64, test, heldOut *stats.Mean)) (sets []RateSet) {
	printed := scores.Printed().Select(scores.Row{Table: table})
	for _, rules := range printed.Group(scores.Data.Of) {
		data := map[string]string{"CAR": "minicar beside CAR", "In-shop": "minishop beside In-shop"}[rules.Key]
		set := RateSet{Title: data}
		before := ""
		for _, rule := range rules.Rows.Group(scores.Rule.Of) {
			direction, pair, triplet, _ := RuleLabels(rule.Key)
			label, block := direction, ""
			switch table {
			case 7:
				label, block = pair+", "+direction, direction
			case 8:
				label, block = triplet+", "+pair, pair
			}
			panel := RatePanel{Title: label}
			for _, r := range rule.Rows {
				i := slices.Index(printed, r)
				lr := math.Round(1e6*factor*r.LR) / 1e6
				test := stats.Mean{Mean: r.Value.Mean + shift + math.Sin(float64(7*i)), N: 1}
				heldOut := stats.Mean{Mean: r.Value.Mean + 4 + 2*math.Cos(float64(3*i)), N: 1}
				if change != nil {
					change(rule.Key, r.Data, &lr, &test, &heldOut)
				}
				panel.Ours = append(panel.Ours, scores.AtRate{LR: lr, Test: test, HeldOut: heldOut})
				panel.Theirs = append(panel.Theirs, scores.AtRate{LR: r.LR, Test: r.Value})
			}
			if set.Lines == nil || block != before {
				set.Lines, before = append(set.Lines, nil), block
			}
			set.Lines[len(set.Lines)-1] = append(set.Lines[len(set.Lines)-1], panel)
		}
		sets = append(sets, set)
	}
	return sets
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
	for _, c := range []struct {
		table         int
		shift, factor float64
		change        func(rule, set string, lr *float64, test, heldOut *stats.Mean)
	}{{6, -3, 3, severalSeeds}, {7, -4, 3, gaps}, {8, -3, 2, nil}} {
		sets := sweepOf(c.table, c.shift, c.factor, c.change)
		name := fmt.Sprint("sweep", c.table)
		checkGolden(t, name+"curves", RateCurves("curves", sets, somewhere), nil)
	}
}

// Our recalls are far below the paper's, and the provenance needs two lines.
func TestSweepFarFromThePaper(t *testing.T) {
	sets := sweepOf(6, -50, 3, func(rule, _ string, _ *float64, test, heldOut *stats.Mean) {
		if strings.HasPrefix(rule, "euc-orth/") {
			*test, *heldOut = meanOf(math.NaN(), 0, 0, 1), meanOf(math.NaN(), 0, 0, 1)
		}
	})
	long := somewhere + strings.Repeat(" · a machine of a long name, 2 cores, linux", 4)
	checkGolden(t, "sweep6far", RateCurves("curves", sets, long), nil)
}

// A panel shows our best recall and the paper's, however far apart they are. It is cut only where a curve falls far
// below both.
func TestSweepScale(t *testing.T) {
	rows := func(ours, theirs []float64) RateSet {
		var cell RatePanel
		for _, v := range ours {
			cell.Ours = append(cell.Ours, scores.AtRate{Test: stats.Mean{Mean: v, N: 1}})
		}
		for _, v := range theirs {
			cell.Theirs = append(cell.Theirs, scores.AtRate{Test: stats.Mean{Mean: v, N: 1}})
		}
		return RateSet{Lines: [][]RatePanel{{cell}}}
	}
	none := []float64{math.NaN()}
	for _, c := range []struct {
		rows      RateSet
		low, high float64 // Without the room around them.
	}{
		{rows([]float64{70, 60}, []float64{80}), 60, 80},
		{rows([]float64{70, 5}, []float64{80}), 40, 80},
		{rows([]float64{25, 17}, []float64{77}), 17, 77},
		{rows([]float64{40, 1}, []float64{90}), 20, 90},
		{rows([]float64{60, 1}, none), 20, 60},
	} {
		room := max(0.08*(c.high-c.low), 0.5)
		if s := c.rows.recalls(); math.Abs(s.low-(c.low-room)) > 1e-9 || math.Abs(s.high-(c.high+room)) > 1e-9 {
			t.Errorf("%g to %g, want %g to %g with %g around", s.low, s.high, c.low, c.high, room)
		}
	}
	if s := rows(none, none).recalls(); s != (span{0, 100}) {
		t.Errorf("nothing: %g to %g", s.low, s.high)
	}
}

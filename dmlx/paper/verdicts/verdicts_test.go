package verdicts

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The verdict by hand: of two cells at the one-sided level 0.025.
func TestDecide(t *testing.T) {
	t.Parallel()
	cell := func(holds float64) Comparison { return Comparison{Holds: holds, Opposite: 1 - holds} }
	null := Comparison{Holds: 0.01, Opposite: 0.5, Null: true}
	for name, c := range map[string]struct {
		need int
		of   []Comparison
		want Verdict
	}{
		"none":           {1, nil, NotRun},
		"not run":        {2, []Comparison{NotMade(), NotMade()}, NotRun},
		"all":            {2, []Comparison{cell(0.02), cell(0.024)}, Reproduced},
		"one of two":     {2, []Comparison{cell(0.012), cell(0.4)}, InPart},
		"by chance":      {2, []Comparison{cell(0.02), cell(0.4)}, Undecided}, // One of two: 2·0.02 is above 0.025.
		"opposite":       {2, []Comparison{cell(0.001), cell(0.988)}, Contradicted},
		"opposite?":      {2, []Comparison{cell(0.4), cell(0.98)}, Undecided},
		"enough":         {1, []Comparison{cell(0.001), cell(0.999)}, Reproduced},
		"none of two":    {1, []Comparison{cell(0.98), cell(0.98)}, Contradicted},
		"one missing":    {2, []Comparison{cell(0.001), NotMade()}, InPart},
		"without noise":  {2, []Comparison{Exact(true), Exact(true)}, Reproduced},
		"an exception":   {2, []Comparison{Exact(true), Exact(false)}, Contradicted},
		"reversed":       {1, []Comparison{Exact(false).Reversed()}, Reproduced},
		"unknown":        {1, []Comparison{Unknown()}, Undecided},
		"no difference":  {1, []Comparison{null}, NoDifference},
		"not shown none": {1, []Comparison{{Holds: 0.3, Opposite: 0.5, Null: true}}, Undecided},
	} {
		if got := Decide(c.need, c.of); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// More support never makes a verdict worse, whatever the entry says and whatever the evidence is.
func TestDecideIsMonotone(t *testing.T) {
	t.Parallel()
	source := rand.New(rand.NewPCG(1, 2))
	seen := make(map[Verdict]int)
	random := func() float64 { // Often near the level, and its correction for several cells.
		p := source.Float64()
		for range source.IntN(4) {
			p *= source.Float64() / 2
		}
		return p
	}
	draw := func() Comparison {
		switch p := random(); source.IntN(8) {
		case 0:
			return NotMade()
		case 1:
			return Unknown()
		case 2:
			return Exact(source.IntN(2) == 0)
		case 3, 4, 5:
			return Comparison{Holds: p, Opposite: 1 - p}
		default:
			return Comparison{Holds: 1 - p, Opposite: p}
		}
	}
	// rank orders verdicts of comparisons by how much they speak for the entry.
	rank := func(v Verdict) int { return slices.Index([]Verdict{Contradicted, Undecided, InPart, Reproduced}, v) }
	for range 200_000 {
		of := make([]Comparison, 1+source.IntN(8))
		for i := range of {
			of[i] = draw()
		}
		need := 1 + source.IntN(len(of))
		before := Decide(need, of)
		seen[before]++
		for i, c := range of {
			if source.IntN(2) == 0 {
				of[i] = Comparison{Holds: c.Holds * source.Float64(), Opposite: c.Opposite + (1-c.Opposite)*source.Float64()}
			}
		}
		if after := Decide(need, of); before != NotRun && rank(after) < rank(before) {
			t.Fatalf("%d of %+v: %s, with less support %s", need, of, after, before)
		}
	}
	for _, v := range []Verdict{Reproduced, InPart, Undecided, Contradicted, NotRun} {
		if seen[v] < 1000 {
			t.Errorf("only %d of the draws are %s", seen[v], v)
		}
	}
}

func TestOverall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		paper, runs, want Verdict
		setting           Setting
	}{
		{Reproduced, Contradicted, Contradicted, Drawn}, {ContradictsItself, Reproduced, Reproduced, Drawn},
		{ContradictsItself, None, ContradictsItself, Print}, {Reproduced, None, Reproduced, Print},
		{None, None, DifferentSetting, Print}, {Reproduced, NotRun, NotRun, NoSetting},
	} {
		if v, s := Overall(c.paper, c.runs, Drawn); v != c.want || s != c.setting {
			t.Errorf("%s, %s: %s in %q, want %s in %q", c.paper, c.runs, v, s, c.want, c.setting)
		}
	}
	if Drawn.Bears() || Photographs.Bears() || !PapersOwn.Bears() {
		t.Error("images of another kind contradict the paper")
	}
	for _, v := range All() {
		if v.Meaning() == "" {
			t.Errorf("%s is not explained", v)
		}
	}
}

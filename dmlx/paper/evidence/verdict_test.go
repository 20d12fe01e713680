package evidence

import (
	"math/rand/v2"
	"slices"
	"testing"
)

var missing = Comparison{Holds: 1, Opposite: 1, Missing: true}

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
		"not run":        {2, []Comparison{missing, missing}, NotRun},
		"all":            {2, []Comparison{cell(0.02), cell(0.024)}, Reproduced},
		"one of two":     {2, []Comparison{cell(0.012), cell(0.4)}, InPart},
		"by chance":      {2, []Comparison{cell(0.02), cell(0.4)}, Undecided}, // One of two: 2·0.02 is above 0.025.
		"opposite":       {2, []Comparison{cell(0.001), cell(0.988)}, Contradicted},
		"opposite?":      {2, []Comparison{cell(0.4), cell(0.98)}, Undecided},
		"enough":         {1, []Comparison{cell(0.001), cell(0.999)}, Reproduced},
		"none of two":    {1, []Comparison{cell(0.98), cell(0.98)}, Contradicted},
		"one missing":    {2, []Comparison{cell(0.001), missing}, InPart},
		"without noise":  {2, []Comparison{exact(true), exact(true)}, Reproduced},
		"an exception":   {2, []Comparison{exact(true), exact(false)}, Contradicted},
		"reversed":       {1, []Comparison{exact(false).reversed()}, Reproduced},
		"unknown":        {1, []Comparison{Unknown}, Undecided},
		"no difference":  {1, []Comparison{null}, NoDifference},
		"not shown none": {1, []Comparison{{Holds: 0.3, Opposite: 0.5, Null: true}}, Undecided},
	} {
		if got, _, _ := Decide(c.need, c.of); got != c.want {
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
			return missing
		case 1:
			return Unknown
		case 2:
			return exact(source.IntN(2) == 0)
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
		before, _, _ := Decide(need, of)
		seen[before]++
		for i, c := range of {
			if source.IntN(2) == 0 {
				of[i] = Comparison{Holds: c.Holds * source.Float64(), Opposite: c.Opposite + (1-c.Opposite)*source.Float64()}
			}
		}
		if after, _, _ := Decide(need, of); before != NotRun && rank(after) < rank(before) {
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
		if v, s := overall(c.paper, c.runs, Drawn); v != c.want || s != c.setting {
			t.Errorf("%s, %s: %s in %q, want %s in %q", c.paper, c.runs, v, s, c.want, c.setting)
		}
	}
	for _, m := range Meanings {
		if m.Says == "" || m.order() < 0 {
			t.Errorf("%s is not explained", m.Verdict)
		}
	}
}

// The comparison that decided is the one whose corrected p-value is at the level.
func TestDecidedBy(t *testing.T) {
	t.Parallel()
	cell := func(holds float64) Comparison { return Comparison{Holds: holds, Opposite: 1 - holds} }
	for name, c := range map[string]struct {
		need, at, tests int
		of              []Comparison
	}{
		"the weakest of all":    {3, 1, 1, []Comparison{cell(0.001), cell(0.02), cell(0.01)}},
		"the strongest of some": {3, 0, 3, []Comparison{cell(0.001), cell(0.4), cell(0.4)}},
		"the opposite":          {3, 2, 3, []Comparison{cell(0.001), cell(0.4), cell(0.999)}},
		"the second of two":     {2, 2, 2, []Comparison{cell(0.001), cell(0.4), cell(0.01)}},
	} {
		if _, at, tests := Decide(c.need, c.of); at != c.at || tests != c.tests {
			t.Errorf("%s: by %d of %d tests, want %d of %d", name, at, tests, c.at, c.tests)
		}
	}
}

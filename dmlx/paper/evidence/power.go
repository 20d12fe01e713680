package evidence

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// Power is what the tests of a table's numbers can find, and what they found.
type Power struct {
	Place, Preset string
	Compared      int // Numbers with a difference that can be compared.
	Pooled        int // Of these, with a single seed of ours, so that the noise is pooled; the others are Welch's t.
	SignAlone     int // Of these, without a deviation of the paper's, so that its sign counts.
	// Detectable is the median over the compared numbers of the true difference that the first step of Holm's procedure
	// finds in four of five repetitions, and Paper that of the size of the paper's differences, in points.
	Detectable, Paper float64
	Found             int // Entries that are reproduced.
	// Same is the share of equal signs among the Signed differences that are not 0 in the paper.
	Same           stats.Interval
	Signed, Equals int
	// PaperOpen and OursOpen are the undecided entries that the paper cannot tell from 0, and that only we cannot. Seeds
	// is the median of the seeds that would decide the latter.
	PaperOpen, OursOpen, Seeds int

	numbers []*number
	tested  []tested
}

// assess returns what the tests of a table's numbers can find.
func assess(numbers []*number, preset string) Power {
	of := test(numbers)
	p := Power{Place: fmt.Sprintf("Table %d", numbers[0].printed.Table), numbers: numbers, tested: of}
	var detectable, paper, seeds []float64
	for i, n := range numbers {
		if !n.compared() || n.own {
			continue
		}
		p.Compared++
		p.Preset = preset
		t := of[i]
		if n.pools() {
			p.Pooled++
		}
		if n.printed.Value.Std == 0 {
			p.SignAlone++
		}
		first := level / float64(max(family(of), 1))
		if v := t.ours.Detectable(first); !math.IsNaN(v) {
			detectable = append(detectable, v)
		}
		d := t.paper.Difference.Value
		paper = append(paper, math.Abs(d))
		if d != 0 {
			p.Signed++
			if d > 0 == (t.ours.Difference.Value > 0) {
				p.Equals++
			}
		}
		switch v := n.verdict(t); {
		case v == Reproduced:
			p.Found++
		case v == Undecided && !t.inPaper:
			p.PaperOpen++
		case v == Undecided:
			p.OursOpen++
			if s := stats.Seeds(d, n.std(), first); s > 0 && !n.short {
				seeds = append(seeds, float64(s))
			}
		}
	}
	p.Detectable, p.Paper, p.Same = median(detectable), median(paper), stats.Proportion(p.Equals, p.Signed)
	if m := median(seeds); !math.IsNaN(m) {
		p.Seeds = int(math.Ceil(m))
	}
	return p
}

// draws is the number of simulations of a table.
const draws = 200

// Expected returns the number of entries that would be reproduced if the paper's differences were the true ones here:
// the mean of simulations from a fixed seed, in which our runs have these differences and the noise of their data set.
func (p Power) Expected() float64 {
	numbers, of := p.numbers, p.tested
	source := rand.New(rand.NewPCG(1, 2))
	found := 0
	drawn := make(map[*number]stats.Mean)
	draw := func(n *number) {
		if _, there := drawn[n]; there || n.ours.N == 0 {
			return
		}
		values := make([]float64, n.ours.N)
		for i := range values {
			values[i] = n.printed.Value.Mean + n.std()*source.NormFloat64()
		}
		drawn[n] = stats.MeanOf(values)
	}
	simulated := slices.Clone(of)
	for range draws {
		clear(drawn)
		for i, n := range numbers {
			if !n.compared() || n.own {
				continue
			}
			draw(n.first)
			draw(n)
			simulated[i].ours = n.ourTest(drawn[n], drawn[n.first])
		}
		tell(simulated)
		for i, n := range numbers {
			if n.compared() && !n.own {
				simulated[i].inPaper = of[i].inPaper
				if n.verdict(simulated[i]) == Reproduced {
					found++
				}
			}
		}
	}
	return float64(found) / draws
}

// median returns the median, NaN of nothing.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// PowerTable returns what the tests of each table can find beside what they found.
func PowerTable(of []Power, provenance string) *figures.Table {
	t := &figures.Table{Caption: "What the tests of each table could find, and what they found.", Provenance: provenance,
		Columns: []figures.Column{{Title: "Place", Left: true}, {Title: "preset", Left: true}, {Title: "compared"},
			{Title: "test", Left: true}, {Group: "points", Title: "detectable"}, {Group: "points", Title: "the paper's"},
			{Group: "reproduced", Title: "expected"}, {Group: "reproduced", Title: "found"},
			{Group: "sign", Title: "equal"}, {Group: "sign", Title: "95 %"},
			{Group: "undecided", Title: "the paper cannot"}, {Group: "undecided", Title: "we cannot"},
			{Group: "undecided", Title: "seeds to decide"}},
		Notes: []figures.Markup{"Detectable: the true difference to the first row that is found in four of five " +
			"repetitions; the paper's: the median size of its differences. Expected: the mean number of reproduced entries if " +
			"the paper's differences were the true ones here, of " + fmt.Sprint(draws) + " simulations. Equal: how often the " +
			"two differences have one sign, with the interval of Clopper and Pearson, as if they did not share their first " +
			"row. Seeds: the median of what the entries need that only we cannot tell, for four of five repetitions."}}
	expected := make([]float64, len(of))
	var simulations sync.WaitGroup
	for i, p := range of {
		simulations.Go(func() { expected[i] = p.Expected() })
	}
	simulations.Wait()
	for i, p := range of {
		if p.Compared == 0 {
			continue
		}
		test := "Welch"
		switch {
		case p.Pooled == p.Compared:
			test = "pooled noise"
		case p.Pooled > 0:
			test = fmt.Sprintf("Welch; pooled noise for %d", p.Pooled)
		}
		if p.SignAlone > 0 {
			test += "; the paper's sign alone"
		}
		share := p.Same.Times(100)
		t.Rows = append(t.Rows, figures.Row(p.Place, p.Preset, p.Compared, test, fmt.Sprintf("%.1f", p.Detectable),
			fmt.Sprintf("%.1f", p.Paper), fmt.Sprintf("%.1f", expected[i]), p.Found,
			fmt.Sprintf("%d of %d", p.Equals, p.Signed), fmt.Sprintf("%.0f to %.0f %%", share.Low, share.High),
			p.PaperOpen, p.OursOpen, cmp.Or(nonzero(p.Seeds), "–")))
	}
	return t
}

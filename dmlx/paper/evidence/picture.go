package evidence

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/figures"
)

// Picture returns the numbers of verdicts as bars, one for each setting and place, of entries that are judged.
func Picture(entries []Entry, provenance string) (*figures.Figure, error) {
	entries = slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool {
		return e.Verdict == DifferentSetting || e.Verdict == NotRun
	})
	p := plot.New()
	p.Legend.Top = true
	for _, text := range []*font.Font{&p.X.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font,
		&p.Legend.TextStyle.Font} {
		text.Variant, text.Size = "Sans", 10
	}
	p.X.Label.Text = "entries of the paper"
	var names, says []string
	counts := make([]plotter.Values, len(Meanings)) // Of each verdict, by place.
	for _, setting := range slices.Backward(settings[:4]) {
		of := In(entries, setting)
		places := slice.AddNew(nil, slice.Map(of, Entry.group)...)
		for _, place := range slices.Backward(places) {
			its := slices.DeleteFunc(slices.Clone(of), func(e Entry) bool { return e.group() != place })
			names = append(names, place+", "+strings.NewReplacer("the paper's own numbers and formulas", "print", " images",
				"").Replace(string(setting)))
			says = append(says, fmt.Sprintf("%s, %s: %s", place, setting, Words(its)))
			for i, m := range Meanings {
				counts[i] = append(counts[i], float64(Count(its)[m.Verdict]))
			}
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("the ledger has no verdict to draw: want at least one entry that is judged")
	}
	var below *plotter.BarChart
	for i, m := range Meanings {
		if !slices.ContainsFunc(counts[i], func(n float64) bool { return n > 0 }) {
			continue
		}
		bars, err := plotter.NewBarChart(counts[i], vg.Points(9))
		if err != nil {
			return nil, err
		}
		bars.Horizontal, bars.Color, bars.LineStyle.Width = true, m.Tone, vg.Points(0.3)
		if below != nil {
			bars.StackOn(below)
		}
		below = bars
		p.Add(bars)
		p.Legend.Add(string(m.Verdict), bars)
	}
	p.NominalY(names...)
	f := figures.Of(p, 600, vg.Length(60+14*len(names)))
	slices.Reverse(says)
	f.Alt, f.Provenance = "The verdicts on the entries of the paper. "+strings.Join(says, ". ")+".", provenance
	return f, nil
}

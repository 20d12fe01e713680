package paper

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

var portraitDraft = flag.String("portraits", "", "write Figures 4 and 5 of the shipped portraits to this `folder`")

// shippedOnly asks for a figure of the quick preset with an empty store and without a backend.
func shippedOnly(t *testing.T, name string, o runs.Options) (*Report, error) {
	t.Helper()
	q := request(t, "quick")
	q.Open, q.Options = func() (*train.Trainer, error) { return nil, errors.New("no backend here") }, o
	return Make(t.Context(), name, q)
}

// Both figures open from what is shipped, and every part can be written in all its formats.
func TestPortraitFiguresAreShipped(t *testing.T) {
	for name, parts := range map[string]string{"figure4": ",euc,overlap",
		"figure5": ",separated,numbers"} {
		r, err := shippedOnly(t, name, runs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Runs != 12 || r.Ran != 0 || len(r.Results) != 12 || !strings.Contains(r.Provenance, "12 of 12 runs bundled") {
			t.Errorf("%s: %d runs, %d made, %d results, %s", name, r.Runs, r.Ran, len(r.Results), r.Provenance)
		}
		var names []string
		for _, p := range r.Parts {
			names = append(names, p.Name)
			for _, format := range p.Of.Formats() {
				data, err := figures.Bytes(p.Of, format)
				if err != nil || len(data) == 0 {
					t.Errorf("%s, part %q as %s: %v", name, p.Name, format, err)
				}
				if *portraitDraft != "" {
					if err := figures.Save(p.Of, filepath.Join(*portraitDraft,
						fmt.Sprintf("%s-%s.%s", name, p.Name, format))); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if got := strings.Join(names, ","); got != parts {
			t.Errorf("%s: parts %q, want %q", name, got, parts)
		}
		if _, err := shippedOnly(t, name, runs.Options{IgnoreBundled: true}); err == nil ||
			!strings.Contains(err.Error(), "no backend here") {
			t.Errorf("%s, fresh: %v", name, err)
		}
		// With nothing there, all is drawn and says so.
		r, err = shippedOnly(t, name, runs.Options{IgnoreBundled: true, CachedOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.Parts {
			for _, format := range p.Of.Formats() {
				if _, err := figures.Bytes(p.Of, format); err != nil {
					t.Errorf("%s without runs, part %q as %s: %v", name, p.Name, format, err)
				}
			}
		}
	}
}

// portraitOf is a portrait of a run whose whole test set has one triplet and these numbers.
func portraitOf(overlap float64, diverged string) *runs.Histograms {
	return &runs.Histograms{Result: &runs.Result{Measures: train.Measures{Diverged: diverged}},
		Test: runs.TripletDensity{Triplets: 1, Overlap: overlap, Counts: runs.Counts{1}}}
}

func TestOverSeeds(t *testing.T) {
	high := []*runs.Histograms{portraitOf(0.6, ""), portraitOf(0.4, ""), portraitOf(0.1, "collapsed")}
	// A diverged run is counted and not averaged.
	if s := OverSeeds(high, WholeTest, overlap); s.N != 2 || s.Diverged != 1 || math.Abs(s.Mean-0.5) > 1e-12 {
		t.Errorf("%+v", s)
	}
}

func TestPooled(t *testing.T) {
	if got := runs.Pooled([]runs.TripletDensity{{Counts: runs.Counts{1, 0, 2}},
		{Counts: runs.Counts{1, 1, 0}}}); fmt.Sprint(got) != "[2 1 2]" {
		t.Error(got)
	}
	if runs.Pooled(nil) != nil {
		t.Error("counts of nothing")
	}
}

func TestDistributionOf(t *testing.T) {
	counts := make(runs.Counts, runs.DensityBins*runs.DensityBins)
	counts[150*runs.DensityBins+190], counts[190*runs.DensityBins+195] = 1, 1 // S_an of 0.5 and 0.9, S_ap of 0.9 and 0.95.
	of := []*runs.Histograms{{Result: &runs.Result{}, Test: runs.TripletDensity{Triplets: 2, Counts: counts}},
		portraitOf(1, "collapsed")}
	for bins, want := range map[int]float64{200: 50, 20: 50, 2: 100} {
		d, err := DistributionOf("x", of, WholeTest, bins)
		if err != nil || len(d.Positive) != 1 || len(d.Negative[0]) != bins || math.Abs(d.Overlap.Mean-want) > 1e-9 {
			t.Errorf("%d bins: %+v, %v, want an overlap of %g", bins, d, err, want)
		}
	}
	if _, err := DistributionOf("x", of, WholeTest, 3); err == nil {
		t.Error("3 bins")
	}
	if d, err := DistributionOf("x", nil, WholeTest, 100); err != nil || len(d.Positive) != 0 {
		t.Errorf("without runs: %+v, %v", d, err)
	}
}

package runs

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
)

func TestCloud(t *testing.T) {
	nan := float32(math.NaN())
	c := newTripletDensity([]float32{0.955, 0.955, 0.5, 1.0000001, -1, nan}, []float32{0.925, 0.2, 0.6, -0.005, -1, 0.3})
	if c.Triplets != 5 || c.Lone != 1 {
		t.Errorf("%d triplets, %d lone", c.Triplets, c.Lone)
	}
	for name, v := range map[string][2]float64{
		"edge": {c.Edge, 3. / 5}, "corner": {c.Corner, 1. / 5}, "violations": {c.Violations, 1. / 5},
		"median S_ap": {c.MedianSap, 0.955}, "median S_an": {c.MedianSan, 0.2},
		"above 0.9":  {c.Above(0.9, -1), 3. / 5},
		"above both": {c.Above(0.9, 0.9), 1. / 5}, "above 0.95, 0.92": {c.Above(0.95, 0.92),
			1. / 5}, "above 0.95, 0.93": {c.Above(0.95, 0.93), 0},
		"above 0.96": {c.Above(0.96, -1), 1. / 5}, "above all": {c.Above(-1, -1), 1},
	} {
		if math.Abs(v[0]-v[1]) > 1e-6 {
			t.Errorf("%s is %g, want %g", name, v[0], v[1])
		}
	}
	at := map[[2]int]int{{195, 192}: 1, {195, 120}: 1, {150, 160}: 1, {199, 99}: 1, {0, 0}: 1}
	for cell, count := range c.Counts {
		if want := at[[2]int{cell % DensityBins, cell / DensityBins}]; count != want {
			t.Errorf("S_ap bin %d, S_an bin %d: %d, want %d", cell%DensityBins, cell/DensityBins, count, want)
		}
	}
	two := newTripletDensity([]float32{0.1, 0.3}, []float32{0.2, 0.2})
	if want := math.Sqrt(0.02); math.Abs(two.Spread-want) > 1e-6 {
		t.Errorf("spread %g, want %g", two.Spread, want)
	}
	for name, c := range map[string]TripletDensity{"none": newTripletDensity(nil, nil),
		"lone only": newTripletDensity([]float32{nan}, []float32{1}), "one": newTripletDensity([]float32{1}, []float32{1})} {
		if _, err := json.Marshal(c); err != nil { // Which NaN would break.
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The margins of a density are the histograms that Overlap compares.
func TestCloudMargins(t *testing.T) {
	var sap, san []float32
	for i := range 1000 {
		sap, san = append(sap, float32(math.Sin(float64(i)))), append(san, float32(math.Cos(float64(3*i))*0.7))
	}
	c := newTripletDensity(sap, san)
	overlap := 0.0
	positive, negative, err := c.Histograms(retrieval.SimilarityBins)
	if err != nil {
		t.Fatal(err)
	}
	for _, bins := range []int{0, 3, 400} {
		if _, _, err := c.Histograms(bins); err == nil || !strings.Contains(err.Error(), "want a divisor of 200") {
			t.Errorf("%d bins: %v", bins, err)
		}
	}
	for i, want := range retrieval.SimilarityHistogram(sap) {
		if got := positive[i]; math.Abs(got-want) > 1e-12 {
			t.Errorf("S_ap bin %d: %g, want %g", i, got, want)
		}
		overlap += min(positive[i], negative[i])
	}
	if want := retrieval.Overlap(sap, san); math.Abs(overlap-want) > 1e-12 || c.Overlap != want {
		t.Errorf("overlap %g and %g, want %g", overlap, c.Overlap, want)
	}
}

func TestCountsJSON(t *testing.T) {
	c := make(Counts, DensityBins*DensityBins)
	c[0], c[7], c[len(c)-1] = 2, 1, 5
	raw, err := json.Marshal(c)
	if want := "[0,2,7,1,39992,5]"; err != nil || string(raw) != want {
		t.Errorf("%s, %v; want %s", raw, err, want)
	}
	var back Counts
	if err := json.Unmarshal(raw, &back); err != nil || !slices.Equal(back, c) {
		t.Errorf("not read back: %v", err)
	}
	for _, bad := range []string{"[1]", "[-1,1]", "[0,0]", "[40000,1]", "[39999,1,1,1]", "{}",
		"[9223372036854775807,1,9223372036854775807,1]"} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

// The network behind histograms is the run's: it embeds the test set to the same bits, and the training set's nearest
// neighbors are those that comparing all with all finds.
func TestHistogramsNetwork(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	for _, c := range trainers() {
		s, _ := testStore(t)
		r := mustRun(t, c, s, tiny())
		p, err := computeHistograms(t.Context(), c, s, task{Job: Job{Spec: tiny()}, hash: r.Hash}, nil)
		if err != nil {
			t.Fatal(err)
		}
		set, err := OpenData(r.Spec, DataOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all := func(im *datasets.Images) []int {
			out := make([]int, im.N)
			for i := range out {
				out[i] = i
			}
			return out
		}
		again, err := embedByLastWeights(t.Context(), c, s, r, set, set.Test, all(set.Test))
		if err != nil {
			t.Fatal(err)
		}
		if test, _, err := s.Embeddings(r.Hash); err != nil || !slices.Equal(test.Values, again.Values) {
			t.Errorf("%s: other embeddings of the test set, %v", c.Name, err)
		}
		train, err := embedByLastWeights(t.Context(), c, s, r, set, set.Train, all(set.Train))
		if err != nil {
			t.Fatal(err)
		}
		n, d := len(train.Labels), train.Dim
		positive, negative := 0.0, 0.0
		for i := range n {
			p, q := -2.0, -2.0
			for j := range n {
				dot := 0.0
				for k := range d {
					dot += float64(train.Values[i*d+k]) * float64(train.Values[j*d+k])
				}
				if train.Labels[i] != train.Labels[j] {
					q = max(q, dot)
				} else if i != j {
					p = max(p, dot)
				}
			}
			positive, negative = positive+p/float64(n), negative+q/float64(n)
		}
		mean := func(share []float64) float64 {
			sum := 0.0
			for bin, s := range share {
				sum += s * ((float64(bin)+0.5)/retrieval.SimilarityBins*2 - 1)
			}
			return sum
		}
		const halfBin = 0.011
		near, far, err := p.Train.Histograms(retrieval.SimilarityBins)
		if err != nil {
			t.Fatal(err)
		}
		if p.Train.Triplets != n || math.Abs(mean(near)-positive) > halfBin || math.Abs(mean(far)-negative) > halfBin {
			t.Errorf("%s: %d triplets with means %g and %g, want %d, %g, %g", c.Name, p.Train.Triplets, mean(near), mean(far),
				n, positive, negative)
		}
	}
}

func TestHeldOutClassesAreNotPortrayed(t *testing.T) {
	s, _ := testStore(t)
	spec := tiny()
	spec.TrainClasses, spec.HeldOut = 8, 4
	r := mustRun(t, goBackend(), s, spec)
	p, err := computeHistograms(t.Context(), goBackend(), s, task{Job: Job{Spec: spec}, hash: r.Hash}, nil)
	if err != nil {
		t.Fatal(err)
	}
	set, err := OpenData(r.Spec, DataOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := set.Train.N * 6 / 8; p.Train.Triplets != want {
		t.Errorf("%d training images, want %d", p.Train.Triplets, want)
	}
}

func TestBundledHistograms(t *testing.T) {
	bundled, err := bundledHistograms()
	if err != nil {
		t.Fatal(err)
	}
	all, err := bundled.all()
	if err != nil {
		t.Fatal(err)
	}
	results, err := Bundled()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Error("there are none")
	}
	for hash, p := range all {
		if r := results[hash]; r == nil || r.Overlap != p.Result.Overlap || !r.Date.Equal(p.Result.Date) {
			t.Errorf("the histograms of %s are not those of the bundled result", hash)
		}
		if p.Recipe != HistogramsRecipe || p.Test.Overlap != p.Result.Overlap || p.Last.Triplets == 0 ||
			p.Train.Triplets == 0 {
			t.Errorf("the histograms of %s do not fit its result", hash)
		}
	}
}

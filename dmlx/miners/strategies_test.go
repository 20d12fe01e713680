package miners

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
)

// Semi-hard positives, and hard positives with other negatives, by hand: class 1 at 0°, 10°, 30°; class 2 at 23°, 40°,
// 100°.
func TestStrategiesByHand(t *testing.T) {
	e := circleBatch([]int64{1, 1, 1, 2, 2, 2}, 0, 10, 30, 23, 40, 100)
	cases := map[string][][3]int{
		"hard-positive/semi-hard": {{0, 2, 4}, {1, 2, 4}, {2, 0, 5}, {5, 3, 1}},
		"hard-positive/easy":      {{0, 2, 5}, {1, 2, 5}, {2, 0, 5}, {3, 5, 0}, {4, 5, 0}, {5, 3, 0}},
		// 30° has no positive nearer than 23°, nor have 23° and 40° one nearer than 30°.
		"semi-hard-positive":      {{0, 1, 3}, {1, 0, 3}, {5, 4, 2}},
		"semi-hard-positive/easy": {{0, 2, 5}, {1, 2, 5}, {2, 0, 5}, {3, 4, 0}, {4, 3, 0}, {5, 3, 0}},
	}
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		var of []Miner
		var names []string
		for name := range cases {
			m, err := Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			of, names = append(of, m), append(names, name)
		}
		got, _ := mine(t, b, e, of...)
		for i, name := range names {
			if !slices.Equal(got[i].triplets, cases[name]) {
				t.Errorf("%s: %v, want %v", name, got[i].triplets, cases[name])
			}
		}
	})
}

func TestParameters(t *testing.T) {
	for name, want := range map[string]string{
		"distance?cutoff=0.5&largest=1.4": "distance",
		"distance?largest=1.2&cutoff=.8":  "distance?cutoff=0.8&largest=1.2",
		"semi-hard?margin=0.2":            "semi-hard?margin=0.2",
		"ms?epsilon=0.1":                  "ms",
		"hard":                            "hard",
	} {
		got, err := Canonical(name)
		if err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{
		"distance?cutoff=0": "cutoff is 0; want a distance above 0", "hard?margin=1": "hard has no parameters",
		"ms?beta=1": `no parameter "beta"; there are epsilon`, "semi-hard?margin=-1": "margin is -1",
	} {
		if _, err := Parse(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if m, err := Parse("distance?cutoff=0.8&largest=1.2"); err != nil ||
		m != (DistanceWeighted{Cutoff: 0.8, Largest: 1.2}) {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err := Parse("semi-hard?margin=0.2"); err != nil || m != (SemiHardNegatives{Margin: 0.2}) {
		t.Errorf("%+v, %v", m, err)
	}
}

// The share of draws of each negative is the weight that pytorch-metric-learning 2.9.0 gives it: these numbers are the
// weights that its DistanceWeightedMiner hands to get_random_triplet_indices, in float64, for these embeddings.
func TestDistanceWeightedAsPyTorchMetricLearning(t *testing.T) {
	const dim, draws = 6, 1000
	e := circleBatch([]int64{0, 1, 1, 1, 0}, 0, 0, 0, 0, 0)
	e.Dim, e.Values = dim, make([]float32, 5*dim)
	for i, s := range []float64{1, 0.2, 0.5, 0.8, 0.9} { // Similarities to row 0.
		e.Values[i*dim], e.Values[i*dim+1] = float32(s), float32(math.Sqrt(1-s*s))
	}
	for _, c := range []struct {
		miner DistanceWeighted
		want  []float64
	}{
		{NewDistanceWeighted(), []float64{0, 0.086646975, 0.158718793, 0.754634231, 0}},
		{DistanceWeighted{Cutoff: 0.8, Largest: 1.2}, []float64{0, 0, 0.326824844, 0.673175156, 0}},
	} {
		backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
			if !strings.HasSuffix(t.Name(), "/go") {
				return
			}
			// A thousand draws of anchor 0 with its positive 4, by numbers that are evenly spread over [0, 1).
			exec, err := NewExec(b, func(x, labels, shares *Node) (perAnchor, each *Node) {
				count := func(m DistanceWeighted) *Node {
					m.Noise = shares
					tr := m.Mine(dmlx.NewLossBatch(x, labels, nil, nil)).Triplets
					first := LogicalAnd(tr.Valid, Equal(tr.Anchor, ZerosLike(tr.Anchor)))
					return ReduceAllSum(Where(first, tr.Negative, ZerosLike(tr.Negative)))
				}
				one := c.miner
				one.PerAnchor = 2
				return count(one), count(c.miner)
			})
			if err != nil {
				t.Fatal(err)
			}
			defer exec.Finalize()
			counts := make([]float64, 5)
			for k := range draws {
				noise := make([][]float32, 5)
				for i := range noise {
					noise[i] = slices.Repeat([]float32{(float32(k) + 0.5) / draws}, 5)
				}
				out, err := exec.Call(tensors.FromFlatDataAndDimensions(e.Values, 5, dim), e.Labels, noise)
				if err != nil {
					t.Fatal(err)
				}
				a, b := tensors.ToScalar[int32](out[0]), tensors.ToScalar[int32](out[1])
				if a != b {
					t.Fatalf("draw %d: negative %d by the first positives, %d by the loop", k, a, b)
				}
				counts[a]++
			}
			for i, w := range c.want {
				if math.Abs(counts[i]/draws-w) > 1.5/draws {
					t.Errorf("%+v: negative %d in %.3f of the draws, want %.4f", c.miner, i, counts[i]/draws, w)
				}
			}
		})
	}
}

package samples

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestFeatureData(t *testing.T) {
	good := clusters(4, 3, 2, 1)
	d, err := Features("x", good, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, m := len(d.Train.Labels()), len(d.Test.Labels()); n != 6 || m != 6 || d.Train.Labels()[5] == d.Test.Labels()[0] {
		t.Errorf("%d and %d samples, %v and %v", n, m, d.Train.Labels(), d.Test.Labels())
	}
	again, err := Features("y", good, nil)
	if err != nil || again.Digest != d.Digest {
		t.Errorf("digest %s, then %s, %v", d.Digest, again.Digest, err)
	}
	other := *good
	other.Values = append([]float32{good.Values[0] + 1}, good.Values[1:]...)
	if again, err := Features("x", &other, nil); err != nil || again.Digest == d.Digest {
		t.Errorf("other features have the same digest: %v", err)
	}
	scaled := func(by float32, first ...float32) *Array {
		a := clusters(4, 3, 2, 1)
		for i := range a.Values {
			a.Values[i] *= by
		}
		copy(a.Values, first)
		return a
	}
	farOff, constant := clusters(4, 3, 8, 1), clusters(4, 3, 8, 1)
	farOff.Values[2] = 1e12
	for i := 5; i < len(constant.Values); i += 8 {
		constant.Values[i] = 1e9
	}
	for _, fine := range [][2]*Array{{scaled(1e-17)}, {scaled(1e30)}, {scaled(1, 1e6, 1e6)}, {scaled(1), scaled(1e9)},
		{constant}} {
		if _, err := Features("x", fine[0], fine[1]); err != nil {
			t.Error(err)
		}
	}
	for want, c := range map[string][2]*Array{
		"is 2.67e-20: want features that differ by about 1": {scaled(1e-20)},
		"float32 does not tell them apart":                  {scaled(1, 1e10, 1e10)},
		"the mean of column 2 is 1.67e+11, beside":          {farOff}, // One value of one column.
		"row 1, column 0 of the test features is 1e+25":     {scaled(1), scaled(1, 0, 0, 1e25)},
		"are the same: want features that differ": {{Values: slices.Repeat([]float32{0.1}, 24), Dims: []int{2},
			Classes: good.Classes}},
		"half would be the test set":          {clusters(3, 3, 2, 1)},
		"want [N, F]":                         {{Values: good.Values, Dims: []int{1, 2}, Classes: good.Classes}},
		"features that differ":                {{Values: make([]float32, 24), Dims: []int{2}, Classes: good.Classes}},
		"no test sample has another":          {good, clusters(4, 1, 2, 1)},
		"values do not fit":                   {{Values: good.Values[1:], Dims: []int{2}, Classes: good.Classes}},
		"training samples have the shape [2]": {good, clusters(4, 3, 5, 1)},
	} {
		if _, err := Features("x", c[0], c[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want …%s…", err, want)
		}
	}
}

// clusters are points around the centers of classes.
func clusters(classes, perClass, dim int, seed uint64) *Array {
	rng := rand.New(rand.NewPCG(seed, 1))
	a := &Array{Dims: []int{dim}}
	for c := range classes {
		center := 3 * rng.NormFloat64()
		for range perClass * dim {
			a.Values = append(a.Values, float32(center+0.3*rng.NormFloat64()))
		}
		a.Classes = append(a.Classes, slices.Repeat([]int64{int64(c)<<40 - 7}, perClass)...) // Any int64 is a label.
	}
	return a
}

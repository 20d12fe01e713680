package dissect

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
)

func TestRuleOnDevices(t *testing.T) {
	c := backendtest.OnDevices(t, 4, "--xla_backend_optimization_level=0")
	if c == nil {
		return
	}
	rng := rand.New(rand.NewPCG(3, 0))
	e := Embeddings{N: 24, Dim: 6}
	for i := range e.N {
		e.Labels = append(e.Labels, int64(i%8))
		for range e.Dim {
			e.Values = append(e.Values, float32(rng.NormFloat64()))
		}
	}
	r, err := dmlx.ParseRule("cos-orth/lin-ms/cir")
	if err != nil {
		t.Fatal(err)
	}
	want, err := Rule(c.Backend, e, r)
	if err != nil {
		t.Fatal(err)
	}
	for _, devices := range []int{1, 3, 4} {
		got, err := RuleOnDevices(c.Backend, devices, e, r)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range want.Raw {
			if math.Abs(float64(got[i]-v)) > 1e-6 || len(got) != len(want.Raw) {
				t.Fatalf("%d devices: entry %d is %g, want %g", devices, i, got[i], v)
			}
		}
	}
	e.N, e.Values, e.Labels = 23, e.Values[:23*e.Dim], e.Labels[:23]
	for devices, want := range map[int]string{5: "want 1 to 4", 0: "want 1 to 4", 2: "23 rows cannot be divided evenly"} {
		if _, err := RuleOnDevices(c.Backend, devices, e, r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d devices: %v, want %q", devices, err, want)
		}
	}
}

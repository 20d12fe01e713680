package train

import (
	"bytes"
	"math"
	"testing"
)

func TestPretrain(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	for _, c := range trainers() {
		t.Run(c.Name, func(t *testing.T) {
			o := PretrainOptions{Epochs: 1, Batch: 32, classes: 2}
			r, err := Pretrain(t.Context(), c.Choice, o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Error <= 0 || r.Error > 1 || len(r.Weights) < 1e6 {
				t.Errorf("error %g, %d bytes", r.Error, len(r.Weights))
			}
			if c.Name == "go" {
				return
			}
			again, err := Pretrain(t.Context(), c.Choice, o)
			if err != nil || !bytes.Equal(again.Weights, r.Weights) {
				t.Errorf("not the same again: %v", err)
			}
		})
	}
	if peak := oneCycle(29, 100); peak != pretrainRate {
		t.Errorf("peak %g", peak)
	}
	if a, b := oneCycle(0, 100), oneCycle(99, 100); math.Abs(a-pretrainRate/25) > 1e-12 || b > 1e-6 {
		t.Errorf("from %g to %g", a, b)
	}
}

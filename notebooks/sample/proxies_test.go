package sample

import (
	"slices"
	"testing"
)

func TestProxies(t *testing.T) {
	batch := Batch(3, 4, 8, 1, 1)
	if p := Proxies(batch, 0, 1, 1); p.N != 0 || p.Values != nil {
		t.Errorf("%+v", p)
	}
	p := Proxies(batch, 2, 0, 1)
	if p.N != 6 || p.Dim != 8 || len(p.Values) != 48 || !slices.Equal(p.Classes, []int64{0, 0, 1, 1, 2, 2}) {
		t.Errorf("%+v", p)
	}
	// Without noise the proxies of a class are its mean.
	sum := float32(0)
	for i := 4; i < 8; i++ {
		sum += batch.Values[i*8] / 4
	}
	if d := p.Values[2*8] - sum; d > 1e-5 || d < -1e-5 || p.Values[2*8] != p.Values[3*8] {
		t.Errorf("%g, want %g", p.Values[2*8], sum)
	}
}

//go:build goexperiment.simd && amd64

package jpeg

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Blocks transformed at once are those transformed in turn, within the ranges and beyond them.
func TestTransformAtOnce(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 8))
	refused := 0
	for trial := range 20000 {
		var b block
		largest := int32(1) << (4 + trial%13)
		for range 1 + random.IntN(1+trial%64) {
			b.put(random.IntN(64), random.Int32N(2*largest)-largest)
		}
		var once, turn [8 * 24]uint8
		within, done := b.transformAtOnce(once[:], 24)
		if !done {
			t.Skip("this processor has no AVX2")
		}
		want := b.transformInTurn(turn[:], 24)
		if within != want || want && once != turn {
			t.Fatalf("trial %d: %v\n%v\nwant %v\n%v", trial, within, once, want, turn)
		}
		if !want {
			refused++
		}
	}
	if refused < 1000 || refused > 15000 {
		t.Errorf("%d of 20000 blocks are beyond the ranges", refused)
	}
}

// Colors converted at once are those converted in turn, for all pairs of chroma.
func TestColorsAtOnce(t *testing.T) {
	t.Parallel()
	const n = 256 + 5
	luma, cb, cr := make([]uint8, n), make([]uint8, n), make([]uint8, n)
	for trial := range 3 * 256 {
		for x := range n {
			luma[x], cb[x], cr[x] = uint8(x*7+trial*29), uint8(x), uint8(trial)
		}
		got, want := make([]uint8, 3*n), make([]uint8, 3*n)
		fromYCC(got, [][]uint8{luma, cb, cr})
		for x := range n {
			want[3*x], want[3*x+1], want[3*x+2] = yccToRGB(luma[x], cb[x], cr[x])
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("trial %d differs", trial)
		}
	}
}

package experiment

import (
	"reflect"
	"testing"
)

// A run that saves is a run: it trains, and stopped and gone on with it ends at the same bits.
func TestThriftyRuns(t *testing.T) {
	plain, _ := testStore(t)
	want := mustRun(t, goBackend(), plain, tiny())
	for _, thrift := range []Thrift{{Piece: 2}, {Precision: BFloat16}, {Recompute: true}, {BFloat16, 2, true}} {
		for _, c := range choices() {
			if c.Name != "go" && thrift.Piece == 0 { // A step compiles for seconds.
				continue
			}
			spec := tiny()
			spec.Thrift = thrift
			t.Run(c.Name+" "+string(spec.Canonical()[len(spec.Canonical())-50:]), func(t *testing.T) {
				t.Parallel()
				whole, _ := testStore(t)
				r := mustRun(t, c, whole, spec)
				if r.Diverged != "" || r.Hash == want.Hash || r.Recall[1] <= 0 {
					t.Errorf("%+v", r)
				}
				s, _ := testStore(t)
				runInTwoGoes(t, c, s, spec)
				if !reflect.DeepEqual(outcome(t, s, spec.Hash()), outcome(t, whole, spec.Hash())) {
					t.Error("differs from an undisturbed run")
				}
			})
		}
	}
}

package runs

import (
	"reflect"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/train"
)

// A run that saves is a run: it trains, and stopped and gone on with it ends at the same bits.
func TestMemoryOptions(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	plain, _ := testStore(t)
	want := mustRun(t, goBackend(), plain, tiny())
	for _, memory := range []train.Memory{{MicroBatch: 2}, {Precision: train.BFloat16}, {Recompute: true},
		{Precision: train.BFloat16, MicroBatch: 2, Recompute: true}} {
		for _, c := range trainers() {
			if c.Name != "go" && memory.MicroBatch == 0 { // A step compiles for seconds.
				continue
			}
			spec := tiny()
			spec.Memory = memory
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

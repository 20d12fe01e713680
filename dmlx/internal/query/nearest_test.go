package query

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"seeds", "sweep_seeds", "epochs", "batch", "dim"}
	for typed, want := range map[string]string{"seed": "seeds", "epoch": "epochs", "bacth": "batch", "Dim": "dim",
		"dimn": "dim", "optimiser": "", "x": ""} {
		if got := Nearest(typed, names); got != want {
			t.Errorf("%q is near %q, want %q", typed, got, want)
		}
	}
	if d := distance("kitten", "sitting"); d != 3 {
		t.Errorf("kitten and sitting are %d apart, want 3", d)
	}
}

package losses

import "testing"

// A loss that is read has a name by which it is read again.
func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		f.Add(name)
	}
	f.Add("circle?gamma=64&m=0.25")
	f.Add("ms?beta=40&beta=41")
	f.Add("triplet?margin=NaN")
	f.Fuzz(func(t *testing.T, name string) {
		l, err := Parse(name)
		if err != nil {
			return
		}
		if again, err := Parse(l.String()); err != nil || again.String() != l.String() {
			t.Errorf("%q is %s, which is read as %v (%v)", name, l, again, err)
		}
	})
}

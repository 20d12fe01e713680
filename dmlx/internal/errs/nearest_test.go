package errs

import "testing"

func TestNearest(t *testing.T) {
	t.Parallel()
	losses := []string{"contrastive", "triplet", "triplet-soft", "ms", "nca", "proxy-nca"}
	for _, c := range []struct {
		got, want string
		names     []string
	}{
		{"triplt", "triplet", losses},
		{"Triplet", "triplet", losses}, // Case is not part of a name's meaning.
		{"mss", "ms", losses},
		{"contr", "contrastive", losses}, // The only one that begins so.
		{"trip", "", losses},             // Two begin so, and neither is near.
		{"abacus", "", losses},
		{"", "", losses},
		{"x", "", []string{"ab", "cd"}},
		{"cirr", "cir", []string{"con", "cos", "cir"}},
		{"tabel2", "table2", []string{"table1", "table2", "table3"}}, // Exchanged neighbors are one error.
		{"quik", "quick", []string{"smoke", "quick"}},
	} {
		if got := Nearest(c.got, c.names); got != c.want {
			t.Errorf("%q: %q, want %q", c.got, got, c.want)
		}
	}
	for _, c := range []struct{ got, want string }{
		{"quik", "did you mean quick? There are smoke, quick"}, {"huge", "there are smoke, quick"},
	} {
		if text := ThereAre(c.got, []string{"smoke", "quick"}); text != c.want {
			t.Errorf("%q, want %q", text, c.want)
		}
	}
}

// The distances of Damerau's and Levenshtein's articles and of the standard examples.
func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"trian", "train", 1}, {"ca", "abc", 3},
		{"größe", "grösse", 2}, {"same", "same", 0}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
		if got := distance(c.b, c.a); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.b, c.a, got, c.want)
		}
	}
}

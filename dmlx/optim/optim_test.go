package optim

import "testing"

// Texts are read, written in canonical form, and read again as they are.
func TestCanonicalTexts(t *testing.T) {
	parse := map[string]func(text string) (string, error){
		"optimizer": func(s string) (string, error) { o, err := ParseOptimizer(s); return o.String(), err },
		"schedule":  func(s string) (string, error) { o, err := ParseSchedule(s); return o.String(), err },
	}
	for _, c := range []struct{ kind, text, want string }{
		{"optimizer", "", "sgd"},
		{"optimizer", "sgd?momentum=0.90", "sgd?momentum=0.9"},
		{"optimizer", "sgd?weight-decay=1e-4&nesterov&momentum=0.9", "sgd?momentum=0.9&nesterov&weight-decay=0.0001"},
		{"optimizer", "adam?beta1=0.9&beta2=0.99", "adam?beta2=0.99"},
		{"optimizer", "adamw?weight-decay=0.01", "adamw"},
		{"optimizer", "adamw?filter-bias-and-bn", "adamw?filter-bias-and-bn"},
		{"schedule", "constant?warmup=10", "constant?warmup=10"},
		{"schedule", "step?factor=0.1&at=.5,0.75", "step?at=0.5,0.75"},
		{"schedule", "step?warmup=3&epochs=30,50&factor=0.2", "step?epochs=30,50&factor=0.2&warmup=3"},
		{"schedule", "cosine?warmup=100&final=1e-2", "cosine?final=0.01&warmup=100"},
	} {
		got, err := parse[c.kind](c.text)
		if err != nil || got != c.want {
			t.Errorf("%s %q is %q, %v; want %q", c.kind, c.text, got, err, c.want)
			continue
		}
		if again, err := parse[c.kind](got); err != nil || again != got {
			t.Errorf("%s %q is %q, %v, when read again", c.kind, got, again, err)
		}
	}
}

package heads

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"linear": "linear", "linear?start=chosen": "linear", "linear?start=random": "linear?start=random",
		"linear?start=zero": "want chosen or random", "mlp": "mlp", "mlp?start=random": "mlp?start=random",
		"mlp?hidden=3&start=random": "mlp?hidden=3&start=random", "mlp?start=random&hidden=512": "mlp?start=random",
		"mlp?start=chosen&hidden=4": "mlp?hidden=4", "mlp?hidden=512": "mlp", "mlp?hidden=3": "mlp?hidden=3",
		"mlp?hidden=0": "whole number from 1", "mlp?hidden=x": "whole number", "tree": "there are linear and mlp",
		"linear?hidden=3": "there are start", "mlp?depth=3": "there are start, hidden", "": "there are linear",
	} {
		h, err := Parse(text)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want …%s…", text, err, want)
			}
		} else if h.String() != want {
			t.Errorf("%s is %s, want %s", text, h, want)
		}
	}
}

// Stored results have the checksum of what a choice is written as, so a new field must not appear in that of old ones.
func TestChoiceOfEarlierRun(t *testing.T) {
	const stored = `{"start":"whitened","shrinkage":0.1,"rate":0.005,"steps":20,"folds":5,"start_map_at_r":0.5,` +
		`"start_recall_at_1":0.75,"gain_map_at_r":0.25,"gain_recall_at_1":0.125,"price":0,"features_recall_at_1":0.5}`
	var c Choice
	if err := json.Unmarshal([]byte(stored), &c); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(c); err != nil || string(again) != stored {
		t.Errorf("written again as %s, %v", again, err)
	}
}

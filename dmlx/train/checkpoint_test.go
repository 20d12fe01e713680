package train

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"
)

// The checksum is that of the JSON, which older programs have written, too.
func TestChecksumOfJSON(t *testing.T) {
	t.Parallel()
	for _, epochs := range [][]Epoch{nil, {}, {{Epoch: 1}}, {{Epoch: 1, LR: 0.5}, {Epoch: 2}}} {
		c := Checkpoint{Run: `"epochs":null`, Epochs: epochs, Diverged: `at "epochs":null`,
			Triplets: map[string]string{"a": "b"}}
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%x", sha256.Sum256(raw)); c.Checksum() != want {
			t.Errorf("%d epochs: %s, want %s", len(epochs), c.Checksum(), want)
		}
	}
}

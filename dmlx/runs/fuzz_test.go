package runs

import (
	"encoding/json"
	"testing"
)

// A spec that is read and valid keeps its hash when it is written and read again.
func FuzzSpec(f *testing.F) {
	raw, err := json.Marshal(tiny())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"recipe":1,"data":"../../x","data_digest":"0","size":16,"loss":"ms?beta=40","miner":"ms"}`))
	f.Add([]byte(`{"recipe":1,"data":"minicar","size":9999999999999999999}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s, again Spec
		if json.Unmarshal(raw, &s) != nil {
			return
		}
		if hash := s.Hash(); !runName.MatchString(hash) {
			t.Fatalf("the hash is %q", hash)
		}
		if s.Validate() != nil {
			return
		}
		written, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(written, &again); err != nil || again.Hash() != s.Hash() {
			t.Errorf("%s has the hash %s, and %s when it is read again (%v)", written, s.Hash(), again.Hash(), err)
		}
	})
}

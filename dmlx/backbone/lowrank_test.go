package backbone

import (
	"strings"
	"testing"
)

// An adapter has one rank. Matrices that somebody else has written may be of several, or fit no weight.
func TestAdapterErrors(t *testing.T) {
	t.Parallel()
	for want, ranks := range map[string]map[string]int{
		"":                                       {"x.q": 1, "x.v": 1, "y.q": 1, "y.k": 1},
		"matrices of x.weight have another rank": {"x.q": 1, "x.v": 2},
		"matrices of y.weight have another rank": {"x.q": 1, "x.v": 1, "y": 1},
		"of y.weight have another rank than":     {"x": 2, "y": 1},
		"there is no weight":                     {"z": 1},
		"they do not fit":                        {"x.q": 0},
		"no low-rank matrices":                   {},
	} {
		header, body := map[string]any{metadataKey: map[string]string{LoRAAlpha: "2"}}, []byte(nil)
		put := func(name string, rows, columns int) {
			from := len(body)
			body = append(body, make([]byte, 4*rows*columns)...)
			header[name] = entry{DType: "F32", Shape: []int{rows, columns}, Offsets: [2]int{from, len(body)}}
		}
		put("x.weight", 6, 4)
		put("y.weight", 6, 4)
		for name, rank := range ranks {
			rows := 2
			if !strings.Contains(name, ".") {
				rows = 6
			}
			put(name+lowRankA, rank, 4)
			put(name+lowRankB, min(rows, rows*rank), rank)
		}
		data, err := safetensors(header, body)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = Adapter(data)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", ranks, err, want)
		}
	}
}

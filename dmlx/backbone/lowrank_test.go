package backbone

import (
	"strings"
	"testing"
)

// Matrices that somebody else has written may be of several ranks, or fit no weight.
func TestMergeLowRankErrors(t *testing.T) {
	t.Parallel()
	for want, ranks := range map[string]map[string]int{
		"":                   {"x.q": 1, "x.v": 2, "y": 1},
		"there is no weight": {"z": 1},
		"they do not fit":    {"x.q": 0},
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
		_, err = MergeLowRank(data)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", ranks, err, want)
		}
	}
}

// The matrices of a weight [in, out] are merged into its columns.
func TestLowRankInOut(t *testing.T) {
	t.Parallel()
	const in, out, rank = 4, 6, 1
	for _, inOut := range []bool{false, true} {
		meta := map[string]string{LoRAAlpha: "3"}
		w, dims := make([]float32, in*out), []int{out, in}
		if inOut {
			meta[LoRAInOut], dims = `["x.weight"]`, []int{in, out}
		}
		f := newTensorFile(meta)
		f.put("x.weight", dims, w)
		f.put("x.q"+lowRankA, []int{rank, in}, []float32{1, 2, 3, 4})
		f.put("x.q"+lowRankB, []int{out / 3, rank}, []float32{5, 7})
		data, err := safetensors(f.header, f.body)
		if err != nil {
			t.Fatal(err)
		}
		if data, err = MergeLowRank(data); err != nil {
			t.Fatal(err)
		}
		entries, left, body, err := parseSafetensors(data)
		if err != nil || left[LoRAInOut] != "" {
			t.Fatal(left, err)
		}
		for i, got := range entries["x.weight"].values(body) {
			row, column := i/in, i%in
			if inOut {
				row, column = i%out, i/out
			}
			want := float32(0)
			if row < out/3 {
				want = 3 * []float32{5, 7}[row] * float32(column+1)
			}
			if got != want {
				t.Errorf("in, out %v: row %d, column %d: %g, want %g", inOut, row, column, got, want)
			}
		}
	}
}

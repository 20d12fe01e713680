package engine

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fewFeatures is a file of 32 training samples of 8 classes and 4 test samples of 2, with 2 features.
func fewFeatures() []byte {
	labels := func(classes, each string) string {
		return strings.Join(slices.Repeat(strings.Split(classes, " "), len(each)), ",")
	}
	head := `{"Data":"few","Scale":[0.1,0.1],"Shift":[-1,-1],"Train":[` +
		labels("0 1 2 3 4 5 6 7", "four") + `],"Test":[` + labels("8 9", "xx") + "]}\n"
	out := []byte(head)
	for i := range 36 * 2 {
		out = append(out, byte(i*i%23))
	}
	return out
}

func TestLearn(t *testing.T) {
	e := start(t)
	if _, err := e.Answer("learn", []byte(`{"rule":"ours","dim":2}`), nil); err == nil ||
		err.Error() != "there are no features yet; ask for learnFrom first" {
		t.Errorf("without features: %v", err)
	}
	file := fewFeatures()
	for want, bad := range map[string][]byte{"damaged": []byte("hello"),
		"71 bytes for 36 samples of 2": file[:len(file)-1], "0 bytes for 0 samples of 0": []byte("{}\n")} {
		if _, err := e.Answer("learnFrom", nil, map[string][]byte{"features": bad}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v; want …%s…", err, want)
		}
	}
	about, err := e.Answer("learnFrom", nil, map[string][]byte{"features": file})
	if err != nil || about["train"] != 32 || about["test"] != 4 || about["features"] != 2 {
		t.Fatalf("%v, %v", about, err)
	}
	// Training starts from the features themselves: bytes i² mod 23, times 0.1 less 1.
	first := ask(t, e, "learn", `{"rule":"ours","dim":2,"measure":true}`)
	for _, name := range []string{"recall", "positive", "negative", "F"} {
		if !reflect.DeepEqual(first[name], about[name]) {
			t.Errorf("%s of the start is %v; want that of the features, %v", name, first[name], about[name])
		}
	}
	var test [4][2]float64
	for i := range 8 {
		test[i/2][i%2] = 0.1*float64((64+i)*(64+i)%23) - 1
	}
	hits := 0
	for i, x := range test {
		near := [2]float64{-2, -2} // Of another class, and of the sample's own.
		for j, y := range test {
			if s := (x[0]*y[0] + x[1]*y[1]) / math.Hypot(x[0], x[1]) / math.Hypot(y[0], y[1]); j == i^2 {
				near[1] = s
			} else if j != i {
				near[0] = max(near[0], s)
			}
		}
		positive, negative := about["positive"].([]float32)[i], about["negative"].([]float32)[i]
		if math.Abs(float64(positive)-near[1]) > 1e-5 || math.Abs(float64(negative)-near[0]) > 1e-5 {
			t.Errorf("test sample %d: nearest ones at %v and %v; want %v and %v", i, positive, negative, near[1], near[0])
		}
		if near[1] > near[0] {
			hits++
		}
	}
	if about["recall"] != float64(hits)/4 {
		t.Errorf("Recall@1 of the features %v; want %d of 4", about["recall"], hits)
	}
	out := ask(t, e, "learn", `{"rule":"ours","dim":2,"steps":4,"rate":0.1,"measure":true}`)
	if len(out["weight"].([]float32)) != 4 || len(out["bias"].([]float32)) != 2 || len(out["F"].([]float32)) != 8 ||
		out["step"] != 4 || len(out["sap"].([]float32)) != 4 || out["n"] != 4 || len(out["positive"].([]float32)) != 4 {
		t.Errorf("%v", out)
	}
	other := ask(t, e, "learn", `{"rule":"ours","dim":2,"steps":4,"rate":0.1,"seed":2}`)
	if _, is := other["recall"]; is || slices.Equal(other["weight"].([]float32), out["weight"].([]float32)) {
		t.Error("a measure that nobody asked for, or batches that do not depend on the seed")
	}
	for want, arguments := range map[string]string{
		"want either a rule or a loss":            `{"dim":2}`,
		"loss proxy-anchor has proxies":           `{"loss":"proxy-anchor","dim":2}`,
		"1 to 2 dimensions":                       `{"rule":"ours","dim":3}`,
		"101 steps from step 0":                   `{"rule":"ours","dim":2,"steps":101}`,
		"rate -1":                                 `{"rule":"ours","dim":2,"rate":-1}`,
		"step 8: rule cos/con/con: the step lead": `{"rule":"cos/con/con","dim":2,"step":7,"steps":1,"rate":1,"seed":1}`,
	} {
		arrays := map[string][]byte{}
		if strings.HasPrefix(want, "step 8") {
			arrays = map[string][]byte{"weight": raw[float32](1e38, 1e38, 1, 1), "bias": raw[float32](3e38, 3e38)}
		}
		if _, err := e.Answer("learn", []byte(arguments), arrays); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want …%s…", arguments, err, want)
		}
	}
	one := map[string][]byte{"weight": raw[float32](1)}
	if _, err := e.Answer("learn", []byte(`{"rule":"ours","dim":2}`), one); err == nil {
		t.Error("a weight of one value: no error")
	}
}

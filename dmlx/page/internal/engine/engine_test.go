package engine

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	e, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range [][2]string{{"describe", "{}"}, {"parse", `{"rule":"cos-orth/lin-ms/cir+sc1?tau=2&sum"}`}, {"parse", `{"loss":{"name":"ms","parameters":{"beta":41}}}`}, {"parse", `{"loss":"proxy-anchor"}`},
		{"compute", `{"rule":{"pair":"sig","options":{"alpha":3}},"sample":{"classes":3,"images":2,"dim":3,"noise":1,"seed":1}}`}, {"diagram", `{"loss":"ms","side":3}`}, {"field", `{"rule":"ours","side":3}`},
		{"compute", `{"rule":{"pair":"sigi"},"loss":"x"}`}, {"compute", `{"rule":{"pair":"sigi"}}`}, {"compute", `{"rule":"ours", "foo": 3}`}} {
		out, err := e.Answer(q[0], []byte(q[1]), nil)
		text, _ := json.Marshal(out)
		if len(text) > 3000 {
			text = text[:3000]
		}
		fmt.Println(q, string(text), err)
	}
	about, _ := e.describe(nil)
	for _, l := range about["losses"].([]Object) {
		name := l["name"].(string)
		for _, m := range []string{"compute", "diagram", "field", "flow"} {
			args := `"sample":{"classes":8,"images":4,"dim":3,"noise":1,"seed":1}`
			if m == "diagram" || m == "field" {
				args = `"side":13`
			}
			for i := range 2 {
				start := time.Now()
				_, err := e.Answer(m, []byte(`{"loss":"`+name+`",`+args+`}`), nil)
				fmt.Println(name, m, i, time.Since(start), err)
			}
		}
	}
}

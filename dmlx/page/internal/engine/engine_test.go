package engine

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/losses"
)

func start(t *testing.T) *Engine {
	t.Helper()
	e, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func ask(t *testing.T, e *Engine, method, arguments string) Object {
	t.Helper()
	out, err := e.Answer(method, []byte(arguments), nil)
	if err != nil {
		t.Fatalf("%s %s: %v", method, arguments, err)
	}
	return out
}

// raw is an array as JavaScript sends it.
func raw[T float32 | int32](values ...T) []byte {
	out, err := binary.Append(nil, binary.LittleEndian, values)
	if err != nil {
		panic(err)
	}
	return out
}

const small = `"sample":{"classes":4,"images":3,"dim":5,"noise":0.8,"seed":3}`

// TestEverySubject asks every method for every rule's parts and every loss.
func TestEverySubject(t *testing.T) {
	e := start(t)
	about := ask(t, e, "describe", "")
	for key, texts := range map[string]map[string]part{"directions": directions, "pairs": pairWeights,
		"triplets": tripletWeights, "masks": masks, "losses": nil} {
		list := about[key].([]Object)
		if least := cmp.Or(len(texts), 19); len(list) < least {
			t.Errorf("%d %s; want %d or more", len(list), key, least)
		}
		for _, x := range list {
			if help := texts[x["name"].(string)].help; x["title"] == "" || help != "" && x["help"] != help {
				t.Errorf("%s %v has no title or help", key, x["name"])
			}
		}
	}
	if n := len(about["rules"].([]string)); n != len(dmlx.Rules()) {
		t.Errorf("%d rules", n)
	}
	subjects := []string{`"rule":"ours"`, `"rule":"euc-orth/sig-ms/cos+sc2-printed?beta=3&sum"`, `"rule":{"mask":"sc1"}`}
	for _, l := range losses.Names() {
		subjects = append(subjects, fmt.Sprintf(`"loss":%q`, l))
	}
	for _, s := range subjects {
		ask(t, e, "parse", "{"+s+"}")
		c := ask(t, e, "compute", "{"+s+","+small+"}")
		rows, dim := c["rows"].(int), c["dim"].(int)
		for name, want := range map[string]int{"f": rows * dim, "S": rows * rows, "M": rows * rows, "G": rows * dim,
			"raw": rows * dim} {
			if got := len(c[name].([]float32)); got != want {
				t.Errorf("%s: %s has %d values; want %d", s, name, got, want)
			}
		}
		if n := c["triplets"].(Object)["count"].(int); n == 0 && s != `"loss":"pfml"` { // It pushes up to D = 0.2.
			t.Errorf("%s: no triplets", s)
		}
		f := ask(t, e, "flow", "{"+s+","+small+`,"frames":2,"steps":3,"rate":0.01}`)
		if n := len(f["F"].([]float32)); n != 2*12*5 {
			t.Errorf("%s: a flow of %d values", s, n)
		}
		d := ask(t, e, "diagram", "{"+s+`,"side":3}`)
		field := ask(t, e, "field", "{"+s+`,"side":4,"low":0.1,"high":0.7}`)
		for _, v := range slices.Concat(d["pull"].([]float32), d["push"].([]float32), field["dsap"].([]float32),
			field["dsan"].([]float32)) {
			if v-v != 0 {
				t.Errorf("%s: %v in a diagram", s, v)
			}
		}
	}
}

// TestComputeIsDissect compares an answer with what package dissect says.
func TestComputeIsDissect(t *testing.T) {
	e := start(t)
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	batch := dissect.Sample(4, 3, 5, 0.8, 3)
	r, err := dmlx.ParseRule("cos-orth/sig/cir+sc1?alpha=3&tau=2")
	if err != nil {
		t.Fatal(err)
	}
	want, err := dissect.Rule(b, batch, r)
	if err != nil {
		t.Fatal(err)
	}
	labels := int32s(batch.Labels)
	// The same batch as a sample and as arrays, the rule by its name and by its parts.
	for i, arguments := range []string{`{"rule":"cos-orth/sig/cir+sc1?alpha=3&tau=2",` + small + `}`,
		`{"rule":{"direction":"cos-orth","pair":"sig","triplet":"cir","mask":"sc1","options":{"tau":2,"alpha":3,"sum":false}},
			"n":12,"dim":5}`} {
		arrays := map[string][]byte{}
		if i == 1 {
			arrays = map[string][]byte{"embeddings": raw(batch.Values...), "labels": raw(labels...)}
		}
		got, err := e.Answer("compute", []byte(arguments), arrays)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got["M"].([]float32), want.M) || !slices.Equal(got["raw"].([]float32), want.Raw) ||
			got["name"] != r.Name() || got["triplets"].(Object)["count"] != len(want.Triplets) {
			t.Errorf("%s: another answer than dissect's", arguments)
		}
	}
	given, err := e.Answer("compute", []byte(`{"rule":"ours",`+small+`}`),
		map[string][]byte{"triplets": raw[int32](0, 1, 5)})
	if err != nil || !slices.Equal(given["triplets"].(Object)["negative"].([]int32), []int32{5}) {
		t.Errorf("a given triplet: %v, %v", given["triplets"], err)
	}
}

// TestDiagramOfALoss sees that S_ap runs along rows, as for a rule. The contrastive loss pulls and pushes each pair for
// itself.
func TestDiagramOfALoss(t *testing.T) {
	e := start(t)
	d := ask(t, e, "diagram", `{"loss":"contrastive?margin=2&power=2","side":5,"low":-0.8,"high":0.8}`)
	pull, push := d["pull"].([]float32), d["push"].([]float32)
	for k := range pull {
		if i, j := k%5, k/5; pull[k] != pull[j*5+i] || pull[k] != pull[i] || push[k] != push[j*5] {
			t.Fatalf("point %d: the pull must depend on S_ap alone, the push on S_an", k)
		}
	}
	if pull[0] == 0 || push[4*5] == 0 {
		t.Error("nothing is pulled or pushed")
	}
}

// TestFieldFollowsDescent compares an arrow with a step by hand: cos/con/con, T P = ½.
func TestFieldFollowsDescent(t *testing.T) {
	d := ask(t, start(t), "field", `{"rule":"cos/con/con","side":2,"low":0,"high":0.6,"rate":0.001}`)
	// At S_ap = 0.6, S_an = 0: dS_ap/dt = |f_p − S f_a|² T (for a) + as much (for p) + what a's move for n does: 0 here,
	// since S_pn = S_ap S_an.
	if got, want := float64(d["dsap"].([]float32)[1]), 0.5*2*(1-0.36); math.Abs(got-want) > 1e-3 {
		t.Errorf("dS_ap is %v; want %v", got, want)
	}
	if got, want := float64(d["dsan"].([]float32)[1]), -0.5*2*(1-0.0); math.Abs(got-want) > 1e-3 {
		t.Errorf("dS_an is %v; want %v", got, want)
	}
}

// TestFlowGoesOn asks for frames in one call and in two, of a rule and of a loss with proxies.
func TestFlowGoesOn(t *testing.T) {
	e := start(t)
	for _, s := range []string{`"rule":"cos/lin/cir"`, `"loss":"proxy-anchor"`} {
		whole := ask(t, e, "flow", "{"+s+","+small+`,"frames":4}`)
		first := ask(t, e, "flow", "{"+s+","+small+`,"frames":2}`)
		positions, labels := first["F"].([]float32), first["labels"].([]int32)
		arrays := map[string][]byte{"embeddings": raw(positions[60:]...), "labels": raw(labels...)}
		if p := first["P"].([]float32); len(p) > 0 {
			arrays["at"] = raw(p...)
		}
		second, err := e.Answer("flow", []byte("{"+s+`,"n":12,"dim":5,"frames":2}`), arrays)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range second["F"].([]float32) {
			if want := whole["F"].([]float32)[120+i]; math.Abs(float64(v-want)) > 1e-5 {
				t.Fatalf("%s: value %d is %v in two calls, %v in one", s, i, v, want)
			}
		}
	}
}

// TestLiterals looks the identifiers of the page up in the source of package dmlx.
func TestLiterals(t *testing.T) {
	e := start(t)
	for arguments, want := range map[string]string{
		`{"rule":"cos-orth/lin-ms/cir+sc1?tau=2&sum&epsilon=1e-9"}`: "dmlx.ParseRule(" +
			`"cos-orth/lin-ms/cir+sc1?epsilon=1e-09&sum&tau=2")`,
		`{"loss":{"name":"proxy-nca","parameters":{"all":true,"tau":3}}}`: "&losses.ProxyNCA{Tau: 3, All: true}",
	} {
		if got := ask(t, e, "parse", arguments)["literal"]; got != want {
			t.Errorf("%s: %s; want %s", arguments, got, want)
		}
	}
	if got := ask(t, e, "parse", `{"loss":"ms?beta=40"}`)["command"]; got !=
		"dmlx train --data minicar --loss 'ms?beta=40'" {
		t.Error(got)
	}
}

func TestBadRequests(t *testing.T) {
	e := start(t)
	for _, k := range []struct{ method, arguments, want string }{
		{"abacus", `{}`, `no method "abacus"`},
		{"compute", `{`, "unexpected EOF"},
		{"compute", `{"rules":1}`, "unknown field"},
		{"compute", `{` + small + `}`, "want either a rule or a loss"},
		{"compute", `{"rule":"ours","loss":"ms",` + small + `}`, "want either a rule or a loss"},
		{"compute", `{"rule":"sums",` + small + `}`, "want direction/pair/triplet"},
		{"compute", `{"rule":{"pair":"sum"},` + small + `}`, `no pair weight "sum"`},
		{"compute", `{"rule":{"options":{"tau":"x"}},` + small + `}`, "needs a finite number"},
		{"compute", `{"rule":{"options":{"colour":1}},` + small + `}`, `no option "colour"`},
		{"compute", `{"loss":"sum",` + small + `}`, "there is none of that name"},
		{"compute", `{"loss":{"name":"arcface","parameters":{"margin":4}},` + small + `}`, "margin is 4; want an angle"},
		{"compute", `{"loss":"soft-triple?centers=100000",` + small + `}`, "400000 proxies for 4 classes"},
		{"compute", `{"rule":"ours"}`, "want either a sample or embeddings"},
		{"compute", `{"rule":"ours","sample":{"classes":1000000,"images":4,"dim":3,"noise":1,"seed":1}}`, "at most 512"},
		{"compute", `{"rule":"ours","sample":{"classes":-1,"images":4,"dim":3,"noise":1,"seed":1}}`, "want 1 or more"},
		{"compute", `{"rule":"ours","sample":{"classes":4,"images":4,"dim":3,"noise":1e30,"seed":1}}`, "the noise 1e+30"},
		{"diagram", `{"rule":"ours","side":1}`, "want 2 to 201"},
		{"diagram", `{"rule":"ours","low":1,"high":0}`, "increasing range"},
		{"diagram", `{"loss":"n-pair?tau=1e300"}`, "loss n-pair"},
		{"field", `{"rule":"ours","rate":0}`, "the rate is 0"},
		{"flow", `{"rule":"ours","frames":10000,` + small + `}`, "a flow of 10000 frames"},
		{"flow", `{"rule":"ours","rate":1e300,` + small + `}`, "finite rate"},
	} {
		_, err := e.Answer(k.method, []byte(k.arguments), nil)
		if err == nil || !strings.Contains(err.Error(), k.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %s: %v; want %q", k.method, k.arguments, err, k.want)
		}
	}
	nan := raw(1, 2, float32(math.NaN()), 4)
	for _, k := range []struct {
		arguments          string
		embeddings, labels []byte
		want               string
	}{
		{`"n":2,"dim":2`, nan, raw[int32](0, 0), "value at row 1, column 0 is NaN"},
		{`"n":2,"dim":2`, nan[:15], raw[int32](0, 0), "15 bytes"},
		{`"n":3,"dim":2`, nan, raw[int32](0, 0), "needs 6 values"},
		{`"n":2,"dim":2`, raw[float32](1, 2, 3, 4), raw[int32](0), "labels"},
		{`"n":0,"dim":2`, nan, raw[int32](0), "want 1 to 512 rows"},
	} {
		for _, subject := range []string{`"rule":"ours"`, `"loss":"proxy-nca"`} {
			_, err := e.Answer("compute", []byte("{"+subject+","+k.arguments+"}"), map[string][]byte{"embeddings": k.embeddings,
				"labels": k.labels})
			if err == nil || !strings.Contains(err.Error(), k.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s %s: %v; want %q", subject, k.arguments, err, k.want)
			}
		}
	}
	outside := map[string][]byte{"triplets": raw[int32](0, 1, 99)}
	if _, err := e.Answer("compute", []byte(`{"rule":"ours",`+small+`}`), outside); err == nil ||
		!strings.Contains(err.Error(), "outside the batch") {
		t.Errorf("a triplet outside the batch: %v", err)
	}
	ask(t, e, "compute", `{"rule":"ours",`+small+`}`) // It lives on.
}

// TestCacheIsBounded asks for more losses than are kept.
func TestCacheIsBounded(t *testing.T) {
	e := start(t)
	for i := range 40 {
		ask(t, e, "compute", fmt.Sprintf(`{"loss":"ms?beta=%d",%s}`, i+1, small))
	}
	if len(e.losses.values) != 32 || len(e.losses.order) != 32 {
		t.Errorf("%d losses are kept", len(e.losses.values))
	}
}

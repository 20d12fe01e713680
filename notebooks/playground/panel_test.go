package playground

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/page/frame"
	"github.com/gradient-surgery/dml/figures"
)

func rulePanel(t testing.TB, p Panel) panel {
	t.Helper()
	shown, err := p.panel()
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

func hinged(b *dmlx.Batch) *Node { return MaxScalar(AddScalar(Sub(b.San, b.Sap), 0.5), 0) }

var mine = dmlx.Rule{Pair: dmlx.PairLin, Triplet: dmlx.TripletWeight{Name: "hinge", Of: hinged}}

// What the page asks for is answered for the user's own part as for the paper's.
func TestPanelKnowsOwnParts(t *testing.T) {
	t.Parallel()
	p := rulePanel(t, Panel{Rule: mine})
	about, err := p.answer("describe", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	names := ""
	for _, x := range about["triplets"].([]frame.Object) {
		names += " " + x["name"].(string)
	}
	if names != " con cos cir hinge" {
		t.Errorf("triplet weights%s", names)
	}
	ask := func(method, args string) frame.Object {
		t.Helper()
		out, err := p.answer(method, []byte(args), nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	parsed := ask("parse", `{"rule": {"pair": "lin", "triplet": "hinge", "options": {"tau": 2}}}`)
	if parsed["name"] != "cos/lin/hinge?tau=2" || parsed["literal"] != nil {
		t.Errorf("%v", parsed)
	}
	d := ask("diagram", `{"rule": "cos/con/hinge", "side": 3}`)
	for k, weight := range d["weight"].([]float32) {
		if sap, san := float32(k%3)/2, float32(k/3)/2; weight != max(san-sap+0.5, 0) {
			t.Errorf("T at %v, %v is %v", sap, san, weight)
		}
	}
	r := ask("compute", `{"rule": "cos/con/con", "sample": {"classes": 2, "images": 2, "dim": 3, "noise": 1, "seed": 1}}`)
	if r["n"] != 4 {
		t.Errorf("a rule of the paper: %v", r["n"])
	}
}

// A part that fails says where, in the page and at the start.
func TestPanelBadRule(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]dmlx.Rule{
		"panel_test.go, line ": {Triplet: dmlx.TripletWeight{Name: "root",
			Of: func(b *dmlx.Batch) *Node { return Sqrt(AddScalar(Neg(b.Sap), -3)) }}},
		"not today": {Triplet: dmlx.TripletWeight{Name: "p", Of: func(*dmlx.Batch) *Node { panic("not today") }}},
		"pair weight wide: P₊ is float32": {Pair: dmlx.PairWeight{Name: "wide",
			Of: func(b *dmlx.Batch) (*Node, *Node) { return b.S, b.San }}},
	} {
		if err := (Panel{Rule: r}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", r.Name(), err, want)
		}
	}
}

// What stays is drawn from what the page showed: its rule, or a loss of one's own.
func TestStill(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{
		"view=bench&a=cos/lin/hinge&b=cos/con/con": "cos/lin/hinge",
		"a=cos-orth/lin-ms/cir?tau=2%26sum":        "cos-orth/lin-ms/cir?sum&tau=2",
		"a=cos/con/cos+sc1":                        "cos/con/cos+sc1",
	} {
		if f, err := (Panel{Rule: mine}).still(state); err != nil || !strings.Contains(f.Alt, want) {
			t.Errorf("%s: %v, %v", state, f, err)
		}
	}
	for _, state := range []string{"a=cos/con/none", "a=loss:ms", ""} {
		if _, err := (Panel{Rule: mine}).still(state); err == nil {
			t.Errorf("%s is drawn", state)
		}
	}
	// The user's own batch.
	own := dissect.Sample(3, 2, 5, 1, 1)
	p := rulePanel(t, Panel{Rule: mine, Batch: own})
	if about, err := p.answer("describe", nil, nil); err != nil || about["batch"].(frame.Object)["n"] != 6 {
		t.Errorf("%v, %v", about["batch"], err)
	}
}

// A loss of one's own is among the losses of the page, which trains a layer by it.
func TestPanelOfOwnLoss(t *testing.T) {
	t.Parallel()
	pairs := objectives.LossFunction{Name: "pairs", Of: func(b *dmlx.LossBatch) *Node {
		return ReduceAllMean(Where(b.Positive, OneMinus(b.S), Where(b.Negative, Square(b.S), ZerosLike(b.S))))
	}}
	p := rulePanel(t, Panel{Loss: pairs, Beside: "loss:ms", Train: true})
	if p.state != "view=learn&a=loss:pairs&b=loss:ms" {
		t.Error(p.state)
	}
	about, err := p.answer("describe", nil, nil)
	if err != nil || about["losses"].([]frame.Object)[0]["name"] != "pairs" {
		t.Errorf("%v", err)
	}
	r, err := p.answer("compute", []byte(`{"loss": {"name": "pairs", "parameters": {}}, `+
		`"sample": {"classes": 2, "images": 2, "dim": 3, "noise": 1, "seed": 1}}`), nil)
	if err != nil || r["name"] != "pairs" {
		t.Errorf("%v, %v", r["name"], err)
	}
	if parsed, err := p.answer("parse", []byte(`{"loss": "pairs"}`), nil); err != nil || parsed["literal"] != nil {
		t.Errorf("%v, %v", parsed, err)
	}
	if f, err := p.still(p.state); err != nil || !strings.Contains(f.Alt, "matrix") {
		t.Errorf("%v, %v", f, err)
	}
	for want, l := range map[string]objectives.LossFunction{
		"one that no other loss has": {Name: "ms", Of: pairs.Of}, "has proxies": {Name: "p", Of: pairs.Of, Proxies: 1}} {
		if err := (Panel{Loss: l}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// browser is one end of a link.
type browser struct {
	messages chan message
	answers  chan string
	pages    chan string
	kept     chan string
}

func follow(ctx context.Context, p panel) (b browser, ended chan error) {
	b = browser{make(chan message, 8), make(chan string, 64), make(chan string, 8), make(chan string, 8)}
	ended = make(chan error, 1)
	go func() {
		keep := func(f *figures.Figure) error { b.kept <- f.Alt; return nil }
		ended <- p.follow(ctx, link{func(s string) { b.pages <- s }, keep, func(s string) { b.answers <- s }, b.messages},
			"id", func() {})
	}()
	return b, ended
}

func within[T any](t *testing.T, c <-chan T, what string) (x T) {
	t.Helper()
	select {
	case x = <-c:
	case <-time.After(20 * time.Second):
		t.Fatal("no " + what)
	}
	return x
}

// A page that has gone, or never came, ends the panel; a beat is answered and changes nothing.
func TestSilenceEnds(t *testing.T) {
	defer func(hello, beat time.Duration) { helloWait, beatWait = hello, beat }(helloWait, beatWait)
	helloWait, beatWait = time.Minute, 200*time.Millisecond
	b, ended := follow(t.Context(), rulePanel(t, Panel{}))
	within(t, b.pages, "page")
	b.messages <- message{Beat: true}
	if text := within(t, b.answers, "answer"); text != "{}" {
		t.Errorf("a beat is answered by %s", text)
	}
	if last := within(t, b.pages, "last page"); !strings.Contains(last, pageGone) || strings.Contains(last, "<iframe") {
		t.Errorf("%.300s", last)
	}
	if err := within(t, ended, "end"); err != nil {
		t.Error(err)
	}
}

// Requests are answered, and when the panel ends, pictures of what its page showed stay.
func TestPanelAnswersAndEnds(t *testing.T) {
	for _, how := range []string{"stop", "end"} {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		b, ended := follow(ctx, rulePanel(t, Panel{Rule: mine}))
		live := within(t, b.pages, "page")
		if !strings.Contains(live, "#kernel&amp;amp;view=bench&amp;amp;a=cos/lin/hinge") ||
			strings.Contains(live, `src="http`) {
			t.Errorf("the page does not begin with the rule, or names another host")
		}
		ask := func(text string) (out struct {
			ID     int
			Ready  bool
			Error  string
			Result struct{ M struct{ Float32Array []byte } }
		}) {
			t.Helper()
			b.messages <- message{text: text}
			if err := json.Unmarshal([]byte(within(t, b.answers, "answer")), &out); err != nil {
				t.Fatal(err)
			}
			return out
		}
		if !ask(`{"program": null}`).Ready {
			t.Error("not ready")
		}
		packed := fmt.Sprintf(`{"id": 7, "method": "compute", "args": {"rule": "cos/lin/hinge", "n": 3, "dim": 2, `+
			`"embeddings": {"Float32Array": %s}, "labels": {"Int32Array": %s}}}`, inJSON(t, raw(t, []float32{1, 0, 0, 1, 1, 1})),
			inJSON(t, raw(t, []int32{0, 0, 1})))
		if got := ask(packed); got.ID != 7 || got.Error != "" || len(got.Result.M.Float32Array) != 4*9 {
			t.Errorf("%+v", got)
		}
		if got := ask(`{"id": 8, "method": "compute", "args": {"rule": "cos/lin/no"}}`); !strings.Contains(got.Error,
			`no triplet weight "no"`) {
			t.Errorf("%+v", got)
		}
		b.messages <- message{State: "a=cos/con/hinge&steps=30"}
		b.messages <- message{Said: "cos/con/hinge: 40 % after 5 steps"}
		b.messages <- message{Beat: true}
		within(t, b.answers, "beat")
		if how == "stop" {
			stop()
		} else {
			b.messages <- message{End: true}
		}
		if last := within(t, b.pages, "last page"); strings.Contains(last, "<script") ||
			!strings.Contains(last, "cos/con/hinge: 40 % after 5 steps") {
			t.Errorf("%s: the last page: %.300s", how, last)
		}
		if err := within(t, ended, "end"); err != nil {
			t.Error(err)
		}
		if kept := within(t, b.kept, "picture"); !strings.Contains(kept, "cos/con/hinge") {
			t.Errorf("%s: kept %s", how, kept)
		}
	}
}

// raw is an array as a request has it.
func raw(t *testing.T, of any) []byte {
	t.Helper()
	b, err := binary.Append(nil, binary.LittleEndian, of)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func inJSON(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestWithoutBrowser(t *testing.T) {
	t.Setenv(headlessEnv, "1")
	b, ended := follow(t.Context(), rulePanel(t, Panel{}))
	if page := within(t, b.pages, "page"); strings.Contains(page, "<script") || !strings.Contains(page, noBrowser) {
		t.Errorf("%.300s", page)
	}
	if err := within(t, ended, "end"); err != nil || len(b.kept) != 1 {
		t.Errorf("%d pictures, %v", len(b.kept), err)
	}
}

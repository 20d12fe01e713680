package playground

import (
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
)

func flowPage(t testing.TB, f Flow) page {
	t.Helper()
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	if f.Dim == 0 {
		f.Dim = 2
	}
	p, end := f.page(b)
	t.Cleanup(end)
	return p
}

func TestFlowPanel(t *testing.T) {
	p := flowPage(t, Flow{Rule: parse(t, "cos/lin/cir")})
	press := func(button string, pairs ...string) view {
		t.Helper()
		e := changed(p, pairs...)
		if button != "" {
			e.Press = []string{button}
		}
		v := p.draw(e)
		if v.Problem != "" {
			t.Fatal(v.Problem)
		}
		return v
	}
	first := press("")
	if !strings.HasPrefix(first.Note, "cos/lin/cir, step 0:") {
		t.Errorf("at first: %q", first.Note)
	}
	if v := press("step"); !strings.Contains(v.Note, "step 1:") || v.Pictures["flow"] == first.Pictures["flow"] {
		t.Errorf("a step: %q", v.Note)
	}
	if v := press("play", "steps", "5"); !strings.Contains(v.Note, "step 6:") {
		t.Errorf("a frame of 5 steps: %q", v.Note)
	}
	// Another rule continues from the current state.
	if v := press("step", "pair", "con", "triplet", "con"); !strings.HasPrefix(v.Note, "cos/con/con, step 7:") {
		t.Errorf("another rule: %q", v.Note)
	}
	if v := press("restart"); v.Note != first.Note || v.Pictures["flow"] != first.Pictures["flow"] {
		t.Errorf("restarted: %q", v.Note)
	}
	press("step")
	if v := press("", "dim", "sphere"); !strings.Contains(v.Note, "step 0:") ||
		!strings.Contains(v.Alts["flow"], "sphere") {
		t.Errorf("another start: %q", v.Note)
	}
	for range 4 {
		press("play", "dim", "sphere", "steps", "20")
	}
	if v := p.final(); !strings.Contains(v.Note, "step 80:") || !strings.Contains(v.Alts["flow"], "From step 0 to 80") {
		t.Errorf("what stays: %q, %q", v.Note, v.Alts["flow"])
	}
}

func TestFlowPanelBadInput(t *testing.T) {
	bad := dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "root",
		Of: func(b *dmlx.Batch) *Node { return Sqrt(AddScalar(Neg(b.Sap), -3)) }}}
	p := flowPage(t, Flow{Rule: bad})
	if v := p.draw(p.first()); v.Problem != "" {
		t.Fatal(v.Problem) // No step yet.
	}
	e := p.first()
	e.Press = []string{"play"}
	if v := p.draw(e); !strings.Contains(v.Problem, "step 1: embedding 0 would not be of length 1 but NaN") {
		t.Errorf("a rule that gives NaN: %q", v.Problem)
	}
	e.Values["triplet"] = "con"
	if v := p.draw(e); v.Problem != "" || !strings.Contains(v.Note, "cos/con/con, step 1:") {
		t.Errorf("then a good one: %q, %q", v.Note, v.Problem)
	}
	for _, c := range [][]string{{"classes", "0"}, {"noise", "loud"}, {"dim", "torus"}} {
		if v := p.draw(changed(p, c...)); v.Problem == "" {
			t.Errorf("%q was drawn", c)
		}
	}
	// A flow that was not played is played at the end.
	p = flowPage(t, Flow{Rule: parse(t, "ours"), Dim: 3})
	p.draw(p.first())
	if v := p.final(); !strings.Contains(v.Alts["flow"], "From step 0 to 250") {
		t.Errorf("%q, %q", v.Alts["flow"], v.Problem)
	}
	if err := (Flow{Dim: 4}).Run(t.Context()); err == nil {
		t.Error("a flow in 4 dimensions runs")
	}
}

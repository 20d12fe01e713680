package playground

import (
	"context"
	"html"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/figures"
)

func rulePage(t testing.TB, r dmlx.Rule) page {
	t.Helper()
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	return Panel{Rule: r}.page(b)
}

func parse(t testing.TB, name string) dmlx.Rule {
	t.Helper()
	r, err := dmlx.ParseRule(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// changed returns the panel's first event with some values changed: name, value, name, value, …
func changed(p page, pairs ...string) event {
	e := p.first()
	for i := 0; i < len(pairs); i += 2 {
		e.Values[pairs[i]] = pairs[i+1]
	}
	return e
}

// drawn returns a picture without its alternative text, which names the rule.
func drawn(v view, name string) string {
	return strings.Replace(v.Pictures[name], html.EscapeString(v.Alts[name]), "", 1)
}

func TestPanelFollowsItsControls(t *testing.T) {
	p := rulePage(t, parse(t, "cos/lin/cir?tau=2"))
	first := p.draw(p.first())
	if first.Problem != "" || first.Note != "cos/lin/cir?tau=2" {
		t.Fatalf("at first: %q, %q", first.Note, first.Problem)
	}
	for _, name := range p.pictures {
		if !strings.Contains(first.Pictures[name], "<svg") || first.Alts[name] == "" {
			t.Errorf("no picture %s", name)
		}
	}
	for _, c := range []struct {
		change  []string
		note    string
		off     []string // Parameters without effect.
		changes []string // The pictures that change.
	}{
		{[]string{"tau", "8"}, "cos/lin/cir?tau=8", []string{"alpha", "beta", "lambda", "epsilon"},
			[]string{"diagram", "motion", "matrix"}},
		{[]string{"alpha", "3"}, "cos/lin/cir?tau=2", []string{"alpha", "beta", "lambda", "epsilon"}, nil},
		{[]string{"direction", "cos-orth"}, "cos-orth/lin/cir?tau=2", []string{"alpha", "beta", "lambda", "epsilon"},
			[]string{"motion", "matrix"}},
		{[]string{"pair", "sig-ms", "triplet", "con", "mask", "sc1"}, "cos/sig-ms/con+sc1", []string{"tau"},
			[]string{"diagram", "motion", "matrix"}},
		{[]string{"pair", "lin-ms", "epsilon", "0.5"}, "cos/lin-ms/cir?epsilon=0.5&tau=2",
			[]string{"alpha", "beta", "lambda"}, []string{"matrix"}},
		{[]string{"show", "T"}, "cos/lin/cir?tau=2", []string{"alpha", "beta", "lambda", "epsilon"}, []string{"diagram"}},
		{[]string{"noise", "2"}, "cos/lin/cir?tau=2", []string{"alpha", "beta", "lambda", "epsilon"},
			[]string{"diagram", "matrix"}},
		{[]string{"san", "0.9"}, "cos/lin/cir?tau=2", []string{"alpha", "beta", "lambda", "epsilon"}, []string{"motion"}},
	} {
		p := rulePage(t, parse(t, "cos/lin/cir?tau=2")) // A new one, since the scale of M only grows.
		p.draw(p.first())
		v := p.draw(changed(p, c.change...))
		if v.Problem != "" || v.Note != c.note || !slices.Equal(v.Off, c.off) {
			t.Errorf("%q: note %q, off %q, problem %q", c.change, v.Note, v.Off, v.Problem)
		}
		for _, name := range p.pictures {
			if want := slices.Contains(c.changes, name); (drawn(v, name) != drawn(first, name)) != want {
				t.Errorf("%q: picture %s changes: %v, want %v", c.change, name, !want, want)
			}
		}
	}
}

func TestPanelBadInput(t *testing.T) {
	nan := dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "root",
		Of: func(b *dmlx.Batch) *Node { return Sqrt(Sub(b.Sap, b.San)) }}}
	wide := dmlx.Rule{Pair: dmlx.PairWeight{Name: "wide", Of: func(b *dmlx.Batch) (*Node, *Node) { return b.S, b.San }}}
	for _, c := range []struct {
		rule   dmlx.Rule
		change []string
		want   string
	}{
		{dmlx.Rule{}, []string{"tau", "much", "triplet", "cos"}, `tau is "much"; want a number`},
		{dmlx.Rule{}, []string{"tau", "NaN", "triplet", "cos"}, "want a number"},
		{dmlx.Rule{}, []string{"pair", "none"}, `unknown pair weight "none"; use one of con,`},
		{dmlx.Rule{}, []string{"show", "U"}, `unknown weight to show "U"`},
		{nan, nil, "panel_test.go, line "},
		{wide, nil, "pair weight wide: P₊ is float32 [32 32]; want one value for each triplet, float32 [32], as b.Sap"},
	} {
		p := rulePage(t, c.rule)
		v := p.draw(changed(p, c.change...))
		if !strings.Contains(v.Problem, c.want) || len(v.Pictures) > 0 {
			t.Errorf("%s with %q: %q, %d pictures; want %q", c.rule.Name(), c.change, v.Problem, len(v.Pictures), c.want)
		}
	}
	// After a change from a custom part to one of the paper's, parameters without effect are off again.
	p := rulePage(t, wide)
	if v := p.draw(changed(p, "pair", "con")); v.Problem != "" || len(v.Off) != len(parameters) {
		t.Errorf("cos/con/con: %q, off %q", v.Problem, v.Off)
	}
}

// The colors of M keep their scale while a slider moves.
func TestMatrixKeepsItsScale(t *testing.T) {
	p := rulePage(t, parse(t, "cos/lin/cir?tau=2"))
	first := p.draw(p.first())
	p.draw(changed(p, "noise", "3")) // Larger weights.
	again := p.draw(p.first())
	if drawn(again, "matrix") == drawn(first, "matrix") {
		t.Error("a wider scale is not kept")
	}
	if p.draw(changed(p, "noise", "3")); drawn(p.draw(p.first()), "matrix") != drawn(again, "matrix") {
		t.Error("the same values have two scales")
	}
}

// A page that has gone, or never came, ends the panel; a beat is answered and changes nothing.
func TestSilenceEnds(t *testing.T) {
	defer func(hello, beat time.Duration) { helloWait, beatWait = hello, beat }(helloWait, beatWait)
	helloWait, beatWait = time.Minute, 200*time.Millisecond
	b, ended := follow(t.Context(), rulePage(t, parse(t, "ours")))
	within(t, b.pages, "page")
	b.events <- event{Beat: true}
	if v := within(t, b.views, "answer"); v.Seq != 0 || len(v.Pictures) > 0 {
		t.Errorf("a beat is answered by %+v", v)
	}
	if last := within(t, b.pages, "last page"); !strings.Contains(last, pageGone) || strings.Contains(last, "<select") {
		t.Errorf("%.300s", last)
	}
	if err := within(t, ended, "end"); err != nil {
		t.Error(err)
	}
}

// browser is one end of a link.
type browser struct {
	events chan event
	views  chan view
	pages  chan string
	kept   chan string
}

func follow(ctx context.Context, p page) (b browser, ended chan error) {
	b = browser{make(chan event, 8), make(chan view, 64), make(chan string, 8), make(chan string, 8)}
	ended = make(chan error, 1)
	go func() {
		keep := func(name string, _ *figures.Figure) error { b.kept <- name; return nil }
		ended <- p.follow(ctx, link{func(s string) { b.pages <- s }, keep, func(v view) { b.views <- v }, b.events}, "id",
			func() {})
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

// When the page ends, the last good pictures stay.
func TestLastGoodPictureStays(t *testing.T) {
	for _, how := range []string{"stop", "end"} {
		p := rulePage(t, parse(t, "cos/con/cos"))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		b, ended := follow(ctx, p)
		live := within(t, b.pages, "page")
		for _, want := range []string{`<select name="pair">`, `name="tau" min="0" max="16"`, `data-picture="matrix"`,
			"<script>", `role="alert"`} {
			if !strings.Contains(live, want) {
				t.Errorf("the page lacks %s", want)
			}
		}
		if strings.Contains(live, "http://") || strings.Contains(live, "https://") {
			t.Error("the page names another host")
		}
		good := changed(p, "tau", "5")
		good.Seq = 1
		b.events <- good
		if v := within(t, b.views, "view"); v.Seq != 1 || v.Note != "cos/con/cos?tau=5" {
			t.Errorf("view %d, %q, %q", v.Seq, v.Note, v.Problem)
		}
		bad := changed(p, "tau", "x")
		bad.Seq = 2
		b.events <- bad
		if v := within(t, b.views, "view"); v.Seq != 2 || v.Problem == "" || len(v.Pictures) > 0 {
			t.Errorf("view %d, %q, %d pictures", v.Seq, v.Problem, len(v.Pictures))
		}
		if how == "stop" {
			stop()
		} else {
			b.events <- event{Seq: 3, Press: []string{"end"}}
		}
		last := within(t, b.pages, "last page")
		if strings.Contains(last, "<script") || !strings.Contains(last, "cos/con/cos?tau=5") ||
			strings.Contains(last, "<img") {
			t.Errorf("%s: the last page: %.300s", how, last)
		}
		if err := within(t, ended, "end"); err != nil {
			t.Error(err)
		}
		if len(b.kept) != len(p.pictures) {
			t.Errorf("%s: %d pictures are kept", how, len(b.kept))
		}
	}
}

// Of the events that arrive during drawing, the latest is drawn.
func TestLatestEventCounts(t *testing.T) {
	p := rulePage(t, parse(t, "cos/con/cos"))
	drawing, go_ := make(chan bool), make(chan bool)
	draw, n := p.draw, 0
	p.draw = func(e event) view {
		if n++; n == 2 {
			drawing <- true
			<-go_
		}
		return draw(e)
	}
	b, _ := follow(t.Context(), p)
	send := func(seq int, tau string) { e := changed(p, "tau", tau); e.Seq = seq; b.events <- e }
	send(1, "1")
	within(t, drawing, "drawing")
	send(3, "3")
	send(4, "4")
	send(2, "2")
	go_ <- true
	within(t, b.views, "first view")
	if v := within(t, b.views, "second view"); v.Seq != 4 || v.Note != "cos/con/cos?tau=4" || n != 3 {
		t.Errorf("view %d, %q after %d drawings", v.Seq, v.Note, n)
	}
}

// BenchmarkRedraw measures drawing without the browser.
func BenchmarkRedraw(b *testing.B) {
	for _, name := range []string{"cos/lin/cir", "cos-orth/sig-ms/cos+sc1"} {
		b.Run(strings.ReplaceAll(name, "/", "_"), func(b *testing.B) {
			p := rulePage(b, parse(b, name))
			var times []time.Duration
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				e := changed(p, "tau", []string{"1", "2.5", "4"}[i%3], "noise", []string{"0.5", "1"}[i%2])
				if v := p.draw(e); v.Problem != "" {
					b.Fatal(v.Problem)
				}
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			for _, q := range []struct {
				name string
				at   float64
			}{{"p50-ms", 0.5}, {"p95-ms", 0.95}, {"max-ms", 1}} {
				b.ReportMetric(float64(times[int(q.at*float64(len(times)-1))].Microseconds())/1000, q.name)
			}
		})
	}
}

func TestWithoutBrowser(t *testing.T) {
	t.Setenv(headlessEnv, "1")
	b, ended := follow(t.Context(), rulePage(t, parse(t, "ours")))
	if page := within(t, b.pages, "page"); strings.Contains(page, "<script") || !strings.Contains(page, noBrowser) {
		t.Errorf("%.300s", page)
	}
	if err := within(t, ended, "end"); err != nil || len(b.kept) != 3 {
		t.Errorf("%d pictures, %v", len(b.kept), err)
	}
	bad := dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "p", Of: func(*dmlx.Batch) *Node { panic("not today") }}}
	_, ended = follow(t.Context(), rulePage(t, bad))
	if err := within(t, ended, "end"); err == nil || !strings.Contains(err.Error(), "not today") ||
		!strings.Contains(err.Error(), "panel_test.go, line ") {
		t.Errorf("a rule that panics: %v", err)
	}
}

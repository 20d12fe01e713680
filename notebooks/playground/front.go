package playground

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/janpfeifer/gonb/gonbui"
	"github.com/janpfeifer/gonb/gonbui/comms"
	"github.com/janpfeifer/gonb/gonbui/protocol"

	"github.com/gradient-surgery/dml/figures"
	"github.com/gradient-surgery/dml/notebooks/nb"
)

// control is a control of a page: a select, a slider or a button.
type control struct {
	Name, Label    string
	Options        []string // Of a select.
	Min, Max, Step float64  // Of a slider.
	Value          string   // First value of a select or slider.
	Toggle         string   // The label of a toggle button while it is on; it then presses itself repeatedly.
	Button         bool
	Box            bool // A checkbox, whose value is "yes" or empty.
}

// values are the values of the controls by name, as the browser sends them.
type values map[string]string

// number returns the value of a slider.
func (v values) number(name string) (float64, error) {
	x, err := strconv.ParseFloat(v[name], 64)
	if err != nil || x-x != 0 {
		return 0, fmt.Errorf("%s is %q; want a number", name, v[name])
	}
	return x, nil
}

// event is the browser's message after a change.
type event struct {
	Seq    int      `json:"seq"` // Increases by one with each event.
	Values values   `json:"values"`
	Press  []string `json:"press"` // Buttons pressed since the last event.
	// Beat is set in the message that a page sends every second while it is there. It has no values.
	Beat bool `json:"beat"`
	// Hidden is set while the page is in a hidden tab, whose browser lets it send a message a minute.
	Hidden bool `json:"hidden"`
}

// view is the answer to the browser.
type view struct {
	Seq      int               `json:"seq"`      // Of the event that it answers.
	Pictures map[string]string `json:"pictures"` // SVG by name. Other pictures stay.
	Alts     map[string]string `json:"alts"`
	// Note is a line of text. Problem says what is wrong with the values; the last good pictures then stay.
	Note    string `json:"note"`
	Problem string `json:"problem"`
	// Below is HTML under the pictures.
	Below template.HTML `json:"below"`
	// Off are the controls without effect.
	Off []string `json:"off"`
	// More says that something changes by itself: the page then asks again.
	More bool `json:"more"`
	// Drawing is the time to draw the view, in milliseconds.
	Drawing float64 `json:"drawing"`

	figures map[string]*figures.Figure // The figures of the pictures.
}

// add draws figures into the view, concurrently.
func (v *view) add(fs map[string]*figures.Figure) error {
	type drawn struct {
		name string
		svg  []byte
		err  error
	}
	done := make(chan drawn)
	for name, f := range fs {
		go func() {
			svg, err := figures.Draft(f)
			done <- drawn{name, svg, err}
		}()
	}
	if v.Pictures == nil {
		v.Pictures, v.Alts, v.figures = make(map[string]string), make(map[string]string), make(map[string]*figures.Figure)
	}
	var failure error
	for range fs {
		d := <-done
		failure = cmp.Or(failure, d.err)
		f := fs[d.name]
		v.Pictures[d.name], v.Alts[d.name], v.figures[d.name] = string(d.svg), f.Alt, f
	}
	return failure
}

// page is a panel in a cell's output: controls and pictures.
type page struct {
	title    string
	about    string   // A sentence above the controls; empty for none.
	pictures []string // Names, in order.
	controls []control
	// draw answers an event. It is called by one goroutine at a time.
	draw func(event) view
	// final draws the view that stays when the page ends; if nil, the last one stays.
	final func() view
}

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

//go:embed page.js
var pageJS string

// How long to wait for the first message of a browser, for the next one while its page is visible or hidden, and for a
// notebook to receive the last picture. Variables, for tests.
var (
	helloWait  = 5 * time.Second
	beatWait   = 6 * time.Second
	hiddenWait = 150 * time.Second
	lastWait   = 700 * time.Millisecond
)

// helloTries is how often a page tries to reach the browser.
const helloTries = 6

// headlessEnv is set if a notebook is executed without a browser; see "dmlx lab --execute". Without it, helloWait
// decides.
const headlessEnv = "DMLX_HEADLESS"

// link connects a page to a browser, or to a test.
type link struct {
	show   func(html string)                          // Shows a page in place of the one before.
	keep   func(name string, f *figures.Figure) error // Shows a picture that stays.
	send   func(view)
	events <-chan event
}

// run shows the page and answers its controls until the context ends, End is pressed, or no browser answers. Then the
// last good pictures stay, without the controls.
func (p page) run(ctx context.Context) error {
	if !gonbui.IsNotebook {
		first := p.draw(p.first())
		for _, name := range p.pictures {
			fmt.Fprintf(os.Stderr, "[%s]\n", first.Alts[name])
		}
		return firstProblem(first)
	}
	id := "dmlx_" + gonbui.UniqueId()
	events := make(chan event, 64)
	l := link{
		show: func(html string) { gonbui.UpdateHTML(id, html) },
		keep: func(name string, f *figures.Figure) error { return nb.Update(id+"_"+name, f) },
		send: func(v view) {
			if text, err := json.Marshal(v); err == nil { // Strings and numbers always marshal.
				comms.Send("/dmlx/out/"+id, string(text))
			}
		},
		events: events,
	}
	var known *comms.SubscriptionId
	err := p.follow(ctx, l, id, func() {
		if known != nil {
			comms.Unsubscribe(*known)
		}
		of := comms.Subscribe("/dmlx/in/"+id, func(_ string, text string) {
			var e event
			if json.Unmarshal([]byte(text), &e) == nil {
				events <- e
			}
		})
		known = &of
	})
	flush()
	return err
}

// flush waits until the notebook has received all output, but not for long: it may no longer answer.
func flush() {
	synced := make(chan struct{})
	go func() { gonbui.Sync(); close(synced) }()
	select {
	case <-synced:
	case <-time.After(lastWait):
	}
}

// Why a page has no controls, and how to wake them.
const (
	noBrowser = "This picture was drawn without a browser. Run the cell in JupyterLab to see the controls."
	pageGone  = "The page with the controls was closed or reloaded. Run the cell again to have them back."
	ended     = "This is the last picture. Run the cell again to have the controls back."
)

// follow is run with a given link. It calls listen once the page is shown, and again while no browser answers.
func (p page) follow(ctx context.Context, l link, id string, listen func()) error {
	last := p.draw(p.first())
	end := func(why string) error {
		if p.final != nil {
			last.keep(p.final())
		}
		last.Note = cmp.Or(last.Note, p.title)
		l.show(still(last, why))
		for _, name := range p.pictures {
			if f := last.figures[name]; f != nil {
				if err := l.keep(name, f); err != nil {
					return err
				}
			}
		}
		return firstProblem(last)
	}
	if os.Getenv(headlessEnv) != "" {
		return end(noBrowser)
	}
	l.show(p.html(id, last))
	if err := firstProblem(last); err != nil {
		return err
	}
	listen()
	silence := time.NewTimer(helloWait)
	defer silence.Stop()
	gone := noBrowser
	seen, tries := 0, 1
	for {
		select {
		case <-ctx.Done():
			return end(ended)
		case <-silence.C:
			if len(l.events) > 0 { // They came during a drawing.
				silence.Reset(beatWait)
				continue
			}
			// GoNB gives a browser half a second to connect, which a busy machine may exceed.
			if gone == noBrowser && tries < helloTries {
				tries++
				listen()
				silence.Reset(helloWait)
				continue
			}
			return end(gone)
		case e := <-l.events:
			gone = pageGone
			if e.Hidden {
				silence.Reset(hiddenWait)
			} else {
				silence.Reset(beatWait)
			}
			if e.Beat {
				l.send(view{})
				continue
			}
			// Events may arrive in any order. The latest values count, and all pressed buttons.
			press := e.Press
			for more := true; more; {
				select {
				case next := <-l.events:
					press = append(press, next.Press...)
					if !next.Beat && next.Seq > e.Seq {
						e = next
					}
				default:
					more = false
				}
			}
			if e.Seq <= seen && len(press) == 0 {
				continue
			}
			seen = max(seen, e.Seq)
			e.Press = press
			if slices.Contains(press, "end") {
				return end(ended)
			}
			start := time.Now()
			v := p.draw(e)
			v.Seq, v.Drawing = e.Seq, float64(time.Since(start).Microseconds())/1000
			l.send(v)
			last.keep(v)
		}
	}
}

// keep copies the pictures of a later view, unless it has a problem.
func (v *view) keep(next view) {
	if next.Problem != "" || v.Pictures == nil {
		return
	}
	maps.Copy(v.Pictures, next.Pictures)
	maps.Copy(v.Alts, next.Alts)
	maps.Copy(v.figures, next.figures)
	v.Note, v.Below = next.Note, next.Below
}

// first returns the event at the start.
func (p page) first() event {
	e := event{Values: make(values)}
	for _, c := range p.controls {
		if !c.Button {
			e.Values[c.Name] = c.Value
		}
	}
	return e
}

func firstProblem(v view) error {
	if v.Problem != "" {
		return fmt.Errorf("%s", v.Problem)
	}
	return nil
}

// picture is one as the template has it.
type picture struct {
	Name, Alt string
	Width     float64 // CSS pixels.
	Source    template.URL
}

func pictures(names []string, v view) []picture {
	var out []picture
	for _, name := range names {
		if f := v.figures[name]; f != nil {
			out = append(out, picture{name, f.Alt, f.Width.Points() * 96 / 72,
				template.URL("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(v.Pictures[name])))})
		}
	}
	return out
}

// html returns the live page with its first pictures, which show even without scripts.
func (p page) html(id string, first view) string {
	var b bytes.Buffer
	err := pageTemplate.ExecuteTemplate(&b, "live", map[string]any{
		"ID": id, "Controls": p.controls, "Pictures": pictures(p.pictures, first), "View": first,
		"About":  p.about,
		"Kernel": os.Getenv(protocol.GONB_JUPYTER_KERNEL_ID_ENV), "Script": template.JS(pageJS),
	})
	if err != nil { // The template is constant.
		return template.HTMLEscapeString(err.Error())
	}
	return b.String()
}

// still returns what stays in a saved notebook of a page, above its pictures.
func still(last view, why string) string {
	var b bytes.Buffer
	if err := pageTemplate.ExecuteTemplate(&b, "still", map[string]any{"Note": last.Note, "Below": last.Below,
		"Why": why}); err != nil {
		return template.HTMLEscapeString(err.Error())
	}
	return b.String()
}

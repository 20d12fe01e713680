package playground

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"time"

	"github.com/janpfeifer/gonb/gonbui"
	"github.com/janpfeifer/gonb/gonbui/comms"
	"github.com/janpfeifer/gonb/gonbui/protocol"

	"github.com/gradient-surgery/dml/dmlx/page/frame"
	"github.com/gradient-surgery/dml/figures"
	"github.com/gradient-surgery/dml/notebooks/nb"
)

// panel is the page of package page in a cell's output, whose requests this program answers.
type panel struct {
	title  string
	state  string // What the page shows, as in its address behind the #.
	answer func(method string, args []byte, arrays map[string][]byte) (frame.Object, error)
	still  func(state string) (*figures.Figure, error) // Draws what stays when the page ends.
}

// message is one of the browser's: a beat, which a page sends every second while it is there; the page's state; what
// it says of a training; the wish to end; or a request for [frame.Reply].
type message struct {
	Beat, End   bool
	Hidden      bool // Set while the page is in a hidden tab, whose browser lets it send a message a minute.
	State, Said string
	text        string
}

//go:embed kernel.js
var kernelJS string

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

// link connects a panel to a browser, or to a test.
type link struct {
	show     func(html string)             // Shows HTML in place of that before.
	keep     func(f *figures.Figure) error // Shows a picture that stays.
	send     func(text string)
	messages <-chan message
}

// run shows the page and answers it until the context ends, End is pressed, or no browser answers. Then pictures stay
// in its place.
func (p panel) run(ctx context.Context) error {
	if !gonbui.IsNotebook {
		f, err := p.still(p.state)
		if err == nil {
			fmt.Fprintf(os.Stderr, "[%s]\n", f.Alt)
		}
		return err
	}
	id := "dmlx_" + gonbui.UniqueId()
	messages := make(chan message, 64)
	l := link{
		show:     func(html string) { gonbui.UpdateHTML(id, html) },
		keep:     func(f *figures.Figure) error { return nb.Update(id+"_last", f) },
		send:     func(text string) { comms.Send("/dmlx/out/"+id, text) },
		messages: messages,
	}
	var known *comms.SubscriptionId
	err := p.follow(ctx, l, id, func() {
		if known != nil {
			comms.Unsubscribe(*known)
		}
		of := comms.Subscribe("/dmlx/in/"+id, func(_ string, text string) {
			m := message{text: text}
			if json.Unmarshal([]byte(text), &m) == nil {
				messages <- m
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

// Why a panel has no controls, and how to wake them.
const (
	noBrowser = "This picture was drawn without a browser. Run the cell in JupyterLab to see the controls."
	pageGone  = "The page with the controls was closed or reloaded. Run the cell again to have them back."
	ended     = "This is the last picture. Run the cell again to have the controls back."
	asleep    = "These controls are asleep: run this cell (Shift-Enter) to wake them."
)

// follow is run with a given link. It calls listen once the page is shown, and again while no browser answers.
func (p panel) follow(ctx context.Context, l link, id string, listen func()) error {
	state, said := p.state, p.title
	end := func(why string) error {
		last, err := p.still(state)
		if err != nil && state != p.state { // What the user left behind cannot be drawn.
			last, err = p.still(p.state)
		}
		l.show(fmt.Sprintf(`<div class="dmlx-still"><div style="font-family:var(--jp-code-font-family,monospace)">%s</div>`+
			`<div>%s</div></div>`, html.EscapeString(said), why))
		if err != nil {
			return err
		}
		return l.keep(last)
	}
	if os.Getenv(headlessEnv) != "" {
		return end(noBrowser)
	}
	page, err := frame.HTML(state)
	if err != nil {
		return err
	}
	l.show(fmt.Sprintf(`<div id="%s" class="dmlx-panel dmlx-live" data-state="connecting" `+
		`data-lm-suppress-shortcuts="true">`+
		`<iframe title="%s" data-page="%s" style="width:100%%;height:600px;border:0"></iframe>`+
		`<button type="button" title="End the cell's program. Its pictures stay.">End</button>`+
		`<div class="asleep" hidden>%s</div></div><script>(%s)(%q, %q)</script>`, id, p.title, html.EscapeString(page),
		asleep, kernelJS, id, os.Getenv(protocol.GONB_JUPYTER_KERNEL_ID_ENV)))
	listen()
	silence := time.NewTimer(helloWait)
	defer silence.Stop()
	gone, tries := noBrowser, 1
	for {
		select {
		case <-ctx.Done():
			return end(ended)
		case <-silence.C:
			if len(l.messages) > 0 { // They came during an answer.
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
		case m := <-l.messages:
			gone = pageGone
			silence.Reset(beatWait)
			switch {
			case m.Hidden:
				silence.Reset(hiddenWait)
				fallthrough
			case m.Beat:
				l.send("{}") // An empty text would not arrive.
			case m.End:
				return end(ended)
			case m.State != "":
				state = m.State
			case m.Said != "":
				said = m.Said
			default:
				l.send(frame.Reply(m.text, p.answer))
				silence.Reset(beatWait) // The answer may have taken longer.
			}
		}
	}
}

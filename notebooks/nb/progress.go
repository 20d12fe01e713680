package nb

import (
	"fmt"
	"html"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/janpfeifer/gonb/gonbui"
	"github.com/janpfeifer/gonb/gonbui/protocol"
)

// updateEvery is the interval of updates in a notebook, where one for each training step would freeze the page;
// printEvery is that of lines in a log.
const (
	updateEvery = 250 * time.Millisecond
	printEvery  = 10 * time.Second
)

// Progress is a progress line, updated in place at most four times a second. It is safe for concurrent use.
type Progress struct {
	title string
	show  func(fraction float64, text, kind string)
	every time.Duration

	mu       sync.Mutex
	start    time.Time
	shown    time.Time
	fraction float64
	text     string
	late     *time.Timer // Shows an update that came too soon after the last one.
	done     bool
}

// openLine is the line that was shown last, unless it is done.
var openLine atomic.Pointer[Progress]

// NewProgress starts a progress line with a title.
func NewProgress(title string) *Progress {
	if !gonbui.IsNotebook {
		return newProgress(title, printEvery, func(fraction float64, text, _ string) {
			printLine(os.Stderr, title, fraction, text)
		})
	}
	id := "progress_" + gonbui.UniqueId()
	return newProgress(title, updateEvery, func(fraction float64, text, kind string) {
		gonbui.SendData(&protocol.DisplayData{
			Data:      bundle{"text/html": progressHTML(title, fraction, text), "text/plain": title + ": " + text},
			DisplayID: id, Metadata: map[string]any{kindKey: kind}})
	})
}

func newProgress(title string, every time.Duration, show func(fraction float64, text, kind string)) *Progress {
	return &Progress{title: title, show: show, every: every, start: time.Now()}
}

// Set sets the progress, from 0 to 1, and the text beside it.
func (p *Progress) Set(fraction float64, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return
	}
	p.fraction, p.text = min(max(fraction, 0), 1), text
	if wait := p.every - time.Since(p.shown); wait <= 0 {
		p.update()
	} else if p.late == nil {
		var timer *time.Timer
		timer = time.AfterFunc(wait, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.late == timer { // No later update came while this one waited for the lock.
				p.update()
			}
		})
		p.late = timer
	}
}

func (p *Progress) update() {
	if p.late != nil {
		p.late.Stop()
		p.late = nil
	}
	p.shown = time.Now()
	openLine.Store(p)
	p.show(p.fraction, p.text, kindProgress)
}

// Done ends the line with a last text, or with the time it took if text is empty.
func (p *Progress) Done(text string) {
	if text == "" {
		text = fmt.Sprintf("done in %s", time.Since(p.start).Round(100*time.Millisecond))
	}
	p.end(text, kindProgress)
}

// end shows a last text, unless the line has ended before.
func (p *Progress) end(text, kind string) (ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return false
	}
	p.done = true
	if p.late != nil {
		p.late.Stop()
		p.late = nil
	}
	openLine.CompareAndSwap(p, nil)
	p.show(1, text, kind)
	gonbui.Sync()
	return true
}

// progressHTML returns the line, with a bar until it is done.
func progressHTML(title string, fraction float64, text string) string {
	bar := ""
	if fraction < 1 {
		bar = fmt.Sprintf(`<progress value="%.3f" max="1"></progress> `, fraction)
	}
	return fmt.Sprintf(`<div style="font-family:var(--jp-code-font-family,monospace)">%s%s: %s</div>`,
		bar, html.EscapeString(title), html.EscapeString(text))
}

func printLine(w io.Writer, title string, fraction float64, text string) {
	fmt.Fprintf(w, "%s: %3.0f %% %s\n", title, 100*fraction, strings.ReplaceAll(text, "\n", " "))
}

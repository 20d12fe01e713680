// Package progress shows on one line how far a command is.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
)

// Line shows progress on one line. A terminal's line is rewritten in place; a log gets a new line now and then. It is
// safe for concurrent use.
type Line struct {
	out      io.Writer
	terminal *os.File // out, if it is a terminal.

	mu    sync.Mutex
	last  time.Time
	shown int // Characters of the line on the terminal.
}

// New returns a line on a writer, which may be a terminal.
func New(out io.Writer) *Line {
	l := &Line{out: out}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		l.terminal = f
	}
	return l
}

// Show replaces the line, at most ten times a second on a terminal and every ten seconds in a log.
func (l *Line) Show(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pause := 10 * time.Second
	if l.terminal != nil {
		pause = 100 * time.Millisecond
	}
	if time.Since(l.last) < pause {
		return
	}
	l.last = time.Now()
	text := text.Clean(fmt.Sprintf(format, args...))
	if l.terminal == nil {
		fmt.Fprintln(l.out, text)
		return
	}
	// A line that wraps could not be rewritten.
	if columns, _, err := term.GetSize(int(l.terminal.Fd())); err == nil && columns > 1 {
		if runes := []rune(text); len(runes) >= columns {
			text = string(runes[:columns-1])
		}
	}
	width := len([]rune(text))
	fmt.Fprint(l.out, "\r", text, strings.Repeat(" ", max(0, l.shown-width)))
	l.shown = width
}

// End clears the line, so that the next output begins on a line of its own.
func (l *Line) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown > 0 {
		fmt.Fprint(l.out, "\r", strings.Repeat(" ", l.shown), "\r")
	}
	l.shown, l.last = 0, time.Time{}
}

// Clock shows a step and the seconds since its start, until stop is called.
func (l *Line) Clock(step string) (stop func()) {
	start := time.Now()
	show := func() { l.Show("%s … %.0f s", step, time.Since(start).Seconds()) }
	if l.terminal != nil {
		show() // A log shows nothing for a step that takes less than a second.
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				show()
			case <-done:
				l.End()
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); <-ended })
}

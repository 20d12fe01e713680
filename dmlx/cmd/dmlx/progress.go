package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// liveLine shows progress on one line: rewritten in place on a terminal, now and then a new one elsewhere.
type liveLine struct {
	out      io.Writer
	terminal *os.File // out, if it is one.

	mu    sync.Mutex
	last  time.Time
	shown int // Characters of the line on the terminal.
}

func newLiveLine(out io.Writer) *liveLine {
	l := &liveLine{out: out}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		l.terminal = f
	}
	return l
}

// show replaces the line, at most ten times a second on a terminal and every ten seconds elsewhere.
func (l *liveLine) show(format string, args ...any) {
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
	text := fmt.Sprintf(format, args...)
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

// end clears the line, so that what is printed next begins a line of its own.
func (l *liveLine) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown > 0 {
		fmt.Fprint(l.out, "\r", strings.Repeat(" ", l.shown), "\r")
	}
	l.shown, l.last = 0, time.Time{}
}

// training is a run's progress as one line.
func training(p runs.Progress) string {
	if text := p.OnImages(); text != "" {
		return p.Spec.Data + ": " + text
	}
	line := fmt.Sprintf("epoch %d/%d  step %d/%d  violations %.0f %%", p.Epoch, p.Epochs, p.Step, p.Steps,
		100*p.ViolationRate)
	if p.StepRate > 0 { // Not known of the first step.
		line += fmt.Sprintf("  %.1f steps/s  %s left", p.StepRate, p.Left)
	}
	return line
}

// store opens the run store; what it sets aside is said on standard error.
func (a *app) store() (*runs.Store, error) {
	s, err := runs.OpenStore(a.storePath())
	if err != nil {
		return nil, err
	}
	s.DataOptions = a.opening()
	return s, nil
}

// opening is how data sets are opened: an interrupt ends it, and standard error tells of it.
func (a *app) opening() runs.DataOptions {
	return runs.DataOptions{Context: a.ctx, Warn: a.warn, Decoded: func(data string, done, total int) {
		a.line.show("%s: %s", data, runs.Progress{Progress: train.Progress{Decoded: done, Images: total}}.OnImages())
		if done == total {
			a.line.end()
		}
	}}
}

// warn says a warning once: a data set is opened for its digest, and again by each run on it.
func (a *app) warn(message string) {
	if _, said := a.warned.LoadOrStore(message, true); !said {
		a.line.end()
		a.logf("warning: %s", message)
	}
}

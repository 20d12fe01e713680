package nb

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"regexp"
	"sync"
	"syscall"
)

// Context returns a context that ends when the cell's Stop button is pressed. GoNB kills the cell five seconds later.
var Context = sync.OnceValue(func() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
})

// What an output is, as its metadata under kindKey says. "dmlx lab" keeps a cell's old outputs beside those that have a
// kind, and runs no queued cell after one that was stopped.
const (
	kindKey      = "dmlx"
	kindProgress = "progress"
	kindStopped  = "stopped"
)

// stopped reports whether an error comes from the Stop button.
func stopped(err error) bool { return errors.Is(err, context.Canceled) && Context().Err() != nil }

// where is the part of a stopped training's error that says how far it got.
var where = regexp.MustCompile(`stopped in epoch \d+( of \d+)?`)

// stopLine returns what a stopped cell says, given its error.
func stopLine(err error) string {
	at := where.FindString(err.Error())
	if at == "" {
		at = "stopped"
	}
	return at + "; run the cell again to go on"
}

// sayStopped ends the open progress line with a text, or displays it if no line is open.
func sayStopped(text string) {
	if line := openLine.Load(); line != nil && line.end(text, kindStopped) {
		return
	}
	display(bundle{"text/plain": text}, map[string]any{kindKey: kindStopped})
}

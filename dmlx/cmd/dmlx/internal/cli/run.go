package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
)

// The exit codes of a program, except 0.
const (
	ExitFailed      = 1
	ExitUsage       = 2
	ExitInterrupted = 130 // As a shell reports an interrupt.
)

// ErrElsewhere ends a command whose runs a cluster trains, or with --dry-run would: their results are not there yet. It
// is no failure.
var ErrElsewhere = errors.New("the runs are trained elsewhere")

// Main is the main function of a program. The context of run ends with the first interrupt.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) (code int)) {
	HugePages()
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it.
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, func() {
		stop()                             // From then on an interrupt has its default effect.
		time.Sleep(250 * time.Millisecond) // Most commands end before it.
		fmt.Fprintln(os.Stderr, "\ndmlx: stops after the step at hand; a second interrupt ends it at once")
	})
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Run runs a command, or that of those below it which the arguments name, and returns the exit code of the program.
func (c *Console) Run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SilenceErrors, root.SilenceUsage = true, true // They are printed here, on one line.
	root.SetOut(c.Stdout)
	root.SetErr(c.Stderr)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	c.Line.End()
	if err == nil || errors.Is(err, ErrElsewhere) {
		err = c.out.err
	}
	if err == nil {
		return 0
	}
	f := failureOf(ctx, err)
	c.Logf("dmlx: %s", f.Message)
	if WantsJSON(args) && c.out.written == 0 { // Else the result has been printed, and an error follows from it.
		c.JSON = true
		if err := c.Print(map[string]failure{"error": f}, ""); err != nil {
			return ExitFailed
		}
	}
	return f.ExitCode
}

// failure is the JSON of an error.
type failure struct {
	Message  string `json:"message"`
	Kind     string `json:"kind"` // usage, failed or stopped.
	ExitCode int    `json:"exit_code"`
}

func failureOf(ctx context.Context, err error) failure {
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return failure{stopped(err), "stopped", ExitInterrupted}
	case IsUsage(err):
		return failure{text.OneLine(err.Error()) + suggestion(err), "usage", ExitUsage}
	}
	return failure{text.OneLine(err.Error()), "failed", ExitFailed}
}

// WantsJSON tells whether a command line has --json. It may be one that cannot be read as a whole.
func WantsJSON(args []string) (wants bool) {
	for _, arg := range args {
		switch arg {
		case "--":
			return wants
		case "--json", "--json=true":
			wants = true
		case "--json=false":
			wants = false
		}
	}
	return wants
}

// stopped returns the message of an interrupted command, with the text of its error where it says more.
func stopped(err error) string {
	message := strings.TrimSuffix(strings.TrimSuffix(text.OneLine(err.Error()), context.Canceled.Error()), ": ")
	switch {
	case message == "":
		return "stopped"
	case strings.Contains(message, "stopped"):
		return message
	}
	return "stopped: " + message
}

// suggestion returns "; did you mean NAME?" if an error is about the name of a data set and another one is near. The
// other packages' errors say so themselves.
func suggestion(err error) string {
	if unknown, is := errors.AsType[*datasets.NameError](err); is {
		if near := errs.Nearest(unknown.Name, unknown.Names); near != "" {
			return "; did you mean " + near + "?"
		}
	}
	return ""
}

// checkedWriter keeps the error of a failed write, since cobra does not report that its help was lost.
type checkedWriter struct {
	io.Writer
	written int   // Bytes.
	err     error // The first one.
}

func (w *checkedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.written += n
	if w.err == nil {
		w.err = err
	}
	return n, err
}

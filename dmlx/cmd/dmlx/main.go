// Command dmlx trains networks for retrieval, reproduces the paper's tables and opens the notebooks of this repository.
//
//	go run ./dmlx/cmd/dmlx lab
//	go run ./dmlx/cmd/dmlx doctor
//	go run ./dmlx/cmd/dmlx help
//
// Results go to standard output, with --json as one object, which "dmlx help json" describes. Everything else goes to
// standard error. An error is one line, with --json an object on standard output too. The exit code is
//
//	0    if the command succeeded; lab also if Ctrl-C has ended it
//	1    if it failed, also if standard output could not be written
//	2    if the command line is wrong: an unknown command or flag, a missing argument, a name that does not exist or a
//	     value that no file or machine could make right
//	130  if it was interrupted (Ctrl-C, SIGTERM, SIGHUP); a second interrupt ends it at once
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/data"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/embedding"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/gradients"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/notebook"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/stored"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/training"
	"github.com/gradient-surgery/dml/dmlx/internal/buildinfo"
)

func main() {
	hugePages()
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

// run runs the command and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := cli.New(ctx, stdout, stderr)
	out := &checkedWriter{Writer: a.Stdout}
	a.Stdout = out
	root := newRoot(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	a.Line.End()
	if err == nil || errors.Is(err, training.ErrElsewhere) {
		err = out.err
	}
	if err == nil {
		return 0
	}
	f := failureOf(ctx, err)
	a.Logf("dmlx: %s", f.Message)
	if wantsJSON(args) && out.written == 0 { // Else the result has been printed, and an error follows from it.
		a.JSON = true
		if err := a.Print(map[string]failure{"error": f}, ""); err != nil {
			return exitFailed
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
		return failure{stopped(err), "stopped", exitInterrupted}
	case cli.IsUsage(err):
		return failure{text.OneLine(err.Error()) + suggestion(err), "usage", exitUsage}
	}
	return failure{text.OneLine(err.Error()), "failed", exitFailed}
}

// wantsJSON tells whether a command line has --json. It may be one that cannot be read as a whole.
func wantsJSON(args []string) (wants bool) {
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

const platform = runtime.GOOS + "/" + runtime.GOARCH

// newRoot returns the command tree.
func newRoot(a *cli.App) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "dmlx",
		Short: "Deep metric learning by composed gradients: train, reproduce, inspect",
		Long: `Deep metric learning by composed gradients: train, reproduce, inspect.

Start with dmlx doctor, which shows the backend of this machine and what is missing. Results go to standard output,
everything else to standard error. The exit code is 0 on success, 1 if the command failed, 2 if its command line is
wrong, and 130 if it was interrupted (Ctrl-C). With --json a result or an error is one object; see dmlx help json.`,
		Example: "  dmlx doctor\n" +
			"  dmlx train --data minicar --rule cos-orth/lin-ms/cir\n" +
			"  dmlx reproduce table2 --cached-only",
		SilenceErrors: true, // run prints them, on one line.
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return checkRequired(cmd)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				v, simd := buildinfo.Get().String(), map[bool]string{true: "with", false: "without"}[backend.SIMD]
				backends := slices.DeleteFunc([]string{"go", "xla"}, func(b string) bool { return !backend.Linked(b) })
				return a.Print(map[string]any{"version": v, "go": runtime.Version(), "platform": platform, "backends": backends,
					"simd": backend.SIMD}, fmt.Sprintf("dmlx %s\nbuilt by %s, %s\nbackends %s, %s SIMD", v, runtime.Version(),
					platform, strings.Join(backends, ", "), simd))
			}
			if a.JSON {
				return cli.Usagef("--json alone prints nothing: want a command, as in dmlx doctor --json")
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&version, "version", false, "print the version of this program, of Go and of the backends")
	root.AddCommand(&cobra.Command{Use: "version", Hidden: true, Args: cobra.NoArgs, // Scripts of others ask by it.
		RunE: func(*cobra.Command, []string) error {
			version = true
			return root.RunE(root, nil)
		}})
	root.SetFlagErrorFunc(flagError)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.PersistentFlags().BoolVar(&a.JSON, "json", false, "print the result as one JSON object")
	root.AddCommand(
		training.NewTrain(a),
		training.NewReproduce(a),
		training.NewLedger(a),
		training.NewRates(a),
		stored.NewRuns(a),
		data.NewData(a),
		embedding.NewRecall(a),
		embedding.NewEmbed(a),
		embedding.NewWeights(a),
		gradients.NewDissect(a),
		gradients.NewRule(a),
		notebook.NewLab(a),
		notebook.NewPage(a),
		newDoctor(a),
		training.NewJob(a),
	)
	addHelp(root)
	for _, cmd := range root.Commands() {
		if slices.Contains([]string{"runs", "lab", "doctor", "weights", "embed", "recall", "job"}, cmd.Name()) {
			a.AddStore(cmd.PersistentFlags())
		}
		if cmd.Name() == "lab" {
			a.AddPreset(cmd.Flags())
		}
	}
	root.InitDefaultCompletionCmd()
	groupFlags(root)
	strict(root)
	addFormer(root)
	completeFlags(root, a)
	return root
}

// Command dmlx trains, reproduces, measures and opens the notebooks of this repository.
//
//	go run ./dmlx/cmd/dmlx lab
//	go run ./dmlx/cmd/dmlx doctor
//	go run ./dmlx/cmd/dmlx help
//
// Results go to standard output, with --json as one object; everything else goes to standard error. An error is one
// line and the exit code 1; an interrupt (Ctrl-C) stops cleanly with 130, and a second one at once.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/experiment"
)

func main() {
	withHugePages()
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // As nohup does.
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop) // From then on an interrupt has its default effect.
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program without its process: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{ctx: ctx, stdout: stdout, stderr: stderr, line: newLiveLine(stderr), warned: new(sync.Map)}
	root := newRoot(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	a.line.end()
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		a.logf("dmlx: %s", stopped(err))
		return 130
	}
	a.logf("dmlx: %s", oneLine(err))
	return 1
}

// stopped tells of an interrupt what its error knows more of than that it was one.
func stopped(err error) string {
	text := strings.TrimSuffix(strings.TrimSuffix(oneLine(err), context.Canceled.Error()), ": ")
	switch {
	case text == "":
		return "stopped"
	case strings.Contains(text, "stopped"):
		return text
	}
	return "stopped: " + text
}

// newRoot is the command tree. Each command is a constructor in a file of its own.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "dmlx",
		Short:         "Deep metric learning as gradients: train, reproduce, look",
		SilenceErrors: true, // run prints them, on one line.
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if a.preset == "" {
				return nil
			}
			_, err := experiment.ParsePreset(a.preset)
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	flags := root.PersistentFlags()
	flags.StringVar(&a.preset, "preset", "", "size of the experiments: "+strings.Join(experiment.Presets(), ", ")+" (default quick)")
	flags.StringVar(&a.storeDir, "store", "", "folder of the runs (default DMLX_STORE, else runs/ in the repository)")
	flags.BoolVar(&a.json, "json", false, "print one JSON object on standard output")
	root.AddCommand(
		newTrain(a),
		newReproduce(a),
		newSearch(a),
		newRuns(a),
		newData(a),
		newRecall(a),
		newEmbed(a),
		newPretrain(a),
		newWeights(a),
		newGradient(a),
		newDissect(a),
		newBench(a),
		newLab(a),
		newDoctor(a),
		newJob(a),
	)
	return root
}

// oneLine joins the lines of an error, such as cobra's suggestions.
func oneLine(err error) string {
	return strings.Join(strings.Fields(fmt.Sprint(err)), " ")
}

// Command dmlx trains, reproduces, measures and opens the notebooks of this repository.
//
//	go run ./dmlx/cmd/dmlx lab
//	go run ./dmlx/cmd/dmlx doctor
//	go run ./dmlx/cmd/dmlx help
//
// Results go to standard output, with --json as one object; everything else goes to standard error. An error is one
// line. The exit code is
//
//	0    if the command did what it was asked to
//	1    if it failed, also if standard output could not be written
//	2    if the command line is wrong: an unknown command or flag, a missing argument, a value that a flag does not take
//	130  if it was interrupted (Ctrl-C); a second interrupt ends it at once
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/presets"
)

func main() {
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
	out := &checkedWriter{Writer: stdout}
	a := &app{ctx: ctx, stdout: out, stderr: stderr, line: newLiveLine(stderr), warned: new(sync.Map)}
	root := newRoot(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	a.line.end()
	if err == nil {
		err = out.err
	}
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		a.logf("dmlx: %s", stopped(err))
		return exitInterrupted
	}
	a.logf("dmlx: %s", text.OneLine(err.Error()))
	if isUsage(err) {
		return exitUsage
	}
	return exitFailed
}

// stopped returns what an interrupted command says: that it stopped, and what else its error knows.
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

// newRoot returns the command tree. Each command is a constructor in a file of its own.
func newRoot(a *app) *cobra.Command {
	var printVersion bool
	root := &cobra.Command{
		Use:   "dmlx",
		Short: "Deep metric learning as gradients: train, reproduce, look",
		Long: "Deep metric learning as gradients: train, reproduce, look.\n\n" +
			"Results go to standard output, everything else to standard error. The exit code is 0 if all went well, 1 if the\n" +
			"command failed, 2 if its command line is wrong, and 130 if it was interrupted (Ctrl-C).",
		Example: "  dmlx doctor\n" +
			"  dmlx train --data minicar --rule cos-orth/lin-ms/cir --seed 1\n" +
			"  dmlx reproduce table2 --have",
		SilenceErrors: true, // run prints them, on one line.
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmd.ValidateRequiredFlags(); err != nil { // Cobra itself does it later, when nobody can tell its errors.
				return usage(err)
			}
			if a.preset == "" {
				return nil
			}
			_, err := presets.Parse(a.preset)
			return usage(err)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if printVersion {
				return a.printVersion()
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&printVersion, "version", false, "print the version, as dmlx version does")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	flags := root.PersistentFlags()
	flags.StringVar(&a.preset, "preset", "",
		"size of the experiments: "+strings.Join(presets.Names(), ", ")+" (default quick)")
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
		newVersion(a),
		newJob(a),
	)
	strict(root)
	return root
}

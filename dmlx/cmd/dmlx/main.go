// Command dmlx trains networks for retrieval, reproduces the paper's tables and opens the notebooks of this repository.
//
//	go run ./dmlx/cmd/dmlx doctor
//	go run ./dmlx/cmd/dmlx train --data minicar --rule cos-orth/lin-ms/cir
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
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/data"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/embedding"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/gradients"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/notebook"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/stored"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/training"
	"github.com/gradient-surgery/dml/dmlx/internal/buildinfo"
)

func main() { cli.Main(run) }

// run runs the command and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := app.New(ctx, stdout, stderr)
	return a.Run(ctx, newRoot(a), args)
}

const platform = runtime.GOOS + "/" + runtime.GOARCH

// newRoot returns the command tree.
func newRoot(a *app.App) *cobra.Command {
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
		Args:              cobra.NoArgs,
		PersistentPreRunE: cli.CheckRequired,
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
	a.AddJSON(root.PersistentFlags())
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
		notebook.NewLab(a.Console, a.NotebookPreset),
		notebook.NewPage(a.Console),
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

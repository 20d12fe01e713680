package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/presets"
)

// The exit codes of the command, except 0.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // As a shell reports an interrupt.
)

// checkRequired checks them, as cobra does later, whose error would count as a failure.
func checkRequired(cmd *cobra.Command) error {
	err := cmd.ValidateRequiredFlags()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cobra.BashCompOneRequiredFlag] != nil && f.Value.String() == "" && err == nil {
			err = fmt.Errorf("--%s is empty: want %s", f.Name, f.Usage)
		}
	})
	return cli.Usage(err)
}

// strict turns cobra's errors about the arguments of a command and its subcommands into errors of the command line. An
// unknown command gets a suggestion.
func strict(cmd *cobra.Command) {
	accepts := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if accepts == nil {
			return nil
		}
		err := accepts(cmd, args)
		if err == nil {
			return nil
		}
		if len(args) == 0 || !cmd.HasAvailableSubCommands() {
			return cli.Usagef("%w; usage: %s", err, cmd.UseLine())
		}
		cmd.SuggestionsMinimumDistance = 2
		if meant := cmd.SuggestionsFor(args[0]); len(meant) > 0 {
			return cli.Usagef("%w; did you mean %s?", err, strings.Join(meant, " or "))
		}
		return cli.Usagef("%w; %s --help lists them", err, cmd.CommandPath())
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.DefValue == "[]" && strings.HasPrefix(f.Value.Type(), "float") {
			f.DefValue = "" // The help would print it, as it would print "" of lists of texts.
		}
	})
	for _, below := range cmd.Commands() {
		strict(below)
	}
}

// numbers says what a flag of a type wants, instead of the text of package strconv.
var numbers = map[string]string{"int": "a whole number", "bool": "true or false", "duration": "a time, as in 30s or 2h",
	"float64Slice": "numbers, as in 0.1,0.3"}

// flagError is the error of a command line whose flags cannot be read. An unknown flag gets a suggestion.
func flagError(cmd *cobra.Command, err error) error {
	if bad, is := errors.AsType[*pflag.InvalidValueError](err); is && numbers[bad.GetFlag().Value.Type()] != "" {
		flag := bad.GetFlag()
		return cli.Usagef("--%s %q: want %s", flag.Name, bad.GetValue(), numbers[flag.Value.Type()])
	}
	unknown, is := errors.AsType[*pflag.NotExistError](err)
	if !is {
		return cli.Usage(err)
	}
	name := unknown.GetSpecifiedName()
	// A command that trains has --set.
	if instead := formerFlags[name]; instead != "" && cmd.Flags().Lookup("set") != nil {
		return cli.Usagef("--%s is gone: %s", name, instead)
	}
	key := strings.ReplaceAll(name, "-", "_")
	if cmd.Flags().Lookup("set") != nil && slices.Contains(presets.Keys(), key) {
		return cli.Usagef("%w: want --set %s=…", err, key)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := errs.Nearest(name, names); near != "" {
		return cli.Usagef("%w; did you mean --%s?", err, near)
	}
	return cli.Usagef("%w; %s --help lists them", err, cmd.CommandPath())
}

// groups are the groups of flags in the help of train and reproduce. Other flags stand behind them.
var groups = []struct {
	title string
	flags []string
}{
	{"Data", []string{"data", "features", "labels", "test-features", "test-labels", "held-out"}},
	{"Network", []string{"arch", "weights", "dim", "head"}},
	{"Objective", []string{"rule", "loss", "add-rule", "add-loss"}},
	{"Optimization", []string{"preset", "epochs", "batch", "lr", "seeds", "set"}},
	{"Memory", []string{"jobs", "devices", "keep", "micro-batch"}},
	{"Cluster", append([]string{"on"}, ofSlurm...)},
	{"Output", nil},
}

// ofSlurm are the flags that the help shows with --on slurm alone.
var ofSlurm = []string{"dry-run", "gres", "max-parallel", "partition", "sbatch", "time", "wait"}

// usages returns the help of a command's flags, in groups if there are many.
func usages(f *pflag.FlagSet) string {
	const columns = 120
	on := f.Lookup("on")
	if on == nil {
		return f.FlagUsagesWrapped(columns)
	}
	var out strings.Builder
	in := func(flag *pflag.Flag) int {
		return max(0, slices.IndexFunc(groups, func(g struct {
			title string
			flags []string
		}) bool {
			return g.flags == nil || slices.Contains(g.flags, flag.Name)
		}))
	}
	for i, group := range groups {
		set := pflag.NewFlagSet(group.title, pflag.ContinueOnError)
		f.VisitAll(func(flag *pflag.Flag) {
			if in(flag) == i && (on.Value.String() != "" || !slices.Contains(ofSlurm, flag.Name)) {
				set.AddFlag(flag)
			}
		})
		if set.HasAvailableFlags() {
			fmt.Fprintf(&out, "%s:\n%s\n", group.title, set.FlagUsagesWrapped(columns))
		}
	}
	return out.String()
}

// Cobra has one list of template functions for all commands.
func init() { cobra.AddTemplateFunc("usages", usages) }

// groupFlags lets a command and those below it show their flags by usages.
func groupFlags(root *cobra.Command) {
	template := strings.ReplaceAll(root.UsageTemplate(), ".LocalFlags.FlagUsages", "usages .LocalFlags")
	root.SetUsageTemplate(strings.ReplaceAll(template, ".InheritedFlags.FlagUsages", "usages .InheritedFlags"))
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

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/presets"
)

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

// flagError is [cli.FlagError], which also knows former flags and the keys of --set.
func flagError(cmd *cobra.Command, err error) error {
	unknown, is := errors.AsType[*pflag.NotExistError](err)
	if !is || cmd.Flags().Lookup("set") == nil { // A command that trains has it.
		return cli.FlagError(cmd, err)
	}
	name := unknown.GetSpecifiedName()
	if instead := formerFlags[name]; instead != "" {
		return cli.Usagef("--%s is gone: %s", name, instead)
	}
	if key := strings.ReplaceAll(name, "-", "_"); slices.Contains(presets.Keys(), key) {
		return cli.Usagef("%w: want --set %s=…", err, key)
	}
	return cli.FlagError(cmd, err)
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

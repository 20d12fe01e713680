package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/formula"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/presets"
)

// completeFlags completes the values of flags, which mean the same in all commands, and the arguments of commands. What
// does not begin as typed is left out by the shells.
func completeFlags(root *cobra.Command, a *app.App) {
	oneOf := func(names ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)
	}
	orFile := func(names ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(names, cobra.ShellCompDirectiveDefault)
	}
	folder := cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	published := slice.Map(datasets.Sources(), func(s datasets.Source) string { return s.Alias })
	numbers := slice.Map(dmlx.Numbers, func(n dmlx.Number) string { return n.Name })
	// Rules are completed by name, and within a formula its last name.
	rules := func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		within, directive := formula.Complete(typed, numbers), cobra.ShellCompDirectiveNoFileComp
		if len(within) > 0 {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return append(ruleNames(), within...), directive
	}
	keys := slice.Map(presets.Keys(), func(key string) string { return key + "=" })
	values := map[string]cobra.CompletionFunc{
		"preset": orFile(presets.Names()...), "rule": rules, "add-rule": rules, "reference": rules,
		"loss": oneOf(losses.Names()...), "add-loss": oneOf(losses.Names()...), "miner": oneOf(miners.Names()...),
		"data": orFile(append(datasets.Names(), published...)...), "arch": orFile(backbone.Arches()...),
		"set":     cobra.FixedCompletions(keys, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace),
		"weights": orFile("pretrained", "random"), "on": oneOf("slurm"), "at": oneOf("normalized", "raw"),
		"store": folder, "root": folder, "images": folder,
	}
	run := func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		entries, _ := os.ReadDir(a.StorePath())
		return slice.Map(entries, os.DirEntry.Name), cobra.ShellCompDirectiveNoFileComp
	}
	arguments := map[string]cobra.CompletionFunc{
		"dmlx data verify": oneOf(published...),
		"dmlx rule":        rules, "dmlx runs show": run,
		"dmlx runs compare": run, "dmlx runs remove": run, "dmlx runs verify": run,
	}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, set := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) {
				if of := values[f.Name]; of != nil {
					_ = cmd.RegisterFlagCompletionFunc(f.Name, of) // It fails where the command completes the flag itself.
				}
			})
		}
		if of := arguments[cmd.CommandPath()]; of != nil && cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = of
		} else if of == nil && cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil && strings.IndexByte(cmd.Use, ' ') < 0 {
			cmd.ValidArgsFunction = cobra.NoFileCompletions // It has no arguments.
		}
		for _, below := range cmd.Commands() {
			visit(below)
		}
	}
	visit(root)
}

// ruleNames returns the rules of the paper's parts, and their names.
func ruleNames() []string {
	out := dmlx.Aliases()
	directions, pairs, triplets := dmlx.PartNames()
	for _, d := range directions {
		for _, p := range pairs {
			for _, t := range triplets {
				out = append(out, d+"/"+p+"/"+t)
			}
		}
	}
	return out
}

// addHelp adds the pages of dmlx help that are about no command, and has it fail where cobra's own prints the help of
// something else and succeeds.
func addHelp(root *cobra.Command) {
	for _, page := range []struct{ name, short, text string }{
		{"json", "What commands print with --json", jsonHelp()},
		{"onnx", "A script that exports a network to ONNX: dmlx help onnx > export.py", onnx.Export},
		{"optuna", "A script that searches by Optuna: dmlx help optuna > tune.py", optunaScript},
	} {
		root.AddCommand(&cobra.Command{Use: page.name, Short: page.short, Long: page.text})
	}
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"}) // It is there.
	help.Example = "  dmlx help train\n  dmlx help json\n  dmlx help onnx > export.py\n  dmlx help optuna > tune.py"
	help.Args = func(_ *cobra.Command, args []string) error {
		of, rest, err := root.Find(args)
		if err == nil && len(rest) > 0 {
			err = of.ValidateArgs(rest)
		}
		return cli.Usage(err)
	}
}

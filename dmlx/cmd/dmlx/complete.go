package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/search"
)

type shellScript struct {
	name  string
	write func(root *cobra.Command, w io.Writer) error
}

// shells are the shells that completion writes scripts for, and how.
var shells = []shellScript{
	{"bash", func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) }},
	{"zsh", func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) }},
	{"fish", func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) }},
}

func newCompletion(a *cli.App) *cobra.Command {
	names := slice.Map(shells, func(s shellScript) string { return s.name })
	return &cobra.Command{
		Use:   "completion " + strings.Join(names, "|"),
		Short: "Print a script that completes commands, flags, rules and runs in a shell",
		Long: `Print a script with which a shell completes dmlx's commands, its flags and their values: rules part by part,
losses, data sets, presets and the runs of the store. The script asks the dmlx on the PATH, so it need not be renewed.

bash, for which the package bash-completion must be installed:
  dmlx completion bash > ~/.local/share/bash-completion/completions/dmlx
zsh, with a folder of your fpath:
  dmlx completion zsh > ~/.zfunc/_dmlx
fish:
  dmlx completion fish > ~/.config/fish/completions/dmlx.fish
For all users of a machine: /usr/share/bash-completion/completions/dmlx, /usr/local/share/zsh/site-functions/_dmlx,
/usr/share/fish/vendor_completions.d/dmlx.fish.`,
		Example:   "  dmlx completion bash",
		Args:      cobra.ExactArgs(1),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			i := slices.Index(names, args[0])
			if i < 0 {
				return cli.Usagef("no script for %q: want %s", args[0], strings.Join(names, ", "))
			}
			return shells[i].write(cmd.Root(), a.Stdout)
		},
	}
}

// completer returns the words that may stand where somebody has typed the beginning of one.
type completer = cobra.CompletionFunc

// oneOf completes the names of a fixed list.
func oneOf(names ...string) completer { return fixed(names, cobra.ShellCompDirectiveNoFileComp) }

// orFile completes the names of a fixed list, and paths where none of them fits.
func orFile(names ...string) completer { return fixed(names, cobra.ShellCompDirectiveDefault) }

// networkOr completes the names of a fixed list, and ONNX files where none of them fits.
func networkOr(names ...string) completer {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if out := beginning(names, typed); len(out) > 0 {
			return out, cobra.ShellCompDirectiveNoFileComp
		}
		return []cobra.Completion{"onnx"}, cobra.ShellCompDirectiveFilterFileExt
	}
}

func fixed(names []string, directive cobra.ShellCompDirective) completer {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return beginning(names, typed), directive
	}
}

// completeFlags completes the values of flags, which mean the same in all commands, and the arguments of commands.
func completeFlags(root *cobra.Command, a *cli.App) {
	published := slice.Map(datasets.Sources(), func(s datasets.Source) string { return s.Alias })
	sets := append(datasets.Names(), published...)
	values := map[string]completer{
		"preset": orFile(presets.Names()...), "rule": completeRule, "add-rule": completeRule, "reference": completeRule,
		"loss": oneOf(losses.Names()...), "add-loss": oneOf(losses.Names()...), "miner": oneOf(miners.Names()...),
		"exchange": completeExchange, "data": orFile(sets...), "fine-grained": orFile(sets...),
		"separated": orFile(sets...), "arch": networkOr(backbone.Arches()...),
		"weights": orFile("pretrained", "random"), "precision": oneOf("bf16"), "on": oneOf("slurm"),
		"sampler": oneOf(search.Samplers()...), "at": oneOf("normalized", "raw"),
	}
	for _, dir := range []string{"store", "root", "images"} {
		values[dir] = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
	}
	arguments := map[string]completer{
		"dmlx data info": oneOf(published...), "dmlx data verify": oneOf(published...), "dmlx data get": oneOf(published...),
		"dmlx weights get": oneOf(backbone.Arches()...), "dmlx weights info": networkOr(),
	}
	arguments["dmlx rule"] = func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion,
		cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeRule(cmd, args, typed)
	}
	for _, of := range []string{"show", "look", "compare", "remove", "verify"} {
		arguments["dmlx runs "+of] = completeRun(a)
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

// completeRule completes a rule part by part.
func completeRule(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []string
	directions, pairs, _ := dmlx.PartNames()
	parts := strings.Split(typed, "/")
	before := strings.Join(parts[:len(parts)-1], "/")
	directive := cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	switch len(parts) {
	case 1:
		for _, d := range directions {
			out = append(out, d+"/")
		}
		if out = beginning(out, typed); len(out) == 0 {
			directive = cobra.ShellCompDirectiveNoFileComp
		}
		out = append(out, beginning(dmlx.Aliases(), typed)...)
		return out, directive
	case 2:
		for _, p := range pairs {
			out = append(out, before+"/"+p+"/")
		}
	case 3:
		directive = cobra.ShellCompDirectiveNoFileComp
		for _, t := range dmlx.TripletWeights {
			out = append(out, before+"/"+t.Name)
			for _, m := range dmlx.Masks {
				out = append(out, before+"/"+t.Name+"+"+m.Name)
			}
		}
	}
	return beginning(out, typed), directive
}

// completeExchange completes the first part that --exchange replaces.
func completeExchange(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []string
	for _, d := range dmlx.ExchangeDirections {
		out = append(out, "direction="+d.Name)
	}
	_, pairs, _ := dmlx.PartNames()
	for _, p := range pairs {
		out = append(out, "pair="+p)
	}
	for _, t := range dmlx.TripletWeights {
		out = append(out, "triplet="+t.Name)
	}
	return beginning(out, typed), cobra.ShellCompDirectiveNoFileComp
}

// completeRun completes the name of a run in the store, with its rule or loss. It only reads the store.
func completeRun(a *cli.App) completer {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const most = 50 // A store may have a hundred thousand runs.
		store := &runs.Store{Dir: a.StorePath()}
		entries, _ := os.ReadDir(store.Dir)
		var out []string
		for _, e := range entries {
			if !e.IsDir() || !strings.HasPrefix(e.Name(), typed) || strings.Trim(e.Name(), "0123456789abcdef") != "" {
				continue
			}
			if len(out) == most {
				break
			}
			run := store.Entry(e.Name())
			about := fmt.Sprintf("%s on %s, seed %d", run.Spec.Objective.String(), run.Spec.Data, run.Spec.Seed)
			out = append(out, cobra.CompletionWithDesc(run.Hash, cmp.Or(run.Bad, about)))
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// beginning returns the names that begin with what was typed.
func beginning(names []string, typed string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, typed) })
}

// newHelp is cobra's command for help, which fails where that one prints the help of something else and succeeds.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND…]",
		Short:   "Show the help of a command; help json says what --json prints, help onnx how to export a network",
		Example: "  dmlx help train\n  dmlx help json\n  dmlx help onnx > export.py",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			of, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var out []string
			for _, below := range of.Commands() {
				if below.IsAvailableCommand() {
					out = append(out, cobra.CompletionWithDesc(below.Name(), below.Short))
				}
			}
			return beginning(out, typed), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if slices.Equal(args, []string{"json"}) {
				_, err := fmt.Fprint(cmd.OutOrStdout(), jsonHelp())
				return err
			}
			if slices.Equal(args, []string{"onnx"}) {
				_, err := fmt.Fprint(cmd.OutOrStdout(), onnx.Export)
				return err
			}
			of, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = of.ValidateArgs(rest)
			}
			if err != nil {
				return cli.Usage(err)
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

package training

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// rateSearch is a call of rates.
type rateSearch struct {
	execution
	objectiveFlags
	set     settingFlags
	data    string
	heldOut int
	wider   int
	file    string
}

// NewRates chooses learning rates on held-out classes.
func NewRates(a *app.App) *cobra.Command {
	s := rateSearch{execution: execution{App: a}}
	cmd := &cobra.Command{
		Use:   "rates",
		Short: "Choose the learning rate of rules and losses on held-out training classes, from one grid for all",
		Long: `Choose the learning rate of each rule and loss by Recall@1 on held-out training classes: all are trained at all
rates with all seeds, so that each has as many tries. While the best rate of any of them is at an edge of the grid, the
grid grows there for all. The test classes are measured and not used.

--write FILE writes the rates as a preset, with which dmlx train and dmlx reproduce use them. A command that was stopped
continues where it was.`,
		Example: "  dmlx rates --rule cos/con/con --rule ours --lr 0.1,0.3,1 --seeds 1-2 --write rates.toml\n" +
			"  dmlx reproduce table3 --preset rates.toml",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&s.data, "data", "minicar", "data set, or a folder of images")
	f.StringArrayVar(&s.rules, "rule", nil, "gradient rule; may be repeated")
	f.StringArrayVar(&s.losses, "loss", nil, "loss; may be repeated")
	f.IntVar(&s.heldOut, "held-out", 4, "hold out every n-th training class")
	f.IntVar(&s.wider, "wider", 3, "times that the grid may grow; 0 keeps it")
	f.StringVar(&s.file, "write", "", "preset to write the rates to, a file whose name ends in .toml")
	s.set.add(a, f)
	f.Lookup("lr").Usage = "learning rates to try, at least two, as in 0.1,0.3,1"
	s.execution.add(f)
	return cmd
}

func (s *rateSearch) run(ctx context.Context) error {
	objectives, err := s.parse(false)
	if err != nil {
		return err
	}
	preset, seeds, err := s.set.preset(s.App, 0)
	if err != nil {
		return err
	}
	if seeds == nil {
		seeds = preset.Seeds
	}
	rates := s.set.lr
	switch {
	case len(rates) < 2:
		return cli.Usagef("--lr has %d learning rates: want at least two", len(rates))
	case s.heldOut < 1 || s.wider < 0:
		return cli.Usagef("--held-out %d, --wider %d: want at least 1 and 0", s.heldOut, s.wider)
	case s.file != "" && filepath.Ext(s.file) != ".toml":
		return cli.Usagef("--write %s: want a name that ends in .toml", s.file)
	}
	if len(objectives) == 0 {
		return cli.Usagef("no --rule and no --loss: want at least one")
	}
	if err := cmp.Or(s.check(), cli.CheckOut([]string{s.App.Preset}, s.file)); err != nil {
		return err
	}
	if err := s.begin(preset); err != nil {
		return err
	}
	names := slice.Map(objectives, presets.Objective.String)
	search := presets.RateSearch{Objectives: names, Rates: rates, Seeds: seeds, Wider: s.wider,
		Spec: func(i int, rate float64, seed uint64) (runs.Spec, error) {
			p := preset
			p.LR, p.Rates = rate, nil
			spec, err := p.ObjectiveSpec(s.data, objectives[i], seed)
			spec.HeldOut = s.heldOut
			return spec, err
		},
		Train: func(specs []runs.Spec) ([]*runs.Result, error) {
			s.show("")
			results, _, err := runs.RunAll(ctx, s.open, s.store, specs, s.Options)
			s.Line.End()
			return results, err
		},
	}
	choices, err := search.Choose()
	if err != nil {
		return err
	}
	written := []string{} // An array in JSON, even if empty.
	if s.file != "" {
		from := cmp.Or(s.App.Preset, "quick")
		if filepath.Ext(from) == ".toml" {
			if relative, err := filepath.Rel(filepath.Dir(s.file), from); err == nil { // Both can be moved together.
				from = filepath.ToSlash(relative)
			} else if from, err = filepath.Abs(from); err != nil {
				return err
			}
		}
		preset := presetOfRates(filepath.Base(runs.PaperName(s.data)), from, s.heldOut, seeds, choices)
		if err := durable.WriteFile(s.file, []byte(preset), 0o644); err != nil {
			return err
		}
		written = append(written, s.file)
	}
	return s.Print(map[string]any{"data": s.data, "held_out": s.heldOut, "seeds": seeds, "choices": choices,
		"files": written}, choicesText(choices)+app.FilesText(written))
}

// choicesText returns a table: for each objective its held-out Recall@1 in percent at each rate, the chosen one marked.
func choicesText(choices []presets.RateChoice) string {
	rows := []string{"held-out Recall@1"}
	for _, t := range choices[0].Trials {
		rows[0] += fmt.Sprintf("\t%g", t.Rate)
	}
	edge := false
	for _, c := range choices {
		row := c.Objective
		for i, t := range c.Trials {
			mark := ""
			if i == c.Best {
				mark = " *"
			}
			row += fmt.Sprintf("\t%s%s", t.HeldOut.Times(100), mark)
		}
		rows = append(rows, row)
		edge = edge || c.AtEdge()
	}
	out := text.Table(rows...) + "\n* chosen"
	if edge {
		out += "; one of them at the edge of the grid: a better rate may lie beyond (--wider, --lr)"
	}
	return out
}

// presetOfRates returns the choices as the text of a preset.
func presetOfRates(data, from string, heldOut int, seeds []uint64, choices []presets.RateChoice) string {
	var text strings.Builder
	fmt.Fprintf(&text, "# Learning rates chosen by Recall@1 on one training class in %d, held out, with the seeds %v.\n",
		heldOut, seeds)
	fmt.Fprintf(&text, "from = %q\n\n[learning_rates.%q]\n", from, data)
	for _, c := range choices {
		fmt.Fprintf(&text, "%q = %g\n", c.Objective, c.Rate())
	}
	return text.String()
}

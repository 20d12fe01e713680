package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/progress"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	lossnames "github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// trained is the JSON of train: the result and the folder of the run.
type trained struct {
	*runs.Result
	Dir string `json:"dir"`
}

func newTrain(a *app) *cobra.Command {
	var (
		data, exchange, out string
		rules, losses       []string
		proxyLR             float64
		seed                uint64
		set                 settingFlags
		o                   runs.Options
		on                  cluster
	)
	cmd := &cobra.Command{
		Use:   "train",
		Short: "Train a network by gradient rules or losses, measure its retrieval and compare",
		Long: `Train a network by a gradient rule or a loss and measure its retrieval. With several rules, losses or seeds,
train what is missing and compare: means over seeds, tests of the differences to the first rule or loss and, in the
folder --out, curves and LaTeX.

If a run is stopped, the same command continues it. A finished run is read from the store; of several, also one that is
bundled with the program. With --on slurm a cluster trains the missing runs.

Data: minicar, minishop, the paper's CUB, CAR, SOP and In-shop, or a folder with a folder of images per class.
Rules: direction/pair/triplet[+mask], or one of
` + text.Wrap(dmlx.Aliases()) + `
Losses (dmlx dissect --list describes them):
` + text.Wrap(lossnames.Names()) + `
Parts of a loss that --exchange replaces: direction, pair and triplet, with their names in a rule. A miner and parts may
also follow a rule or loss: "ms, miner ms, pair=lin-ms".`,
		Example: "  dmlx train --data minicar --rule cos-orth/lin-ms/cir --seed 1\n" +
			"  dmlx train --data minicar --loss \"ms?beta=40\" --miner ms\n" +
			"  dmlx train --data minishop --loss proxy-anchor --exchange pair=lin-ms\n" +
			"  dmlx train --rule cos/con/con --rule cos/lin/cir --loss ms --seeds 1-5 --out compared/",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := cmd.Flags().Changed
			if err := set.checkFeatures(a, cmd.Flags()); err != nil {
				return err
			}
			preset, seeds, err := set.preset(a)
			if err != nil {
				return err
			}
			if len(set.lr) > 1 {
				return usagef("--lr has %d learning rates: want one; dmlx reproduce table7 and dmlx search compare rates",
					len(set.lr))
			}
			if given("seed") && seeds != nil {
				return usagef("--seed and --seeds are both given: want one of them")
			}
			if seeds == nil {
				seeds = []uint64{seed}
			}
			objectives, err := a.objectives(rules, losses)
			if err != nil {
				return err
			}
			if len(losses) == 0 && (given("exchange") || given("proxy-lr")) {
				return usagef("--exchange and --proxy-lr belong to a loss: want --loss NAME")
			}
			if objectives == nil {
				objectives = []presets.Objective{{}}
			}
			for i := range objectives {
				if at := &objectives[i]; !at.IsRule() {
					if at.Exchange != "" && exchange != "" {
						return usagef("%s and --exchange %s: want one of them", at, exchange)
					}
					at.Exchange = cmp.Or(at.Exchange, exchange)
				}
			}
			if preset.Base.HasFeatures() {
				data = preset.Base.Data
			}
			specsOn := func(p presets.Preset) (specs []runs.Spec, err error) {
				for _, objective := range objectives {
					for _, seed := range seeds {
						spec, err := p.ObjectiveSpec(data, objective, seed)
						if err != nil {
							return nil, err
						}
						if given("proxy-lr") && spec.Loss != "" {
							spec.ProxyLR = proxyLR
						}
						specs = append(specs, spec)
					}
				}
				return specs, nil
			}
			// Flags are checked before images are decoded, which may take long: a set with a digest is not opened.
			trial := preset
			trial.Digests = map[string]string{runs.PaperName(data): "none"}
			specs, err := specsOn(trial)
			if err != nil {
				return usage(err)
			}
			for _, spec := range specs {
				if err := spec.Ready(); err != nil { // If weights and a published set are missing, it names the set.
					return err
				}
				if err := spec.HasTriplets(); err != nil {
					return usage(err)
				}
				if err := spec.FitsDevices(o.Devices); err != nil {
					return usage(err)
				}
				if spec.HasFeatures() { // They are read already.
					if err := runs.Feasible(spec); err != nil {
						return usage(err)
					}
				}
			}
			several := len(specs) > 1 || on.on != "" || given("out") || given("jobs")
			if err := on.check(cmd.Flags()); err != nil {
				return err
			}
			if err := checkOutDir(out); err != nil {
				return err
			}
			if specs, err = specsOn(preset); err != nil {
				return err
			}
			if !several {
				return a.train(cmd, specs[0], o.Devices)
			}
			if err := distinct(specs); err != nil {
				return err
			}
			return a.trainSeveral(cmd.Context(), specs, preset, o, &on, out)
		},
	}
	f := cmd.Flags()
	f.StringVar(&data, "data", "minicar", "data set, or a folder of images")
	f.StringArrayVar(&rules, "rule", nil, "gradient rule; may be repeated (default cos/con/con)")
	f.StringArrayVar(&losses, "loss", nil,
		`loss; parameters that differ from the published ones follow a "?": "ms?beta=40"; may be repeated`)
	f.StringVar(&exchange, "exchange", "",
		`parts of the losses that are replaced: "pair=lin-ms", "direction=cos-orth&triplet=cir"`)
	f.Float64Var(&proxyLR, "proxy-lr", 0, "learning rate of a loss's proxies (default: the preset's for the loss)")
	f.Uint64Var(&seed, "seed", 1, "seed of the last layer, the batches, the augmentation and the proxies")
	set.add(f)
	f.Lookup("seeds").Usage = "several seeds in place of --seed, as in 1-5 or 1,3,8"
	f.IntVar(&o.Jobs, "jobs", 0, jobsUsage)
	f.BoolVar(&o.IgnoreBundled, "no-bundled", false,
		"of several runs, train again those that are bundled with the program, which have no curves")
	f.StringVar(&out, "out", "",
		"folder for the comparison: tables as Markdown, CSV, LaTeX and HTML, curves as SVG, PDF and PNG")
	set.addFeatures(f)
	addDevices(f, &o.Devices)
	on.flags(f)
	cmd.AddCommand(newTrainSteps(a))
	return cmd
}

// distinct returns an error if two of the specs are the same run, as of a rule that is given twice.
func distinct(specs []runs.Spec) error {
	seen := make(map[string]bool)
	for _, s := range specs {
		if seen[s.Hash()] {
			return usagef("%s with seed %d is given twice", s.Objective(), s.Seed)
		}
		seen[s.Hash()] = true
	}
	return nil
}

// trainSeveral trains the missing ones of several runs and compares all.
func (a *app) trainSeveral(ctx context.Context, specs []runs.Spec, preset presets.Preset, o runs.Options, on *cluster,
	out string) error {
	store, err := a.store()
	if err != nil {
		return err
	}
	if !preset.Base.HasFeatures() || o.Jobs > 0 { // Seeds of a head train side by side in this process.
		if err := setJobsFor(&o, store, preset); err != nil {
			return err
		}
	}
	if on.dryRun {
		var missing []runs.Spec
		for _, s := range specs {
			if _, found, err := store.Lookup(s); err != nil {
				return err
			} else if !found {
				missing = append(missing, s)
			}
		}
		return on.dry(ctx, a, store, runs.Jobs(missing...))
	}
	if on.on != "" {
		o.Submit = on.elsewhere(a, store)
	}
	open := a.backendOf(preset, o)
	if preset.Base.HasFeatures() && on.on == "" {
		if err := a.showFeatures(ctx, specs[0], store, open); err != nil {
			return err
		}
	}
	line := a.line
	o.Progress = paper.Overall(func(done float64, text string) { line.Show("%3.0f %%  %s", 100*done, text) })
	results, ran, err := runs.RunAll(ctx, open, store, specs, o)
	line.End()
	if err != nil {
		return err
	}
	hashes := make([]string, len(results))
	for i, r := range results {
		hashes[i] = r.Hash
	}
	return a.printComparison(ctx, store, hashes, out, func(v map[string]any) string {
		v["trained"] = ran
		return fmt.Sprintf("%d runs, %d of them trained now", len(results), ran)
	})
}

func (a *app) train(cmd *cobra.Command, spec runs.Spec, devices int) error {
	if err := spec.Ready(); err != nil {
		return err
	}
	store, err := a.store()
	if err != nil {
		return err
	}
	choice, err := a.backendFor(runs.Job{Spec: spec, Devices: devices}.Light())
	if choice, err = onDevices(choice, err, devices); err != nil {
		return err
	}
	a.logf("run %s: %s on %s, seed %d, lr %g, %d steps of %d images", spec.Hash(), spec.Objective(), spec.Data,
		spec.Seed, spec.LR, spec.Steps(), spec.Batch())
	if spec.HasFeatures() {
		err := a.showFeatures(cmd.Context(), spec, store, func() (*train.Trainer, error) { return choice, nil })
		if err != nil {
			return err
		}
	}
	line := a.line
	result, err := runs.Run(cmd.Context(), choice, store, spec,
		func(p runs.Progress) { line.Show("%s", progress.Training(p)) })
	line.End()
	if err != nil {
		return err
	}
	return a.print(trained{result, store.Path(result.Hash)}, resultText(result, store.Path(result.Hash)))
}

// resultText returns a result as text.
func resultText(r *runs.Result, dir string) string {
	var b strings.Builder
	if r.Diverged != "" {
		fmt.Fprintf(&b, "diverged: %s\n", r.Diverged)
	}
	if r.Recall != nil {
		for _, k := range []int{1, 2, 4, 8} {
			if v, ok := r.Recall[k]; ok {
				fmt.Fprintf(&b, "Recall@%d %.1f   ", k, 100*v)
			}
		}
		fmt.Fprintf(&b, "MAP@R %.1f   (in percent, %d queries", 100*r.MAPAtR, r.Queries)
		if r.LoneQueries > 0 {
			fmt.Fprintf(&b, ", %d more without a match", r.LoneQueries)
		}
		b.WriteString(")\n")
	}
	if r.Skipped > 0 {
		fmt.Fprintf(&b, "unreadable images left out: %d\n", r.Skipped)
	}
	fmt.Fprintf(&b, "run %s, %s, backend %s, %.1f s: %s", r.Hash, presets.Of(r.Spec), r.BackendText(), r.Seconds, dir)
	return b.String()
}

package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/progress"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// trained is the JSON of train: the result and the folder of the run.
type trained struct {
	*runs.Result
	Dir string `json:"dir"`
}

func newTrain(a *app) *cobra.Command {
	var (
		data, rule, arch, weights, batch string
		loss, miner, exchange            string
		proxyLR                          float64
		seed                             uint64
		pf                               presetFlags
		lr                               float64
		epochs, steps, dim, size         int
	)
	cmd := &cobra.Command{
		Use:   "train",
		Short: "Train a network by a gradient rule or a loss and measure its retrieval",
		Long: `Train a network by a gradient rule or a loss and measure its retrieval.

If a run is stopped, the same command continues it. A finished run is read from the store.

Data: minicar, minishop, the paper's CUB, CAR, SOP and In-shop, or a folder with a folder of images per class.
Rules: direction/pair/triplet[+mask], or one of
` + text.Wrap(dmlx.Aliases()) + `
Losses (dmlx dissect --list describes them):
` + text.Wrap(losses.Names()) + `
Parts of a loss that --exchange replaces: direction, pair and triplet, with their names in a rule.`,
		Example: "  dmlx train --data minicar --rule cos-orth/lin-ms/cir --seed 1\n" +
			"  dmlx train --data minicar --loss \"ms?beta=40\" --miner ms\n" +
			"  dmlx train --data minishop --loss proxy-anchor --exchange pair=lin-ms",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			preset, err := pf.preset(a)
			if err != nil {
				return err
			}
			preset.Size = size
			given := cmd.Flags().Changed
			specOn := func(data string) (spec runs.Spec, err error) {
				switch {
				case given("loss") && given("rule"):
					return spec, usagef("--rule and --loss are both given: want one of them")
				case given("loss"):
					spec, err = preset.LossSpec(data, loss, miner, exchange, seed)
				case given("miner") || given("exchange") || given("proxy-lr"):
					return spec, usagef("--miner, --exchange and --proxy-lr belong to a loss: want --loss NAME")
				default:
					var r dmlx.Rule
					if r, err = a.rule(rule); err == nil {
						spec, err = preset.Spec(data, r, seed)
					}
				}
				if err != nil {
					if data == "minicar" { // It always exists, so a flag is wrong.
						err = usage(err)
					}
					return spec, err
				}
				if given("proxy-lr") {
					spec.ProxyLR = proxyLR
				}
				if given("lr") {
					spec.LR = lr
				}
				if given("epochs") {
					spec.Epochs = epochs
				}
				if given("steps") {
					spec.StepsPerEpoch = steps
				}
				if given("dim") {
					spec.Dim = dim
				}
				if given("arch") || given("weights") {
					if spec, err = spec.WithStart(arch, weights); err != nil {
						return spec, err
					}
				}
				if given("batch") {
					classes, images, _ := strings.Cut(batch, "x")
					var noClasses, noImages error
					spec.ClassesPerBatch, noClasses = strconv.Atoi(classes)
					spec.ImagesPerClass, noImages = strconv.Atoi(images)
					if noClasses != nil || noImages != nil {
						return spec, usagef("batch %q: want classes x images per class, as in 8x8", batch)
					}
				}
				return spec, usage(spec.HasTriplets())
			}
			// Flags are checked before images are decoded, which may take long.
			trial, err := specOn("minicar")
			if err == nil {
				// If both the weights and a published set are missing, Ready names the set.
				trial.Data, _ = datasets.PublishedName(data)
				trial.Data = cmp.Or(trial.Data, data)
				err = trial.Ready()
			}
			if err != nil {
				return err
			}
			spec, err := specOn(data)
			if err != nil {
				return err
			}
			return a.train(cmd, spec)
		},
	}
	f := cmd.Flags()
	f.StringVar(&data, "data", "minicar", "data set, or a folder of images")
	f.StringVar(&rule, "rule", "cos/con/con", "gradient rule")
	f.StringVar(&loss, "loss", "",
		`loss instead of a rule; parameters that differ from the published ones follow a "?": "ms?beta=40"`)
	f.StringVar(&miner, "miner", "",
		"miner of the loss's pairs or triplets: "+strings.Join(miners.Names(), ", ")+" (default all)")
	f.StringVar(&exchange, "exchange", "",
		`parts of the loss that are replaced: "pair=lin-ms", "direction=cos-orth&triplet=cir"`)
	f.Float64Var(&proxyLR, "proxy-lr", 0, "learning rate of the loss's proxies (default: the preset's for the loss)")
	f.Uint64Var(&seed, "seed", 1, "seed of the last layer, the batches, the augmentation and the proxies")
	f.Float64Var(&lr, "lr", 0, "learning rate (default: the preset's for the rule or loss)")
	f.IntVar(&epochs, "epochs", 0, "epochs (default: the preset's)")
	f.IntVar(&steps, "steps", 0, "steps per epoch (default: the preset's)")
	f.IntVar(&dim, "dim", 0, "dimension of the embedding (default: the preset's)")
	f.IntVar(&size, "size", 0, "side of the images in pixels (default: the preset's)")
	f.StringVar(&batch, "batch", "", "classes x images per class, as in 8x8 (default: the preset's)")
	f.StringVar(&arch, "arch", "", "backbone (default: the preset's)")
	f.StringVar(&weights, "weights", "",
		"initial weights: pretrained, random, or a .safetensors or .pth file with torchvision's names "+
			"(default: the preset's)")
	pf.add(f)
	cmd.AddCommand(newTrainSteps(a))
	return cmd
}

func (a *app) train(cmd *cobra.Command, spec runs.Spec) error {
	if err := spec.Ready(); err != nil {
		return err
	}
	store, err := a.store()
	if err != nil {
		return err
	}
	choice, err := a.backend()
	if err != nil {
		return err
	}
	a.logf("run %s: %s on %s, seed %d, lr %g, %d steps of %d images", spec.Hash(), spec.Objective(), spec.Data,
		spec.Seed, spec.LR, spec.Steps(), spec.Batch())
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
	fmt.Fprintf(&b, "run %s, %s, backend %s, %.1f s: %s", r.Hash, presets.Of(r.Spec), r.Backend, r.Seconds, dir)
	return b.String()
}

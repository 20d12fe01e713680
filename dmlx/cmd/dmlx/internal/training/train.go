package training

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/stored"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	lossnames "github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// training is a call of train.
type training struct {
	execution
	objectiveFlags
	set     settingFlags
	data    string
	heldOut int

	preset     presets.Preset // Set by plan, as what follows.
	seeds      []uint64
	objectives []presets.Objective
}

// NewTrain trains networks and compares them.
func NewTrain(a *app.App) *cobra.Command {
	t := training{execution: execution{App: a}}
	cmd := &cobra.Command{
		Use:   "train",
		Short: "Train a network by gradient rules or losses, measure its retrieval and compare",
		Long: `Train a network by a gradient rule or a loss and measure its retrieval. With several rules, losses or seeds,
train the missing runs and compare all: means over seeds, tests of the differences to the first rule or loss and, in the
folder --out, curves and LaTeX. A parameter may have several values, as in "cos/lin/cir?tau=0.5,1,2": each is a rule of
its own.

If a run is stopped, the same command continues it. Finished runs are read from the store, and where several are
compared, also from the results that are bundled with the program. With --on slurm a cluster trains the missing runs.

Data: minicar, minishop, the paper's CUB, CAR, SOP and In-shop, or a folder with a folder of images per class.
Rules: direction/pair/triplet[+mask], or one of
` + text.Wrap(dmlx.Aliases()) + `
Losses (dmlx dissect --list describes them):
` + text.Wrap(lossnames.Names()) + `
A miner may follow a rule or loss, and parts that replace a loss's own, by their names in a rule: direction, pair and
triplet, as in "ms, miner ms, pair=lin-ms". The miners are
` + text.Wrap(miners.Names()) + `

A pretrained network that --arch names is returned trained only if training gained on held-out training classes, and
otherwise as it was. The same classes choose its last layer (start=chosen) and, unless --lr, --epochs or steps is given,
the rate and the length too (start=chosen-training). --set start=random is the paper's protocol: a random last layer,
always trained. A preset's file that names no start keeps to that protocol.

--set sets a key of a preset's file, as in --set optimizer=adam --set 'train_only=layer4'. The keys are
` + text.Wrap(presets.Keys()),
		Example: "  dmlx train --data minicar --rule cos-orth/lin-ms/cir\n" +
			"  dmlx train --data minicar --loss \"ms?beta=40, miner ms\"\n" +
			"  dmlx train --data minishop --loss \"proxy-anchor, pair=lin-ms\"\n" +
			"  dmlx train --data photos/ --arch vit.onnx --set 'train_only=blocks\\.11|norm' --set augment=flip --keep 8GB\n" +
			"  dmlx train --data photos/ --arch vit.onnx --set 'lora=attn\\.qkv\\.weight:8' --lr 0.01\n" +
			"  dmlx train --rule cos/con/con --rule cos/lin/cir --loss ms --seeds 1-5 --out compared/\n" +
			"  dmlx train --data photos/ --rule 'cos/lin/cir?tau=0.5,1,2,4' --seeds 1-3 --out tau/",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return fmt.Errorf("%q: data is given by --data, a rule by --rule, a loss by --loss", args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return t.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&t.data, "data", "minicar", "data set, or a folder of images")
	f.StringArrayVar(&t.rules, "rule", nil, "gradient rule; may be repeated (default cos/con/con)")
	f.StringArrayVar(&t.losses, "loss", nil,
		`loss, with a miner and exchanged parts if you like: "ms?beta=40, miner ms, pair=lin-ms"; may be repeated`)
	f.IntVar(&t.heldOut, "held-out", 0, "hold out every n-th training class, to choose by; see dmlx help optuna")
	t.set.add(a, f)
	f.Lookup("seeds").Usage = "seeds, as in 1-5 or 1,3,8 (default: 1)"
	f.BoolVar(&t.IgnoreBundled, "no-bundled", false,
		"with several runs: train again those that are bundled with the program, without their curves")
	f.BoolVar(&t.CachedOnly, "cached-only", false, "with several runs: train nothing, compare those that are there")
	t.set.addFeatures(f)
	t.execution.add(f)
	return cmd
}

// run trains what the flags ask for.
func (t *training) run(ctx context.Context) error {
	if err := t.plan(); err != nil {
		return err
	}
	if err := t.check(); err != nil {
		return err
	}
	if err := t.begin(t.preset); err != nil { // Before specs decode the images of a folder, which may take long.
		return err
	}
	specs, err := t.specs()
	if err != nil {
		return err
	}
	t.light = specs[0].Light(t.Devices) // They differ in rule, loss and seed.
	say := func() {}
	one := len(specs) == 1 && t.on.on == "" && !t.CachedOnly && !t.flags.Changed("out") && !t.flags.Changed("jobs")
	if t.show(""); one {
		spec, rate := specs[0], fmt.Sprintf("lr %g,", specs[0].LR)
		if spec.HeadStart != "" || spec.Start == train.ChosenTraining {
			rate = "rate and steps chosen on held-out classes, at most"
		}
		say = sync.OnceFunc(func() {
			t.Logf("run %s: %s on %s, seed %d, %s %d steps of %d images", spec.Hash(), spec.Objective, spec.DataName(),
				spec.Seed, rate, spec.Steps(), spec.Batch())
			switch {
			case spec.Start != "":
				t.Logf("the last layer, to %d dimensions (--dim), and whether the network is trained are chosen on held-out "+
					"classes; --set start=random takes a random layer and trains", spec.Dim)
				if spec.FreezeBN == train.FreezeAll && !t.set.sets("freeze_bn") {
					t.Logf("batch normalization stays as it is; --set freeze_bn= trains it")
				}
			case spec.NetworkFile != "":
				t.Logf("behind the network's features is a new, random last layer to %d dimensions; --dim sets how many", spec.Dim)
			}
		})
		t.IgnoreBundled, t.RunProcess = true, nil
		t.Progress = func(p runs.Progress) {
			say()
			t.Line.Show("%s", app.Training(p))
		}
	}
	results, ran, err := runs.RunAll(ctx, t.open, t.store, specs, t.Options)
	t.Line.End()
	if err == nil && t.on.dryRun { // None is missing.
		err = t.Submit(ctx, nil)
	}
	if err != nil {
		return err
	}
	var now *runs.Spec // The network's features are measured beside it, which takes a while.
	if ran > 0 {
		now = &specs[0]
	}
	if say(); one {
		return t.print(ctx, results, now)
	}
	return t.compare(ctx, results, ran, now)
}

// plan sets the preset, the seeds and the objectives.
func (t *training) plan() (err error) {
	if t.objectives, err = t.parse(false); err != nil {
		return err
	}
	if err := t.set.checkFeatures(t.App, t.flags); err != nil {
		return err
	}
	if t.preset, t.seeds, err = t.set.preset(t.App, t.heldOut); err != nil {
		return err
	}
	if len(t.set.lr) > 1 {
		return cli.Usagef("--lr has %d learning rates: want one; dmlx rates and dmlx reproduce table7 compare rates",
			len(t.set.lr))
	}
	if t.seeds == nil {
		t.seeds = []uint64{1}
	}
	if len(t.objectives) == 0 {
		t.objectives = []presets.Objective{{}}
	}
	if t.preset.Base.HasFeatures() {
		t.data = t.preset.Base.Data
	}
	return nil
}

// specs returns the runs: those of each objective, a seed after the other.
func (t *training) specs() (specs []runs.Spec, err error) {
	p := t.preset
	p.Adjust = append(p.Adjust, func(spec *runs.Spec) error {
		spec.HeldOut = t.heldOut
		if err := t.choosesStart(spec); err != nil {
			return err
		}
		return spec.FitsDevices(t.Devices)
	})
	seen := make(map[string]bool)
	for _, objective := range t.objectives {
		for _, seed := range t.seeds {
			spec, err := p.ObjectiveSpec(t.data, objective, seed)
			if err != nil {
				return nil, err
			}
			text := fmt.Sprintf("%s with seed %d", spec.Objective, spec.Seed)
			if seen[text] {
				return nil, cli.Usagef("%s is given twice", text)
			}
			seen[text] = true
			specs = append(specs, spec)
		}
	}
	return specs, nil
}

// choosesStart has the start of a pretrained network that --arch names chosen, unless start is set, and rate and length
// with it where neither is given. The last layer then has as many dimensions as there are features, and batch
// normalization stays as it is. A preset of the user's own says all of this itself.
func (t *training) choosesStart(spec *runs.Spec) error {
	if t.preset.From != "" {
		return nil
	}
	named := t.set.sets("arch") && t.preset.Name != "paper" && spec.Arch != string(backbone.Small)
	if named && spec.Weights == train.Pretrained && !t.set.sets("start") {
		spec.Start = train.ChosenTraining
		if t.preset.LR != 0 || t.set.sets("epochs") || t.set.sets("steps") {
			spec.Start = train.ChosenStart
		}
	}
	if spec.Start == "" {
		return nil
	}
	if normalizes, err := spec.Normalizes(); err != nil {
		return err
	} else if normalizes && !t.set.sets("freeze_bn") {
		spec.FreezeBN = train.FreezeAll // Averages of few classes would replace those with which the start was chosen.
	}
	if t.set.sets("dim") {
		return nil
	}
	width, err := spec.FeatureWidth()
	spec.Dim = width
	return err
}

// compare compares results, of which some were trained now and those that are missing are nil.
func (t *training) compare(ctx context.Context, results []*runs.Result, ran int, now *runs.Spec) error {
	all := len(results)
	results = slices.DeleteFunc(results, func(r *runs.Result) bool { return r == nil })
	if len(results) == 0 {
		return fmt.Errorf("none of the %d runs is there: leave out --cached-only to train them", all)
	}
	return stored.PrintComparison(ctx, t.App, t.store, results, t.out, now, func(v map[string]any) string {
		if v["trained"] = ran; len(results) < all {
			return fmt.Sprintf("%d of %d runs are there", len(results), all)
		}
		text := fmt.Sprintf("%d runs, %d of them trained now", all, ran)
		bundled := slice.Count(results, func(r *runs.Result) bool { return r.Bundled })
		if bundled > 0 {
			text += fmt.Sprintf("; %d come with the program, as measures alone: --no-bundled trains them here, for their curves",
				bundled)
		}
		return text
	})
}

// print prints the only result.
func (t *training) print(ctx context.Context, results []*runs.Result, now *runs.Spec) error {
	references, err := stored.References(ctx, t.App, t.store, results, now, t.Keep)
	if err != nil {
		return err
	}
	result := results[0]
	dir := t.store.Path(result.Hash)
	var above strings.Builder
	for _, r := range references {
		fmt.Fprintf(&above, "%-17s Recall@1 %.1f   MAP@R %.1f\n", r.Name, 100*r.Recall[1], 100*r.MAPAtR)
	}
	above.WriteString(stored.HeadsText([][]*runs.Result{results}))
	return t.Print(stored.Trained{Result: result, Dir: dir, References: references},
		above.String()+stored.ResultText(result, dir)+stored.Gained(result, references))
}

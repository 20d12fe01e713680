package main

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// addFeatures adds the flags of a head on frozen features.
func (p *presetFlags) addFeatures(f *pflag.FlagSet) {
	f.StringVar(&p.features.Features, "features", "",
		"train a head on frozen features of any network in place of --data: NumPy file, float [N, F]")
	f.StringVar(&p.features.Labels, "labels", "", "labels of --features, integers or names [N]: a NumPy file, or a .txt "+
		"with one a line (default: X.labels.npy beside X.npy)")
	f.StringVar(&p.features.TestFeatures, "test-features", "",
		"features to test on (default: the second half of the classes of --features)")
	f.StringVar(&p.features.TestLabels, "test-labels", "", "labels of --test-features")
	f.StringVar(&p.head, "head", "linear", "head on --features: linear, or mlp?hidden=512")
}

// checkFeatures returns an error if the flags of features are incomplete, or contradict others.
func (p *presetFlags) checkFeatures(a *app, f *pflag.FlagSet) error {
	if p.features.Features == "" {
		for _, name := range []string{"labels", "test-features", "test-labels", "head"} {
			if f.Changed(name) {
				return usagef("--%s belongs to --features X.npy, which is not given", name)
			}
		}
		return nil
	}
	p.features.Labels = files.LabelsOf(p.features.Features, p.features.Labels)
	p.features.TestLabels = files.LabelsOf(p.features.TestFeatures, p.features.TestLabels)
	if p.features.Labels == "" {
		return usagef("--features needs --labels L.npy, a label for each row")
	}
	if (p.features.TestFeatures == "") != (p.features.TestLabels == "") {
		return usagef("--test-features and --test-labels belong together: want both, or neither")
	}
	for _, name := range []string{"data", "arch", "weights", "size", "allow-partial", "skip-bad", "crop-boxes",
		"precision", "augment",
		"freeze-bn"} {
		if f.Changed(name) {
			return usagef("--%s belongs to images, and --features has none: want one of them", name)
		}
	}
	if a.preset != "" && f.Changed("preset") {
		return usagef("--preset sets the size of networks on images, and --features has no images: leave out --preset")
	}
	return nil
}

// showFeatures prints what the features reach without a head, unless the run is in the store.
func (a *app) showFeatures(
	ctx context.Context, spec runs.Spec, store *runs.Store, open func() (*train.Trainer, error),
) error {
	if _, found, err := store.Lookup(spec); err != nil || found {
		return err
	}
	data, _, err := runs.TrainingData(spec, store.DataOptions)
	if err != nil {
		return err
	}
	if err := spec.Fits(data, spec.HeldOut); err != nil {
		return err
	}
	trainer, err := open()
	if err != nil {
		return err
	}
	recall, err := data.FeatureRecall(ctx, trainer.Choice)
	if err != nil {
		return err
	}
	a.logf("the features themselves: Recall@1 %.1f", 100*recall)
	return nil
}

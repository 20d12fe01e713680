package training

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/heads"
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
	f.StringVar(&p.head, "head", "linear", "head on --features: linear, or mlp?hidden=512, which adds a hidden layer "+
		"to it; start (features, whitened or PLDA), rate and steps are chosen on held-out classes, so that a head falls "+
		"below the features at most by chance; linear?start=random chooses none of them and may end far below the features")
}

// checkFeatures returns an error if the flags of features are incomplete, or contradict others.
func (p *presetFlags) checkFeatures(a *cli.App, f *pflag.FlagSet) error {
	if p.features.Features == "" {
		for _, name := range []string{"labels", "test-features", "test-labels", "head"} {
			if f.Changed(name) {
				return cli.Usagef("--%s belongs to --features X.npy, which is not given", name)
			}
		}
		return nil
	}
	for _, path := range []string{p.features.Features, p.features.TestFeatures} {
		if _, err := os.Stat(path); path != "" && err != nil {
			return fmt.Errorf("%w: want a NumPy file of features, float [N, F]", err)
		}
	}
	p.features.Labels = files.LabelsOf(p.features.Features, p.features.Labels)
	p.features.TestLabels = files.LabelsOf(p.features.TestFeatures, p.features.TestLabels)
	if p.features.Labels == "" {
		return cli.Usagef("--features needs --labels L.npy, a label for each row")
	}
	if (p.features.TestFeatures == "") != (p.features.TestLabels == "") {
		return cli.Usagef("--test-features and --test-labels belong together: want both, or neither")
	}
	for _, name := range []string{"data", "arch", "weights", "size", "allow-partial", "skip-bad", "crop-boxes",
		"precision", "augment", "freeze-bn"} {
		if f.Changed(name) {
			return cli.Usagef("--%s belongs to images, and --features has none: want one of them", name)
		}
	}
	if h, err := heads.Parse(p.head); err != nil {
		return cli.Usage(err)
	} else if h.Start != "" {
		for _, name := range []string{"lr", "proxy-lr"} {
			if f.Changed(name) {
				return cli.Usagef("--%s: the rate of the head %s is chosen on held-out classes: want --head %q", name, h,
					heads.Head{Hidden: h.Hidden}.String())
			}
		}
	}
	if a.Preset != "" && f.Changed("preset") {
		return cli.Usagef("--preset sets the size of networks on images, and --features has no images: leave out --preset")
	}
	return nil
}

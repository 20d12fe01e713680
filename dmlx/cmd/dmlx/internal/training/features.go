package training

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/heads"
)

// addFeatures adds the flags of a head on frozen features.
func (p *settingFlags) addFeatures(f *pflag.FlagSet) {
	f.StringVar(&p.features.Features, "features", "",
		"frozen features of any network in place of --data, to train a head on: NumPy, float [N, F]")
	f.StringVar(&p.features.Labels, "labels", "", "labels of --features, [N]: NumPy, or a .txt with one a line (default: "+
		"X.labels.npy beside X.npy)")
	f.StringVar(&p.features.TestFeatures, "test-features", "",
		"features to test on (default: the second half of the classes)")
	f.StringVar(&p.features.TestLabels, "test-labels", "", "labels of --test-features")
	f.StringVar(&p.head, "head", "linear", "head on --features: linear or mlp?hidden=512, whose start, rate and steps "+
		"are chosen on held-out classes, which helps if test classes vary as training classes do; linear?start=random "+
		"chooses none of them")
}

// checkFeatures returns an error if the flags of features are incomplete, or contradict others.
func (p *settingFlags) checkFeatures(a *app.App, f *pflag.FlagSet) error {
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
	for _, name := range []string{"data", "arch", "weights", "size", "allow_partial", "skip_bad", "crop_boxes",
		"precision", "augment", "freeze_bn"} {
		if p.sets(name) || name == "data" && f.Changed(name) {
			return cli.Usagef("%s belongs to images, and --features has none: want one of them", name)
		}
	}
	if h, err := heads.Parse(p.head); err != nil {
		return cli.Usage(err)
	} else if h.Start != "" {
		for _, name := range []string{"lr", "proxy_lr"} {
			if p.sets(name) || name == "lr" && f.Changed(name) {
				return cli.Usagef("%s: the rate of the head %s is chosen on held-out classes: want --head %q", name, h,
					heads.Head{Hidden: h.Hidden}.String())
			}
		}
	}
	if a.Preset != "" && f.Changed("preset") {
		return cli.Usagef("--preset sets the size of networks on images, and --features has no images: leave out --preset")
	}
	return nil
}

// saySame says which features are bytes, and how many test features are among those that are trained on.
func (p *settingFlags) saySame(a *app.App) error {
	f := p.features
	files.SayBytes(a.Logf, f.Features)
	if f.TestFeatures == "" {
		return nil
	}
	files.SayBytes(a.Logf, f.TestFeatures)
	sets, err := files.ReadBatches(f.Features, f.Labels, f.TestFeatures, f.TestLabels)
	if err != nil {
		return err
	}
	if same, _ := files.InGallery(&sets[1], &sets[0]); len(same) > 0 {
		a.Logf("%d of the %d rows of %s are also in %s, with the same label: the test is of what is trained", len(same),
			sets[1].N, f.TestFeatures, f.Features)
	}
	return nil
}

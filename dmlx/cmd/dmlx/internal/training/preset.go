package training

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// presetFlags are the flags that change a preset: how its data are read and how its runs save memory.
type presetFlags struct {
	reading  datasets.Reading
	memory   train.Memory
	features runs.Features // In place of a data set of images, with a head.
	head     string
}

func (p *presetFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&p.reading.AllowPartial, "allow-partial", false,
		"accept an incomplete copy of a published data set (changes the run's name)")
	f.BoolVar(&p.reading.SkipBad, "skip-bad", false, "leave out unreadable images (changes the run's name)")
	f.BoolVar(&p.reading.CropBoxes, "crop-boxes", false,
		"cut the images of CUB and CAR to their published boxes, scaled to squares (changes the run's name)")
	f.StringVar(&p.memory.Precision, "precision", "",
		"precision of the network in training: bf16 halves its memory (default float32)")
	f.IntVar(&p.memory.MicroBatch, "micro-batch", 0,
		"images on the device at a time; triplets are still mined in the whole batch, but batch normalization sees a "+
			"micro-batch (default: the batch)")
	f.BoolVar(&p.memory.Recompute, "recompute", false,
		"keep only the inputs of residual blocks and compute the rest again: less memory, more time")
}

// preset returns the preset of --preset, by name or file and by default quick, changed by the flags.
func (p presetFlags) preset(a *cli.App) (presets.Preset, error) {
	load := func() (presets.Preset, error) { return presets.Load(cmp.Or(a.Preset, "quick")) }
	if p.features.Features != "" {
		load = func() (presets.Preset, error) { return presets.OnFeatures(p.features, p.head) }
	}
	preset, err := load()
	if err != nil {
		return preset, cli.Usage(err)
	}
	preset.Reading = p.reading
	preset.DataOptions = a.DataOptions()
	preset, err = preset.With(presets.Settings{Memory: p.memory})
	return preset, cli.Usage(err)
}

// settingFlags are the flags that change the setting of all runs of a command.
type settingFlags struct {
	presetFlags
	training trainingFlags

	settings     presets.Settings // Those that a flag gives as they are.
	lr           []float64
	batch, seeds string
	flags        *pflag.FlagSet
}

func (s *settingFlags) add(f *pflag.FlagSet) {
	s.flags = f
	f.Float64SliceVar(&s.lr, "lr", nil, "learning rate (default: the preset's for the rule or loss)")
	f.StringVar(&s.batch, "batch", "",
		"batch: classes x images per class, as in 8x8, or a number of images (default: the preset's)")
	f.IntVar(&s.settings.ImagesPerClass, "images-per-class", 0, "images of each class in a batch (default: the preset's)")
	f.IntVar(&s.settings.Dim, "dim", 0, "dimension of the embedding (default: the preset's)")
	f.IntVar(&s.settings.Epochs, "epochs", 0, "epochs (default: the preset's)")
	f.IntVar(&s.settings.StepsPerEpoch, "steps", 0, "steps per epoch (default: the preset's)")
	f.IntVar(&s.settings.Size, "size", 0, "side of the images in pixels (default: the preset's)")
	f.StringVar(&s.settings.Arch, "arch", "", "backbone, or the .onnx file of a network that PyTorch has exported; see "+
		"dmlx help onnx (default: the preset's)")
	f.StringVar(&s.settings.Weights, "weights", "",
		"initial weights: pretrained, random, or a .safetensors or .pth file with torchvision's names "+
			"(default: the preset's)")
	f.StringVar(&s.settings.RuleOptions, "options", "",
		`options for all rules that use them, written as behind the ? of a rule: "tau=2&sum"`)
	f.StringVar(&s.seeds, "seeds", "", `seeds, as in 1-5 or 1,3,8 (default: the preset's)`)
	s.presetFlags.add(f)
	s.training.add(f)
}

// preset returns the preset of --preset with the settings of the flags, and the seeds, which are nil for the preset's.
func (s *settingFlags) preset(a *cli.App) (p presets.Preset, seeds []uint64, err error) {
	if p, err = s.presetFlags.preset(a); err != nil {
		return p, nil, err
	}
	given, set := s.flags.Changed, s.settings
	for _, name := range []string{"images-per-class", "dim", "epochs", "steps", "size"} {
		if n, err := s.flags.GetInt(name); given(name) && n < 1 {
			return p, nil, cmp.Or(err, cli.Usagef("%s is %d, must be at least 1", name, n))
		}
	}
	for _, lr := range s.lr {
		if !(lr > 0) {
			return p, nil, cli.Usagef("learning rate is %g, must be a positive number", lr)
		}
	}
	switch {
	case len(s.lr) == 1:
		set.LR = s.lr[0]
	case len(s.lr) > 1:
		set.Rates = s.lr
	}
	if given("batch") {
		var perClass int
		if set.Batch, perClass, err = presets.ParseBatch(s.batch); err != nil {
			return p, nil, cli.Usage(err)
		}
		if perClass != 0 && set.ImagesPerClass != 0 && perClass != set.ImagesPerClass {
			return p, nil, cli.Usagef("--batch %s has %d images per class, --images-per-class %d: want one of them", s.batch,
				perClass, set.ImagesPerClass)
		}
		set.ImagesPerClass = cmp.Or(perClass, set.ImagesPerClass)
	}
	if given("seeds") {
		if set.Seeds, err = cli.ParseNumbers("seeds", s.seeds); err != nil {
			return p, nil, err
		}
	}
	if set.Adjusted = s.training.changes(); set.Adjusted != nil {
		set.Adjust = func(spec *runs.Spec) (err error) {
			spec.Config, err = s.training.apply(spec.Config)
			return err
		}
	}
	p, err = p.With(set)
	return p, set.Seeds, cli.Usage(err)
}

// objectiveFlags are the flags of rules and of losses, each of which may be repeated.
type objectiveFlags struct{ rules, losses []string }

// parse returns the rules and then the losses, one for each value of a parameter with several: "cos/lin/cir?tau=1,2".
// With labels, one may stand before a rule or loss: "Ours = cos/lin/cir?tau=2".
func (f objectiveFlags) parse(labels bool) (all []presets.Objective, err error) {
	for i, row := range slices.Concat(f.rules, f.losses) {
		isLoss := i >= len(f.rules)
		label, name, found := strings.Cut(row, " = ")
		if found = found && labels; !found {
			label, name = "", row
		}
		label = strings.TrimSpace(label)
		if found && label == "" || strings.ContainsFunc(label, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return nil, cli.Usagef("row %q: want a label of printable characters before the =, as in \"Ours = cos/lin/cir\"",
				row)
		}
		for left := []string{strings.TrimSpace(name)}; len(left) > 0; {
			name, left = left[0], left[1:]
			if at := several.FindStringSubmatchIndex(name); at != nil && label == "" {
				var each []string
				for v := range strings.SplitSeq(name[at[2]:at[3]], ",") {
					each = append(each, name[:at[2]]+v+name[at[3]:])
				}
				left = append(each, left...)
				continue
			}
			loss := strings.TrimPrefix(name, "loss ")
			if isLoss {
				name = "loss " + loss
			}
			o, err := objectives.Parse(name)
			if !isLoss && (err != nil || !o.IsRule()) {
				if _, noLoss := objectives.ParseLoss(loss); noLoss == nil {
					err = fmt.Errorf("rule %q is a loss: want --loss %q", name, loss)
				}
			}
			if before, _, equals := strings.Cut(row, "="); err != nil && labels && !found && equals &&
				!strings.Contains(before, "?") {
				err = fmt.Errorf("%w; a label needs a space on both sides of its =, as in \"Ours = cos/lin/cir\"", err)
			}
			if err != nil {
				return nil, cli.Usage(err)
			}
			all = append(all, presets.Objective{Objective: o, Label: label})
		}
	}
	return all, nil
}

// several are the values of a parameter that has more than one.
var several = regexp.MustCompile(`[?&][a-z-]+=([^ ,&]+(?:,[^ ,&]+)+)`)

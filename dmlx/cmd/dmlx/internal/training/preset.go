package training

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/formula"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// settingFlags are the flags that change the setting of all runs of a command: keys of a preset's file.
type settingFlags struct {
	features runs.Features // In place of a data set of images, with a head.
	head     string

	lr    []float64
	keys  []string // As [presets.Preset.Set] takes them, in the order of the command line.
	flags *pflag.FlagSet
}

// setting is the value of a flag that sets a key.
type setting struct {
	to  *[]string
	key string // "" for a flag that names its key.
}

func (s setting) Type() string {
	return map[bool]string{true: "key=value", false: "string"}[s.key == ""]
}
func (s setting) String() string { return "" }

func (s setting) Set(text string) error {
	if s.key != "" {
		text = s.key + "=" + text
	}
	*s.to = append(*s.to, text)
	return nil
}

func (s *settingFlags) add(a *app.App, f *pflag.FlagSet) {
	s.flags = f
	a.AddPreset(f)
	f.Float64SliceVar(&s.lr, "lr", nil, "learning rate (default: the preset's for the rule or loss)")
	for _, of := range []struct{ key, usage string }{
		{"batch", "classes x images of each, as in 8x4, or a number of images (default: the preset's)"},
		{"dim", "dimension of the embedding (default: the preset's)"},
		{"epochs", "epochs (default: the preset's)"},
		{"arch", "backbone, or the .onnx file of a network, see dmlx help onnx (default: the preset's)"},
		{"weights", "initial weights: pretrained, random, or a .safetensors or .pth file with torchvision's names"},
		{"micro-batch", "images on the device at a time; triplets are mined in the whole batch"},
		{"seeds", "seeds, as in 1-5 or 1,3,8 (default: the preset's)"},
	} {
		f.Var(setting{&s.keys, of.key}, of.key, of.usage)
	}
	f.Var(setting{to: &s.keys}, "set", "any key of a preset's file, as in schedule=cosine; may be repeated")
}

// preset returns the preset of --preset, by name or file and by default quick, with the settings of the flags, and the
// seeds, which are nil for the preset's. Every heldOut-th class, if not 0, is not to be trained on.
func (s *settingFlags) preset(a *app.App, heldOut int) (p presets.Preset, seeds []uint64, err error) {
	if s.features.Features != "" {
		if p, err = presets.OnFeatures(s.features, s.head, heldOut); err == nil {
			err = s.saySame(a)
		}
	} else {
		p, err = presets.Load(cmp.Or(a.Preset, "quick"))
	}
	if err != nil {
		return p, nil, cli.Usage(err)
	}
	p.DataOptions = a.DataOptions()
	all := s.keys
	for _, lr := range s.lr {
		if !(lr > 0) {
			return p, nil, cli.Usagef("learning rate is %g, must be a positive number", lr)
		}
	}
	switch {
	case len(s.lr) == 1:
		all = append(all, fmt.Sprintf("lr=%v", s.lr[0]))
	case len(s.lr) > 1:
		all = append(all, "rates="+strings.Trim(strings.ReplaceAll(fmt.Sprint(s.lr), " ", ","), "[]"))
	}
	if p, err = p.Set(all...); err != nil {
		return p, nil, cli.Usage(err)
	}
	if s.sets("seeds") {
		seeds = p.Seeds
	}
	return p, seeds, nil
}

// sets tells whether a key is given.
func (s *settingFlags) sets(key string) bool {
	return slices.ContainsFunc(s.keys, func(setting string) bool {
		name, _, _ := strings.Cut(setting, "=")
		return strings.ReplaceAll(name, "-", "_") == key
	})
}

// objectiveFlags are the flags of rules and of losses, each of which may be repeated.
type objectiveFlags struct{ rules, losses []string }

// parse returns the rules and then the losses, one for each value of a parameter with several: "cos/lin/cir?tau=1,2".
// It is an error if formulas fail on a batch of random classes.
// With labels, one may stand before a rule or loss: "Ours = cos/lin/cir?tau=2".
func (f objectiveFlags) parse(labels bool) (all []presets.Objective, err error) {
	for i, row := range slices.Concat(f.rules, f.losses) {
		isLoss := i >= len(f.rules)
		label, name := "", row
		fields := formula.Split(row, " = ")
		found := labels && len(fields) > 1
		if found {
			label, name = fields[0], strings.Join(fields[1:], " = ")
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
			if err == nil {
				err = o.Check() // Of functions there is none here, but of formulas.
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

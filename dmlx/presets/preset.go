package presets

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Preset fills in the specs of a table. It decides the size of the networks, data sets and trainings, and so the time
// for a number. [Preset.With] changes its settings, and [Load] reads one from a file.
type Preset struct {
	Name string
	// From is the preset that one of the user's own is made from, and Origin says in words what it changes; both are
	// empty for those of this package. Changes are what [Preset.With] has changed since, in words.
	From, Origin string
	Changes      []string
	// FineGrained and CoarseGrained are the data sets that take the roles of the paper's CAR and In-shop. CoarseGrained
	// may be empty: the role is then that of no runs.
	FineGrained, CoarseGrained string
	// Seeds are the seeds of a cell of a table.
	Seeds []uint64
	// SweepSeeds are the seeds of a cell of a sweep or of the grid, which have hundreds of cells.
	SweepSeeds []uint64

	// Digests are the digests of images, by data set, that need not be on this machine. Specs for them are filled in
	// without opening the images, so that results can be shown without them.
	Digests map[string]string

	datasets.Reading

	// Memory says how the runs save memory and time.
	Memory train.Memory

	// Size, if not 0, overrides the side of the images in pixels, that of Base or of its network's file.
	Size int
	// DataOptions say how Spec opens a data set whose digest it needs.
	runs.DataOptions

	Base runs.Spec       // Settings that all specs share.
	Sets map[string]Size // By data set; "" is for any other.
	// Rate returns the learning rate of a rule or loss on a data set, by its name as an objective. It is 0 for one of
	// which that is measured: a loss, and a rule with parts that the paper does not have.
	Rate func(data, objective string) float64

	// LR, if not 0, is the learning rate of all rules and losses, and Rates are those of all sweeps.
	LR    float64
	Rates []float64
	// RuleOptions are the options of all rules that use them, as they follow a rule's name: "tau=2".
	RuleOptions string
	// Adjust change each spec last, one after the other, before a table's cell changes it.
	Adjust []func(*runs.Spec) error
}

// Size is the part of a preset that depends on the data set.
type Size struct {
	TrainClasses, TestClasses int // 0: all.
	Batch, ImagesPerClass     int // Images of a batch, and of each class in it.
	Dim                       int
	Epochs, StepsPerEpoch     int
}

// schedule is that of the learning rates in all presets, as [train.Options] has it: the paper's.
const schedule = ""

var presets = []Preset{
	// A test that it runs: a few steps on a few classes, seconds per run. The numbers mean nothing.
	drawn("smoke", []uint64{1, 2}, []uint64{1}, map[string]Size{
		"minicar":  {8, 8, 16, 4, 32, 2, 4},
		"minishop": {16, 16, 16, 2, 32, 2, 4},
		"":         {0, 0, 4, 2, 32, 2, 4},
	}),
	// A first look: drawn images, a small pretrained network, about a quarter of a minute per run on two cores.
	drawn("quick", []uint64{1, 2, 3}, []uint64{1}, map[string]Size{
		"minicar":  {0, 0, 64, 8, 32, 24, 30},
		"minishop": {0, 0, 64, 4, 32, 20, 30},
		"":         {0, 0, 64, 8, 32, 24, 30},
	}),
	// A reliable order of the rules: as quick, with four times the steps and ten seeds. It takes a night, or a GPU.
	drawn("full", []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, []uint64{1, 2, 3}, map[string]Size{
		"minicar":  {0, 0, 64, 8, 32, 96, 30},
		"minishop": {0, 0, 64, 4, 32, 80, 30},
		"":         {0, 0, 64, 8, 32, 96, 30},
	}),
	{ // The setting of the paper: ResNet-18, 60 epochs on the published data sets. It needs a GPU.
		Name:        "paper",
		FineGrained: "CAR", CoarseGrained: "In-shop",
		Seeds: []uint64{1, 2, 3, 4, 5}, SweepSeeds: []uint64{1, 2, 3, 4, 5},
		Base: runs.Spec{Size: 256, Config: train.Config{
			Arch: string(backbone.ResNet18), Weights: train.Pretrained, Pad: 10, Options: train.Options{Schedule: schedule},
		}},
		Sets: map[string]Size{ // An epoch is one pass over the training images.
			"CUB":     {0, 0, 128, 8, 64, 60, 45},
			"CAR":     {0, 0, 128, 16, 64, 60, 62},
			"SOP":     {0, 0, 128, 4, 512, 60, 465},
			"In-shop": {0, 0, 128, 4, 512, 60, 202},
			"":        {0, 0, 128, 8, 64, 60, 60},
		},
		Rate: paperRate,
	},
}

// drawn returns a preset of the small network on the drawn data sets.
func drawn(name string, seeds, sweepSeeds []uint64, sets map[string]Size) Preset {
	return Preset{
		Name: name, FineGrained: "minicar", CoarseGrained: "minishop", Seeds: seeds, SweepSeeds: sweepSeeds,
		Base: runs.Spec{Size: 32, Config: train.Config{Arch: string(backbone.Small), Weights: train.Pretrained, Pad: 2,
			Options: train.Options{Schedule: schedule}}},
		Sets: sets, Rate: quickRate,
	}
}

// Names returns the names of the presets, the smallest first.
func Names() []string {
	return slice.Map(presets, func(p Preset) string { return p.Name })
}

// Parse returns the preset with a name. The error lists the names.
func Parse(name string) (Preset, error) {
	for _, p := range presets {
		if p.Name == name {
			return p, nil
		}
	}
	return Preset{}, errs.NoSuch(fmt.Sprintf("no preset %q", name), name, Names())
}

// Like reports whether the preset is the one of this package with a name, or is made from it.
func (p Preset) Like(name string) bool { return cmp.Or(p.From, p.Name) == name }

// String returns the preset's name with what was changed in words: "quick with tau=2, 64 dimensions".
func (p Preset) String() string {
	text := p.Name
	if p.Origin != "" {
		text += " (" + p.Origin + ")"
	}
	if len(p.Changes) > 0 {
		text += " with " + strings.Join(p.Changes, ", ")
	}
	return text
}

// FileName returns the name of the preset for files: with all changes, so that two settings have two files.
func (p Preset) FileName() string {
	text := strings.Join(append([]string{p.Name}, p.Changes...), "-")
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.' && r != '_'
	}), "-")
}

// On returns the preset with other data sets, by name or as folders of images, in the roles of the paper's CAR and
// In-shop; "" keeps one.
func (p Preset) On(fineGrained, coarseGrained string) Preset {
	p.FineGrained = cmp.Or(runs.PaperName(fineGrained), p.FineGrained)
	p.CoarseGrained = cmp.Or(runs.PaperName(coarseGrained), p.CoarseGrained)
	return p
}

// sized returns a spec with the sizes of the preset for a data set.
func (p Preset) sized(spec runs.Spec, data string) (runs.Spec, error) {
	z := p.sizeOf(data)
	if z.ImagesPerClass < 1 || z.Batch%z.ImagesPerClass != 0 {
		return spec, fmt.Errorf("a batch of %d images with %d of each class: want a multiple of %d", z.Batch,
			z.ImagesPerClass, z.ImagesPerClass)
	}
	spec.Size = cmp.Or(p.Size, spec.Size)
	spec.TrainClasses, spec.TestClasses = z.TrainClasses, z.TestClasses
	spec.ClassesPerBatch, spec.ImagesPerClass = z.Batch/z.ImagesPerClass, z.ImagesPerClass
	spec.Dim, spec.Epochs, spec.StepsPerEpoch = z.Dim, z.Epochs, z.StepsPerEpoch
	return spec, nil
}

// Light reports whether the preset's trainings on both data sets, on a number of devices, are light; see
// [runs.Spec.Light].
func (p Preset) Light(devices int) bool {
	for _, data := range []string{p.FineGrained, p.CoarseGrained} {
		if spec, err := p.sized(p.Base, data); err != nil || !spec.Light(devices) {
			return false
		}
	}
	return true
}

// Of returns the name of the preset with the sizes of a spec, or "custom"; see [Preset.Has].
func Of(s runs.Spec) string {
	if s.HasFeatures() {
		return FeaturesName
	}
	for _, p := range presets {
		if p.Has(s) {
			return p.Name
		}
	}
	return "custom"
}

// sizeOf returns the size of a data set, by its name.
func (p Preset) sizeOf(data string) Size {
	if z, known := p.Sets[data]; known {
		return z
	}
	return p.Sets[""]
}

// Has reports whether a spec has the preset's sizes. It ignores rule, loss, learning rates, Decay, Options, HeldOut,
// seed, Memory, and which images are left out.
func (p Preset) Has(s runs.Spec) bool {
	size := Size{s.TrainClasses, s.TestClasses, s.Batch(), s.ImagesPerClass, s.Dim, s.Epochs, s.StepsPerEpoch}
	return p.sizeOf(s.Data) == size && s.Size == cmp.Or(p.Size, p.Base.Size) && s.Arch == p.Base.Arch &&
		s.Weights == p.Base.Weights && (s.Pad == p.Base.Pad || s.Augment != "")
}

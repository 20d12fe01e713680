package presets

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Preset sizes the specs of a table: how much is done for a number.
type Preset struct {
	Name string
	// FineGrained and Separated are its data sets in the roles of the paper's CAR and In-shop.
	FineGrained, CoarseGrained string
	// Seeds are those of a cell of a table.
	Seeds []uint64
	// SweepSeeds are those of a cell of a sweep or of the grid, of which there are hundreds.
	SweepSeeds []uint64

	// Digests, by data set, are those of images that need not be here: specs on them are made without opening them, so that
	// results of such runs can be shown where the images are not.
	Digests map[string]string

	// AllowPartial and SkipBad take published sets and folders as they are; see [Spec].
	AllowPartial, SkipBad bool

	// Thrift is how its runs save memory and time.
	Memory train.Memory

	// Size, if not 0, is the side of its images in pixels in place of its own.
	Size int
	// Opening is how Spec opens a data set whose images the spec has to know.
	runs.DataOptions

	Base runs.Spec       // What all of its specs have in common.
	Sets map[string]Size // By data set; "" is any other.
	Rate func(data, rule string) float64
}

// Size is what a preset sets per data set.
type Size struct {
	TrainClasses, TestClasses       int // 0: all.
	ClassesPerBatch, ImagesPerClass int
	Dim                             int
	Epochs, StepsPerEpoch           int
}

var presets = []Preset{
	{ // Does it run: a few steps on a few classes, seconds a run; its numbers mean nothing.
		Name:        "smoke",
		FineGrained: "minicar", CoarseGrained: "minishop", Seeds: []uint64{1, 2}, SweepSeeds: []uint64{1},
		Base: runs.Spec{Size: 32, Config: train.Config{Arch: string(backbone.Small), Weights: train.Pretrained, Pad: 2}},
		Sets: map[string]Size{
			"minicar":  {8, 8, 4, 4, 32, 2, 4},
			"minishop": {16, 16, 8, 2, 32, 2, 4},
			"":         {0, 0, 2, 2, 32, 2, 4},
		},
		Rate: quickRate,
	},
	{ // A first look: drawn images, a small pretrained net, about half a minute a run on two cores.
		Name:        "quick",
		FineGrained: "minicar", CoarseGrained: "minishop", Seeds: []uint64{1, 2, 3}, SweepSeeds: []uint64{1},
		Base: runs.Spec{Size: 32, Config: train.Config{Arch: string(backbone.Small), Weights: train.Pretrained, Pad: 2}},
		Sets: map[string]Size{
			"minicar":  {0, 0, 8, 8, 32, 24, 30},
			"minishop": {0, 0, 16, 4, 32, 20, 30},
			"":         {0, 0, 8, 8, 32, 24, 30},
		},
		Rate: quickRate,
	},
	{ // An order that lasts: as quick, but four times the steps and ten seeds; for a night, or a GPU.
		Name:        "full",
		FineGrained: "minicar", CoarseGrained: "minishop", Seeds: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, SweepSeeds: []uint64{1, 2, 3},
		Base: runs.Spec{Size: 32, Config: train.Config{Arch: string(backbone.Small), Weights: train.Pretrained, Pad: 2}},
		Sets: map[string]Size{
			"minicar":  {0, 0, 8, 8, 32, 96, 30},
			"minishop": {0, 0, 16, 4, 32, 80, 30},
			"":         {0, 0, 8, 8, 32, 96, 30},
		},
		Rate: quickRate,
	},
	{ // The paper's own setting: ResNet-18, 60 epochs of its data sets; for a GPU.
		Name:        "paper",
		FineGrained: "CAR", CoarseGrained: "In-shop", Seeds: []uint64{1, 2, 3, 4, 5}, SweepSeeds: []uint64{1, 2, 3, 4, 5},
		Base: runs.Spec{Size: 256, Config: train.Config{Arch: string(backbone.ResNet18), Weights: train.Pretrained, Pad: 10}},
		Sets: map[string]Size{ // Steps: one pass over the training images.
			"CUB":     {0, 0, 16, 8, 64, 60, 45},
			"CAR":     {0, 0, 8, 16, 64, 60, 62},
			"SOP":     {0, 0, 32, 4, 512, 60, 465},
			"In-shop": {0, 0, 32, 4, 512, 60, 202},
			"":        {0, 0, 16, 8, 64, 60, 60},
		},
		Rate: paperRate,
	},
}

// Presets lists the presets' names, the smallest first.
func Names() []string {
	names := make([]string, len(presets))
	for i, p := range presets {
		names[i] = p.Name
	}
	return names
}

// ParsePreset finds a preset by its name; the error lists those there are.
func Parse(name string) (Preset, error) {
	for _, p := range presets {
		if p.Name == name {
			return p, nil
		}
	}
	return Preset{}, fmt.Errorf("no preset %q; there are %s", name, strings.Join(Names(), ", "))
}

// On is the preset with data sets, named or folders of images, in the roles of the paper's CAR and In-shop; "" leaves its own.
func (p Preset) On(fineGrained, separated string) Preset {
	p.FineGrained, p.CoarseGrained = cmp.Or(runs.PaperName(fineGrained), p.FineGrained), cmp.Or(runs.PaperName(separated), p.CoarseGrained)
	return p
}

// Spec is the preset's run of a rule on a data set, named or a folder of images. A folder is read once for its digest, and
// so is a published set that need not be whole, unless Digests has it; its images may have to be decoded first, which
// [Preset.DataOptions] can follow and end.
func (p Preset) Spec(data string, rule dmlx.Rule, seed uint64) (runs.Spec, error) {
	spec, err := p.Base.WithRule(rule)
	if err != nil {
		return runs.Spec{}, err
	}
	data = runs.PaperName(data)
	z, known := p.Sets[data]
	if !known {
		z = p.Sets[""]
	}
	spec.Recipe, spec.Data, spec.Seed, spec.Size = runs.Recipe, data, seed, cmp.Or(p.Size, spec.Size)
	spec.TrainClasses, spec.TestClasses = z.TrainClasses, z.TestClasses
	spec.ClassesPerBatch, spec.ImagesPerClass = z.ClassesPerBatch, z.ImagesPerClass
	spec.Dim, spec.Epochs, spec.StepsPerEpoch = z.Dim, z.Epochs, z.StepsPerEpoch
	spec.LR, spec.Memory = p.Rate(data, spec.Rule), p.Memory
	if digest, err := spec.StartDigest(); err == nil {
		spec.WeightsDigest = digest // Without weights a spec is still a value; running it says what is missing.
	}
	if slices.Contains(datasets.Names(), data) {
		return spec, nil // All of it is in its name.
	}
	published := runs.IsPublished(data)
	spec.AllowPartial, spec.SkipBad = p.AllowPartial && published, p.SkipBad
	if published && !spec.AllowPartial && !spec.SkipBad {
		return spec, nil // It is as published, or is not opened: its name says it too, whether it is here or not.
	}
	if spec.DataDigest = p.Digests[data]; spec.DataDigest != "" {
		return spec, nil
	}
	set, err := runs.OpenData(spec, p.DataOptions)
	if err != nil {
		return runs.Spec{}, err
	}
	if !published {
		if spec.Data, err = filepath.Abs(data); err != nil {
			return runs.Spec{}, err
		}
	}
	spec.DataDigest = set.Digest
	return spec, nil
}

// LossSpec is the preset's run of a loss on a data set, with a miner and parts exchanged, "" for none; see [Spec.WithLoss].
func (p Preset) LossSpec(data, loss, miner, exchange string, seed uint64) (runs.Spec, error) {
	spec, err := p.Spec(data, dmlx.Rule{}, seed)
	if err != nil {
		return runs.Spec{}, err
	}
	if spec, err = spec.WithLoss(loss, miner); err != nil {
		return runs.Spec{}, err
	}
	if spec, err = spec.WithExchange(exchange); err != nil {
		return runs.Spec{}, err
	}
	spec.LR, spec.ProxyLR, err = p.lossRates(spec)
	return spec, err
}

// PresetOf names the preset that sizes a spec's run, or is "custom". What else a spec says does not count: its rule or loss, rates, Decay,
// HeldOut, seed, Thrift, and which images are left out.
func Of(s runs.Spec) string {
	for _, p := range presets {
		z, known := p.Sets[s.Data]
		if !known {
			z = p.Sets[""]
		}
		if z == (Size{s.TrainClasses, s.TestClasses, s.ClassesPerBatch, s.ImagesPerClass, s.Dim, s.Epochs, s.StepsPerEpoch}) &&
			s.Size == p.Base.Size && s.Arch == p.Base.Arch && s.Weights == p.Base.Weights && s.Pad == p.Base.Pad {
			return p.Name
		}
	}
	return "custom"
}

package presets

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// None is no data set in the role of the paper's In-shop.
const None = "none"

// Settings are what [Preset.With] changes. Zero fields keep the preset's.
type Settings struct {
	// FineGrained and CoarseGrained are data sets, or folders of images, in the roles of the paper's CAR and In-shop.
	// [None] as CoarseGrained leaves that role empty.
	FineGrained, CoarseGrained string
	// Seeds are those of all cells, of tables and of sweeps; SweepSeeds are others for sweeps.
	Seeds, SweepSeeds []uint64
	// LR is the learning rate of all rules and losses, Rates those of all sweeps.
	LR    float64
	Rates []float64

	// Batch is the number of images of a batch, ImagesPerClass of them of each class. If one of them is 0, the number of
	// images of a class, or of the batch, is the preset's.
	Batch, ImagesPerClass      int
	Dim, Epochs, StepsPerEpoch int
	Size                       int // The side of the images in pixels.

	// Arch is a backbone, or the ONNX file of a network, and Weights its start; see [train.Config.WithStart].
	Arch, Weights string
	Memory        train.Memory
	// RuleOptions are options of all rules that use them: "tau=2&sum".
	RuleOptions string
	// Options are those of training whose fields are not zero, and Miner is that of all rules and losses.
	Options train.Options
	Miner   string
	ProxyLR float64 // Of the proxies of all losses that have some.
}

// With returns the preset with changed settings. Its Changes say in words which of them differ from the preset's. It
// returns an error for values that no training can have.
func (p Preset) With(s Settings) (Preset, error) {
	if err := s.check(); err != nil {
		return p, err
	}
	if s.CoarseGrained == None {
		p.CoarseGrained, s.CoarseGrained = "", ""
	}
	p = p.On(s.FineGrained, s.CoarseGrained)
	if p.FineGrained == p.CoarseGrained {
		return p, fmt.Errorf("the fine-grained and the coarse-grained data set are both %s: want two data sets",
			p.FineGrained)
	}
	p.Changes = slices.Clone(p.Changes)
	if s.Seeds != nil {
		changed := !slices.Equal(s.Seeds, p.Seeds)
		p.Seeds, p.SweepSeeds = s.Seeds, s.Seeds
		p.change(changed, "%s", seedText(s.Seeds))
	}
	if s.SweepSeeds != nil {
		p.change(!slices.Equal(s.SweepSeeds, p.SweepSeeds), "of sweeps %s", seedText(s.SweepSeeds))
		p.SweepSeeds = s.SweepSeeds
	}
	if s.LR != 0 {
		p.change(s.LR != p.LR, "learning rate %g", s.LR)
		p.LR = s.LR
	}
	if s.Rates != nil {
		p.change(!slices.Equal(s.Rates, p.Rates), "learning rates %s", list(s.Rates))
		p.Rates = s.Rates
	}
	if err := p.resize(s); err != nil {
		return p, err
	}
	if s.Arch != "" || s.Weights != "" {
		base := p.Base
		var err error
		if base.Config, err = base.WithStart(s.Arch, s.Weights); err != nil {
			return p, err
		}
		p.change(base.Arch != p.Base.Arch || base.Model != p.Base.Model, "%s", base.Network())
		if size := base.Preprocessing().Crop; size > 0 {
			p.change(size != base.Size && p.Size == 0, "images of %d pixels", size)
			base.Size = size
		}
		p.change(base.Weights != p.Base.Weights || base.WeightsPath() != p.Base.WeightsPath(), "%s weights",
			cmp.Or(base.WeightsPath(), base.Weights))
		p.Base = base
	}
	m := train.Memory{Precision: cmp.Or(s.Memory.Precision, p.Memory.Precision),
		MicroBatch: cmp.Or(s.Memory.MicroBatch, p.Memory.MicroBatch), Recompute: s.Memory.Recompute || p.Memory.Recompute}
	p.change(m.Precision != p.Memory.Precision, "precision %s", m.Precision)
	p.change(m.MicroBatch != p.Memory.MicroBatch, "micro-batches of %d", m.MicroBatch)
	p.change(m.Recompute != p.Memory.Recompute, "recomputed blocks")
	p.Memory = m
	if s.RuleOptions != "" {
		p.change(s.RuleOptions != p.RuleOptions, "%s", strings.ReplaceAll(s.RuleOptions, "&", ", "))
		p.RuleOptions = s.RuleOptions
	}
	if s.Options != (train.Options{}) || s.Miner != "" || s.ProxyLR != 0 {
		p.Adjust = append(slices.Clone(p.Adjust), s.adjust)
		if text := s.Options.Text(); text != "" {
			p.Changes = append(p.Changes, text)
		}
		p.change(s.Miner != "", "miner %s", s.Miner)
		p.change(s.ProxyLR != 0, "learning rate %g of proxies", s.ProxyLR)
	}
	return p, nil
}

// change adds to the preset's changes if it is one.
func (p *Preset) change(is bool, format string, args ...any) {
	if is {
		p.Changes = append(p.Changes, fmt.Sprintf(format, args...))
	}
}

// adjust sets the options and the miner of a spec.
func (s Settings) adjust(spec *runs.Spec) (err error) {
	o := spec.Options
	for _, f := range train.OptionFields {
		*f.Of(&o) = cmp.Or(*f.Of(&s.Options), *f.Of(&o))
	}
	o.HeadLR = cmp.Or(s.Options.HeadLR, o.HeadLR)
	// A preset may leave its network open, or know it by its digest alone: Validate compares the names of weights.
	all := o
	o.TrainOnly, o.Freeze, o.LoRA = "", "", ""
	spec.Config, err = spec.WithOptions(o)
	spec.TrainOnly, spec.Freeze, spec.LoRA = all.TrainOnly, all.Freeze, all.LoRA
	if err == nil && s.Miner != "" {
		spec.Objective, err = spec.WithMiner(s.Miner)
	}
	if spec.Loss != "" {
		spec.ProxyLR = cmp.Or(s.ProxyLR, spec.ProxyLR)
	}
	return err
}

// counted returns a number of things, as "1 epoch" or "2 steps per epoch".
func counted(n int, thing string) string {
	if first, rest, _ := strings.Cut(thing, " "); n != 1 {
		thing = strings.TrimSpace(first + "s " + rest)
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// seedText returns seeds as text, as "seed 1" or "seeds 1, 2".
func seedText(seeds []uint64) string {
	if len(seeds) == 1 {
		return fmt.Sprintf("seed %d", seeds[0])
	}
	return "seeds " + list(seeds)
}

// list returns numbers as text.
func list[T any](numbers []T) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ", "), "[]")
}

// check returns an error for values that no training can have.
func (s Settings) check() error {
	for _, seeds := range [][]uint64{s.Seeds, s.SweepSeeds} {
		if seeds != nil && len(seeds) == 0 {
			return fmt.Errorf("no seeds: want at least one")
		}
		if sorted := slices.Sorted(slices.Values(seeds)); len(slices.Compact(sorted)) < len(seeds) {
			return fmt.Errorf("seeds %s: want each once", list(seeds))
		}
	}
	for _, rate := range slices.Concat([]float64{s.LR}, s.Rates) {
		if rate < 0 || math.IsNaN(rate) || math.IsInf(rate, 0) {
			return fmt.Errorf("learning rate is %g, must be a positive number", rate)
		}
	}
	if slices.Contains(s.Rates, 0) || s.Rates != nil && len(s.Rates) == 0 {
		return fmt.Errorf("learning rates %s of the sweeps: want positive numbers", list(s.Rates))
	}
	if sorted := slices.Sorted(slices.Values(s.Rates)); len(slices.Compact(sorted)) < len(s.Rates) {
		return fmt.Errorf("learning rates %s: want each once", list(s.Rates))
	}
	if s.RuleOptions != "" {
		if _, err := (dmlx.Rule{}).WithOptions(s.RuleOptions); err != nil {
			return err
		}
	}
	return nil
}

// resize changes the image size, and the dimension, length and batches of the trainings on all data sets. Whether a
// batch is a multiple of the images of a class is known once the data set is.
func (p *Preset) resize(s Settings) error {
	if s.Size != 0 {
		p.change(s.Size != cmp.Or(p.Size, p.Base.Size), "images of %d pixels", s.Size)
		p.Size = s.Size
	}
	p.Sets = maps.Clone(p.Sets)
	for _, setting := range []struct {
		name, text string
		value      int
		of         func(*Size) *int
	}{
		{"embedding dimension", counted(s.Dim, "dimension"), s.Dim, func(z *Size) *int { return &z.Dim }},
		{"epochs", counted(s.Epochs, "epoch"), s.Epochs, func(z *Size) *int { return &z.Epochs }},
		{"steps per epoch", counted(s.StepsPerEpoch, "step per epoch"), s.StepsPerEpoch,
			func(z *Size) *int { return &z.StepsPerEpoch }},
		{"batch", fmt.Sprintf("batches of %d", s.Batch), s.Batch, func(z *Size) *int { return &z.Batch }},
		{"images per class", counted(s.ImagesPerClass, "image per class"), s.ImagesPerClass,
			func(z *Size) *int { return &z.ImagesPerClass }},
	} {
		changed := false
		for data, z := range p.Sets {
			if at := setting.of(&z); setting.value != 0 {
				changed = changed || *at != setting.value
				*at = setting.value
				p.Sets[data] = z
			}
		}
		p.change(changed, "%s", setting.text)
		if err := errs.AtLeast(setting.name, setting.value, 0); err != nil {
			return err
		}
	}
	return errs.AtLeast("image size", s.Size, 0)
}

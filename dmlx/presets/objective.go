package presets

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Objective is what a run trains, with a label and learning rates of its own. The zero value is the rule cos/con/con.
type Objective struct {
	objectives.Objective
	// Label names the objective in tables and pictures; empty for the rule or loss itself.
	Label string
	// LR is the learning rate, and ProxyLR that of the loss's proxies; 0 is the preset's.
	LR, ProxyLR float64

	err error // Of a name that [Named] could not read.
}

// Named returns a rule or a loss by its name, as [objectives.Parse] reads it. [Objective.Parsed] returns the error
// for one that it does not read.
func Named(name string) Objective {
	o, err := objectives.Parse(name)
	if err != nil {
		o = objectives.Objective{Rule: cmp.Or(name, `""`)} // No name is not the zero objective, which is a rule.
	}
	return Objective{Objective: o, err: err}
}

// Parsed returns the objective with what its names stand for. It returns an error for names that stand for nothing.
func (o Objective) Parsed() (Objective, error) {
	if o.err == nil && !o.Custom() {
		o.Objective, o.err = o.Objective.Parsed()
	}
	return o, o.err
}

// String returns the objective as [objectives.Parse] reads it, without the digest of a function of the user's own.
func (o Objective) String() string {
	o.Rule, _, _ = strings.Cut(o.Rule, "#")
	o.Loss, _, _ = strings.Cut(o.Loss, "#")
	return cmp.Or(o.Objective.String(), dmlx.Rule{}.Name())
}

// Spec returns the spec of a rule on a data set, as [Preset.ObjectiveSpec] does.
func (p Preset) Spec(data string, rule dmlx.Rule, seed uint64) (runs.Spec, error) {
	o, err := objectives.ByRule(rule)
	if err != nil {
		return runs.Spec{}, err
	}
	return p.ObjectiveSpec(data, Objective{Objective: o}, seed)
}

// ObjectiveSpec returns the spec of an objective on a data set, by name or as a folder of images. It reads a folder for
// its digest, and so a published set with a Reading of its own, unless Digests has it. This may decode all images
// first; [Preset.DataOptions] report the progress and can stop it.
//
// The learning rate is that of the objective, or else that of the preset: [Preset].LR, or the rate that it has for the
// rule or loss. A rule or loss that it has none for trains at the rate of cos/con/con over the length of its gradient,
// [objectives.Objective.Scale].
func (p Preset) ObjectiveSpec(data string, o Objective, seed uint64) (runs.Spec, error) {
	spec, err := p.planned(data, o, seed)
	if err != nil {
		return spec, errs.Invalid(err)
	}
	return p.identified(spec)
}

// planned returns the spec without the digest of its data.
func (p Preset) planned(data string, o Objective, seed uint64) (spec runs.Spec, err error) {
	if o, err = o.Parsed(); err != nil {
		return spec, err
	}
	data = runs.PaperName(data)
	if p.Base.HasFeatures() {
		data = p.Base.Data
	}
	spec = p.Base
	spec.Objective, spec.Memory = o.Objective, p.Memory
	if p.RuleOptions != "" && o.IsRule() { // They change no rate.
		if spec.Objective, err = withOptions(o.Objective, p.RuleOptions); err != nil {
			return runs.Spec{}, err
		}
	}
	if spec, err = p.sized(spec, data); err != nil {
		return runs.Spec{}, fmt.Errorf("%s: %w", data, err)
	}
	spec.Recipe, spec.Data, spec.Seed = runs.Recipe, data, seed
	if spec.LR, spec.ProxyLR, err = p.rates(data, o); err != nil {
		return runs.Spec{}, err
	}
	if digest, err := spec.StartDigest(); err == nil && spec.Weights != train.Random {
		spec.WeightsDigest = digest // Without weights the spec has no digest, and Validate reports it.
	}
	for _, adjust := range p.Adjust {
		if err := adjust(&spec); err != nil {
			return spec, err
		}
	}
	if o.Miner != "" { // It comes before that of the settings.
		spec.Objective, err = spec.WithMiner(o.Miner)
	}
	spec.ProxyLR = cmp.Or(o.ProxyLR, spec.ProxyLR)
	return spec, err
}

// withOptions returns the objective of a rule with further options; see [dmlx.Rule.WithOptions].
func withOptions(o objectives.Objective, options string) (objectives.Objective, error) {
	rule, err := o.ParsedRule()
	if err != nil {
		return o, err
	}
	if rule, err = rule.WithOptions(options); err != nil {
		return o, err
	}
	with, err := objectives.ByRule(rule)
	if err != nil {
		return o, err
	}
	return with.WithMiner(o.Miner)
}

// identified returns a spec with the digest of its data where the name does not identify it. Images are opened for a
// spec alone that can be trained.
func (p Preset) identified(spec runs.Spec) (runs.Spec, error) {
	if slices.Contains(datasets.Names(), spec.Data) || spec.HasFeatures() {
		return spec, nil // The name, or the digest, identifies the data.
	}
	published := runs.IsPublished(spec.Data)
	reading := p.Reading
	reading.AllowPartial = reading.AllowPartial && published
	if published && reading == (datasets.Reading{}) {
		return spec, nil // The name identifies the complete set. Others are rejected when they are opened.
	}
	unread := spec
	spec.Reading = reading
	if spec.DataDigest = p.Digests[spec.Data]; spec.DataDigest != "" {
		return spec, nil
	}
	if err := cmp.Or(unread.Ready(), unread.HasTriplets()); err != nil {
		return spec, err
	}
	set, err := runs.OpenData(spec, p.DataOptions)
	if err != nil {
		return spec, err
	}
	if !published {
		if spec.Data, err = filepath.Abs(spec.Data); err != nil {
			return spec, err
		}
	}
	spec.DataDigest = set.Digest
	return spec, nil
}

package inspect

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// Selection picks finished runs by what they trained, on which data and at which preset. An empty list picks all.
type Selection struct {
	// Objectives are rules and losses as [objectives.Objective] names them, a rule of the user's own also without its
	// digest.
	Objectives []string
	Data       []string // Names of data sets, or folders of images.
	Presets    []presets.Preset
}

// Runs returns the finished runs of the store, and those that are bundled with the program, that are selected, in the
// order of the selection and of their seeds. Runs that hold training classes out belong to a search or a sweep and are
// left out. It returns an error that names the first objective, data set or preset without a run.
func (s Selection) Runs(store *runs.Store) ([]*runs.Result, error) {
	all, err := report.Finished(store, true)
	if err != nil {
		return nil, err
	}
	type place struct{ objective, data, preset int }
	places := make(map[string]place)
	var out []*runs.Result
	for hash, r := range all {
		at := place{s.objective(r.Spec), s.data(r.Spec), s.preset(r.Spec)}
		if r.Spec.HeldOut == 0 && at.objective >= 0 && at.data >= 0 && at.preset >= 0 {
			places[hash] = at
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *runs.Result) int {
		x, y := places[a.Hash], places[b.Hash]
		return cmp.Or(cmp.Compare(x.objective, y.objective), cmp.Compare(x.data, y.data), cmp.Compare(x.preset, y.preset),
			cmp.Compare(a.Spec.LR, b.Spec.LR), cmp.Compare(a.Spec.Seed, b.Spec.Seed), strings.Compare(a.Hash, b.Hash))
	})
	return out, s.complete(out, func(r *runs.Result) [3]int {
		at := places[r.Hash]
		return [3]int{at.objective, at.data, at.preset}
	})
}

func (s Selection) objective(spec runs.Spec) int {
	if len(s.Objectives) == 0 {
		return 0
	}
	name := spec.Objective.String()
	plain := name
	if rule, digest, own := strings.Cut(spec.Rule, "#"); own {
		plain = strings.Replace(name, rule+"#"+digest, rule, 1)
	}
	return slices.IndexFunc(s.Objectives, func(o string) bool { return o == name || o == plain })
}

func (s Selection) data(spec runs.Spec) int {
	if len(s.Data) == 0 {
		return 0
	}
	return slices.IndexFunc(s.Data, func(data string) bool { return IsData(spec, data) })
}

// IsData reports whether a spec's data set has a name, or is in a folder of images, whose last part suffices.
func IsData(spec runs.Spec, data string) bool {
	if spec.Data == runs.PaperName(data) {
		return true
	}
	path, err := filepath.Abs(data)
	return filepath.IsAbs(spec.Data) && (err == nil && spec.Data == path || filepath.Base(spec.Data) == data)
}

func (s Selection) preset(spec runs.Spec) int {
	if len(s.Presets) == 0 {
		return 0
	}
	return slices.IndexFunc(s.Presets, func(p presets.Preset) bool { return p.Has(spec) })
}

// complete returns an error if a part of the selection has no run.
func (s Selection) complete(found []*runs.Result, at func(*runs.Result) [3]int) error {
	names := slice.Map(s.Presets, func(p presets.Preset) string { return p.Name })
	for kind, list := range [][]string{s.Objectives, s.Data, names} {
		for i, name := range list {
			if slices.ContainsFunc(found, func(r *runs.Result) bool { return at(r)[kind] == i }) {
				continue
			}
			text := fmt.Sprintf("no finished run of %s", name)
			for k, of := range [][]string{s.Objectives, s.Data, names} {
				if k != kind && len(of) > 0 {
					text += []string{" of ", " on ", " at preset "}[k] + strings.Join(of, " or ")
				}
			}
			return fmt.Errorf("%s; dmlx train trains one", text)
		}
	}
	return nil
}

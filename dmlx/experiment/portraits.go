package experiment

import (
	"context"
)

// Portraits returns a study's table and the portraits of its runs, those of a cell in the order of its seeds; see [PortrayAll].
func Portraits(ctx context.Context, choose func() (*Trainer, error), store *Store, study Study, preset Preset, o Options) (*Table, [][]*Portrait, error) {
	cells, err := study.Specs(preset, o.Seeds)
	if err != nil {
		return nil, nil, err
	}
	t := &Table{Study: study.Name, Title: study.Title, Preset: preset.Name, Cells: cells}
	var specs []Spec
	for _, c := range cells {
		specs = append(specs, c.Specs...)
	}
	t.Runs = len(specs)
	portraits, ran, err := PortrayAll(ctx, choose, store, specs, o)
	if err != nil {
		return nil, nil, err
	}
	t.Ran = ran
	out := make([][]*Portrait, len(cells))
	for i := range t.Cells {
		c := &t.Cells[i]
		for _, p := range portraits[:len(c.Specs)] {
			if p != nil {
				out[i], c.Runs = append(out[i], p), append(c.Runs, p.Result)
			} else {
				t.Missing++
			}
		}
		portraits = portraits[len(c.Specs):]
	}
	return t, out, nil
}

package nb

import (
	"image/color"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/figures"
)

func TestTiles(t *testing.T) {
	column := func(title, group string) figures.Column { return figures.Column{Title: title, Group: group} }
	row := func(texts ...string) (cells []figures.Cell) {
		for _, text := range texts {
			cells = append(cells, figures.Text(text))
		}
		cells[2].Background = color.NRGBA{1, 2, 3, 255}
		return cells
	}
	table := &figures.Table{Columns: []figures.Column{column("Where", ""), column("Says", ""), column("Verdict", "ours")},
		Rows: [][]figures.Cell{row("§1", "a < b", "holds"), row("§1", "c", "fails"), row("§2", "d", "holds")}}
	got := tiles(table, 0, []int{2})
	for want, n := range map[string]int{
		`<div class="dmlx-tiles">`: 2, "<details>": 3, `title="Verdict ours: holds"`: 2, "#010203": 3,
		"<i>Says:</i> a &lt; b": 1, ">h<span>olds</span>": 2,
	} {
		if strings.Count(got, want) != n {
			t.Errorf("%q is there %d times; want %d: %s", want, strings.Count(got, want), n, got)
		}
	}
}

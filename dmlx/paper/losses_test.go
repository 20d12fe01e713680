package paper

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

func TestRateNotes(t *testing.T) {
	t.Parallel()
	cells := func(data string) []Cell {
		all := WithExchanges(Cell{Data: data, Row: "InfoNCE", Objective: presets.Named("loss info-nce")}, "pair=lin-ms")
		for i := range all {
			all[i].LR, all[i].Specs = 0.25, []runs.Spec{{Config: train.Config{ProxyLR: 0.5}}}
		}
		return all
	}
	table := &Table{Cells: append(cells("minicar"), cells("minishop")...)}
	rows := table.Scores()
	if len(rows) != 4 || rows[0].Method != "InfoNCE" || rows[1].Method != "InfoNCE" {
		t.Errorf("%+v", rows)
	}
	if notes := RateNotes(table); len(notes) != 3 || !strings.Contains(notes[1], "minishop: InfoNCE 0.25 (proxies 0.5)") {
		t.Errorf("%q", notes)
	}
}

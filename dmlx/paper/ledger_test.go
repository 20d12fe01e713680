package paper

import (
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/paper/ledger"
	"github.com/gradient-surgery/dml/dmlx/paper/verdicts"
)

// The ledger of the bundled runs has every printed number, a verdict in each row, and runs behind what is judged.
func TestLedger(t *testing.T) {
	t.Parallel()
	q := request(t, "quick")
	rows, powers, r, err := Ledger(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	numbers, figures, claims := 0, 0, 0
	for _, row := range rows {
		switch {
		case row.Setting == verdicts.Photographs: // Beside that on drawn images.
			number := strings.HasPrefix(row.Place, "Table")
			if number && (row.Preset != "photographs" || row.Data != photographs) ||
				!strings.HasPrefix(row.Place, "Figure") && !strings.Contains(row.Command, "--arch lite0.onnx") {
				t.Errorf("%+v", row)
			}
		case strings.HasPrefix(row.Place, "Table"):
			numbers++
			judged := row.Verdict != verdicts.NotRun && row.Verdict != verdicts.DifferentSetting
			if judged != (row.Comparable != "") || judged && len(row.Runs) == 0 {
				t.Errorf("%+v", row)
			}
		case strings.HasPrefix(row.Place, "Figure"):
			figures++
		default:
			claims++
		}
		if row.Setting.Bears() && row.Setting != verdicts.Print {
			t.Errorf("runs on drawn images are the paper's own setting: %+v", row)
		}
		if row.Verdict == "" || row.What == "" || row.Verdict == verdicts.NotRun && row.Why == "" {
			t.Errorf("no verdict, or no reason: %+v", row)
		}
	}
	if numbers != 422 || figures != 6 || claims < 60 {
		t.Errorf("%d numbers, %d figures, %d claims", numbers, figures, claims)
	}
	if !strings.Contains(r.Provenance, "preset quick") || !strings.Contains(r.Provenance, "preset full") {
		t.Error(r.Provenance)
	}
	powers = slices.DeleteFunc(powers, func(p ledger.Power) bool { return p.Preset == "photographs" })
	if len(powers) != 7 {
		t.Errorf("%d tables", len(powers))
	}
	for _, p := range powers {
		if !(p.Detectable > p.Paper) || p.Critical > p.Detectable || p.Compared == 0 || p.OursOpen > 0 && p.Seeds == 0 {
			t.Errorf("%+v", p)
		}
	}
	alone, _, _, err := LedgerOf(t.Context(), q, q.Preset)
	if err != nil {
		t.Fatal(err)
	}
	rows = rows[:len(alone)]
	for i, row := range rows { // Of Tables 2 and 3 the program has all full runs, of 5 to 8 none.
		want := map[string]string{"Table 2": "full", "Table 3": "full", "Table 6": "quick", "Table 7": "quick"}[row.Place]
		if want != "" && row.Preset != want || alone[i].Preset == "full" || alone[i].What != row.What {
			t.Errorf("judged by preset %s, and at quick alone by %s: %+v", row.Preset, alone[i].Preset, row)
		}
	}
}

// Without runs no number is judged. The figures and claims that are computed still are.
func TestLedgerWithoutRuns(t *testing.T) {
	t.Parallel()
	q := request(t, "full")
	q.IgnoreBundled = true
	rows, _, _, err := Ledger(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if strings.HasPrefix(row.Place, "Table") && row.Verdict != verdicts.NotRun {
			t.Errorf("%+v", row)
		}
	}
	if ledger.Count(rows)[verdicts.Reproduced] == 0 {
		t.Error("no formula is reproduced")
	}
}

package evidence

import (
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

func request(t *testing.T, preset string) report.Request {
	t.Helper()
	p, err := presets.Parse(preset)
	if err != nil {
		t.Fatal(err)
	}
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return report.Request{Store: store, Preset: p}
}

// The ledger of the bundled runs has every printed number, a verdict in each row, and runs behind what is judged.
func TestLedger(t *testing.T) {
	t.Parallel()
	q := request(t, "quick")
	l, err := Of(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	rows, powers := l.Entries, l.Powers
	numbers, figures, claims := 0, 0, 0
	for _, row := range rows {
		switch {
		case row.Setting == Photographs: // Beside that on drawn images.
			number := strings.HasPrefix(row.Place, "Table")
			if number && (row.Preset != "photographs" || row.Data != "cars-160") ||
				!strings.HasPrefix(row.Place, "Figure") && !strings.Contains(row.Command, "--arch lite0.onnx") {
				t.Errorf("%+v", row)
			}
		case strings.HasPrefix(row.Place, "Table"):
			numbers++
			judged := row.Verdict != NotRun && row.Verdict != DifferentSetting
			if judged != (row.Asks != "") || judged && len(row.Runs) == 0 {
				t.Errorf("%+v", row)
			}
		case strings.HasPrefix(row.Place, "Figure"):
			figures++
		default:
			claims++
		}
		if row.Setting == PapersOwn {
			t.Errorf("runs on drawn images are the paper's own setting: %+v", row)
		}
		if row.Verdict == "" || row.What == "" || row.Verdict == NotRun && row.Why == "" {
			t.Errorf("no verdict, or no reason: %+v", row)
		}
	}
	if numbers != 422 || figures != 6 || claims < 60 {
		t.Errorf("%d numbers, %d figures, %d claims", numbers, figures, claims)
	}
	if !strings.Contains(l.Provenance, "preset quick") || !strings.Contains(l.Provenance, "preset full") {
		t.Error(l.Provenance)
	}
	powers = slices.DeleteFunc(powers, func(p Power) bool { return p.Preset == "photographs" })
	if len(powers) != 7 {
		t.Errorf("%d tables", len(powers))
	}
	for _, p := range powers {
		if !(p.Detectable > p.Paper) || p.Compared == 0 || p.OursOpen > 0 && p.Seeds == 0 {
			t.Errorf("%+v", p)
		}
	}
	for _, row := range rows { // Of Tables 2 and 3 the program has all full runs, of 5 to 8 none.
		want := map[string]string{"Table 2": "full", "Table 3": "full", "Table 6": "quick", "Table 7": "quick"}[row.Place]
		if want != "" && row.Setting == Drawn && row.Preset != want {
			t.Errorf("judged by preset %s: %+v", row.Preset, row)
		}
	}
}

// Without runs no number is judged. The figures and claims that are computed still are.
func TestLedgerWithoutRuns(t *testing.T) {
	t.Parallel()
	q := request(t, "full")
	q.IgnoreBundled = true
	l, err := Of(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range l.Entries {
		if strings.HasPrefix(row.Place, "Table") && row.Verdict != NotRun {
			t.Errorf("%+v", row)
		}
	}
	if Count(l.Entries)[Reproduced] == 0 {
		t.Error("no formula is reproduced")
	}
}

package paper

import (
	"math"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/runstest"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

// tiny returns a preset whose runs take a tenth of a second.
func tiny(t *testing.T) presets.Preset {
	t.Helper()
	smoke, err := presets.Parse("smoke")
	if err != nil {
		t.Fatal(err)
	}
	p, err := smoke.With(presets.Settings{Batch: 4, ImagesPerClass: 2, Dim: 8, Epochs: 1, StepsPerEpoch: 1, Size: 16,
		Weights: train.Random, Seeds: []uint64{1}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func openGo() (*train.Trainer, error) { return runstest.Go(), nil }

func hinge(b *dmlx.Batch) *Node { return MaxScalar(AddScalar(Sub(b.San, b.Sap), 0.5), 0) }

// squares is a loss of the user's own: all pairs alike, and other pairs apart.
func squares(b *dmlx.LossBatch) *Node {
	same := Equal(InsertAxes(b.Labels, 0), InsertAxes(b.Labels, 1))
	return ReduceAllMean(Square(Sub(b.S, ConvertDType(same, b.S.DType()))))
}

// row reads a row.
func row(t *testing.T, text string) presets.Objective {
	t.Helper()
	o, err := objectives.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return presets.Objective{Objective: o}
}

// labeled reads a row with a label.
func labeled(t *testing.T, label, text string) presets.Objective {
	t.Helper()
	o := row(t, text)
	o.Label = label
	return o
}

// byRule returns a rule as a row.
func byRule(t *testing.T, r dmlx.Rule) presets.Objective {
	t.Helper()
	o, err := objectives.ByRule(r)
	if err != nil {
		t.Fatal(err)
	}
	return presets.Objective{Objective: o}
}

// A rule and a loss with functions of the user's own stand in Table 2 beside the paper's rows: in the table, the
// picture, LaTeX and CSV, on both data sets, and with a dash for the paper.
func TestOwnRows(t *testing.T) {
	s, _ := runstest.Store(t)
	rule := dmlx.Rule{Pair: dmlx.PairLin, Triplet: dmlx.TripletWeight{Name: "hinge", Of: hinge}}
	pairs := presets.Objective{Label: "pairs, squared"}
	var err error
	if pairs.Objective, err = objectives.ByLoss(objectives.LossFunction{Name: "squares", Of: squares}); err != nil {
		t.Fatal(err)
	}
	q := report.Request{Open: openGo, Store: s, Preset: tiny(t), Rows: []presets.Objective{byRule(t, rule), pairs,
		row(t, "loss contrastive")}}
	r, err := Make(t.Context(), "table2", q)
	if err != nil {
		t.Fatal(err)
	}
	if r.Runs != 14 || r.Ran != 14 {
		t.Errorf("%d runs, %d trained; want 2 × (4 + 3)", r.Runs, r.Ran)
	}
	for _, data := range []string{"minicar", "minishop"} {
		for _, row := range []string{"cos/lin/hinge", "pairs, squared", "loss contrastive"} {
			c := r.Table.At(data, row, data)
			if c == nil || c.Recall(1).N != 1 || math.IsNaN(c.Recall(1).Mean) || c.LR <= 0 {
				t.Errorf("%s on %s: %+v", row, data, c)
			}
		}
	}
	for format, want := range map[string][]string{
		"md": {"$P^{lin}$, $T^{hinge}$ |", "pairs, squared |", "loss contrastive |", "| – | – |\n",
			"Setting: preset smoke with"},
		"tex": {`$P^{lin}$, $T^{hinge}$ & `, "loss contrastive & ", "& -- & --"},
		"csv": {"loss contrastive,", "setting\n", ",,,0,0,,,0,0,\"preset smoke with seed 1,"},
	} {
		raw, err := figures.Bytes(r.Part(""), format)
		for _, w := range want {
			if err != nil || !strings.Contains(string(raw), w) {
				t.Errorf("%s has no %q: %v\n%s", format, w, err, raw)
			}
		}
	}
	picture, is := r.Part("picture").(*figures.Figure)
	if !is || !strings.Contains(picture.Alt, "pairs, squared") || !strings.Contains(picture.Provenance, "8 dimensions") {
		t.Errorf("%+v", picture)
	}
	if again, err := Make(t.Context(), "table2", q); err != nil || again.Ran != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}

	// The same, cell by cell.
	cells, err := Cells("table2", q)
	if err != nil {
		t.Fatal(err)
	}
	table, err := Fill(t.Context(), q, cells[:6])
	if err != nil || table.Runs != 6 || len(table.Scores().Select(scores.Row{Measure: "R@1"})) != 6 {
		t.Errorf("%+v, %v", table, err)
	}
	if _, err := Compare(2, table.Scores(), table.Provenance()); err != nil {
		t.Error(err)
	}
}

// What cannot be trained or shown is refused before the first run is.
func TestRowsRefused(t *testing.T) {
	s, _ := runstest.Store(t)
	open := func() (*train.Trainer, error) {
		t.Error("a backend was opened")
		return runstest.Go(), nil
	}
	p := tiny(t)
	large, err := p.With(presets.Settings{Batch: 28}) // minicar has 8 training classes, of which 14 are no batch.
	if err != nil {
		t.Fatal(err)
	}
	nan := dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "nan", Of: func(b *dmlx.Batch) *Node {
		return Sqrt(Sub(b.Sap, OnesLike(b.Sap)))
	}}}
	faster := row(t, "cos/lin/con")
	faster.LR = 1
	ownCon := dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "con", Of: hinge}}
	for _, c := range []struct {
		want, name string
		p          presets.Preset
		rows       []presets.Objective
	}{
		{"nan", "table3", p, []presets.Objective{byRule(t, nan)}},
		{"given twice", "table3", p, []presets.Objective{row(t, "loss ms"), row(t, "loss ms")}},
		{"X is given twice", "table3", p, []presets.Objective{labeled(t, "X", "cos/lin/cir"), labeled(t, "X", "loss ms")}},
		{`figure4: it has a row "cos" already: give`, "figure4", p, []presets.Objective{labeled(t, "cos", "cos/lin/cir")}},
		{`a row "Ours" already`, "table5", p, []presets.Objective{labeled(t, "Ours", "cos/lin/cir?tau=2")}},
		{`a row "cos/con/con" already`, "table6", p, []presets.Objective{labeled(t, "cos/con/con", "cos/lin/cir")}},
		{`a row "cos/lin/con" already`, "table7", p, []presets.Objective{faster}},
		{`a row "cos/con/con" already`, "table2", p, []presets.Objective{byRule(t, ownCon)}},
		{"takes no rows of your own", "grid", p, []presets.Objective{row(t, "loss ms")}},
		{"learning rate is -1", "table2", p, []presets.Objective{{LR: -1, Label: "x"}}},
		{"batch of 14 classes needs as many training classes", "table2", large, nil},
		{"none of that name", "table2", p, []presets.Objective{{Objective: objectives.Objective{Loss: "nix"}}}},
	} {
		q := report.Request{Open: open, Store: s, Preset: c.p, Rows: c.rows}
		if r, err := Make(t.Context(), c.name, q); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v, want …%s…", c.name, r, err, c.want)
		}
	}
	if entries, err := s.List(); err != nil || len(entries) > 0 {
		t.Errorf("the store has %v, %v", entries, err)
	}
}

// Each table and figure that takes rows draws them without a run, and leaves out a rule that it has already.
func TestRowsEverywhere(t *testing.T) {
	s, _ := runstest.Store(t)
	p, err := presets.Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	q := report.Request{Open: openGo, Store: s, Preset: p, Options: runs.Options{CachedOnly: true}}
	for _, name := range TakingRows() {
		plain, err := Cells(name, q)
		if err != nil {
			t.Fatal(err)
		}
		own := q
		own.Rows = []presets.Objective{row(t, "cos/lin/con"), row(t, "cos-orth/lin/cir?tau=2"), row(t, "loss n-pair")}
		r, err := Make(t.Context(), name, own)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		rows := len(own.Rows)
		if name == "table3" || name == "table4" || name == "table7" || name == "table8" {
			rows-- // cos/lin/con is there.
		}
		extra := 0
		for _, c := range r.Table.Cells {
			if c.Own {
				extra++
			}
		}
		if per := extra / rows / 2; extra != 2*rows*per || per < 1 || len(r.Table.Cells) != len(plain)+extra {
			t.Errorf("%s: %d cells, %d without own rows, %d of these", name, len(r.Table.Cells), len(plain), extra)
		}
		text := ""
		for _, part := range r.Parts {
			raw, err := figures.Bytes(part.Of, part.Of.Formats()[0])
			if err != nil {
				t.Errorf("%s, part %q: %v", name, part.Name, err)
			}
			text += string(raw)
		}
		if !strings.Contains(text, "n-pair") || !strings.Contains(text, "tau=2") {
			t.Errorf("%s does not show its own rows", name)
		}
	}
}

// A rule or loss trains at the same rate by every door: as a cell, as a row of a table and by itself. One that the
// preset has no rate for is measured.
func TestOneRateByEveryDoor(t *testing.T) {
	t.Parallel()
	p, err := presets.Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	strong := func(b *dmlx.LossBatch) *Node { return MulScalar(squares(b), 80) }
	loss, err := objectives.ByLoss(objectives.LossFunction{Name: "strong", Of: strong})
	if err != nil {
		t.Fatal(err)
	}
	weak := dmlx.TripletWeight{Name: "weak", Of: func(b *dmlx.Batch) *Node { return MulScalar(OnesLike(b.Sap), 0.05) }}
	for _, o := range []presets.Objective{row(t, "cos/lin/cir"), row(t, "loss ms"), row(t, "loss proxy-anchor, pair=lin"),
		byRule(t, dmlx.Rule{Triplet: weak}), {Objective: loss}} {
		alone, err := p.ObjectiveSpec("minicar", o, 1)
		if err != nil {
			t.Fatal(err)
		}
		if base := 0.3; o.Custom() && !(alone.LR < base/2 || alone.LR > 5*base) {
			t.Errorf("%s trains at %g, as cos/con/con", o, alone.LR)
		}
		cells, err := Specify(p, []Cell{{Data: "minicar", Objective: o}}, []uint64{1})
		if err != nil {
			t.Fatal(err)
		}
		study, err := table2Study().With(p, []presets.Objective{o})
		if err != nil {
			t.Fatal(err)
		}
		table, err := study.Specs(p, []uint64{1})
		if err != nil {
			t.Fatal(err)
		}
		cells = append(cells, (&Table{Cells: table}).Of("minicar", o.String()))
		for _, c := range cells {
			if got := c.Specs[0]; got.Hash() != alone.Hash() {
				t.Errorf("%s: %s, and by itself %s", o, got.Canonical(), alone.Canonical())
			}
		}
	}
}

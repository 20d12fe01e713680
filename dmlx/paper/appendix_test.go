package paper

import (
	"context"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/figures"
)

func TestAppendix(t *testing.T) {
	preset, err := presets.Parse("smoke")
	if err != nil {
		t.Fatal(err)
	}
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r, err := Make(context.Background(), "appendix", report.Request{Store: store, Preset: preset})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "published", "instability", "projection-errors"} {
		of := r.Part(name)
		if _, err := figures.Bytes(of, of.Formats()[0]); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if len(r.Parts) != 4 {
		t.Errorf("%d parts without runs", len(r.Parts))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Make(ctx, "appendix", report.Request{Store: store, Preset: preset}); err == nil {
		t.Error("a stopped appendix was made")
	}
}

func TestFigure1(t *testing.T) {
	r, err := Make(context.Background(), "figure1", report.Request{})
	if err != nil {
		t.Fatal(err)
	}
	f, ok := r.Part("").(*figures.Figure)
	if !ok || f.Provenance == "" || r.Runs != 0 {
		t.Errorf("%+v", r)
	}
	if _, err := figures.Bytes(f, "svg"); err != nil {
		t.Error(err)
	}
}

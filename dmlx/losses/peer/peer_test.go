package peer

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/figures"
)

func TestAgreements(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Agreements(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) < 20 {
		t.Fatalf("%d losses", len(rows))
	}
	proxies := 0
	for _, a := range rows {
		tolerance := 2e-5
		if a.Name == "recall-at-k" {
			tolerance = 1e-4 // As in the losses' own test.
		}
		if a.Value > 2e-5 || a.Gradient > tolerance || a.Proxies > 2e-5 {
			t.Errorf("%+v", a)
		}
		if a.HasProxies {
			proxies++
		}
	}
	if proxies < 6 {
		t.Errorf("%d losses with proxies", proxies)
	}
	if Off([]float32{1, 2}, []float32{1, 4}) != 0.5 {
		t.Error("half off is not half")
	}
	f, err := Read()
	if err != nil || f.Torch == "" || f.Version == "" {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestTable(t *testing.T) {
	all := []Agreement{{"ms", "PML", 1.2e-7, 3e-6, 0, false}, {"proxy-anchor", "PML", 0, 2e-6, 1e-6, true}}
	table, err := Table(all, "two batches")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, row := range table.Rows {
		var texts []string
		for _, c := range row {
			texts = append(texts, figures.Plain(c.Text))
		}
		rows = append(rows, strings.Join(texts, " | "))
	}
	want := []string{"ms | PML | 1.2·10^−7 | 3.0·10^−6 | –", "proxy-anchor | PML | 0 | 2.0·10^−6 | 1.0·10^−6"}
	if !slices.Equal(rows, want) {
		t.Errorf("%q", rows)
	}
	all[0].Gradient = math.NaN()
	if _, err := Table(all, ""); err == nil {
		t.Error("NaN was set")
	}
}

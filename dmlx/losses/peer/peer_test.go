package peer

import (
	"testing"

	"github.com/gradient-surgery/dml/dmlx/backend"
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
		if a.Value > 2e-5 || a.Gradient > 2e-5 || a.Proxies > 2e-5 {
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

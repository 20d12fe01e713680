package figures

import (
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

func someExchanges() []ExchangeSet {
	gain := func(part string, at, half float64) Exchanged {
		return Exchanged{Part: part, Score: stats.Mean{Mean: 70 + at, Std: 1, N: 3}, Gain: testOf(at, at-half, at+half)}
	}
	missing := Exchanged{Part: "triplet=cir", Score: Missing, Gain: stats.Untested(math.NaN())}
	diverged := Exchanged{Part: "pair=lin-ms", Score: stats.Mean{Mean: math.NaN(), Diverged: 3},
		Gain: stats.Untested(math.NaN())}
	return []ExchangeSet{
		{Data: "minicar", Losses: []ExchangedLoss{
			{Loss: "InfoNCE", Published: stats.Mean{Mean: 70, Std: 1, N: 3},
				Exchanged: []Exchanged{gain("direction=cos-orth", 1.2, 2), gain("pair=lin-ms", -3, 2), missing}},
			{Loss: "Proxy-Anchor", Published: stats.Mean{Mean: 66, Std: 2, N: 3},
				Exchanged: []Exchanged{gain("direction=cos-orth", 0.2, 2), diverged, gain("triplet=cir", 4, 2)}},
		}},
		{Data: "minishop", Losses: []ExchangedLoss{
			{Loss: "InfoNCE", Published: stats.Mean{Mean: 80, N: 1},
				Exchanged: []Exchanged{gain("direction=cos-orth", -1, 1), gain("pair=lin-ms", 0, 1), gain("triplet=cir", 2, 1)}},
		}},
	}
}

func TestExchanges(t *testing.T) {
	f, err := ExchangeGains(someExchanges(), "preset quick · made-up numbers")
	checkGolden(t, "exchanges", f, err)
	if !strings.Contains(f.Alt, "minicar, Proxy-Anchor, triplet=cir: 4.0 [2.0") ||
		!strings.Contains(f.Alt, "pair=lin-ms: –") {
		t.Error(f.Alt)
	}
	table, err := Exchanges(someExchanges(), []string{"A note."}, "")
	if err != nil {
		t.Fatal(err)
	}
	text := table.String()
	for _, want := range []string{"70.0 ± 1.0", "−3.0 [−5.0", "diverged", "3 of 3 runs diverged", "A note.", "80.0"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if !table.Rows[0][4].Bold || table.Rows[0][3].Bold {
		t.Error("bold is not what is significant")
	}
	bad := someExchanges()
	bad[1].Losses[0].Exchanged[0].Part = "pair=con"
	if _, err := Exchanges(bad, nil, ""); err == nil || !strings.Contains(err.Error(), "minishop") {
		t.Error(err)
	}
	if _, err := ExchangeGains(nil, ""); err == nil {
		t.Error("no sets")
	}
}

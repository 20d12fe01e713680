package figures

import (
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

func someExchanges() scores.Table {
	of := func(data, loss, part string, m stats.Mean) scores.Row {
		return scores.Row{Data: data, Method: loss, Exchange: part, Value: m}
	}
	// The difference of two such means has an interval of ± 2: t of 4 degrees of freedom is 2.776445.
	m := func(mean float64) stats.Mean {
		return stats.Mean{Mean: mean, Std: 2 / 2.776445105 / math.Sqrt(2./3), N: 3}
	}
	shop := func(mean float64) stats.Mean { return stats.Mean{Mean: mean, Std: m(0).Std / 2, N: 3} }
	return scores.Table{
		of("minicar", "InfoNCE", "", m(70)), of("minicar", "InfoNCE", "direction=cos-orth", m(71.2)),
		of("minicar", "InfoNCE", "pair=lin-ms", m(67)), of("minicar", "InfoNCE", "triplet=cir", Missing),
		of("minicar", "Proxy-Anchor", "", m(66)), of("minicar", "Proxy-Anchor", "direction=cos-orth", m(66.2)),
		of("minicar", "Proxy-Anchor", "pair=lin-ms", stats.Mean{Mean: math.NaN(), Diverged: 3}),
		of("minicar", "Proxy-Anchor", "triplet=cir", m(70)),
		of("minishop", "InfoNCE", "", shop(80)), of("minishop", "InfoNCE", "direction=cos-orth", shop(79)),
		of("minishop", "InfoNCE", "pair=lin-ms", shop(80)), of("minishop", "InfoNCE", "triplet=cir", shop(82)),
	}
}

func TestExchanges(t *testing.T) {
	f, err := ExchangeGains(someExchanges(), "preset quick · made-up numbers")
	checkGolden(t, "exchanges", f, err)
	if !strings.Contains(f.Alt, "minicar, Proxy-Anchor, triplet=cir: 4.0 [2.0") ||
		!strings.Contains(f.Alt, "pair=lin-ms: –") {
		t.Error(f.Alt)
	}
	bad := append(someExchanges(), someExchanges()[11])
	if _, err := ExchangeGains(bad, ""); err == nil || !strings.Contains(err.Error(), "minishop") {
		t.Error(err)
	}
	if _, err := ExchangeGains(nil, ""); err == nil {
		t.Error("no sets")
	}
}

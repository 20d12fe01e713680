package figures

import (
	"math"
	"testing"
)

func TestPeerAgreement(t *testing.T) {
	rows := []PeerRow{{"ms", "PML", 1.2e-7, 3e-6, 0, false}, {"proxy-anchor", "PML", 0, 2e-6, 1e-6, true}}
	table, err := PeerAgreement("two batches", rows)
	checkText(t, "peeragreement", table, err)
	rows[0].Gradient = math.NaN()
	if _, err := PeerAgreement("", rows); err == nil {
		t.Error("NaN was set")
	}
}

func TestImpliedSummaries(t *testing.T) {
	rows := []ImpliedSummary{{Title: "N-pair", Anchors: 8, PairPositive: 1, PairNegative: 1, Weight: 0.03, Residual: 1e-8},
		{Title: "Contrastive", Anchors: 32, PairPositive: 1.5, PairNegative: 0.5, Weight: 0.0004, Residual: 0.0123,
			Lone: 0.01, Alone: 0.02}}
	table, err := ImpliedSummaries("a batch", rows)
	checkText(t, "impliedsummaries", table, err)
	rows[1].Alone = math.Inf(1)
	if _, err := ImpliedSummaries("", rows); err == nil {
		t.Error("Inf was set")
	}
}

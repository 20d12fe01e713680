package sweeps

import (
	"fmt"
	"math"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/figures"
)

// statement is a sentence of the paper on a sweep, read as a comparison of two rows.
type statement struct {
	says   figures.Markup // In the paper's words.
	paper  string         // The data set of the paper that it is about; empty for all.
	a, b   string         // The names of two rows, of which a is said to be better.
	better measure
}

// measure is the quantity by which one row is better than another.
type measure int

const (
	bestRecall       measure = iota // The recall at the best rate.
	recallAtEachRate                // The recall at each rate that both rows have.
	lossAtWorst                     // The points lost at the worst rate of the grid.
	lossNearby                      // The points lost at half or at twice the best rate, the larger of the two.
)

var (
	directionStatements = []statement{
		{`$\mathbf{e^{cos}}$ has better accuracy than $\mathbf{e^{euc}}$`, "", "cos", "euc", recallAtEachRate},
		{`$\mathbf{e^{cos}}$ has better accuracy than $\mathbf{e^{euc-orth}}$`, "", "cos", "euc-orth", recallAtEachRate},
		{`$\mathbf{e^{cos-orth}}$ improves on $\mathbf{e^{cos}}$`, "", "cos-orth", "cos", recallAtEachRate},
		{`$\mathbf{e^{cos-orth}}$ is relatively stable with respect to the learning rate`,
			"", "cos-orth", "euc", lossAtWorst},
		{`$\mathbf{e^{cos-orth}}$ is relatively stable with respect to the learning rate`,
			"", "cos-orth", "cos", lossAtWorst},
		{`$\mathbf{e^{cos-orth}}$ is relatively stable with respect to the learning rate`, "", "cos-orth", "euc-orth",
			lossAtWorst},
	}
	pairStatements = []statement{
		{"$P^{lin-ms}$ is much more robust to different learning rates than $P^{sig-ms}$", "", "lin-ms", "sig-ms",
			lossAtWorst},
		{"$P^{lin-ms}$ is much more robust to different learning rates than $P^{sig-ms}$", "", "lin-ms", "sig-ms",
			lossNearby},
		{"$P^{lin-ms}$ gives better accuracy than $P^{sig-ms}$", "", "lin-ms", "sig-ms", bestRecall},
		{"$P^{lin-ms}$ performs better than $P^{lin}$ on CAR across different learning rates", "CAR", "lin-ms", "lin",
			recallAtEachRate},
		{"$P^{sig-ms}$ performs better than $P^{sig}$ on CAR across different learning rates", "CAR", "sig-ms", "sig",
			recallAtEachRate},
		{"$P^{sig-ms}$ is much worse than $P^{sig}$ on In-shop", "In-shop", "sig", "sig-ms", bestRecall},
	}
	tripletStatements = []statement{
		{"$T^{cir}$ shows stable improvement", "", "cir", "con", recallAtEachRate},
		{"$T^{cir}$ shows stable improvement", "", "cir", "con", bestRecall},
		{"$T^{cos}$ has a slight boost", "", "cos", "con", bestRecall},
		{"$T^{sc1}$ benefits sets with hard negatives", "CAR", "cos+sc1", "cos", bestRecall},
		{"$T^{sc2}$ benefits sets with hard negatives", "CAR", "cir+sc2", "cir", bestRecall},
		{"$T^{sc1}$ is not helpful where triplets separate easily", "In-shop", "cos", "cos+sc1", bestRecall},
		{"$T^{sc2}$ is not helpful where triplets separate easily", "In-shop", "cir", "cir+sc2", bestRecall},
	}
)

// describe says in words which quantity of rows a and b is compared.
func (m measure) describe(a, b figures.Markup) figures.Markup {
	switch m {
	case recallAtEachRate:
		return "R@1 at every rate, " + a + " > " + b
	case lossAtWorst:
		return "lost at the worst rate, " + a + " < " + b
	case lossNearby:
		return "lost at half or twice the best rate, " + a + " < " + b
	}
	return "R@1 at the best rate, " + a + " > " + b
}

// decide returns "holds" or "fails" with the two numbers, or "–" if there is nothing to compare yet. It compares the
// means alone; the noise of seeds may decide a small difference.
func (m measure) decide(a, b scores.Curve) figures.Markup {
	verdict := func(holds bool) string {
		if holds {
			return "holds"
		}
		return "fails"
	}
	compare := func(x, y float64, holds bool) figures.Markup {
		if math.IsNaN(x) || math.IsNaN(y) {
			return "–"
		}
		return fmt.Sprintf("%s (%s,\u00a0%s)", verdict(holds), points(x), points(y))
	}
	if a.Best() < 0 || b.Best() < 0 {
		return "–"
	}
	switch m {
	case bestRecall:
		x, y := a[a.Best()].Test.Mean, b[b.Best()].Test.Mean
		return compare(x, y, x > y)
	case lossAtWorst:
		return compare(a.Spread(), b.Spread(), a.Spread() < b.Spread())
	case lossNearby:
		return compare(a.NearDrop(), b.NearDrop(), a.NearDrop() < b.NearDrop())
	}
	better, shared := 0, 0
	for _, v := range a {
		for _, w := range b {
			if v.LR == w.LR {
				shared++
				if v.Test.Mean > w.Test.Mean || w.Test.Diverged > 0 && v.Test.Diverged == 0 {
					better++
				}
			}
		}
	}
	if shared == 0 {
		return "– (no rate in common)"
	}
	return fmt.Sprintf("%s (%d\u00a0of\u00a0%d)", verdict(better == shared), better, shared)
}

// points formats a difference of recalls. An infinite one is that of a run that diverged.
func points(d float64) string {
	if math.IsInf(d, 0) {
		return "diverged"
	}
	return fmt.Sprintf("%.1f", d)
}

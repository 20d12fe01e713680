package scores

import (
	"math"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// AtRate holds the Recall@1 in percent of a rule at one learning rate.
type AtRate struct {
	LR            float64
	Test, HeldOut stats.Mean // On the test classes, and on the training classes that were held out.
}

// Curve holds the recalls of a rule on one data set, by ascending learning rate.
type Curve []AtRate

// Complete reports whether the curve has rates and each was run.
func (c Curve) Complete() bool { return len(c) > 0 && c.Ran() == len(c) }

// Ran counts the rates that have a run, diverged or not.
func (c Curve) Ran() int {
	return slice.Count(c, func(v AtRate) bool { return !math.IsNaN(v.Test.Mean) || v.Test.Diverged > 0 })
}

// Best returns the index of the rate with the highest test recall, the lowest rate among equals. A rate at which a run
// diverged is never the best. It returns -1 if the curve is not complete or has no such rate.
func (c Curve) Best() int { return c.best(func(v AtRate) stats.Mean { return v.Test }) }

// BestHeldOut returns the index of the rate with the highest recall on held-out classes, as [Curve.Best] does.
func (c Curve) BestHeldOut() int { return c.best(func(v AtRate) stats.Mean { return v.HeldOut }) }

func (c Curve) best(recall func(AtRate) stats.Mean) int {
	best := -1
	if !c.Complete() {
		return best
	}
	for i, v := range c {
		if r := recall(v); r.Diverged == 0 && !math.IsNaN(r.Mean) && (best < 0 || r.Mean > recall(c[best]).Mean) {
			best = i
		}
	}
	return best
}

// At returns the test recall at a rate, Missing() at one that the curve does not have.
func (c Curve) At(lr float64) stats.Mean {
	for _, v := range c {
		if v.LR == lr {
			return v.Test
		}
	}
	return Missing()
}

// Peak returns the test recall at the [Curve.Best] rate, Missing() without one.
func (c Curve) Peak() stats.Mean {
	if i := c.Best(); i >= 0 {
		return c[i].Test
	}
	return Missing()
}

// AtEdge reports whether rate i is the lowest or the highest of the grid. A better rate may then lie outside the grid.
func (c Curve) AtEdge(i int) bool { return i == 0 || i == len(c)-1 }

// Drop returns how many points of test recall the curve loses if the best rate is multiplied by a factor. Between two
// rates of the grid it interpolates over the logarithm of the rate. It is NaN outside the grid or without a best rate,
// and +Inf where a run diverged.
func (c Curve) Drop(factor float64) float64 {
	best := c.Best()
	if best < 0 {
		return math.NaN()
	}
	lr, top := c[best].LR*factor, c[best].Test.Mean
	recall := func(v AtRate) float64 {
		if v.Test.Diverged > 0 {
			return math.Inf(-1)
		}
		return v.Test.Mean
	}
	for i, v := range c {
		if math.Abs(math.Log2(v.LR/lr)) < 1e-6 {
			return top - recall(v)
		}
		if i > 0 && c[i-1].LR < lr && lr < v.LR {
			f := math.Log(lr/c[i-1].LR) / math.Log(v.LR/c[i-1].LR)
			return top - (1-f)*recall(c[i-1]) - f*recall(v)
		}
	}
	return math.NaN()
}

// Spread returns how many points of test recall lie between the best and the worst rate of the grid. It is NaN without
// a best rate, and +Inf where a run diverged.
func (c Curve) Spread() float64 {
	best := c.Best()
	if best < 0 {
		return math.NaN()
	}
	worst := 0.0
	for _, v := range c {
		if v.Test.Diverged > 0 {
			return math.Inf(1)
		}
		worst = max(worst, c[best].Test.Mean-v.Test.Mean)
	}
	return worst
}

package stats_test

import (
	"fmt"
	"math"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

// Recall@1 in percent of three seeds. NaN stands for a run without the measure.
func ExampleMean() {
	m := stats.MeanOf([]float64{70, 71, 72, math.NaN()})
	fmt.Printf("%.1f ± %.1f of %d runs\n", m.Mean, m.Std, m.N)
	// Output: 71.0 ± 1.0 of 3 runs
}

// Two rules with three seeds each. The noise is pooled over both, so its 4 degrees of freedom give a shorter interval.
func ExampleNoise() {
	a, b := stats.MeanOf([]float64{70, 71, 72}), stats.MeanOf([]float64{74, 75, 76})
	noise := stats.PoolNoise([]stats.Mean{a, b})
	fmt.Printf("standard deviation %.1f, %d degrees of freedom\n", noise.Std, noise.Freedom)
	d := noise.Difference(b, a)
	fmt.Printf("difference %.1f, from %.2f to %.2f\n", d.Value, d.Low, d.High)
	// Output:
}

// A single run has no interval of its own. Noise known from other runs gives it one.
func ExampleInterval() {
	for _, noise := range []stats.Noise{{}, {Std: 1, Freedom: 20}} {
		i := noise.Around(71, 1)
		fmt.Printf("%.1f, known %v: from %.2f to %.2f\n", i.Value, i.Known(), i.Low, i.High)
	}
	// Output:
}

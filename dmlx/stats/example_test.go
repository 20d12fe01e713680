package stats_test

import (
	"fmt"
	"math"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

// Recall@1 in percent of three seeds. NaN stands for a run without the measure.
func ExampleMean() {
	m := stats.MeanOf([]float64{70, 71, 72, math.NaN()})
	fmt.Println(m, "of", m.N, "runs")
	// Output: 71.0 ± 1.0 of 3 runs
}

// Two rules with three seeds each. The noise is pooled over both, so it has 4 degrees of freedom.
func ExampleNoise() {
	a, b := stats.MeanOf([]float64{70, 71, 72}), stats.MeanOf([]float64{74, 75, 76})
	noise := stats.PoolNoise([]stats.Mean{a, b})
	fmt.Printf("standard deviation %.1f with %d degrees of freedom\n", noise.Std, noise.Freedom)
	// Output: standard deviation 1.0 with 4 degrees of freedom
}

// Two rules with three seeds each, which draw other batches.
func ExampleWelch() {
	test := stats.Welch(stats.MeanOf([]float64{74, 75, 76}), stats.MeanOf([]float64{70, 71, 72}))
	d := test.Difference
	fmt.Printf("difference %.1f, from %.1f to %.1f, p = %.3f\n", d.Value, d.Low, d.High, test.P)
	// Output: difference 4.0, from 1.7 to 6.3, p = 0.008
}

// A single run has no interval of its own. The noise of other runs gives it one.
func ExampleInterval() {
	fmt.Println(stats.Noise{}.Test(71, 1).Difference)
	fmt.Println(stats.Noise{Std: 1, Freedom: 20}.Test(71, 1).Difference)
	// Output:
	// 71.0
	// 71.0 [68.9, 73.1]
}

// Package stats has the statistics of tables of runs. It knows values only, not runs.
//
// In reading order: [Mean] is the mean of a measure over seeds, and [Interval] a value with its 95 % confidence
// interval; [Test] is a difference of means with its p-value; [RankAgreement] compares the order of two lists of means;
// [Noise] is the standard deviation between seeds.
//
// # The method
//
// Every table takes the same one. A difference of means over seeds is tested by Welch's t ([Welch]). It is paired by
// seed ([Paired]) only where runs with the same seed share their batches. Where a table has several tests, Holm's
// correction ([Holm]) decides which of them are significant. A rank correlation has the interval of Bonett and Wright
// ([SpearmanInterval]). A test checks by simulation that the intervals contain the true value in 95 ± 2 % of samples.
//
// Package runs computes the means of its results. Values keep the unit of the measure.
package stats

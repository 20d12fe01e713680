// Package stats has the statistics of tables of runs. It knows values only, not runs.
//
// In reading order: [Mean] is the mean of a measure over seeds; [Noise] is the standard deviation between seeds, pooled
// over many rules, since three seeds of one rule say little; [Interval] is the 95 % confidence interval that the noise
// gives a mean or a difference of means; [Anova] tells how much of the variance of a full grid of rules belongs to the
// direction, the pair weight and the triplet weight.
//
// Package runs computes the means and the noise of its results. Values keep the unit of the measure.
package stats

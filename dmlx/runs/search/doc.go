// Package search finds the rule, its options, the learning rate, the schedule and the batch that train best. It
// maximizes Recall@1 of training classes that are held out of training. The test classes have no influence: a [Record]
// does not contain their recall.
//
// Trials come in brackets. A [Sampler] proposes the points of a bracket from the results of all earlier brackets. Every
// point is trained for a fraction of the epochs, the better half of them for longer, and so on up to the full length:
// successive halving (Jamieson and Talwalkar, AISTATS 2016; with a model: BOHB, Falkner et al., ICML 2018). A shorter
// run has the whole schedule in fewer epochs. It is a run of its own, stored under its own hash, and a longer run does
// not resume it. This is a disadvantage for rules that learn slowly at first; [Search.Agreement] measures how well the
// lengths agree.
//
// The points depend on the [Settings] alone. Neither the number of parallel runs nor interruptions change them, because
// each bracket has its own random seed and is proposed from complete results.
//
// The TPE sampler is our own code, on gonum's distributions, because no Go library gives a repeatable search: goptuna
// (v0.9.0), the only one with TPE, draws from a generator that cannot be seeded, and its densities are wrong (its
// logsumRows adds logarithms where it should add densities).
//
// There is no ranking of parameters by importance. A functional analysis of variance was tried: on forty trials its
// forest explained 0 and 9 % of the variance of the two bundled searches (out of bag), too little to rank anything.
package search

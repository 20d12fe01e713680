// Package figures draws the figures and sets the tables of the paper "Dissecting the impact of different loss
// functions with gradient surgery" (Xuan and Pless).
//
// The package turns scores and arrays into pictures and tables and does nothing else: it computes no gradient, trains
// nothing and reads no file. Each figure and each table has its own file, and what figures are made of, such as rows of
// plots, ranges, heat maps and curves with intervals, is in panels.go. Tables 2 to 4 each vary one part of a rule and
// share one layout ([Comparison]).
//
// A [Figure] is written as SVG, PNG or PDF, a [Table] as text for a terminal, Markdown, CSV, HTML or LaTeX ([Save],
// [Bytes]). Text is drawn as outlines, so a figure looks the same wherever it is opened. Labels are [Markup].
//
// Colors suit readers with any color vision: categories have Okabe and Ito's colors, sequences have viridis, and
// signed values run from blue through white to vermilion.
package figures

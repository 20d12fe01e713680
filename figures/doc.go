// Package figures draws the figures and sets the tables of the paper "Dissecting the impact of different loss functions
// with gradient surgery" (Xuan and Pless).
//
// It is pure: data in, picture or table out. What is drawn comes as plain slices and structs, from whoever measured it;
// the package computes no gradient, trains nothing and reads no file but the paper's printed numbers, which it embeds
// ([Paper]). There is one file per figure and per table; Tables 2 to 4, which vary one part of a rule each, share one ([Compare]).
//
// A [Figure] is written as SVG, PNG or PDF, a [Table] as text for a terminal, Markdown, CSV, HTML or LaTeX ([Save],
// [Bytes]). Text is drawn as outlines, so a figure looks the same wherever it is opened. Labels are [Markup].
//
// Colors are chosen for readers with any kind of color vision: categories are Okabe and Ito's, sequences viridis, and
// what has a sign runs from blue through white to vermilion.
package figures

// Package dmlx is gradient surgery for deep metric learning: a loss is taken for what it does to the embeddings, and
// that is put together anew from parts.
//
// For a triplet of an anchor a, a positive p and a negative n on the unit sphere, with S_ap = f_a·f_p, S_an = f_a·f_n,
// the paper ("Dissecting the impact of different loss functions with gradient surgery", Xuan and Pless) writes the
// gradient of a loss as a unit direction × a pair weight × a triplet weight:
//
//	∂L/∂f_p = T P₊ e_p    ∂L/∂f_n = T P₋ e_n    ∂L/∂f_a = T (P₊ e_ap + P₋ e_an)
//
// A [Rule] is a choice of the three parts, of which each can be one of the paper's or the user's own graph function.
// [Surgery] injects the composed gradient at the L2-normalized embedding inside a GoMLX graph; package dissect returns
// it, with everything that led to it, for a batch on the host.
//
// # Every rule is a matrix
//
// All directions are combinations of f_a, f_p and f_n, and all weights are functions of similarities, so the gradient
// of a batch f [B, D] is G = M f with a matrix M [B, B] that is built from S = f fᵀ: one scatter of a few coefficients
// a triplet and one product, on the device, whatever the number of triplets. A loss written on S has such a matrix too,
// M = ∂L/∂S + (∂L/∂S)ᵀ ([LossMatrix]), so that losses and rules can be looked at in the same terms.
//
// Where to find what: rules and their names in rule.go, directions in direction.go, pair weights in pairweight.go,
// triplet weights and the selective masks in tripletweight.go, the choice of triplets in mining.go, the composition and
// the custom-gradient op in surgery.go, the losses of Table 1 in loss.go, any loss as a matrix in composeloss.go, a
// loss with a part of another in exchange.go.
//
// The package builds graphs and does nothing else: it opens no backend and reads no file. Package dissect runs what it
// builds, packages losses and miners have the losses of the field.
package dmlx

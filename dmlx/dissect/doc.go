// Package dissect takes gradients apart. It computes for a batch on the host, on any backend: the gradient of a rule
// with all that it is made of ([Rule]), the gradient of any loss as a matrix and the pair and triplet weights that the
// loss implies ([Loss]), the same for a gradient that another framework has computed ([FromAutograd]), a rule and a
// loss beside each other ([Compare], [CompareLoss]), the parts that a loss has for one triplet alone ([LossParts],
// [Separate]), and a loss with a part of another ([Exchanged]). [NewCourt] holds many
// losses side by side. [Check] tries a rule of the user's own for faults,
// [Flow] moves embeddings by a rule without a network, and [IdentityOf] tells rules apart. [Compile] and [CompileLoss]
// keep the graphs, for many batches or for a slider.
//
// What can go wrong in a graph is an error of one line here; package dmlx, whose functions build graphs, panics as
// GoMLX does.
package dissect

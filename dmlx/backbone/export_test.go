package backbone

import . "github.com/gomlx/gomlx/core/graph"

// Methods are ways to compute a convolution by an odd kernel on XLA, by name: every method of each of its three parts,
// and every pair of methods of the forward part and the kernel gradient, which share the unfolded image.
func Methods() map[string]func(x, kernel *Node, stride, pad int) *Node {
	out := map[string]func(x, kernel *Node, stride, pad int) *Node{}
	for _, m := range []methods{
		{native, folded, native}, {native, unfolded, unfolded}, {unfolded, native, native}, {unfolded, folded, unfolded},
	} {
		out[string(m.forward+", "+m.input+", "+m.kernel)] = m.convolution
	}
	return out
}

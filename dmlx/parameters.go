package dmlx

import . "github.com/gomlx/gomlx/core/graph"

// Parameters are the numbers of [Options] as float32 scalars of a graph. A graph whose batch has them is compiled once
// and computes a rule for any values; without them a rule's numbers are constants of its graph, as in training. The
// paper's parts read them; a part of the user's own that calls Options.TauValue and its like has that value as a
// constant.
type Parameters struct{ Tau, Alpha, Beta, Lambda, Epsilon *Node }

// parameter is a number of a rule: an input of the graph, or a constant.
type parameter struct {
	input *Node // nil for a constant.
	value float64
}

func (b *Batch) tau() parameter {
	return b.parameter(func(p *Parameters) *Node { return p.Tau }, Options.TauValue)
}

func (b *Batch) alpha() parameter {
	return b.parameter(func(p *Parameters) *Node { return p.Alpha }, Options.AlphaValue)
}

func (b *Batch) beta() parameter {
	return b.parameter(func(p *Parameters) *Node { return p.Beta }, Options.BetaValue)
}

func (b *Batch) lambda() parameter {
	return b.parameter(func(p *Parameters) *Node { return p.Lambda }, Options.LambdaValue)
}

func (b *Batch) epsilon() parameter {
	return b.parameter(func(p *Parameters) *Node { return p.Epsilon }, Options.EpsilonValue)
}

func (b *Batch) parameter(input func(*Parameters) *Node, value func(Options) float64) parameter {
	out := parameter{value: value(b.Options)}
	if b.Parameters != nil {
		out.input = input(b.Parameters)
	}
	return out
}

// neg is −p.
func (p parameter) neg() parameter {
	p.value = -p.value
	if p.input != nil {
		p.input = Neg(p.input)
	}
	return p
}

// times is p x, and plus x + p. A constant and an input of the same value give the same bits on the Go backend.
func (p parameter) times(x *Node) *Node {
	if p.input != nil {
		return Mul(x, p.input)
	}
	return MulScalar(x, p.value)
}

func (p parameter) plus(x *Node) *Node {
	if p.input != nil {
		return Add(x, p.input)
	}
	return AddScalar(x, p.value)
}

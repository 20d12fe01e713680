package losses

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
)

var aboutNormSoftmax = About{
	Name: "norm-softmax", Title: "Normalized softmax", Proxies: true,
	Source: "Zhai, Wu: Classification is a strong baseline for deep metric learning, BMVC 2019, Eq. 5",
	Text:   "mean of −log(exp(S_ay/t) / Σ_z exp(S_az/t)), y the class's weights, z all",
	Peer:   "NormalizedSoftmaxLoss",
}

// NormSoftmax is the cross entropy of a classifier whose weights and inputs are normalized.
type NormSoftmax struct {
	one
	Temperature float64 // t: 0.05.
}

// NewNormSoftmax has the published parameters.
func NewNormSoftmax() *NormSoftmax { return &NormSoftmax{Temperature: 0.05} }

func (l *NormSoftmax) params() []param { return []param{temperature(&l.Temperature)} }

// Of builds the loss.
func (l *NormSoftmax) Of(b *dmlx.LossBatch) *Node {
	needProxies(b, aboutNormSoftmax.Name, 1)
	return crossEntropy(DivScalar(b.SP, l.Temperature), b.Own)
}

var aboutArcFace = About{
	Name: "arcface", Title: "ArcFace", Proxies: true,
	Source: "Deng, Guo, Xue, Zafeiriou: ArcFace, CVPR 2019, Eq. 3",
	Text:   "mean of the cross entropy of γS_az, with cos(θ + m) for S_ay = cos θ of the class's weights",
	Peer:   "ArcFaceLoss. Both go on by S_ay − m sin m where θ + m > π, as the authors' code does",
}

// ArcFace is the additive angular margin loss.
type ArcFace struct {
	one
	Margin float64 // m, in radians: 0.5.
	Gamma  float64 // The scale: 64.
}

// NewArcFace has the published parameters.
func NewArcFace() *ArcFace { return &ArcFace{Margin: 0.5, Gamma: 64} }

func (l *ArcFace) params() []param {
	return []param{angle(&l.Margin), {name: "gamma", at: &l.Gamma}}
}

func angle(at *float64) param {
	return param{name: "margin", at: at, ok: func(v float64) bool { return v >= 0 && v < math.Pi },
		want: "an angle from 0 up to π"}
}

// Of builds the loss.
func (l *ArcFace) Of(b *dmlx.LossBatch) *Node {
	needProxies(b, aboutArcFace.Name, 1)
	return arcFace(b.SP, b.Own, l.Margin, l.Gamma)
}

// arcFace is the loss of the similarities s with classes, [B, C], of which each row has one that is its own.
func arcFace(s, own *Node, margin, gamma float64) *Node {
	sin, cos := math.Sincos(margin)
	// At θ = 0 the sine has no slope that float32 knows; it is 0 there, and so is its gradient.
	height := OneMinus(Square(s))
	there := GreaterThan(height, Scalar(s.Graph(), s.DType(), 1e-6))
	sine := Where(there, Sqrt(Where(there, height, OnesLike(height))), ZerosLike(height))
	turned := Sub(MulScalar(s, cos), MulScalar(sine, sin))
	turned = Where(GreaterOrEqual(s, Scalar(s.Graph(), s.DType(), -cos)), turned, AddScalar(s, -margin*sin))
	return crossEntropy(MulScalar(Where(own, turned, s), gamma), own)
}

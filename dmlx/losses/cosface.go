package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
)

var aboutCosFace = About{
	Name: "cosface", Title: "CosFace", Proxies: true,
	Source: "Wang, Wang, Zhou, Ji, Gong, Zhou, Li, Liu: CosFace, CVPR 2018, Eq. 4 (arXiv 1801.09414)",
	Text:   "mean of the cross entropy of γS_az, with S_ay − m for the S_ay of the class's weights",
	Peer:   "CosFaceLoss; m is its",
}

// CosFace is the additive cosine margin loss.
type CosFace struct {
	one
	Margin float64 // m: 0.35.
	Gamma  float64 // The scale: 64.
}

// NewCosFace has the usual parameters.
func NewCosFace() *CosFace { return &CosFace{Margin: 0.35, Gamma: 64} }

func (l *CosFace) params() []param {
	return []param{{name: "margin", at: &l.Margin}, {name: "gamma", at: &l.Gamma}}
}

// Of builds the loss.
func (l *CosFace) Of(b *dmlx.LossBatch) *Node {
	needProxies(b, aboutCosFace.Name, 1)
	s := Where(b.Own, AddScalar(b.SP, -l.Margin), b.SP)
	return crossEntropy(MulScalar(s, l.Gamma), b.Own)
}

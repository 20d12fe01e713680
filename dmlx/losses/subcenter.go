package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
)

var aboutSubCenter = About{
	Name: "sub-arcface", Title: "Sub-center ArcFace", Proxies: true,
	Source: "Deng, Guo, Liu, Gong, Zafeiriou: Sub-center ArcFace: boosting face recognition by large-scale " +
		"noisy web faces, ECCV 2020, §3",
	Text: "mean of the cross entropy of γS'_ac, S'_ac = max_k S_ack, with cos(θ + m) for S'_ay = cos θ of the class's " +
		"nearest center",
	Peer: "SubCenterArcFaceLoss",
}

// SubCenter is ArcFace with several centers for each class, of which the nearest one counts. The proxies of a class
// stand together.
type SubCenter struct {
	Centers float64 // K, for each class: 3.
	Margin  float64 // m, in radians: 0.5.
	Gamma   float64 // The scale: 64.
}

// NewSubCenter has the published parameters.
func NewSubCenter() *SubCenter { return &SubCenter{Centers: 3, Margin: 0.5, Gamma: 64} }

func (l *SubCenter) params() []param {
	return []param{centers(&l.Centers), angle(&l.Margin), {name: "gamma", at: &l.Gamma}}
}

func (l *SubCenter) perClass() int { return int(l.Centers) }

// Of builds the loss.
func (l *SubCenter) Of(b *dmlx.LossBatch) *Node {
	k := l.perClass()
	needProxies(b, aboutSubCenter.Name, k)
	n, c := b.SP.Shape().Dimensions[0], b.SP.Shape().Dimensions[1]
	return arcFace(ReduceMax(Reshape(b.SP, n, c/k, k), -1), byClass(b.Own, k), l.Margin, l.Gamma)
}

package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
)

var aboutProxyAnchor = About{
	Name: "proxy-anchor", Title: "Proxy-Anchor", Proxies: true,
	Source: "Kim, Kim, Cho, Kwak: Proxy anchor loss for deep metric learning, CVPR 2020, Eq. 4",
	Text: "mean over proxies y with positives of log(1 + Σ_p exp(−α(S_yp−δ))) + mean over all proxies of " +
		"log(1 + Σ_n exp(α(S_yn+δ))); the proxy is the anchor",
	Peer: "ProxyAnchorLoss",
}

// ProxyAnchor is the Proxy-Anchor loss: of each proxy, the embeddings of its class against all others.
type ProxyAnchor struct {
	one
	Alpha float64 // 32
	Delta float64 // 0.1
}

// NewProxyAnchor has the published parameters.
func NewProxyAnchor() *ProxyAnchor { return &ProxyAnchor{Alpha: 32, Delta: 0.1} }

func (l *ProxyAnchor) params() []param {
	return []param{{name: "alpha", at: &l.Alpha}, {name: "delta", at: &l.Delta}}
}

// Of builds the loss.
func (l *ProxyAnchor) Of(b *dmlx.LossBatch) *Node {
	needProxies(b, aboutProxyAnchor.Name, 1)
	own := Transpose(b.Own, 0, 1)
	pull := sumExpOne(MulScalar(AddScalar(b.PS, -l.Delta), -l.Alpha), own)
	push := sumExpOne(MulScalar(AddScalar(b.PS, l.Delta), l.Alpha), LogicalNot(own))
	return Add(mean(pull, LogicalAny(own, 1)), ReduceAllMean(push))
}

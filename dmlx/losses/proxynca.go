package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

var aboutProxyNCA = About{
	Name: "proxy-nca", Title: "Proxy-NCA", Proxies: true,
	Source: "Movshovitz-Attias, Toshev, Leung, Ioffe, Singh: No fuss distance metric learning using proxies, ICCV " +
		"2017, Eq. 6",
	Text: "mean of −log(exp(−τD_ay²) / Σ_z exp(−τD_az²)), y the own proxy, z those of other classes",
	Peer: "ProxyNCALoss, whose z are all proxies: all",
}

// ProxyNCA is the Proxy-NCA loss: of each embedding, its class's proxy against all others.
type ProxyNCA struct {
	one
	Tau float64 // What squared distances are multiplied by: 1.
	All bool    // The own proxy stands in the denominator too.
}

// NewProxyNCA has the published parameters.
func NewProxyNCA() *ProxyNCA { return &ProxyNCA{Tau: 1} }

func (l *ProxyNCA) params() []param {
	return []param{{name: "tau", at: &l.Tau}, {name: "all", on: &l.All}}
}

// Of builds the loss.
func (l *ProxyNCA) Of(b *dmlx.LossBatch) *Node {
	needProxies(b, aboutProxyNCA.Name, 1)
	return proxyNCA(b, l.Tau, l.All)
}

func proxyNCA(b *dmlx.LossBatch, tau float64, all bool) *Node {
	x := MulScalar(square(b.SP), -tau)
	own, any := sumExp(x, b.Own)
	others, some := sumExp(x, LogicalNot(b.Own))
	loss := Sub(others, own)
	if all {
		loss = softplus(loss)
	}
	return mean(graphs.Only(some, loss), any)
}

var aboutProxyNCAPlus = About{
	Name: "proxy-nca++", Title: "Proxy-NCA++", Proxies: true,
	Source: "Teh, DeVries, Taylor: ProxyNCA++, ECCV 2020, Eq. 4 (proxy assignment probability, low temperature)",
	Text:   "mean of −log(exp(−D_ay²/t) / Σ_z exp(−D_az²/t)), z all proxies",
	Peer:   "ProxyNCALoss with the scale 1/t",
}

// ProxyNCAPlus is Proxy-NCA++. What else that paper does, pooling and a higher rate for proxies, is not the loss's.
type ProxyNCAPlus struct {
	one
	Temperature float64 // t: 1/9.
}

// NewProxyNCAPlus has the published parameters.
func NewProxyNCAPlus() *ProxyNCAPlus { return &ProxyNCAPlus{Temperature: 1. / 9} }

func (l *ProxyNCAPlus) params() []param { return []param{temperature(&l.Temperature)} }

// Of builds the loss.
func (l *ProxyNCAPlus) Of(b *dmlx.LossBatch) *Node {
	needProxies(b, aboutProxyNCAPlus.Name, 1)
	return proxyNCA(b, 1/l.Temperature, true)
}

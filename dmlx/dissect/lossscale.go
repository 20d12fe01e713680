package dissect

import (
	"fmt"
	"math/rand/v2"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/dmlx"
)

// LossScale returns the length of a loss's gradient at the normalized embeddings over that of the rule cos/con/con, on
// a batch of random classes with perClass random proxies of each. A loss of scale s trains at about 1/s of the learning
// rate of cos/con/con. It fails where the loss does, and if its gradient is zero or not finite.
func LossScale(b compute.Backend, loss dmlx.LossFunc, perClass int) (float64, error) {
	const classes, images, dim = 8, 4, 16
	e := probeBatch(classes, images, dim, 0.7, 1)
	var p Proxies
	if perClass > 0 {
		rng := rand.New(rand.NewPCG(3, 2))
		p = Proxies{N: classes * perClass, Dim: dim}
		for i := range p.N {
			p.Classes = append(p.Classes, int64(i/perClass))
			for range dim {
				p.Values = append(p.Values, float32(rng.NormFloat64()))
			}
		}
	}
	base, err := Rule(b, e, dmlx.Rule{})
	if err != nil {
		return 0, err
	}
	d, err := Loss(b, e, p, loss)
	if err != nil {
		return 0, err
	}
	scale := norm32(d.G[:d.N*d.Dim]) / norm32(base.G)
	if !(scale > 0) {
		return 0, fmt.Errorf("the gradient on a batch of random classes has the length %g: want a positive one",
			norm32(d.G[:d.N*d.Dim]))
	}
	return scale, nil
}

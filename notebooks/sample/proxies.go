package sample

import (
	"math/rand/v2"

	"github.com/gradient-surgery/dml/dmlx/dissect"
)

// Proxies returns perClass proxies for each class of a batch of [Batch], sorted by class: the mean of its images plus
// Gaussian noise with standard deviation noise in each component. With perClass 0 there are none.
func Proxies(batch dissect.Embeddings, perClass int, noise float64, seed uint64) dissect.Proxies {
	rng := rand.New(rand.NewPCG(seed, 2))
	p := dissect.Proxies{Dim: batch.Dim}
	if perClass == 0 {
		return dissect.Proxies{}
	}
	for from := 0; from < batch.N; {
		to := from
		mean := make([]float64, batch.Dim)
		for ; to < batch.N && batch.Labels[to] == batch.Labels[from]; to++ {
			for j := range mean {
				mean[j] += float64(batch.Values[to*batch.Dim+j])
			}
		}
		for range perClass {
			for j, x := range gaussian(rng, batch.Dim) {
				p.Values = append(p.Values, float32(mean[j]/float64(to-from)+noise*x))
			}
			p.Classes = append(p.Classes, batch.Labels[from])
			p.N++
		}
		from = to
	}
	return p
}

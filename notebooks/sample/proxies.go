package sample

import "github.com/gradient-surgery/dml/dmlx/dissect"

// Proxies returns perClass proxies for each class of a batch of [Batch], sorted by class: the mean of its images plus
// Gaussian noise with standard deviation noise in each component. With perClass 0 there are none.
func Proxies(batch dissect.Embeddings, perClass int, noise float64, seed uint64) dissect.Proxies {
	return dissect.SampleProxies(batch, perClass, noise, seed)
}

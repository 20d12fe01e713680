package dissect

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// Sample returns a batch like that of a half-trained network: random class centers, and around each of them images
// with Gaussian noise; noise 1 is as long as a center. It has classes × images rows of dimension dim, sorted by
// class, and depends only on its arguments.
func Sample(classes, images, dim int, noise float64, seed uint64) Embeddings {
	return sample(rand.New(rand.NewPCG(seed, 0)), classes, images, dim, noise)
}

func sample(rng *rand.Rand, classes, images, dim int, noise float64) Embeddings {
	e := Embeddings{N: classes * images, Dim: dim}
	for class := range classes {
		center := gaussian(rng, dim)
		for range images {
			for i, x := range gaussian(rng, dim) {
				e.Values = append(e.Values, float32(center[i]+noise*x))
			}
			e.Labels = append(e.Labels, int64(class))
		}
	}
	return e
}

// ByClass returns the embeddings of a batch sorted by their labels; those of a class stay in their order.
func ByClass(e Embeddings) Embeddings {
	order := make([]int, len(e.Labels))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(e.Labels[i], e.Labels[j]) })
	sorted := Embeddings{N: len(order), Dim: e.Dim}
	for _, i := range order {
		sorted.Labels = append(sorted.Labels, e.Labels[i])
		sorted.Values = append(sorted.Values, e.Values[i*e.Dim:(i+1)*e.Dim]...)
	}
	return sorted
}

// SampleProxies returns perClass proxies for each class of a batch whose rows are sorted by class: the mean of its
// images plus Gaussian noise with standard deviation noise in each component. With perClass 0 there are none.
func SampleProxies(batch Embeddings, perClass int, noise float64, seed uint64) Proxies {
	rng := rand.New(rand.NewPCG(seed, 2))
	p := Proxies{Dim: batch.Dim}
	if perClass == 0 {
		return Proxies{}
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

func gaussian(rng *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}

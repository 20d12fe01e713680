package backbone_test

import "math/rand/v2"

func normal(seed uint64, dims ...int) []float32 {
	size := 1
	for _, d := range dims {
		size *= d
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	out := make([]float32, size)
	for i := range out {
		out[i] = float32(rng.NormFloat64())
	}
	return out
}

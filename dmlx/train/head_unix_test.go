//go:build unix

package train

import (
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// BenchmarkTenSeeds trains a linear head by ten seeds of 300 steps on 2,000 × 512 features and evaluates them, with the
// compilation. It reports CPU seconds, since other work on the machine changes the time.
func BenchmarkTenSeeds(b *testing.B) {
	data, err := samples.Features("blobs", blobs(100, 20, 512, 1), blobs(50, 20, 512, 2))
	if err != nil {
		b.Fatal(err)
	}
	config, err := Config{Objective: objectives.Objective{Rule: "cos/con/con"}, Dim: 64, ClassesPerBatch: 8,
		ImagesPerClass: 8,
		Epochs:         10, StepsPerEpoch: 30, LR: 0.3}.WithHead("linear")
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range bothTrainers() {
		for _, together := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/together=%v", c.Name, together), func(b *testing.B) {
				cpu := cpuSeconds()
				for range b.N {
					c.Close()
					var all []Training
					for seed := range uint64(10) {
						config.Seed = seed
						all = append(all, Training{Config: config, ID: fmt.Sprint(seed), Data: data, Dir: b.TempDir()})
					}
					if together {
						_, err = c.TrainTogether(b.Context(), all)
					} else {
						for _, training := range all {
							if _, err = c.Train(b.Context(), training); err != nil {
								break
							}
						}
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric((cpuSeconds()-cpu)/float64(b.N), "CPU-s/op")
			})
		}
	}
}

// BenchmarkChosenHead chooses start and training of heads on 4,052 × 1,280 features, the size of those of CARS-196's
// training classes, and trains and evaluates ten seeds, with all compilation.
func BenchmarkChosenHead(b *testing.B) {
	data, err := samples.Features("low rank", lowRank(98, 41, 1280, 32, 1), lowRank(98, 41, 1280, 32, 2))
	if err != nil {
		b.Fatal(err)
	}
	for _, head := range []string{"linear", "mlp"} {
		config, err := Config{Objective: objectives.Objective{Rule: "cos/con/con"}, Dim: 1280, ClassesPerBatch: 8,
			ImagesPerClass: 8, Epochs: 10, StepsPerEpoch: 20, LR: 1}.WithHead(head)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(head, func(b *testing.B) {
			cpu := cpuSeconds()
			for range b.N {
				trainer, err := Open()
				if err != nil {
					b.Fatal(err)
				}
				var all []Training
				for seed := range uint64(10) {
					config.Seed = seed
					all = append(all, Training{Config: config, ID: fmt.Sprint(seed), Data: data, Dir: b.TempDir()})
				}
				outs, err := trainer.TrainTogether(b.Context(), all)
				if err != nil {
					b.Fatal(err)
				}
				trainer.Close()
				b.Log(outs[0].Head)
			}
			b.ReportMetric((cpuSeconds()-cpu)/float64(b.N), "CPU-s/op")
		})
	}
}

// lowRank are classes that differ in some directions, with as much noise in all.
func lowRank(classes, images, dim, rank int, seed uint64) *samples.Array {
	fixed, rng := rand.New(rand.NewPCG(1, 5)), rand.New(rand.NewPCG(seed, 6))
	directions := make([]float64, rank*dim)
	for i := range directions {
		directions[i] = fixed.NormFloat64() / math.Sqrt(float64(rank))
	}
	a := &samples.Array{Dims: []int{dim}}
	for c := range classes {
		center := make([]float64, dim)
		for k := range rank {
			at := rng.NormFloat64()
			for j, v := range directions[k*dim : (k+1)*dim] {
				center[j] += at * v
			}
		}
		for range images {
			for j, v := range center {
				noise := 8.
				if j < dim/2 {
					noise = 4
				}
				a.Values = append(a.Values, float32(v+noise*rng.NormFloat64()))
			}
			a.Classes = append(a.Classes, int64(c)+1000*int64(seed))
		}
	}
	return a
}

func cpuSeconds() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // It fails for bad arguments alone.
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(u.Utime) + seconds(u.Stime)
}

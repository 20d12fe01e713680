//go:build unix

package train

import (
	"fmt"
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

func cpuSeconds() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // It fails for bad arguments alone.
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(u.Utime) + seconds(u.Stime)
}

//go:build unix

package retrieval

import (
	"math/rand/v2"
	"syscall"
	"testing"
)

// BenchmarkIndex searches 100,000 rows of 128 values, for one query and for 1,000.
func BenchmarkIndex(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 0))
	e, q := normal(rng, 100_000, 128, 100), normal(rng, 1000, 128, 100)
	for name, n := range map[string]int{"one": 1, "thousand": 1000} {
		b.Run(name, func(b *testing.B) {
			x := indexOf(b, e)
			var from, to syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &from)
			for b.Loop() {
				if _, err := x.Search(b.Context(), q.Values[:n*128], 10); err != nil {
					b.Fatal(err)
				}
			}
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &to)
			spent := to.Utime.Nano() + to.Stime.Nano() - from.Utime.Nano() - from.Stime.Nano()
			b.ReportMetric(float64(spent)/1e6/float64(b.N), "CPU-ms/op")
		})
	}
}

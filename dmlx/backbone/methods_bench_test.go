package backbone

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx/backend"
	_ "github.com/gradient-surgery/dml/dmlx/backend/xla"
)

// BenchmarkMethods times each convolution and each of its gradients by all methods in turn, for the shapes of the
// small network at 32 px, of the ResNets at 32 and 64 px and at 224 px. It prints the best time of each
// method in ms, and in parentheses how many times as long the native one takes. A star marks what [chooseMethods]
// chooses.
//
//	go test ./dmlx/backbone -run '^$' -bench Methods -benchtime 50x
func BenchmarkMethods(b *testing.B) {
	c, err := backend.Open()
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range benchShapes() {
		b.Run(s.String(), func(b *testing.B) {
			x, kernel := standardNormal(1, s.batch, s.pixels, s.pixels, s.in), standardNormal(2, s.kernel, s.kernel, s.in, s.out)
			after := outputSize(s.pixels, s.kernel, s.stride, s.kernel/2)
			v := standardNormal(3, s.batch, after, after, s.out)
			for _, part := range []string{"forward", "input", "kernel"} {
				var chosen method
				var tried []method
				var execs []*Exec
				for _, m := range []method{native, unfolded, folded} {
					if m == folded && (part != "input" || c.Backend.Name() != "xla") {
						continue
					}
					exec, err := NewExec(c.Backend, func(x, kernel, v *Node) *Node {
						best := chooseMethods(deviceOf(x), x.Shape(), kernel.Shape(), s.stride, s.kernel/2)
						var y *Node
						switch part {
						case "forward":
							chosen = best.forward
							y = methods{m, unfolded, unfolded}.convolution(x, kernel, s.stride, s.kernel/2)
						case "input":
							chosen = best.input
							y = methods{unfolded, m, unfolded}.convolution(x, kernel, s.stride, s.kernel/2)
							y = Gradient(ReduceAllSum(Mul(y, v)), x)[0]
						case "kernel":
							chosen = best.kernel
							y = methods{unfolded, unfolded, m}.convolution(x, kernel, s.stride, s.kernel/2)
							y = Gradient(ReduceAllSum(Mul(y, v)), kernel)[0]
						}
						return ReduceAllMax(y) // Small, so that bringing it to the host takes no time.
					})
					if err != nil {
						b.Fatal(err)
					}
					defer exec.Finalize()
					exec.MustCall(x, kernel, v) // Compiles.
					tried, execs = append(tried, m), append(execs, exec)
				}
				best := make([]time.Duration, len(execs))
				for round := range b.N {
					for i, exec := range execs {
						start := time.Now()
						_ = tensors.ToScalar[float32](exec.MustCall(x, kernel, v)[0]) // Waits for the device.
						if took := time.Since(start); round == 0 || took < best[i] {
							best[i] = took
						}
					}
				}
				if b.N == 1 {
					continue // Testing's own first call.
				}
				var line strings.Builder
				fmt.Fprintf(&line, "%-28s %-8s", s, part)
				for i, m := range tried {
					mark := ' '
					if m == chosen {
						mark = '*'
					}
					ms := best[i].Seconds() * 1e3
					fmt.Fprintf(&line, "  %s%c %8.3f (%5.2f)", m, mark, ms, best[0].Seconds()*1e3/ms)
				}
				fmt.Println(line.String())
			}
		})
	}
}

// convolutionShape is a square convolution of square images.
type convolutionShape struct{ batch, pixels, in, out, kernel, stride int }

func (s convolutionShape) String() string {
	return fmt.Sprintf("%dpx,%d-%d,%dx%d,stride%d,B%d", s.pixels, s.in, s.out, s.kernel, s.kernel, s.stride, s.batch)
}

// benchShapes lists the convolutions of the networks that BenchmarkMethods names, each once.
func benchShapes() []convolutionShape {
	var out []convolutionShape
	seen := map[convolutionShape]bool{}
	for _, of := range []struct {
		arch          Arch
		pixels, batch int
	}{
		{Small, 32, 64}, {ResNet18, 32, 32}, {ResNet50, 32, 32}, {ResNet18, 64, 32}, {ResNet18, 224, 8}, {ResNet50, 224, 8},
	} {
		stem, blocks := networks[of.arch].layers()
		pixels := of.pixels
		add := func(c convolution) {
			s := convolutionShape{of.batch, pixels, c.in, c.out, c.kernel, c.stride}
			if !seen[s] {
				seen[s] = true
				out = append(out, s)
			}
		}
		add(stem)
		pixels = outputSize(pixels, stem.kernel, stem.stride, stem.kernel/2)
		if networks[of.arch].pool {
			pixels = outputSize(pixels, 3, 2, 1)
		}
		for _, b := range blocks {
			if b.downsample != nil {
				add(*b.downsample)
			}
			for _, c := range b.main {
				add(c)
				pixels = outputSize(pixels, c.kernel, c.stride, c.kernel/2)
			}
		}
	}
	return out
}

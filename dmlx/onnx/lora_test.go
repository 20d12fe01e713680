package onnx

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
	"github.com/gradient-surgery/dml/dmlx/internal/onnxpb"
	"github.com/gradient-surgery/dml/dmlx/internal/sampling"
)

// TestLoRA compares features and gradients of a network with low-rank matrices with those of the plain network with
// the merged weights W + s·B·A, where ∂B = s·∂W·Aᵀ and ∂A = s·Bᵀ·∂W. With B = 0 the features are those of the file.
func TestLoRA(t *testing.T) {
	r := referenceOf(t, "vit_tiny")
	plain, err := Read(r.raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, parts := range [][]string{{""}, {"q", "v"}, {"2of2"}} {
		testLoRA(t, plain, r.tensors["x"], parts)
	}
	l := LoRA{Weights: regexp.MustCompile("qkv"), Rank: 2, Alpha: 2}
	net, err := plain.WithLoRA(l)
	if err != nil {
		t.Fatal(err)
	}
	for want, try := range map[string]struct {
		pattern string
		rank    int
		parts   []string
	}{"want a rank from 1 to 24": {"qkv", 25, nil}, "want a rank from 1": {"qkv", 0, nil},
		"of the 8 weights of two axes": {"norm", 2, nil}, "1 to 12": {"qkv", 13, []string{"3of6"}},
		"that 7 divides": {"qkv", 2, []string{"1of7"}}, "want q, k or v": {"qkv", 2, []string{"0of3"}}} {
		_, err := plain.WithLoRA(LoRA{Weights: regexp.MustCompile(try.pattern), Rank: try.rank, Alpha: 1, Parts: try.parts})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := net.WithLoRA(l); err == nil || !strings.Contains(fmt.Sprint(err), "merge") {
		t.Errorf("low-rank matrices beside low-rank matrices: %v", err)
	}
}

func testLoRA(t *testing.T, plain *Network, x values, parts []string) {
	const rank, scale = 3, 0.7
	pattern := regexp.MustCompile(`attn\.qkv|blocks\.1\.mlp\.fc2\.weight`)
	net, err := plain.WithLoRA(LoRA{pattern, parts, rank, scale * rank})
	if err != nil {
		t.Fatal(err)
	}
	if len(plain.Variables())+6*len(parts) != len(net.Variables()) || len(net.adapted) != 3 {
		t.Fatalf("%d and %d variables, %v", len(plain.Variables()), len(net.Variables()), net.adapted)
	}
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		run := func(n *Network, set func(store *model.Store), at []string) [][]float32 {
			store := model.NewStore()
			defer store.Finalize()
			if err := n.Init(store, nil); err != nil {
				t.Fatal(err)
			}
			set(store)
			exec, err := model.NewExec(b, store, func(scope *model.Scope, x *Node) []*Node {
				f := n.Features(scope, x, backbone.Pass{})
				var nodes []*Node
				for _, name := range at {
					nodes = append(nodes, store.GetVariable(variablePath(name)).NodeValue(x))
				}
				return append([]*Node{f}, Gradient(ReduceAllSum(Sin(f)), nodes...)...)
			})
			if err != nil {
				t.Fatal(err)
			}
			defer exec.Finalize()
			outs, err := exec.Call(tensors.FromFlatDataAndDimensions(x.Values, x.Shape...))
			if err != nil {
				t.Fatal(err)
			}
			var all [][]float32
			for _, o := range outs {
				all = append(all, tensors.MustCopyFlatData[float32](o))
			}
			return all
		}
		type pair struct {
			weight, a, b string
			from, to     int
		}
		var low []string
		var pairs []pair
		values, weights := map[string][]float32{}, slices.Sorted(maps.Keys(net.adapted))
		for i, name := range weights {
			for k, part := range parts {
				ofA, ofB := backbone.LowRank(name, part)
				from, to, err := backbone.Rows(part, net.tensors[name].dims[0])
				if err != nil {
					t.Fatal(err)
				}
				low, pairs = append(low, ofA, ofB), append(pairs, pair{name, ofA, ofB, from, to})
				for j, m := range []string{ofA, ofB} {
					rng := sampling.Stream(1, uint64(90+j), uint64(10*i+k))
					for range net.tensors[m].size() {
						values[m] = append(values[m], float32(rng.NormFloat64()/10))
					}
				}
			}
		}
		assign := func(store *model.Store, name string, v []float32) {
			err := store.GetVariable(variablePath(name)).SetValue(tensors.FromFlatDataAndDimensions(v,
				net.tensors[name].dims...))
			if err != nil {
				t.Fatal(err)
			}
		}
		nothing := func(*model.Store) {}
		start := run(net, func(store *model.Store) {
			for _, p := range pairs {
				assign(store, p.a, values[p.a])
			}
		}, low)
		if file := run(plain, nothing, weights); !slices.Equal(start[0], file[0]) {
			t.Error("the start is not the network of the file")
		}
		got := run(net, func(store *model.Store) {
			for name, v := range values {
				assign(store, name, v)
			}
		}, low)
		want := run(plain, func(store *model.Store) {
			for _, name := range weights {
				w, in := plain.tensors[name].float32s(), plain.tensors[name].dims[1]
				for _, p := range pairs {
					if p.weight != name {
						continue
					}
					for i := range (p.to - p.from) * in {
						for k := range rank {
							w[p.from*in+i] += float32(scale * float64(values[p.b][i/in*rank+k]) * float64(values[p.a][k*in+i%in]))
						}
					}
				}
				assign(store, name, w)
			}
		}, weights)
		compare := func(what string, got, want []float32, most float64) {
			var apart, largest float64
			for i := range want {
				apart = max(apart, math.Abs(float64(got[i])-float64(want[i])))
				largest = max(largest, math.Abs(float64(want[i])))
			}
			if !(apart <= most*largest) || len(got) != len(want) {
				t.Errorf("%s: %.1e of %.1e apart", what, apart, largest)
			}
		}
		compare("features", got[0], want[0], 1e-6)
		for i, p := range pairs {
			in, dw := plain.tensors[p.weight].dims[1], want[1+slices.Index(weights, p.weight)]
			da, db := make([]float32, rank*in), make([]float32, (p.to-p.from)*rank)
			for j, d := range dw[p.from*in : p.to*in] {
				row, column := j/in, j%in
				for k := range rank {
					da[k*in+column] += float32(scale * float64(values[p.b][row*rank+k]) * float64(d))
					db[row*rank+k] += float32(scale * float64(values[p.a][k*in+column]) * float64(d))
				}
			}
			compare("gradient of "+p.a, got[1+2*i], da, 1e-5)
			compare("gradient of "+p.b, got[2+2*i], db, 1e-5)
		}
	})
}

// A weight [in, out] and its transpose [out, in] are adapted alike: the same features from the same matrices, of whole
// weights and of parts.
func TestLoRAInOut(t *testing.T) {
	t.Parallel()
	const in, out = 192, 6
	rng := sampling.Stream(1, 2, 0)
	w, turned := make([]float32, in*out), make([]float32, in*out)
	for i := range w {
		w[i] = float32(rng.NormFloat64())
		turned[i%in*out+i/in] = w[i]
	}
	weight := func(values []float32, dims ...int) []byte {
		return bytesField(nil, 5, onnxpb.Tensor("qkv.weight", values, dims...))
	}
	files := map[string][]byte{
		"transB": fileOf(weight(w, out, in), flat, nodeOf("Gemm", "f qkv.weight > features", intAttribute("transB", 1))),
		"Gemm":   fileOf(weight(turned, in, out), flat, nodeOf("Gemm", "f qkv.weight > features")),
		"MatMul": fileOf(weight(turned, in, out), flat, nodeOf("MatMul", "f qkv.weight > features")),
		"Transpose": fileOf(weight(w, out, in), flat, nodeOf("Transpose", "qkv.weight > t"),
			nodeOf("MatMul", "f t > features")),
	}
	x := make([]float32, 2*in)
	for i := range x {
		x[i] = rng.Float32()
	}
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		for _, parts := range [][]string{nil, {"q"}, {"k", "v"}} {
			var want []float32
			for _, kind := range []string{"transB", "Transpose", "Gemm", "MatMul"} {
				plain, err := Read(files[kind])
				if err != nil {
					t.Fatal(err)
				}
				net, err := plain.WithLoRA(LoRA{regexp.MustCompile("qkv"), parts, 2, 3})
				if err != nil {
					t.Fatal(err)
				}
				if names := net.InOut(); (len(names) == 1) != (kind == "Gemm" || kind == "MatMul") {
					t.Errorf("%s: %v", kind, names)
				}
				store := model.NewStore()
				if err := net.Init(store, nil); err != nil {
					t.Fatal(err)
				}
				rng := sampling.Stream(3, 4, 0)
				for _, path := range net.Variables()[1:] {
					v := store.GetVariable(path)
					values := make([]float32, v.Shape().Size())
					for i := range values {
						values[i] = float32(rng.NormFloat64())
					}
					if err := v.SetValue(tensors.FromFlatDataAndDimensions(values, v.Shape().Dimensions...)); err != nil {
						t.Fatal(err)
					}
				}
				exec, err := model.NewExec(b, store, func(scope *model.Scope, x *Node) *Node {
					return net.Features(scope, x, backbone.Pass{})
				})
				if err != nil {
					t.Fatal(err)
				}
				y, err := exec.Call1(tensors.FromFlatDataAndDimensions(x, 2, 8, 8, 3))
				if err != nil {
					t.Fatal(err)
				}
				got := tensors.MustCopyFlatData[float32](y)
				if want == nil {
					want = got
				}
				for i := range want {
					if !(math.Abs(float64(got[i]-want[i])) <= 1e-4) {
						t.Errorf("%s, parts %v: %v, want %v", kind, parts, got, want)
						break
					}
				}
				exec.Finalize()
				store.Finalize()
			}
		}
	})
}

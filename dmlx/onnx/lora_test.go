package onnx

import (
	"fmt"
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
	const rank, scale = 3, 0.7
	pattern := regexp.MustCompile(`attn\.qkv|blocks\.1\.mlp\.fc2\.weight`)
	net, err := plain.WithLoRA(pattern.MatchString, rank, scale)
	if err != nil {
		t.Fatal(err)
	}
	if len(plain.Variables())+6 != len(net.Variables()) || len(net.adapted) != 3 {
		t.Fatalf("%d and %d variables, %v", len(plain.Variables()), len(net.Variables()), net.adapted)
	}
	x := r.tensors["x"]
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
		var weights, low []string
		for name := range net.adapted {
			weights = append(weights, name)
		}
		slices.Sort(weights)
		values := map[string][]float32{}
		for i, name := range weights {
			ofA, ofB := backbone.LowRank(name)
			low = append(low, ofA, ofB)
			for j, m := range []string{ofA, ofB} {
				rng := sampling.Stream(1, uint64(90+j), uint64(i))
				for range net.tensors[m].size() {
					values[m] = append(values[m], float32(rng.NormFloat64()/10))
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
			for _, name := range weights {
				ofA, _ := backbone.LowRank(name)
				assign(store, ofA, values[ofA])
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
				ofA, ofB := backbone.LowRank(name)
				w, in := plain.tensors[name].float32s(), plain.tensors[name].dims[1]
				for i := range w {
					for k := range rank {
						w[i] += float32(scale * float64(values[ofB][i/in*rank+k]) * float64(values[ofA][k*in+i%in]))
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
		for i, name := range weights {
			ofA, ofB := backbone.LowRank(name)
			dims, dw := plain.tensors[name].dims, want[1+i]
			da, db := make([]float32, rank*dims[1]), make([]float32, dims[0]*rank)
			for j, d := range dw {
				row, column := j/dims[1], j%dims[1]
				for k := range rank {
					da[k*dims[1]+column] += float32(scale * float64(values[ofB][row*rank+k]) * float64(d))
					db[row*rank+k] += float32(scale * float64(values[ofA][k*dims[1]+column]) * float64(d))
				}
			}
			compare("gradient of "+ofA, got[1+2*i], da, 1e-5)
			compare("gradient of "+ofB, got[2+2*i], db, 1e-5)
		}
	})
	for want, try := range map[string]struct {
		pattern string
		rank    int
	}{"want a rank from 1 to 24": {"qkv", 25}, "want a rank from 1": {"qkv", 0}, "no weight of two axes": {"norm", 2}} {
		_, err := plain.WithLoRA(regexp.MustCompile(try.pattern).MatchString, try.rank, 1)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := net.WithLoRA(pattern.MatchString, 2, 1); err == nil || !strings.Contains(fmt.Sprint(err), "merge") {
		t.Errorf("low-rank matrices beside low-rank matrices: %v", err)
	}
}

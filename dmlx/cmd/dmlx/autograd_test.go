package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

// A user's gradient from files: what it is made of, and how far it is from a named loss.
func TestDissectAutograd(t *testing.T) {
	t.Setenv("GOMLX_BACKEND", "go")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := backend.Go()
	must(err)
	loss, err := losses.Parse("ms")
	must(err)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	// 12 embeddings in 16 dimensions determine M, in 5 they do not.
	for _, dim := range []int{16, 5} {
		rng := rand.New(rand.NewPCG(1, uint64(dim)))
		e := dissect.Embeddings{N: 12, Dim: dim}
		for i := range e.N {
			e.Labels = append(e.Labels, int64(i/3))
			for range dim {
				e.Values = append(e.Values, float32(rng.NormFloat64()))
			}
		}
		d, err := dissect.Loss(b, e, dissect.Proxies{}, loss.Of)
		must(err)
		mined, err := dissect.Loss(b, e, dissect.Proxies{},
			miners.With(miners.Extreme{Positive: miners.Easy, Negative: miners.Hard}, loss.Of))
		must(err)
		name := func(of string) string { return file(fmt.Sprintf("%s%d.npy", of, dim)) }
		must(npy.WriteFloat32(name("e"), e.Values, e.N, dim))
		must(npy.WriteInt64(name("l"), e.Labels, e.N))
		must(npy.WriteFloat32(name("g"), d.G, e.N, dim))
		must(npy.WriteFloat32(name("raw"), d.Raw, e.N, dim))
		must(npy.WriteFloat32(name("mined"), mined.Raw, e.N, dim))
		must(npy.WriteFloat32(name("w"), d.W, e.N, e.N))
	}
	must(npy.WriteFloat32(file("zero.npy"), make([]float32, 192), 12, 16))
	at := func(dim int, args ...string) []string {
		return append([]string{"dissect", "--embeddings", file(fmt.Sprintf("e%d.npy", dim)), "--labels",
			file(fmt.Sprintf("l%d.npy", dim))}, args...)
	}
	small := func(v map[string]any, names ...string) {
		t.Helper()
		for _, name := range names {
			if x, ok := v[name].(float64); !ok || x > 2e-6 {
				t.Errorf("%s is %v", name, v[name])
			}
		}
	}

	v := object(t, at(16, "--gradient", file("raw16.npy"), "--at", "raw", "--loss", "ms", "--matrix", file("m.npy"),
		"--pairs", file("p.csv"))...)
	small(v, "coordinates", "residual", "lengths", "ambiguity")
	small(v["compared"].(map[string]any), "error")
	if k := v["compared"].(map[string]any); math.Abs(k["constant"].(float64)-1) > 2e-6 || k["name"] != "ms" {
		t.Errorf("%v", k)
	}
	if m, shape, err := npy.ReadFloat32(file("m.npy")); err != nil || len(shape) != 2 || len(m) != 144 {
		t.Errorf("M: %v, %v", shape, err)
	}
	if text, err := os.ReadFile(file("p.csv")); err != nil || strings.Count(string(text), "\n") != 1+12*11 {
		t.Errorf("pairs: %s, %v", text, err)
	}
	v = object(t, at(5, "--gradient", file("g5.npy"), "--rule", "cos/con/con")...)
	small(v, "coordinates", "residual")
	if v["ambiguity"] != 28.0 || v["compared"].(map[string]any)["name"] != "cos/con/con" {
		t.Errorf("%v", v["compared"])
	}
	v = object(t, at(5, "--gradient", file("mined5.npy"), "--at", "raw", "--miner", "easy-positive", "--loss", "ms")...)
	small(v, "coordinates", "residual", "ambiguity")
	small(v["compared"].(map[string]any), "error")
	v = object(t, at(5, "--similarity-gradient", file("w5.npy"))...)
	small(v, "residual", "ambiguity")
	if v["compared"] != nil || v["backend"] != "" {
		t.Errorf("%v", v)
	}
	for want, args := range map[string][]string{
		"ambiguous: 28 of its numbers": at(5, "--gradient", file("g5.npy")),
		"unique":                       at(16, "--gradient", file("g16.npy")),
		"exact, W + Wᵀ":                at(5, "--similarity-gradient", file("w5.npy"), "--gradient", file("g5.npy")),
		"of the miner hard alone":      at(5, "--gradient", file("g5.npy"), "--miner", "hard"),
		"cosine 1":                     at(5, "--similarity-gradient", file("w5.npy"), "--loss", "ms"),
		"the gradient is zero":         at(16, "--gradient", file("zero.npy"), "--loss", "ms"),
	} {
		if code, out, stderr := invoke(t, args...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%q: %d %s %s", want, code, out, stderr)
		}
	}
	for want, args := range map[string][]string{
		"shape [12 5], want [12 16]": at(16, "--gradient", file("g5.npy")),
		"shape [12 5], want [12 12]": at(5, "--similarity-gradient", file("g5.npy")),
		"want normalized or raw":     at(16, "--gradient", file("g16.npy"), "--at", "unit"),
		"one of them at a time":      at(16, "--gradient", file("g16.npy"), "--rule", "ours", "--loss", "ms"),
		"add --gradient":             at(16, "--rule", "ours", "--loss", "ms"),
		"leave out --miner":          at(16, "--similarity-gradient", file("w16.npy"), "--miner", "hard"),
		"belong to a --loss":         at(16, "--gradient", file("g16.npy"), "--proxies", file("e16.npy")),
		"no pair weight \"none\"":    at(16, "--gradient", file("g16.npy"), "--rule", "cos/none/con"),
		"is an input":                at(16, "--gradient", file("g16.npy"), "--matrix", file("g16.npy")),
		"none of that name":          at(16, "--gradient", file("g16.npy"), "--miner", "softest"),
		"has 1 proxies per class":    at(16, "--gradient", file("g16.npy"), "--loss", "arcface"),
	} {
		code, _, stderr := invoke(t, args...)
		last := stderr[strings.LastIndex(strings.TrimSpace(stderr), "\n")+1:]
		if !failed(code) || !strings.Contains(last, want) {
			t.Errorf("%q: code %d, %s", want, code, stderr)
		}
	}
}

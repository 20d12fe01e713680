package train

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// blurred are classes about random centers, with noise that is strong in the directions from some one on.
func blurred(classes, images, dim, from int, strong float64, seed uint64) *samples.Array {
	rng := rand.New(rand.NewPCG(seed, 1))
	a := &samples.Array{Dims: []int{dim}}
	for c := range classes {
		center := make([]float64, dim)
		for j := range center {
			center[j] = rng.NormFloat64()
		}
		for range images {
			for j, m := range center {
				noise := 0.6
				if j >= from {
					noise = strong
				}
				a.Values = append(a.Values, float32(3+m+noise*rng.NormFloat64()))
			}
			a.Classes = append(a.Classes, int64(c)+int64(seed)*1000)
		}
	}
	return a
}

func chosenConfig(t *testing.T, dim int, loss string) Config {
	t.Helper()
	c := tinyConfig()
	c.Dim, c.ClassesPerBatch, c.ImagesPerClass, c.Epochs, c.StepsPerEpoch = dim, 8, 3, 4, 10
	c, err := c.WithHead("linear")
	if err == nil && loss != "" {
		c, err = c.by(ParseLoss(loss))
		c.ProxyLR = map[bool]float64{true: 1}[strings.HasPrefix(loss, "proxy") || loss == "soft-triple"]
	}
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A chosen head is as good as the better of the features and their whitening, its weights give its embeddings, and
// seeds side by side are those alone.
func TestChosenHead(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some ten seconds")
	}
	t.Parallel()
	data, err := samples.Features("blurred", blurred(32, 6, 24, 14, 2.5, 1), blurred(30, 6, 24, 14, 2.5, 2))
	if err != nil {
		t.Fatal(err)
	}
	trainer, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	references, err := trainer.References(t.Context(), data, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(references) != 2 || !(references[1].Recall[1] > references[0].Recall[1]+0.1) {
		t.Fatalf("whitening should help these features: %+v", references)
	}
	if recall, err := RecallOfFeatures(t.Context(), trainer.Choice, data); err != nil ||
		math.Abs(recall-references[0].Recall[1]) > 1e-9 {
		t.Errorf("features: %g, %v, want %g", references[0].Recall[1], err, recall)
	}
	for _, loss := range []string{"", "ms", "proxy-anchor", "soft-triple"} {
		config := chosenConfig(t, 24, loss)
		if loss == "ms" {
			config = chosenConfig(t, 10, loss)
		}
		dir := t.TempDir()
		one := func(seed uint64, name string) Training {
			config := config
			config.Seed = seed
			at := filepath.Join(dir, name)
			if err := os.MkdirAll(at, 0o777); err != nil {
				t.Fatal(err)
			}
			return Training{Config: config, ID: "seed", Data: data, Dir: at}
		}
		outs, err := trainer.TrainTogether(t.Context(), []Training{one(1, "a"), one(2, "b"), one(3, "c")})
		if err != nil {
			t.Fatal(err)
		}
		for _, out := range outs {
			if loss != "ms" && out.Recall[1] < references[1].Recall[1]-0.02 || out.Head == nil || out.Head.Folds != 5 ||
				out.Head.Start != "whitened" {
				t.Errorf("%s: Recall@1 %g, whitened features %g, choice %v", config.Objective.String(), out.Recall[1],
					references[1].Recall[1], out.Head)
			}
		}
		if loss == "ms" && outs[0].Head.Price == 0 {
			t.Errorf("fewer dimensions have no price: %v", outs[0].Head)
		}
		alone, err := trainer.Train(t.Context(), one(2, "alone"))
		if err != nil {
			t.Fatal(err)
		}
		if alone.Files[EmbeddingsFile] != outs[1].Files[EmbeddingsFile] {
			t.Errorf("%s: a seed alone has other embeddings than beside others", config.Objective.String())
		}
		// The weights are those of a plain linear head.
		want, _, err := npy.ReadFloat32(filepath.Join(dir, "a", EmbeddingsFile))
		if err != nil {
			t.Fatal(err)
		}
		checkpoint, err := ReadCheckpoint(filepath.Join(dir, "a"))
		if err != nil {
			t.Fatal(err)
		}
		weights, err := os.ReadFile(filepath.Join(dir, "a", CheckpointDir, checkpoint.Weights))
		if err != nil {
			t.Fatal(err)
		}
		got, err := trainer.Embed(t.Context(), config, weights, data, data.Test, samples.All(data.Test))
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range want {
			if v != got.Values[i] {
				t.Fatalf("%s: value %d of the embeddings is %g by the weights, want %g", config.Objective, i, got.Values[i],
					v)
			}
		}
	}
}

// Where nothing is to be gained the features stay as they are; so they do below four classes, which is said.
func TestChosenHeadKeepsFeatures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	for classes, want := range map[int]string{40: "no training", 3: "too few classes"} {
		data, err := samples.Features("round", blurred(classes, 6, 12, 12, 0, 5), blurred(30, 6, 12, 12, 0, 6))
		if err != nil {
			t.Fatal(err)
		}
		trainer, err := Open()
		if err != nil {
			t.Fatal(err)
		}
		c := chosenConfig(t, 12, "")
		c.ClassesPerBatch = 3
		out, err := trainer.Train(t.Context(), Training{Config: c, ID: "x", Data: data, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		features, err := RecallOfFeatures(t.Context(), trainer.Choice, data)
		if err != nil {
			t.Fatal(err)
		}
		text := out.Head.String()
		if math.Abs(out.Recall[1]-features) > 0.02 || classes == 3 && !strings.Contains(text, want) {
			t.Errorf("%d classes: Recall@1 %g, features %g; %s", classes, out.Recall[1], features, text)
		}
	}
}

// The linear map of a block is what its coordinates and its trained matrix say, cut or not.
func TestLinearOfBlock(t *testing.T) {
	t.Parallel()
	b, err := goBackend()
	if err != nil {
		t.Fatal(err)
	}
	a, err := newAlgebra(b)
	if err != nil {
		t.Fatal(err)
	}
	defer a.free()
	of := blurred(9, 12, 70, 30, 2, 3)
	rows := featureRows{matrix{of.Values, len(of.Classes), 70}, of.Classes}
	m, err := momentsOf(a, rows)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, dim := range []int{70, 66, 20} {
		for i := range 2 + len(shrinkages) {
			start, err := m.start(a, i)
			if err != nil {
				t.Fatal(err)
			}
			block, err := newBlock(a, start, rows, dim)
			if err != nil {
				t.Fatal(err)
			}
			trained := make([]float32, block.k*block.k)
			for i := range trained {
				trained[i] = float32(rng.NormFloat64())
			}
			weight, bias := block.linear(trained, 70)
			inner := func(x [][]float64) (out []float64) {
				for i := range 5 {
					for j := range 5 {
						out = append(out, floats.Dot(x[i], x[j])/floats.Norm(x[i], 2)/floats.Norm(x[j], 2))
					}
				}
				return out
			}
			var direct, linear [][]float64
			for i := range 5 {
				z := block.data.Train.(*samples.Array).Values[i*block.width : (i+1)*block.width]
				var moved, mapped []float64
				for r := range block.k {
					sum := 0.0
					for j := range block.k {
						sum += float64(trained[r*block.k+j]) * float64(z[j])
					}
					moved = append(moved, sum)
				}
				for _, v := range z[block.k:] {
					moved = append(moved, float64(v))
				}
				for r := range bias {
					sum := bias[r]
					for j, w := range weight.RawRowView(r) {
						sum += w * float64(rows.row(i)[j])
					}
					mapped = append(mapped, sum)
				}
				if len(mapped) != dim {
					t.Fatalf("%d dimensions, want %d", len(mapped), dim)
				}
				direct, linear = append(direct, moved), append(linear, mapped)
			}
			want := inner(direct)
			for k, v := range inner(linear) {
				if math.Abs(v-want[k]) > 2e-4 {
					t.Fatalf("dim %d, start %d: cosine %g, want %g", dim, i, v, want[k])
				}
			}
		}
	}
}

// The root of a large matrix by blocks inverts its Cholesky factor; one that is not positive definite has none.
func TestInverseRoot(t *testing.T) {
	t.Parallel()
	b, err := goBackend()
	if err != nil {
		t.Fatal(err)
	}
	a, err := newAlgebra(b)
	if err != nil {
		t.Fatal(err)
	}
	defer a.free()
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 256, 257, 531} {
		x, p := mat.NewDense(n, 2*n, nil), mat.NewDense(n, n, nil)
		x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
		p.Mul(x, x.T())
		root, err := a.inverseRoot(p)
		if err != nil || root == nil {
			t.Fatalf("%d: %v, %v", n, root, err)
		}
		var left, one mat.Dense
		left.Mul(root, p)
		one.Mul(&left, root.T())
		for i := range n {
			for j := range n {
				want := 0.
				if i == j {
					want = 1
				}
				if math.Abs(one.At(i, j)-want) > 1e-9 || j > i && root.At(i, j) != 0 {
					t.Fatalf("%d: (%d, %d) of L⁻¹ P L⁻ᵀ is %g; L⁻¹ has %g there", n, i, j, one.At(i, j), root.At(i, j))
				}
			}
		}
		p.Set(n-1, n-1, -1)
		if root, err := a.inverseRoot(p); root != nil || err != nil {
			t.Errorf("%d, not positive definite: %v, %v", n, root, err)
		}
	}
}

// MAP@R and Recall@1 by inner products worked out by hand; where they are not finite all is wrong.
func TestRank(t *testing.T) {
	t.Parallel()
	s := matrix{[]float32{
		4, 1.8, 1, 1.6, // Positives 1 and 2 at places 1 and 3: MAP@R (1/1 + 0)/2.
		1.8, 1, 0.9, 0.1, // Places 1 and 2: 1.
		1, 0.9, 1, 0.95, // The negative 3 comes first, then 1: places 2 and 3, (1/2 + 0)/2.
		1.6, 0.1, 0.95, 1, // No positive.
	}, 4, 4}
	labels := []int64{1, 1, 1, 2}
	got, err := rank(s, labels)
	if want := (scores{(0.5 + 1 + 0.25) / 3, 2. / 3}); err != nil || math.Abs(got.mapR-want.mapR) > 1e-12 ||
		got.recall != want.recall {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	s.values[3] = float32(math.NaN())
	if got, err := rank(s, labels); err != nil || got != (scores{}) {
		t.Errorf("with NaN: %+v, %v", got, err)
	}
}

// What chosen heads cannot be is said before work starts, and specs of former versions keep their JSON.
func TestChosenHeadRefuses(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"options of linear?start=random": func(c *Config) { c.Optimizer = "adam" },
		"want chosen for a linear head":  func(c *Config) { c.Head = "mlp" },
		"without a head":                 func(c *Config) { c.Head, c.Arch = "", "small" },
	} {
		c := chosenConfig(t, 4, "")
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want …%s…", err, want)
		}
	}
	c, err := tinyConfig().WithHead("linear?start=random")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(c)
	if err != nil || strings.Contains(string(raw), "start") || !strings.Contains(string(raw), `"head":"linear"`) {
		t.Errorf("%v %s", err, raw)
	}
	if c.Network() != "head linear?start=random" {
		t.Errorf("the network is %s", c.Network())
	}
	data, err := samples.Features("x", blurred(8, 4, 6, 3, 2, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := chosenConfig(t, 7, "").fitsModel(data); err == nil || !strings.Contains(err.Error(), "at most as many") {
		t.Errorf("7 dimensions of 6 features: %v", err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	trainer, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	config := chosenConfig(t, 6, "")
	config.ClassesPerBatch = 2
	if _, err := trainer.Train(stopped, Training{Config: config, ID: "x", Data: data, Dir: t.TempDir()}); err == nil {
		t.Error("a stopped training went on")
	}
}

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

	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
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
		c, err = c.by(objectives.ParseLoss(loss))
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
	data, err := samples.Features("blurred", blurred(40, 6, 24, 5, 6, 1), blurred(30, 6, 24, 5, 6, 2))
	if err != nil {
		t.Fatal(err)
	}
	trainer, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	references, err := trainer.References(t.Context(), Training{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	if len(references) != 2 || !(references[1].Recall[1] > references[0].Recall[1]+0.1) {
		t.Fatalf("whitening should help these features: %+v", references)
	}
	test := data.Test.(*samples.Array)
	plain, err := retrieval.Evaluate(t.Context(), trainer.Backend,
		&retrieval.Embeddings{Values: test.Values, Dim: test.Dims[0], Labels: test.Classes}, nil, []int{1})
	if err != nil || math.Abs(plain.Recall[1]-references[0].Recall[1]) > 1e-9 {
		t.Errorf("features: %g, %v, want %+v", references[0].Recall[1], err, plain)
	}
	for _, loss := range []string{"", "ms", "proxy-nca", "soft-triple"} {
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
			if out.Recall[1] < references[1].Recall[1] || out.Head == nil || out.Head.Folds != 5 || out.Head.Shrinkage == 0 ||
				out.Head.Steps == 0 {
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
		references, err := trainer.References(t.Context(), Training{Data: data})
		if err != nil {
			t.Fatal(err)
		}
		features := references[0].Recall[1]
		text := out.Head.String()
		if math.Abs(out.Recall[1]-features) > 0.02 || classes == 3 && !strings.Contains(text, want) {
			t.Errorf("%d classes: Recall@1 %g, features %g; %s", classes, out.Recall[1], features, text)
		}
	}
}

// What chosen heads cannot be is said before work starts, and specs of former versions keep their JSON.
func TestChosenHeadRefuses(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"options of a head with start=": func(c *Config) { c.Optimizer = "adam" },
		"does not train: want chosen-3": func(c *Config) { c.HeadStart = "chosen" },
		"without a head":                func(c *Config) { c.Head, c.Arch = "", "small" },
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
	if err := chosenConfig(t, 7, "").Fits(data, 0); err == nil || !strings.Contains(err.Error(), "at most as many") {
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

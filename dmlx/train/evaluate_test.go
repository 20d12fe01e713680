package train

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/samples"
)

// The step of evaluation is compiled beside the training. A training that is stopped waits for it, and the next one
// finds it in the cache and ends with the bits of a trainer that compiled it afterwards.
func TestEvaluationIsCompiledBesideTraining(t *testing.T) {
	all := bothTrainers()
	if all[len(all)-1].Name != "xla:cpu" {
		t.Skip("needs XLA on a CPU")
	}
	trainer := New(all[len(all)-1].Choice)
	defer trainer.Close()
	c, data := tinyConfig(), samples.Images(tinySet(t, 6))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := Training{Config: c, ID: "tiny", Data: data, Dir: t.TempDir(), Progress: func(Progress) { cancel() }}
	if _, err := trainer.Train(ctx, stopped); !errors.Is(err, context.Canceled) {
		t.Fatalf("a training that was stopped: %v", err)
	}
	if !trainer.caches(c.network()) {
		t.Fatal("the step of evaluation is not in the cache")
	}
	embeddings := func() []byte {
		dir := t.TempDir()
		if _, err := trainer.Train(t.Context(), Training{Config: c, ID: "tiny", Data: data, Dir: dir}); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(dir, EmbeddingsFile))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	ahead := embeddings()
	trainer.Close()
	e, err := trainer.evaluationStep(c)
	if err != nil {
		t.Fatal(err)
	}
	trainer.keep(e) // Not compiled, so that the evaluation does it.
	if !bytes.Equal(ahead, embeddings()) {
		t.Error("embeddings depend on when the step of evaluation is compiled")
	}
}

// Without a data set there is an error, and without samples all are embedded.
func TestEmbedWithoutData(t *testing.T) {
	t.Parallel()
	trainer := &Trainer{}
	if _, err := trainer.Embed(t.Context(), Config{}, nil, nil, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "no data to embed") {
		t.Error(err)
	}
	a := &samples.Array{Dims: []int{1}, Values: []float32{1, 2}, Classes: []int64{1, 2}}
	_, err := trainer.Embed(t.Context(), Config{}, nil, &samples.Data{Train: a, Test: a}, a, []int{2})
	if err == nil || !strings.Contains(err.Error(), "sample 2 of 2") {
		t.Error(err)
	}
}

package train

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
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
	c, data := tinyConfig(), Images(tinySet(t, 6))
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

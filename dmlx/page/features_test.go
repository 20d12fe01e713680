package page

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/heads"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/page/internal/engine"
	"github.com/gradient-surgery/dml/dmlx/pretrain"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/samples"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// featuresFile has the features that heads are trained on in the page: those of minicar's images by the pretrained
// small network, a byte each. It is kept, since computing it takes some ten seconds.
const featuresFile = "web/features.gz"

// minicarFeatures computes the bytes and returns them with the data set that heads are trained on, whose samples are
// the bytes.
func minicarFeatures(t *testing.T) (codes []byte, data *samples.Data) {
	t.Helper()
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	set, err := datasets.Open("minicar", datasets.Options{Size: 32})
	if err != nil {
		t.Fatal(err)
	}
	training, test, err := pretrain.Features(t.Context(), &backend.Choice{Backend: b}, backbone.Pretrained(), set)
	if err != nil {
		t.Fatal(err)
	}
	most := float32(0)
	for _, a := range []*samples.Array{training, test} {
		for _, v := range a.Values { // They come from a ReLU: 0 or more.
			most = max(most, v)
		}
	}
	for _, a := range []*samples.Array{training, test} {
		for i, v := range a.Values {
			codes = append(codes, byte(math.Round(float64(v)*255/float64(most))))
			a.Values[i] = float32(codes[len(codes)-1])
		}
	}
	if data, err = samples.Features("minicar", training, test); err != nil {
		t.Fatal(err)
	}
	return codes, data
}

// readFeatures reads the kept file.
func readFeatures(t *testing.T) (raw []byte, header engine.FeaturesHeader, codes []byte) {
	t.Helper()
	packed, err := os.ReadFile(featuresFile)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = io.ReadAll(z); err != nil {
		t.Fatal(err)
	}
	head, codes, _ := bytes.Cut(raw, []byte("\n"))
	if err := json.Unmarshal(head, &header); err != nil {
		t.Fatal(err)
	}
	return raw, header, codes
}

// TestFeatures computes the page's features anew. Processors round differently, so a byte may be the next one.
func TestFeatures(t *testing.T) {
	if testing.Short() {
		t.Skip("embeds all images of minicar")
	}
	codes, data := minicarFeatures(t)
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	references, err := heads.References(t.Context(), b, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	measured, err := retrieval.Evaluate(t.Context(), b, references[0].Queries, nil, []int{1})
	if err != nil {
		t.Fatal(err)
	}
	recall := measured.Recall[1]
	if *regen {
		head, err := json.Marshal(engine.FeaturesHeader{Data: data.Name, Scale: data.Scale, Shift: data.Shift,
			Train: data.Train.Labels(), Test: data.Test.Labels(), Recall: recall})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range [][]byte{head, []byte("\n"), codes} {
			if _, err := z.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(featuresFile, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, header, kept := readFeatures(t)
	if len(kept) != len(codes) || math.Abs(header.Recall-recall) > 0.01 {
		t.Fatalf("%d bytes and Recall@1 %.3f; want %d and %.3f", len(kept), header.Recall, len(codes), recall)
	}
	for i, c := range codes {
		if d := int(c) - int(kept[i]); d < -1 || d > 1 {
			t.Fatalf("byte %d is %d, now %d", i, kept[i], c)
		}
	}
}

// TestLearnsAsTrain trains heads by the page's engine and by package train on the Go backend: the same bits, step by
// step, and the same Recall@1.
func TestLearnsAsTrain(t *testing.T) {
	raw, header, codes := readFeatures(t)
	width := len(header.Scale)
	array := func(labels []int64, from int) *samples.Array {
		a := &samples.Array{Dims: []int{width}, Classes: labels}
		for _, c := range codes[from*width : (from+len(labels))*width] {
			a.Values = append(a.Values, float32(c))
		}
		return a
	}
	data, err := samples.Features(header.Data, array(header.Train, 0), array(header.Test, len(header.Train)))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(data.Scale, header.Scale) || !slices.Equal(data.Shift, header.Shift) {
		t.Error("the file's features are scaled otherwise than samples.Features does")
	}
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	trainer := train.New(&backend.Choice{Backend: b})
	defer trainer.Close()
	e, err := engine.New()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Answer("learnFrom", nil, map[string][]byte{"features": raw}); err != nil {
		t.Fatal(err)
	}
	const dim, steps, rate, seed = 16, 12, 0.5, 3
	for _, subject := range []string{"cos/con/con", "cos-orth/lin-ms/cir?tau=2", "euc/sig/cos+sc1", "loss:ms",
		"loss:contrastive"} {
		t.Run(subject, func(t *testing.T) {
			objective, argument := objectives.Objective{}, ""
			if name, is := strings.CutPrefix(subject, "loss:"); is {
				argument = `"loss":"` + name + `"`
				if objective, err = objectives.ParseLoss(name); err != nil {
					t.Fatal(err)
				}
			} else {
				argument = `"rule":"` + subject + `"`
				rule, err := dmlx.ParseRule(subject)
				if err == nil {
					objective, err = objectives.ByRule(rule)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			config, err := train.Config{Objective: objective, Dim: dim, ClassesPerBatch: 8, ImagesPerClass: 4, Epochs: 1,
				StepsPerEpoch: steps, LR: rate, Decay: 1, Seed: seed}.WithHead("linear?start=random")
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			out, err := trainer.Train(t.Context(), train.Training{Config: config, ID: "x", Data: data, Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			checkpoint, err := train.ReadCheckpoint(dir)
			if err != nil {
				t.Fatal(err)
			}
			weights, err := os.ReadFile(filepath.Join(dir, train.CheckpointDir, checkpoint.Weights))
			if err != nil {
				t.Fatal(err)
			}
			arrays := map[string][]byte{}
			var got engine.Object
			for step := 0; step < steps; step += steps / 3 { // In three requests, as the page asks.
				asked := `{%s,"dim":%d,"seed":%d,"rate":%v,"step":%d,"steps":%d,"measure":true}`
				got, err = e.Answer("learn", fmt.Appendf(nil, asked, argument, dim, seed, rate, step, steps/3), arrays)
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"weight", "bias"} {
					if arrays[name], err = binary.Append(nil, binary.LittleEndian, got[name]); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, name := range []string{"weight", "bias"} {
				if !bytes.Contains(weights, arrays[name]) {
					t.Errorf("%s has other bits than package train's", name)
				}
			}
			if got["recall"] != out.Recall[1] || out.Recall[1] < 0.3 {
				t.Errorf("Recall@1 %v; package train has %v", got["recall"], out.Recall[1])
			}
		})
	}
}

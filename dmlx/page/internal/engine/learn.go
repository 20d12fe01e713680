package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/internal/sampling"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
)

// A batch of a head's training, and the test classes that are drawn.
const (
	headClasses, headImages = 8, 4
	drawnClasses            = 8
)

// FeaturesHeader is the first line of a file of frozen features. Behind it is a byte for each feature of each sample,
// of the training samples first. A feature is its byte, times Scale and plus Shift.
type FeaturesHeader struct {
	Data         string    // The data set.
	Scale, Shift []float32 // [features] each.
	Train, Test  []int64   // Labels.
}

// features are those of a file.
type features struct {
	FeaturesHeader
	train, test []float32
}

// mostHeadSteps is the most steps of a request.
const mostHeadSteps = 100

// head returns the one that training starts from: the embedding has the first features, as they are. Those of a file
// are coordinates along its principal axes, so that the first dim tell most about a sample.
func (f *features) head(dim int) dissect.Head {
	width := len(f.Scale)
	h := dissect.Head{Features: width, Dim: dim, Weight: make([]float32, dim*width), Bias: make([]float32, dim)}
	for i := range dim {
		h.Weight[i*width+i] = 1
	}
	return h
}

// learnFrom takes frozen features to train heads on, and measures the features themselves.
func (e *Engine) learnFrom(q *request) (Object, error) {
	head, codes, whole := bytes.Cut(q.arrays["features"], []byte("\n"))
	f := &features{}
	if err := json.Unmarshal(head, &f.FeaturesHeader); !whole || err != nil {
		return nil, errors.New("the file of features is damaged")
	}
	width, train, test := len(f.Scale), len(f.Train), len(f.Test)
	if width == 0 || len(f.Shift) != width || len(codes) != (train+test)*width || train == 0 || test < 2 {
		return nil, fmt.Errorf("the file of features is damaged: %d bytes for %d samples of %d features", len(codes),
			train+test, width)
	}
	values := slice.Map(codes, func(c byte) float32 { return float32(c) })
	f.train, f.test = values[:train*width], values[train*width:]
	e.features = f
	out := Object{"data": f.Data, "features": width, "train": train, "test": test, "rows": headClasses * headImages}
	return out, e.measureHead(f.head(width), out)
}

// learn takes steps of a head's training by a rule or a loss, and measures it.
func (e *Engine) learn(q *request) (Object, error) {
	f := e.features
	if f == nil {
		return nil, errors.New("there are no features yet; ask for learnFrom first")
	}
	s, err := q.subject()
	if err != nil {
		return nil, err
	}
	if s.loss != nil && losses.PerClass(s.loss) > 0 {
		return nil, fmt.Errorf("loss %s has proxies, which the page does not train: choose a rule or another loss", s.loss)
	}
	steps, rate, seed, width := given(q.Steps, 0), given(q.Rate, 0), given(q.Seed, 1), len(f.Scale)
	if steps < 0 || steps > mostHeadSteps || q.Step < 0 || q.Dim < 1 || q.Dim > width ||
		!(rate >= 0 && rate <= 100) {
		return nil, fmt.Errorf("%d steps from step %d at the rate %v for embeddings of %d dimensions; want 0 to %d steps, a "+
			"rate from 0 to 100 and 1 to %d dimensions", steps, q.Step, rate, q.Dim, mostHeadSteps, width)
	}
	h := f.head(q.Dim)
	if q.arrays["weight"] != nil {
		if h.Weight, err = q.floats("weight"); err != nil {
			return nil, err
		}
		if h.Bias, err = q.floats("bias"); err != nil {
			return nil, err
		}
	}
	if len(h.Weight) != q.Dim*width || len(h.Bias) != q.Dim {
		return nil, fmt.Errorf("%d weights and %d biases for %d dimensions; want %d and %d", len(h.Weight), len(h.Bias),
			q.Dim, q.Dim*width, q.Dim)
	}
	sampler, err := sampling.New(f.Train, nil, headClasses, headImages, seed)
	if err != nil {
		return nil, err
	}
	var sap, san, violations []float32
	for i := range steps {
		b := dissect.HeadBatch{Scale: f.Scale, Shift: f.Shift}
		for _, k := range sampler.Batch(q.Step + i) {
			b.Values = append(b.Values, f.train[k*width:(k+1)*width]...)
			b.Labels = append(b.Labels, f.Train[k])
		}
		var t dissect.HeadTriplets
		if s.loss != nil {
			h, t, err = e.compiledLoss(s.loss).TrainHead(h, b, rate)
		} else {
			h, t, err = e.compiledRule(s.rule).TrainHead(h, b, s.rule.Options, rate)
		}
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", q.Step+i+1, err)
		}
		sap, san = append(sap, float32(t.Sap)), append(san, float32(t.San))
		violations = append(violations, float32(t.Violations))
	}
	out := Object{"name": s.name(), "step": q.Step + steps, "dim": q.Dim, "weight": h.Weight, "bias": h.Bias, "sap": sap,
		"san": san, "violations": violations}
	if !q.Measure {
		return out, nil
	}
	return out, e.measureHead(h, out)
}

// measureHead adds the Recall@1 of the test samples, the similarity of each to the nearest one of its class and to the
// nearest one of another, its triplet, and the embeddings of the first test classes.
func (e *Engine) measureHead(h dissect.Head, out Object) error {
	f := e.features
	embedded, err := h.Embed(e.backend, dissect.HeadBatch{Values: f.test, Scale: f.Scale, Shift: f.Shift, Labels: f.Test})
	if err != nil {
		return err
	}
	all := &dmlx.Embeddings{Values: embedded, N: len(f.Test), Dim: h.Dim, Labels: f.Test}
	ranked, err := retrieval.Evaluate(context.Background(), e.backend, all, nil, []int{1})
	if err != nil {
		return err
	}
	n := slices.IndexFunc(f.Test, func(l int64) bool { return l >= f.Test[0]+drawnClasses })
	if n < 0 {
		n = len(f.Test)
	}
	out["recall"], out["positive"], out["negative"] = ranked.Recall[1], ranked.NearestPositive, ranked.NearestNegative
	out["n"] = n
	out["F"], out["labels"] = embedded[:n*h.Dim], int32s(f.Test[:n])
	return nil
}

package train

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/heads"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// rateFactors are the learning rates that [ChosenTraining] tries, as factors of the config's. starts.md has what it
// chose for photographs.
var rateFactors = []float64{0.1, 0.3, 1}

// FeatureWidth returns the number of features before the last layer of a backbone or of the network of a file.
func (c Config) FeatureWidth() (int, error) {
	if c.NetworkFile == "" {
		return backbone.Arch(c.Arch).Width(), nil
	}
	n, err := c.opened()
	if err != nil {
		return 0, err
	}
	return n.Width, nil
}

// Normalizes tells whether a backbone or the network of a file has batch normalization.
func (c Config) Normalizes() (bool, error) {
	if c.NetworkFile == "" {
		return true, nil
	}
	n, err := c.opened()
	return err == nil && n.Normalizes(), err
}

// validateStart reports what is wrong with a start that is chosen.
func (c Config) validateStart() error {
	if c.Start == "" {
		return nil
	}
	width, err := c.FeatureWidth()
	switch {
	case err != nil:
		return err
	case c.Head != "":
		return fmt.Errorf("start %q is one of networks on images: the head %s says its own", c.Start, c.Head)
	case width == 0 || c.Weights != Pretrained:
		return fmt.Errorf("start %q is chosen for the features of a pretrained backbone or of the network of a file, and %s "+
			"has %s weights: want start=%s", c.Start, c.Network(), c.Weights, Random)
	case c.Dim > width:
		return fmt.Errorf("%s has %d features: want at most as many dimensions, not %d, or start=%s", c.Network(), width,
			c.Dim, Random)
	}
	return nil
}

// fitsStart returns an error if a data set has too few classes to hold some out, as the start of a config asks for.
func (c Config) fitsStart(data *samples.Data, without map[int64]bool) error {
	if c.Start == "" {
		return nil
	}
	width, err := c.FeatureWidth()
	if err != nil {
		return err
	}
	n := len(samples.NumberClasses(data.Train.Labels(), without))
	if _, trained := heads.Folds(n, width); trained < c.ClassesPerBatch || trained == 0 {
		return fmt.Errorf("of %d training classes %d are left to train on where some are held out to choose by, and a batch "+
			"takes %d: want more classes, fewer in a batch, or start=%s", n, trained, c.ClassesPerBatch, Random)
	}
	return nil
}

// setLast sets the last layer to what it starts from, if that is given.
func (s *session) setLast() error {
	if s.last == nil {
		return nil
	}
	n := len(s.last.Bias)
	if err := backbone.SetVariable(s.step.weights, headScope+"weight", s.last.Weight,
		[]int{n, len(s.last.Weight) / n}, true); err != nil {
		return err
	}
	return backbone.SetVariable(s.step.weights, headScope+"bias", s.last.Bias, []int{n}, true)
}

// chooseTraining chooses what [Options].Start asks for, unless the checkpoint has that, and writes a checkpoint before
// the first epoch. A training that is not to be done gets no epochs.
func (s *session) chooseTraining(ctx context.Context, of Training) error {
	if s.state.Head == nil {
		choice, last, err := s.trainer.chooseStart(ctx, of, s.heldOut)
		if err != nil {
			return err
		}
		if err := s.startFrom(choice, last); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(trialsDir(s.Dir)); err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	s.Config = s.Config.chosen(s.state.Head.Network)
	if s.state.Head.Steps == 0 {
		return s.untrained()
	}
	return nil
}

// untrained leaves a network as it started. A checkpoint of that comes before.
func (s *session) untrained() error {
	s.Epochs = 0
	if err := os.RemoveAll(filepath.Join(s.Dir, TripletsDir)); err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	return nil
}

// startFrom initializes the network with what was chosen and writes a checkpoint.
func (s *session) startFrom(choice *heads.Choice, last *onnx.Linear) (err error) {
	s.step.free() // The trials have compiled one, and a training has changed its weights.
	if s.step, err = s.trainer.trainingStep(s.Config, len(s.classes)); err != nil {
		return err
	}
	s.last, s.state.Head = last, choice
	s.state.Seconds += time.Since(s.started).Seconds()
	s.started = time.Now()
	if err := s.initialize(); err != nil {
		return err
	}
	return s.save()
}

// fallBack replaces a network whose training on all classes diverged, though it gained on a part of them, by the one
// that it started from.
func (s *session) fallBack(ctx context.Context, of Training) error {
	if s.Start == "" || s.state.Diverged == "" {
		return nil
	}
	choice, network := *s.state.Head, *s.state.Head.Network
	choice.Steps, choice.Network, network.Diverged = 0, &network, s.state.Diverged
	last := s.last
	if last == nil { // The training was resumed.
		plan, err := s.trainer.startOf(ctx, of, s.heldOut)
		if err != nil {
			return err
		}
		last = lastOf(plan.Block)
	}
	s.state.Diverged, s.state.Epoch, s.state.Epochs, s.state.Triplets = "", 0, nil, nil
	if err := s.startFrom(&choice, last); err != nil {
		return err
	}
	return s.untrained()
}

// chosenWithin tells whether a choice, which may be a stranger's, says how to train a network for at most some epochs.
func chosenWithin(c *heads.Choice, epochs int) bool {
	return c != nil && c.Network != nil && c.Network.LR > 0 && c.Network.Epochs > 0 && c.Network.Epochs <= epochs
}

// chosen returns the config with another rate and number of epochs. All rates change by one factor.
func (c Config) chosen(by *heads.NetworkChoice) Config {
	factor := by.LR / c.LR
	c.LR, c.HeadLR, c.ProxyLR, c.Epochs = by.LR, factor*c.HeadLR, factor*c.ProxyLR, by.Epochs
	return c
}

// trialsDir is the folder of trainings by which is chosen, in that of a training.
func trialsDir(dir string) string { return filepath.Join(dir, "trials") }

// chooseStart chooses the last layer of a network and, by trainings on a part of its classes, whether and how it is
// trained on all. Of the rates and lengths that are tried, it takes those with the largest of the smaller gains of
// MAP@R and Recall@1 on held-out classes over the network as it was; no training gains 0.
func (t *Trainer) chooseStart(ctx context.Context, of Training, without map[int64]bool,
) (*heads.Choice, *onnx.Linear, error) {
	plan, err := t.startOf(ctx, of, without)
	if err != nil {
		return nil, nil, err
	}
	fold := plan.Fold
	if fold == nil {
		return nil, nil, fmt.Errorf("%s: no two images of a class can be held out to choose by: want start=%s", of.Data.Name,
			Random)
	}
	var best *heads.NetworkChoice
	try := func(lr float64, epochs int) error {
		tried, err := t.try(ctx, of, fold, lr, epochs)
		if err == nil && (best == nil || tried.Gain() > best.Gain()) {
			best = tried
		}
		return err
	}
	// A fifth of the length for each rate and two thirds for the best one take less time than all of it twice.
	rates, short := []float64{1}, of.Epochs
	if of.Start == ChosenTraining && of.Epochs >= 5 {
		rates, short = rateFactors, (of.Epochs+4)/5
	}
	for _, factor := range rates {
		if err := try(of.LR*factor, short); err != nil {
			return nil, nil, err
		}
	}
	if long := 2 * of.Epochs / 3; long > short {
		if err := try(best.LR, long); err != nil {
			return nil, nil, err
		}
	}
	choice := &plan.Choice
	if choice.Network = best; best.Gain() > 0 {
		choice.Steps = best.Epochs * of.StepsPerEpoch
	}
	return choice, lastOf(plan.Block), nil
}

// lastOf is the start of a head on features as a layer.
func lastOf(b *heads.Block) *onnx.Linear { return &b.Layers(b.Initial(0), nil, nil)[0] }

// startOf chooses the start of a head on what a network gives for the training images before its last layer.
func (t *Trainer) startOf(ctx context.Context, of Training, without map[int64]bool) (plan *heads.Plan, err error) {
	err = t.onFeatures(ctx, of, func(features *samples.Data) (err error) {
		plan, err = heads.Choose(ctx, t.Backend, features.Train, without, heads.Options{Dim: of.Dim})
		return err
	})
	return plan, err
}

// try trains on the training classes of a fold by a rate and a number of epochs, and measures those that are held out.
// A training that does not stay finite scores 0.
func (t *Trainer) try(ctx context.Context, of Training, fold *heads.Fold, lr float64, epochs int,
) (*heads.NetworkChoice, error) {
	n := &heads.NetworkChoice{Classes: len(fold.Held), LR: lr, Epochs: epochs, Frozen: fold.Scores}
	data := *of.Data
	data.Train, data.Test = samples.OfClasses(of.Data.Train, fold.Train), samples.OfClasses(of.Data.Train, fold.Held)
	data.Gallery = nil
	name := fmt.Sprintf("%g-%d", lr, epochs)
	trial := of
	trial.Config, trial.Data, trial.HeldOut, trial.Every, trial.last = of.chosen(n), &data, 0, 0, lastOf(fold.Block)
	trial.Start, trial.ID, trial.Dir = "", of.ID+" "+name, filepath.Join(trialsDir(of.Dir), name)
	if of.Progress != nil {
		trial.Progress = func(p Progress) { p.Trial = true; of.Progress(p) }
	}
	if err := os.MkdirAll(trial.Dir, 0o777); err != nil {
		return nil, fmt.Errorf("the run store cannot be written: %w", err)
	}
	out, err := t.Train(ctx, trial)
	if err != nil || out.Recall == nil {
		return n, err
	}
	values, _, err := npy.ReadFloat32(filepath.Join(trial.Dir, EmbeddingsFile))
	if err != nil {
		return nil, err
	}
	m, err := retrieval.Evaluate(ctx, t.Backend, &retrieval.Embeddings{Values: values, Dim: of.Dim,
		Labels: data.Test.Labels()}, nil, []int{1})
	if err != nil {
		return nil, err
	}
	n.Trained = heads.Scores{MAPAtR: m.MAPAtR, Recall: m.Recall[1]}
	gains := m.Hits()
	for i, hit := range fold.Hits {
		gains[i] -= hit
	}
	n.Error = stat.StdErr(stat.StdDev(gains, nil), float64(len(gains)))
	return n, nil
}

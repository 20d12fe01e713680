package heads

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute"
	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// ChosenStart is the value of [Head].Start for a head whose start, rate and number of steps are chosen. "chosen" and
// "chosen-2" were earlier versions: without the starts by probabilistic linear discriminant analysis, and the first one
// with other last digits.
const ChosenStart = "chosen-3"

// relativeRates are the rates that are tried: shares of its length by which a block moves in a step at first.
var relativeRates = []float64{0.0015, 0.005, 0.015}

// Choice says what was chosen for a head on classes held out. Recalls and MAP@R are means over the folds.
type Choice struct {
	Start     string  `json:"start"`             // "features", "features less their mean", "whitened" or "PLDA".
	Shrinkage float64 `json:"shrinkage"`         // Of the scatter within classes, for a whitened start and PLDA.
	Between   float64 `json:"between,omitempty"` // The shrinkage of the scatter of classes, for PLDA.
	Rate      float64 `json:"rate"`              // The share of its length by which a first step moves the head; 0: none.
	Steps     int     `json:"steps"`
	Folds     int     `json:"folds"` // 0 if there are too few classes to choose by: the features are taken as they are.

	StartMAPAtR    float64 `json:"start_map_at_r"`
	StartRecall    float64 `json:"start_recall_at_1"`
	GainMAPAtR     float64 `json:"gain_map_at_r"` // Of the training.
	GainRecall     float64 `json:"gain_recall_at_1"`
	Price          float64 `json:"price"` // What the start's Recall@1 lost by fewer dimensions.
	FeaturesRecall float64 `json:"features_recall_at_1"`

	Network *NetworkChoice `json:"network,omitempty"` // Nil for a head on features that are given.
}

// NetworkChoice says what the training of a whole network did for classes that were held out, one fold of those by
// which its head's start was chosen. Steps of the [Choice] is 0 where it did not gain, and the network stays as it was.
type NetworkChoice struct {
	Classes int     `json:"classes"` // That were held out.
	LR      float64 `json:"lr"`      // With Epochs the best that was tried, whether or not it gained.
	Epochs  int     `json:"epochs"`
	Frozen  Scores  `json:"frozen"` // Of the network as it was, behind the head's start.
	Trained Scores  `json:"trained"`
	Error   float64 `json:"standard_error"` // Of the gain of Recall@1, over the queries.

	// Diverged says how the training on all classes diverged, though the one without these had gained. The network is
	// then as it was, too.
	Diverged string `json:"diverged,omitempty"`
}

// Scores are MAP@R and Recall@1, as fractions.
type Scores struct {
	MAPAtR float64 `json:"map_at_r"`
	Recall float64 `json:"recall_at_1"`
}

// Gain returns the smaller gain of MAP@R and of Recall@1 less its standard error.
func (n *NetworkChoice) Gain() float64 {
	return min(n.Trained.MAPAtR-n.Frozen.MAPAtR, n.Trained.Recall-n.Frozen.Recall-n.Error)
}

// String says it in a line.
func (n *NetworkChoice) String() string {
	what := "the trained network is returned: it gained"
	switch {
	case n.Diverged != "":
		what = "the network is returned as it was, behind this start: its training on all classes diverged (" + n.Diverged +
			"), though a training gained"
	case n.Gain() <= 0:
		what = "the network is returned as it was, behind this start: training gained too little"
	}
	return fmt.Sprintf("%s on %d held-out classes, Recall@1 %.1f to %.1f (standard error of the gain %.1f), MAP@R "+
		"%.1f to %.1f, by lr %.3g and %d epochs", what, n.Classes, 100*n.Frozen.Recall, 100*n.Trained.Recall, 100*n.Error,
		100*n.Frozen.MAPAtR, 100*n.Trained.MAPAtR, n.LR, n.Epochs)
}

// String says it in a line.
func (c *Choice) String() string {
	text := "start: " + c.Start
	if c.Shrinkage > 0 {
		text += fmt.Sprintf(" with shrinkage %g", c.Shrinkage)
	}
	if c.Between > 0 {
		text += fmt.Sprintf(" within classes and %g between them", c.Between)
	}
	if c.Folds == 0 {
		return text + "; there are too few classes to choose another one"
	}
	text += fmt.Sprintf(" (held-out Recall@1 %.1f, features %.1f)", 100*c.StartRecall, 100*c.FeaturesRecall)
	if c.Price != 0 {
		text += fmt.Sprintf("; fewer dimensions change it by %+.1f", -100*c.Price)
	}
	if c.Network != nil {
		return text + "; " + c.Network.String()
	}
	if c.Steps == 0 {
		return text + "; no training, since none helped on held-out classes"
	}
	return text + fmt.Sprintf("; %d steps at the relative rate %g (held-out gain: Recall@1 %+.1f, MAP@R %+.1f)", c.Steps,
		c.Rate, 100*c.GainRecall, 100*c.GainMAPAtR)
}

// Plan is a choice with what a training by it takes.
type Plan struct {
	Choice
	Block  *Block // Of all classes that are trained on.
	Rates  Rates
	Epochs int   // 0 if nothing is trained.
	Fold   *Fold // Without a [Trainer], unless there are too few classes.
}

// Fold are classes that are held out, with the block of those that are left to train on.
type Fold struct {
	Block       *Block
	Train, Held map[int64]bool
	Scores                // Of the held-out classes by the start.
	Hits        []float64 // [retrieval.Result.Hits] of their samples, by label and then in order.
}

// Rates are the learning rates of a block and of the proxies of a loss.
type Rates struct{ Block, Proxies float64 }

// Trainer trains blocks side by side, from the identity, by the rule or loss that a head is chosen for.
type Trainer interface {
	// Set says which blocks are trained from here on. It reports false if the classes of one do not fill a batch.
	Set(blocks []*Block) (fits bool, err error)
	// Whole returns for each block the rates at which block and proxies would move by all their length in a step, where
	// that of a block is the length of the identity, √K.
	Whole(ctx context.Context) ([]Rates, error)
	// Train trains each block by its rates, and calls after with the weights of all after each epoch.
	Train(ctx context.Context, rates []Rates, after func(epoch int, trained [][]float32) error) error
}

// Options are those of [Choose].
type Options struct {
	Dim                   int     // Of the embeddings, at most that of the features.
	Hidden                int     // Units of the hidden layer, 0 without one.
	Epochs, StepsPerEpoch int     // The longest training that is tried.
	Trainer               Trainer // Nil chooses the start alone.
}

// Choose chooses a start, a rate and a number of steps for the head of features whose labels are not in without.
//
// Rate and number of steps are chosen on the same folds as the start: of the gains of MAP@R and Recall@1 over the start
// the smaller one, less its standard error over the folds, is to be the largest, and 0 is that of no training at all.
// So a head is trained only where all that is known says that it helps.
func Choose(
	ctx context.Context, b compute.Backend, features samples.Split, without map[int64]bool, o Options,
) (p *Plan, err error) {
	err = withRows(ctx, b, features, without, func(a *algebra, rows featureRows) error {
		whole := momentsOf(a, rows)
		folds := foldsOf(a, rows, whole)
		p = &Plan{Choice: Choice{Folds: len(folds)}}
		best := p.chooseStart(a, folds)
		start := whole.start(a, best.headStart)
		p.Start, p.Shrinkage, p.Between = start.Name, start.Shrinkage, start.Between
		if p.Block, err = newBlock(a, start, rows, o); err != nil || len(folds) < 2 {
			return err
		}
		if o.Trainer == nil {
			p.Fold, err = folds[0].plan(a, best.by[0], rows, o)
			return err
		}
		return p.chooseTraining(ctx, a, o, rows, folds, best.by)
	})
	return p, err
}

// triedStart is a start with how held-out classes rank by it.
type triedStart struct {
	headStart             // Without its map.
	by        []headStart // With it, by the classes of each fold.
	scores
}

// try ranks the held-out classes of folds by a start. PLDA weighs the directions of white, by the classes of each fold.
func (s headStart) try(a *algebra, folds []fold, white []headStart) triedStart {
	t := triedStart{headStart: s, by: make([]headStart, len(folds))}
	of := make([]scores, len(folds))
	sideBySide(len(folds), func(k int) {
		one, held := s, folds[k].held
		if white != nil && s.Between < 1 {
			one.weight = white[k].weight
		}
		t.by[k] = folds[k].start(a, one)
		of[k] = rank(a.gram(t.by[k].apply(a, held.matrix)), held.labels)
	})
	for _, r := range of {
		t.mapR += r.mapR / float64(len(folds))
		t.recall += r.recall / float64(len(folds))
	}
	return t
}

// sideBySide calls do(0) to do(n−1) concurrently: the host computes for one fold while the backend multiplies for
// another. If calls panic, it waits for all of them and panics with the error of the first.
func sideBySide(n int, do func(k int)) {
	var workers errgroup.Group
	for k := range n {
		workers.Go(func() (err error) {
			defer errs.Catch(&err)
			do(k)
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		panic(err)
	}
}

// chooseStart returns the best start. PLDA is taken only if Recall@1 gains too: MAP@R of few classes may gain at the
// cost of directions in which other classes differ.
func (c *Choice) chooseStart(a *algebra, folds []fold) triedStart {
	best := starts[0].try(a, folds, nil)
	c.FeaturesRecall = best.recall
	for _, of := range starts[1:] {
		if tried := of.try(a, folds, nil); tried.mapR > best.mapR {
			best = tried
		}
	}
	base, most := best, 0.
	for _, between := range pldaShrinkages {
		of := headStart{Name: plda, Shrinkage: cmp.Or(base.Shrinkage, 1), Between: between}
		if of.Shrinkage == 1 && between == 1 { // The same cosines as those of features less their mean.
			continue
		}
		tried := of.try(a, folds, base.by)
		if gain := min(tried.mapR-base.mapR, tried.recall-base.recall); gain > most {
			best, most = tried, gain
		}
	}
	c.StartMAPAtR, c.StartRecall = best.mapR, best.recall
	return best
}

// plan returns a fold with the block of its training classes by a start.
func (f fold) plan(a *algebra, start headStart, rows featureRows, o Options) (*Fold, error) {
	b, err := newBlock(a, start, rows.some(f.train), o)
	if err != nil {
		return nil, err
	}
	r := ranked(b.held(a, f).products(a, b.Initial(0)), f.held.labels)
	out := &Fold{Block: b, Train: map[int64]bool{}, Held: map[int64]bool{}, Scores: Scores{r.MAPAtR, r.Recall[1]},
		Hits: r.Hits()}
	for _, l := range b.Data.Train.Labels() {
		out.Train[l] = true
	}
	for _, l := range f.held.labels {
		out.Held[l] = true
	}
	return out, nil
}

// lengths are the numbers of epochs that are tried: a tenth, three tenths, and all.
func lengths(epochs int) []int {
	return slices.Compact([]int{(epochs + 9) / 10, (3*epochs + 9) / 10, epochs})
}

// chooseTraining chooses rate and number of epochs.
func (p *Plan) chooseTraining(
	ctx context.Context, a *algebra, o Options, rows featureRows, folds []fold, starts []headStart,
) (err error) {
	blocks, held, base := make([]*Block, len(folds)), make([]heldBlock, len(folds)), make([]scores, len(folds))
	sideBySide(len(folds), func(k int) {
		var err error
		if blocks[k], err = newBlock(a, starts[k], rows.some(folds[k].train), o); err != nil {
			panic(err)
		}
		held[k] = blocks[k].held(a, folds[k])
		base[k] = held[k].rank(a, blocks[k].Initial(0))
	})
	for _, r := range base {
		p.Price -= r.recall / float64(len(folds))
	}
	p.Price += p.StartRecall
	if math.Abs(p.Price) < 1e-9 || o.Dim == p.Block.features {
		p.Price = 0
	}
	fits, err := o.Trainer.Set(blocks)
	if !fits || err != nil {
		return err
	}
	whole, err := o.Trainer.Whole(ctx)
	if err != nil {
		return err
	}
	bestScore := 0.0
	for _, rate := range relativeRates {
		rates := slice.Map(whole, func(r Rates) Rates { return Rates{rate * r.Block, rate * r.Proxies} })
		err := o.Trainer.Train(ctx, rates, func(epoch int, trained [][]float32) error {
			if !slices.Contains(lengths(o.Epochs), epoch) {
				return nil
			}
			mapR, recall := make([]float64, len(folds)), make([]float64, len(folds))
			sideBySide(len(folds), func(k int) {
				r := held[k].rank(a, trained[k])
				mapR[k], recall[k] = r.mapR-base[k].mapR, r.recall-base[k].recall
			})
			score := math.Inf(1)
			for _, gains := range [][]float64{mapR, recall} {
				mean, sd := stat.MeanStdDev(gains, nil)
				score = math.Min(score, mean-sd/math.Sqrt(float64(len(gains))))
			}
			if score > bestScore {
				bestScore, p.Rate, p.Epochs = score, rate, epoch
				p.GainMAPAtR, p.GainRecall = stat.Mean(mapR, nil), stat.Mean(recall, nil)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if p.Epochs == 0 {
		return nil
	}
	p.Steps = p.Epochs * o.StepsPerEpoch
	if _, err := o.Trainer.Set(slices.Repeat([]*Block{p.Block}, len(folds))); err != nil { // On all classes.
		return err
	}
	if whole, err = o.Trainer.Whole(ctx); err != nil {
		return err
	}
	for _, r := range whole {
		p.Rates.Block += r.Block / float64(len(whole))
		p.Rates.Proxies += r.Proxies / float64(len(whole))
	}
	p.Rates = Rates{p.Rate * p.Rates.Block, p.Rate * p.Rates.Proxies}
	return nil
}

package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// # How a head is trained from its start
//
// Of the start's coordinates z the k directions in which they are largest are trained, by A [k, k] with the identity
// for a start: z' = z + V (A − I) Vᵀ z. A rate says by what share of its length A moves in the first step, which fits
// all rules and losses and features of any size. Rate and number of steps are chosen on the same folds as the start: of
// the gains of MAP@R and Recall@1 over the start the smaller one, less its standard error over the folds, is to be the
// largest, and 0 is that of no training at all. So a head is trained only where all that is known says that it helps.

// ChosenStart is the value of [Config].HeadStart for a head whose start, rate and number of steps are chosen.
const ChosenStart = "chosen"

// blockDirections is k, the most directions that are trained.
const blockDirections = 64

// relativeRates are the rates that are tried.
var relativeRates = []float64{0.0015, 0.005, 0.015}

// HeadChoice says what was chosen for a head on classes held out. Recalls and MAP@R are means over the folds.
type HeadChoice struct {
	Start     string  `json:"start"`     // "features", "features less their mean" or "whitened".
	Shrinkage float64 `json:"shrinkage"` // Of the scatter within classes, for a whitened start.
	Rate      float64 `json:"rate"`      // The share of its length by which the head moves in a step at first; 0: none.
	Steps     int     `json:"steps"`
	Folds     int     `json:"folds"` // 0 if there are too few classes to choose by: the features are taken as they are.

	StartMAPAtR    float64 `json:"start_map_at_r"`
	StartRecall    float64 `json:"start_recall_at_1"`
	GainMAPAtR     float64 `json:"gain_map_at_r"` // Of the training.
	GainRecall     float64 `json:"gain_recall_at_1"`
	Price          float64 `json:"price"` // What the start's Recall@1 lost by fewer dimensions.
	FeaturesRecall float64 `json:"features_recall_at_1"`
}

// String says it in a line.
func (c *HeadChoice) String() string {
	text := "start: " + c.Start
	if c.Shrinkage > 0 {
		text += fmt.Sprintf(" with shrinkage %g", c.Shrinkage)
	}
	if c.Folds == 0 {
		return text + "; there are too few classes to choose another one"
	}
	text += fmt.Sprintf(" (held-out Recall@1 %.1f, features %.1f)", 100*c.StartRecall, 100*c.FeaturesRecall)
	if c.Price != 0 {
		text += fmt.Sprintf("; fewer dimensions change it by %+.1f", -100*c.Price)
	}
	if c.Steps == 0 {
		return text + "; no training, since none helped on held-out classes"
	}
	return text + fmt.Sprintf("; %d steps at the relative rate %g (held-out gain: Recall@1 %+.1f, MAP@R %+.1f)", c.Steps,
		c.Rate, 100*c.GainRecall, 100*c.GainMAPAtR)
}

// chosenHead is a choice with what training by it takes.
type chosenHead struct {
	HeadChoice
	block  *blockData // Of all classes.
	rates  blockRates
	epochs int
	lanes  *lanes // nil if nothing is trained.
}

// blockRates are the learning rates of a block and of proxies.
type blockRates struct{ block, proxies float64 }

func (r blockRates) times(by float64) blockRates { return blockRates{by * r.block, by * r.proxies} }

// choices holds the last choice of a trainer.
type choices struct {
	sync.Mutex
	key  string
	head *chosenHead
}

func (c *choices) free() {
	c.Lock()
	defer c.Unlock()
	if c.head != nil {
		c.head.lanes.free()
	}
	c.head = nil
}

// blockData are the features of a split in the coordinates of a start, those that are trained first.
type blockData struct {
	start      headStart
	scale      float64    // By which the start's coordinates are divided.
	directions *mat.Dense // V, [F, k or the dimension if that is cut].
	top        mat.Dense  // Vᵀ L⁻¹, [k or the dimension, F].
	k, width   int        // Trained coordinates, and all.
	cut        bool       // Whether there are fewer coordinates than features.
	data       *samples.Data
}

// newBlock returns the coordinates of training rows by a start.
func newBlock(a *algebra, start headStart, rows featureRows, dim int) (*blockData, error) {
	b := &blockData{start: start, k: min(blockDirections, rows.cols, dim), cut: dim < rows.cols}
	z, err := start.apply(a, rows.matrix)
	if err != nil {
		return nil, err
	}
	for i := range z.rows {
		sum := 0.0
		for _, v := range z.row(i) {
			sum += float64(v) * float64(v)
		}
		b.scale += math.Sqrt(sum) / float64(z.rows)
	}
	if !(b.scale > 0) || math.IsInf(b.scale, 0) {
		return nil, errors.New("all features are zero, or their squares overflow: scale them")
	}
	directions := b.k
	if b.cut {
		directions = dim
	}
	if b.directions, err = leading(a, z, directions); err != nil {
		return nil, err
	}
	coordinates, err := b.coordinates(a, z)
	if err != nil {
		return nil, err
	}
	b.width = coordinates.cols
	all := &samples.Array{Values: coordinates.values, Dims: []int{b.width}, Classes: rows.labels}
	b.data = &samples.Data{Name: "head", Train: all, Test: all}
	return b, nil
}

// coordinates returns Vᵀz and behind it what is left of z, unless that is cut off; all over the scale.
func (b *blockData) coordinates(a *algebra, z matrix) (matrix, error) {
	t, err := a.times(z, float32sOf(b.directions.T()))
	if err != nil {
		return t, err
	}
	rest := newMatrix(z.rows, 0)
	if !b.cut && b.k < z.cols {
		if rest, err = a.times(t, float32sOf(b.directions)); err != nil {
			return t, err
		}
		for i, v := range z.values {
			rest.values[i] = v - rest.values[i]
		}
	}
	out := newMatrix(z.rows, t.cols+rest.cols)
	for i := range z.rows {
		for j, v := range slices.Concat(t.row(i), rest.row(i)) {
			out.row(i)[j] = float32(float64(v) / b.scale)
		}
	}
	return out, nil
}

// linear returns weight [dim, F] and bias [dim] of the head with the trained matrix block [k, k], as float64.
func (b *blockData) linear(block []float32, features int) (weight *mat.Dense, bias []float64) {
	w := b.start.weight
	if w == nil {
		ones := make([]float64, features)
		floats.AddConst(1, ones)
		w = mat.DenseCopyOf(mat.NewDiagDense(features, ones))
	}
	if b.top.IsEmpty() {
		b.top.Mul(b.directions.T(), w)
	}
	change := mat.NewDense(b.k, b.k, nil)
	for i, v := range block {
		change.Set(i/b.k, i%b.k, float64(v))
	}
	var moved mat.Dense
	if b.cut {
		weight = mat.DenseCopyOf(&b.top)
		moved.Mul(change, b.top.Slice(0, b.k, 0, features))
		weight.Slice(0, b.k, 0, features).(*mat.Dense).Copy(&moved)
	} else {
		for i := range b.k {
			change.Set(i, i, change.At(i, i)-1)
		}
		moved.Mul(change, &b.top)
		weight = new(mat.Dense)
		weight.Mul(b.directions, &moved)
		weight.Add(weight, w)
	}
	weight.Scale(1/b.scale, weight)
	rows, _ := weight.Dims()
	bias = make([]float64, rows)
	for i := range bias {
		if b.start.mean != nil {
			bias[i] = -floats.Dot(weight.RawRowView(i), b.start.mean)
		}
	}
	return weight, bias
}

// identity is the block at the start, [k, k].
func identity(k int) []float32 {
	values := make([]float32, k*k)
	for i := range k {
		values[i*k+i] = 1
	}
	return values
}

const blockPath = "/block/weight"

// blockModel is the network that is trained: the first k coordinates are multiplied by a matrix, the others are kept.
func blockModel(k, width int) *ownModel {
	m := &ownModel{dim: width, identity: fmt.Sprintf("block %d %d", k, width), paths: []string{blockPath}}
	m.Name, m.Input = "block", []int{width}
	m.Embed = func(scope *model.Scope, x *Node, _ backbone.Pass) *Node {
		w := scope.At("block").VariableWithShape("weight", shapes.Make(dtypes.Float32, k, k))
		first := MatMul(Slice(x, AxisRange(), AxisRange(0, k)), Transpose(w.NodeValue(x), 0, 1))
		if k == width {
			return first
		}
		return Concatenate([]*Node{first, Slice(x, AxisRange(), AxisRange(k, width))}, 1)
	}
	m.draw = func(store *model.Store, _ uint64) error {
		t := tensors.FromFlatDataAndDimensions(identity(k), k, k)
		if v := store.GetVariable(blockPath); v != nil {
			return v.SetValue(t)
		}
		store.VariableWithValue(blockPath, t)
		return nil
	}
	return m
}

// blockSession prepares a training of the block by the objective of a training of the head.
func (t *Trainer) blockSession(of Training, b *blockData, seed uint64, rates blockRates, epochs int) (*session, error) {
	of.Head, of.HeadStart, of.model = "", "", blockModel(b.k, b.width)
	of.Model, of.Dim, of.Data, of.HeldOut = of.model.identity, b.width, b.data, 0
	of.Seed, of.LR, of.Epochs, of.Decay, of.Every, of.Progress = seed, rates.block, epochs, 1, 0, nil
	if of.ProxyLR > 0 {
		of.ProxyLR = rates.proxies
	}
	s, err := t.newSession(of)
	if err != nil {
		return nil, err
	}
	if err := s.initialize(); err != nil {
		return nil, err
	}
	return s, s.proxiesAtMeans(b)
}

// proxiesAtMeans sets the proxies to the means of their classes; several of a class to means of parts of it.
func (s *session) proxiesAtMeans(b *blockData) error {
	n := s.objective.proxies
	if n == 0 {
		return nil
	}
	rows := b.data.Train.(*samples.Array)
	values, count := make([]float32, n*b.width), make([]float32, n)
	seen := make(map[int64]int)
	for i, l := range rows.Classes {
		p := int(s.classes[l])*s.objective.perClass + seen[l]%s.objective.perClass
		seen[l]++
		count[p]++
		for j, v := range rows.Values[i*b.width : (i+1)*b.width] {
			values[p*b.width+j] += v
		}
	}
	whole := initialProxies(n, b.width, 1) // For parts without an image.
	for p := range count {
		for j := p * b.width; j < (p+1)*b.width; j++ {
			if count[p] > 0 {
				values[j] /= count[p]
			} else {
				values[j] = whole[j]
			}
		}
	}
	return backbone.SetProxies(s.step.weights, values, n, b.width)
}

// values returns the values of a variable of each training, side by side; nil where there is none.
func (l *lanes) values(path string) (all [][]float32, err error) {
	all = make([][]float32, l.count)
	for k := range all {
		v := l.weights.GetVariable(lanePath(k, path))
		if v == nil {
			continue
		}
		value, err := v.Value()
		if err != nil {
			return nil, err
		}
		if all[k], err = tensors.CopyFlatData[float32](value); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// set copies the weights of trainings into the graph, which exactly so many may use.
func (l *lanes) set(sessions []*session) error {
	for k, s := range sessions {
		if err := copyVariables(l.weights, s.step.weights, func(p string) string { return lanePath(k, p) }); err != nil {
			return err
		}
	}
	return nil
}

// wholeRates returns for each training the lengths of block and proxies over those of their gradients, means over the
// first four batches: the learning rates at which they would move by all their length. A gradient of zero gives 0.
func (l *lanes) wholeRates(ctx context.Context, sessions []*session) ([]blockRates, error) {
	const batches = 4
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	inputs := make([]*inputs, len(sessions))
	for k, s := range sessions {
		s.LR, s.ProxyLR = 1, math.Min(s.ProxyLR, 1)
		if s.objective.proxies > 0 {
			s.ProxyLR = 1
		}
		inputs[k] = s.inputs(inner)
	}
	paths := []string{blockPath, proxiesPath}
	shares := [2][]float64{make([]float64, len(sessions)), make([]float64, len(sessions))}
	for step := range min(batches, sessions[0].Steps()) {
		if err := l.set(sessions); err != nil {
			return nil, err
		}
		var before [2][][]float32
		for p, path := range paths {
			var err error
			if before[p], err = l.values(path); err != nil {
				return nil, err
			}
		}
		values := make([]stepValues, len(sessions))
		for k := range sessions {
			var err error
			if values[k], err = inputs[k].next(ctx, step); err != nil {
				return nil, err
			}
			defer free(values[k].images)
		}
		if _, err := l.run(values); err != nil {
			return nil, err
		}
		for p, path := range paths {
			after, err := l.values(path)
			if err != nil {
				return nil, err
			}
			for k := range sessions {
				moved, length := 0.0, 0.0
				for i, v := range before[p][k] {
					moved += float64(after[k][i]-v) * float64(after[k][i]-v)
					length += float64(v) * float64(v)
				}
				if length > 0 {
					shares[p][k] += math.Sqrt(moved/length) / batches
				}
			}
		}
	}
	rates := make([]blockRates, len(sessions))
	for k := range rates {
		for p, of := range []*float64{&rates[k].block, &rates[k].proxies} {
			if share := shares[p][k]; share > 0 && !math.IsInf(share, 0) {
				*of = 1 / share
			}
		}
	}
	return rates, nil
}

// trainBlocks trains side by side, and calls after with the block of each training after each epoch.
func (l *lanes) trainBlocks(ctx context.Context, sessions []*session,
	after func(epoch int, sums []tally, blocks [][]float32) error) error {
	if err := l.set(sessions); err != nil {
		return err
	}
	return trainSessions(ctx, sessions, l.run, func(epoch int, sums []tally) error {
		blocks, err := l.values(blockPath)
		if err != nil {
			return err
		}
		return after(epoch, sums, blocks)
	})
}

// choiceKey is what a choice depends on: the features, and all of the config but the seed.
func (s *session) choiceKey() string {
	c := s.Config
	c.Seed = 0
	raw, _ := json.Marshal(c)
	return fmt.Sprintf("%s %d %s", s.Data.Digest, s.HeldOut, raw)
}

// choose chooses a start, a rate and a number of steps for the head of a training, or returns what was chosen for it.
func (t *Trainer) choose(ctx context.Context, s *session) (*chosenHead, error) {
	t.choices.Lock()
	defer t.choices.Unlock()
	key := s.choiceKey()
	if t.choices.key == key && t.choices.head != nil {
		return t.choices.head, nil
	}
	if old := t.choices.head; old != nil {
		old.lanes.free()
		t.choices.head = nil
	}
	a, err := newAlgebra(t.Backend)
	if err != nil {
		return nil, err
	}
	defer a.free()
	rows, err := readFeatureRows(s.Data.Train, s.heldOut)
	if err != nil {
		return nil, err
	}
	whole, err := momentsOf(a, rows)
	if err != nil {
		return nil, err
	}
	folds, err := foldsOf(a, rows)
	if err != nil {
		return nil, err
	}
	h := &chosenHead{HeadChoice: HeadChoice{Folds: len(folds)}}
	best := 0
	if len(folds) > 0 {
		if best, err = h.chooseStart(ctx, a, folds); err != nil {
			return nil, err
		}
	}
	start, err := whole.start(a, best)
	if err != nil {
		return nil, err
	}
	h.Start, h.Shrinkage = start.Name, start.Shrinkage
	if h.block, err = newBlock(a, start, rows, s.Dim); err != nil {
		return nil, err
	}
	if len(folds) > 1 {
		if err := t.chooseTraining(ctx, a, s, folds, best, h); err != nil {
			h.lanes.free()
			return nil, err
		}
	}
	t.choices.key, t.choices.head = key, h
	return h, nil
}

// chooseStart returns the number of the best start.
func (h *chosenHead) chooseStart(ctx context.Context, a *algebra, folds []fold) (best int, err error) {
	means := make([]scores, 2+len(shrinkages))
	for _, f := range folds {
		for i := range means {
			start, err := f.train.start(a, i)
			if err != nil || ctx.Err() != nil {
				return 0, errors.Join(err, ctx.Err())
			}
			z, err := start.apply(a, f.held.matrix)
			if err != nil {
				return 0, err
			}
			products, err := a.times(z, z)
			if err != nil {
				return 0, err
			}
			r, err := rank(products, f.held.labels)
			if err != nil {
				return 0, err
			}
			means[i].mapR += r.mapR / float64(len(folds))
			means[i].recall += r.recall / float64(len(folds))
		}
	}
	for i, m := range means {
		if m.mapR > means[best].mapR {
			best = i
		}
	}
	h.StartMAPAtR, h.StartRecall, h.FeaturesRecall = means[best].mapR, means[best].recall, means[0].recall
	return best, nil
}

// heldBlock are held-out rows in the coordinates of a block.
type heldBlock struct {
	first, rest matrix // Those that are trained, [N, k], and the inner products by the others, [N, N].
	labels      []int64
}

func (b *blockData) held(a *algebra, f fold) (h heldBlock, err error) {
	z, err := b.start.apply(a, f.held.matrix)
	if err != nil {
		return h, err
	}
	if z, err = b.coordinates(a, z); err != nil {
		return h, err
	}
	h = heldBlock{newMatrix(z.rows, b.k), z, f.held.labels}
	for i := range z.rows {
		copy(h.first.row(i), z.row(i))
		clear(z.row(i)[:b.k])
	}
	h.rest, err = a.times(z, z)
	return h, err
}

// rank ranks the rows with a matrix [k, k] as block.
func (h heldBlock) rank(a *algebra, block []float32) (scores, error) {
	moved, err := a.times(h.first, matrix{block, h.first.cols, h.first.cols})
	if err != nil {
		return scores{}, err
	}
	products, err := a.times(moved, moved)
	if err != nil {
		return scores{}, err
	}
	for i, v := range h.rest.values {
		products.values[i] += v
	}
	return rank(products, h.labels)
}

// lengths are the numbers of epochs that are tried: a tenth, three tenths, and all.
func lengths(epochs int) []int {
	return slices.Compact([]int{(epochs + 9) / 10, (3*epochs + 9) / 10, epochs})
}

func freeSessions(sessions []*session) {
	for _, s := range sessions {
		s.step.free()
	}
}

// chooseTraining chooses rate and steps, and prepares the graph that trains by them.
func (t *Trainer) chooseTraining(ctx context.Context, a *algebra, s *session, folds []fold, best int, h *chosenHead,
) error {
	var sessions []*session
	defer func() { freeSessions(sessions) }()
	held, base := make([]heldBlock, len(folds)), make([]scores, len(folds))
	for i, f := range folds {
		start, err := f.train.start(a, best)
		if err != nil {
			return err
		}
		block, err := newBlock(a, start, f.train.rows, s.Dim)
		if err != nil {
			return err
		}
		if held[i], err = block.held(a, f); err != nil {
			return err
		}
		if base[i], err = held[i].rank(a, identity(block.k)); err != nil {
			return err
		}
		h.Price -= base[i].recall / float64(len(folds))
		if _, err := s.Config.sampler(block.data, nil); err != nil {
			return nil // The classes of a fold do not fill a batch: nothing is trained.
		}
		one, err := t.blockSession(s.Training, block, uint64(i+1), blockRates{1, 1}, s.Epochs)
		if err != nil {
			return err
		}
		sessions = append(sessions, one)
	}
	h.Price += h.StartRecall
	if math.Abs(h.Price) < 1e-9 || s.Dim == s.Data.Train.Shape().Dim(0) {
		h.Price = 0
	}
	l, err := t.newLanes(sessions)
	if err != nil {
		return err
	}
	defer func() {
		if h.lanes != l {
			l.free()
		}
	}()
	whole, err := l.wholeRates(ctx, sessions)
	if err != nil {
		return err
	}
	bestScore := 0.0
	for _, rate := range relativeRates {
		for k, one := range sessions {
			one.LR, one.ProxyLR, one.state = rate*whole[k].block, rate*whole[k].proxies, Checkpoint{}
		}
		err := l.trainBlocks(ctx, sessions, func(epoch int, _ []tally, trained [][]float32) error {
			if !slices.Contains(lengths(s.Epochs), epoch) {
				return nil
			}
			var mapR, recall []float64
			for k := range folds {
				r, err := held[k].rank(a, trained[k])
				if err != nil {
					return err
				}
				mapR, recall = append(mapR, r.mapR-base[k].mapR), append(recall, r.recall-base[k].recall)
			}
			score := math.Inf(1)
			for _, gains := range [][]float64{mapR, recall} {
				mean, sd := stat.MeanStdDev(gains, nil)
				score = math.Min(score, mean-sd/math.Sqrt(float64(len(gains))))
			}
			if score > bestScore {
				bestScore, h.Rate, h.epochs = score, rate, epoch
				h.GainMAPAtR, h.GainRecall = stat.Mean(mapR, nil), stat.Mean(recall, nil)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if h.epochs == 0 {
		return nil
	}
	h.Steps = h.epochs * s.StepsPerEpoch
	for i, one := range sessions { // On all classes, with seeds that are none of a run's.
		one.step.free()
		if sessions[i], err = t.blockSession(s.Training, h.block, uint64(i+1), blockRates{1, 1}, s.Epochs); err != nil {
			return err
		}
	}
	h.lanes = l
	if sessions[0].objective.proxies > 0 { // There are more proxies now.
		if h.lanes, err = t.newLanes(sessions); err != nil {
			return err
		}
	}
	if whole, err = h.lanes.wholeRates(ctx, sessions); err != nil {
		return err
	}
	for _, r := range whole {
		h.rates.block += r.block / float64(len(whole))
		h.rates.proxies += r.proxies / float64(len(whole))
	}
	h.rates = h.rates.times(h.Rate)
	return nil
}

// trainChosen trains heads with the same choice side by side, sets their weights, and writes what a training writes.
func (t *Trainer) trainChosen(ctx context.Context, group []*session) error {
	started := time.Now()
	head, err := t.choose(ctx, group[0])
	if err != nil {
		return err
	}
	for _, s := range group {
		s.state.Seconds += time.Since(started).Seconds() / float64(len(group)) // Its share.
	}
	if head.epochs == 0 {
		for _, s := range group {
			if err := s.endChosen(head, identity(head.block.k)); err != nil {
				return err
			}
		}
		return nil
	}
	for some := range slices.Chunk(group, head.lanes.count) {
		if err := t.trainSomeChosen(ctx, head, some); err != nil {
			return err
		}
	}
	return nil
}

func (t *Trainer) trainSomeChosen(ctx context.Context, head *chosenHead, group []*session) error {
	var blocks []*session
	defer func() { freeSessions(blocks) }()
	for i := range head.lanes.count { // A graph has a fixed number: the last ones are trained for nothing.
		of := group[min(i, len(group)-1)]
		b, err := t.blockSession(of.Training, head.block, of.Seed, head.rates, head.epochs)
		if err != nil {
			return err
		}
		if b.state = of.state; i < len(group) && of.Training.Progress != nil {
			b.Progress = of.Training.Progress
		}
		b.state.Epoch, b.state.Epochs, b.state.Triplets, b.state.Diverged = 0, nil, nil, ""
		blocks = append(blocks, b)
	}
	var trained [][]float32
	err := head.lanes.trainBlocks(ctx, blocks, func(epoch int, sums []tally, all [][]float32) error {
		trained = all
		for i := range group {
			if err := blocks[i].endEpoch(epoch, &sums[i], false); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, s := range group {
		s.state = blocks[i].state
		if err := s.endChosen(head, trained[i]); err != nil {
			return err
		}
	}
	return nil
}

// endChosen sets the weights of a linear head, which takes features after the scale and shift of the data, and saves
// them.
func (s *session) endChosen(head *chosenHead, block []float32) error {
	features := s.Data.Train.Shape().Dim(0)
	weight, bias := head.block.linear(block, features)
	rows, _ := weight.Dims()
	values := float32sOf(weight)
	if s.Data.Scale != nil { // x = (x̂ − shift) / scale
		for i := range rows {
			for j, w := range weight.RawRowView(i) {
				w /= float64(s.Data.Scale[j])
				values.row(i)[j] = float32(w)
				bias[i] -= w * float64(s.Data.Shift[j])
			}
		}
	}
	biases := make([]float32, rows)
	for i, v := range bias {
		biases[i] = float32(v)
	}
	for path, t := range map[string]*tensors.Tensor{
		"/fc/weight": tensors.FromFlatDataAndDimensions(values.values, rows, features),
		"/fc/bias":   tensors.FromFlatDataAndDimensions(biases, rows),
	} {
		if err := s.step.weights.GetVariable(path).SetValue(t); err != nil {
			return err
		}
	}
	choice := head.HeadChoice
	s.choice = &choice
	return s.save()
}

// Reference is what heads are held against: the test set by its features, without a head.
type Reference struct {
	Name string `json:"name"` // "features", or "whitened features".
	Measures
}

// References measures the test set by its features as they are and, where classes have images that differ, whitened by
// the scatter within the training classes, W + 0.01 tr(W)/F I. Every heldOut-th class is no training class; 0 is none.
func (t *Trainer) References(ctx context.Context, data *samples.Data, heldOut int) ([]Reference, error) {
	without, err := samples.HeldOut(data.Train.Labels(), heldOut)
	if err != nil {
		return nil, err
	}
	a, err := newAlgebra(t.Backend)
	if err != nil {
		return nil, err
	}
	defer a.free()
	rows, err := readFeatureRows(data.Train, without)
	if err != nil {
		return nil, err
	}
	m, err := momentsOf(a, rows)
	if err != nil {
		return nil, err
	}
	starts := []headStart{{Name: "features"}}
	w, err := m.whitened(a, 0.01/1.01) // But for a factor.
	if err != nil {
		return nil, err
	}
	if w.weight != nil {
		w.Name = "whitened features"
		starts = append(starts, w)
	}
	var out []Reference
	for _, start := range starts {
		var of [2]*retrieval.Embeddings
		for i, split := range []samples.Split{data.Test, data.Gallery} {
			if split == nil {
				continue
			}
			rows, err := readFeatureRows(split, nil)
			if err != nil {
				return nil, err
			}
			z, err := start.apply(a, rows.matrix)
			if err != nil {
				return nil, err
			}
			of[i] = &retrieval.Embeddings{Values: z.values, Dim: z.cols, Labels: rows.labels}
		}
		r := Reference{Name: start.Name}
		if err := r.measure(ctx, t, of[0], of[1]); err != nil {
			return nil, fmt.Errorf("test set of %s: %w", data.Name, err)
		}
		out = append(out, r)
	}
	return out, nil
}

package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"slices"
	"strings"
	"sync"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
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

	StartMAPAtR  float64 `json:"start_map_at_r"`
	StartRecall  float64 `json:"start_recall_at_1"`
	GainMAPAtR   float64 `json:"gain_map_at_r"` // Of the training.
	GainRecall   float64 `json:"gain_recall_at_1"`
	Price        float64 `json:"price"` // What the start's Recall@1 lost by fewer dimensions.
	PriceOfPlain float64 `json:"features_recall_at_1"`
}

// String says it in a line.
func (c *HeadChoice) String() string {
	start := headStart{Name: c.Start, Shrinkage: c.Shrinkage}
	text := start.Name
	if c.Shrinkage > 0 {
		text += fmt.Sprintf(" with shrinkage %g", c.Shrinkage)
	}
	if c.Folds == 0 {
		return "start: " + text + "; there are too few classes to choose another one"
	}
	text = fmt.Sprintf("start: %s (held-out Recall@1 %.1f, features %.1f)", text, 100*c.StartRecall, 100*c.PriceOfPlain)
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
	block       *blockData // Of all classes.
	lr, proxyLR float64
	epochs      int
	lanes       *lanes // nil if nothing is trained.
}

// choices holds the last choice of a trainer.
type choices struct {
	sync.Mutex
	key  string
	head *chosenHead
}

// blockData are the features of a split in the coordinates of a start, those that are trained first.
type blockData struct {
	start      headStart
	scale      float64    // By which the start's coordinates are divided.
	directions *mat.Dense // V, [F, k or the dimension if that is cut].
	k, width   int        // Trained coordinates, and all.
	cut        bool       // Whether there are fewer coordinates than features.
	data       *Data
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
	samples := &Array{Values: coordinates.values, Dims: []int{b.width}, Classes: rows.labels}
	b.data = &Data{Name: "head", Train: samples, Test: samples}
	return b, nil
}

// coordinates returns Vᵀz and behind it what is left of z, unless that is cut off; all over the scale.
func (b *blockData) coordinates(a *algebra, z matrix) (matrix, error) {
	t, err := a.times(z, float32sOf(b.directions))
	if err != nil {
		return t, err
	}
	rest := newMatrix(z.rows, 0)
	if !b.cut && b.k < z.cols {
		if rest, err = a.times(t, transposed(b.directions)); err != nil {
			return t, err
		}
		for i, v := range z.values {
			rest.values[i] = v - rest.values[i]
		}
	}
	out := newMatrix(z.rows, t.cols+rest.cols)
	for i := range z.rows {
		row := out.row(i)
		copy(row, t.row(i))
		copy(row[t.cols:], rest.row(i))
		for j := range row {
			row[j] = float32(float64(row[j]) / b.scale)
		}
	}
	return out, nil
}

// linear returns weight [dim, F] and bias [dim] of the head with the trained matrix block [k, k], as float64.
func (b *blockData) linear(block []float32, features int) (weight *mat.Dense, bias []float64) {
	w := b.start.weight
	if w == nil {
		w = mat.NewDense(features, features, nil)
		for i := range features {
			w.Set(i, i, 1)
		}
	}
	var top, moved mat.Dense
	top.Mul(b.directions.T(), w) // Vᵀ L⁻¹
	change := mat.NewDense(b.k, b.k, nil)
	for i := range b.k {
		for j := range b.k {
			change.Set(i, j, float64(block[i*b.k+j]))
		}
	}
	first := mat.DenseCopyOf(top.Slice(0, b.k, 0, features))
	weight = mat.DenseCopyOf(w)
	if !b.cut {
		for i := range b.k {
			change.Set(i, i, change.At(i, i)-1)
		}
		var product mat.Dense
		product.Mul(change, first)
		moved.Mul(b.directions.Slice(0, features, 0, b.k), &product)
		weight.Add(weight, &moved)
	} else {
		moved.Mul(change, first)
		weight = mat.DenseCopyOf(&top)
		weight.Slice(0, b.k, 0, features).(*mat.Dense).Copy(&moved)
	}
	weight.Scale(1/b.scale, weight)
	rows, _ := weight.Dims()
	bias = make([]float64, rows)
	for i := range bias {
		if b.start.mean != nil {
			bias[i] = -dot64(weight.RawRowView(i), b.start.mean)
		}
	}
	return weight, bias
}

// blockModel is the network that is trained: the first k coordinates are multiplied by a matrix, the others are kept.
func blockModel(k, width int) *ownModel {
	const path = "/block/weight"
	m := &ownModel{dim: width, identity: fmt.Sprintf("block %d %d", k, width), paths: []string{path}}
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
		values := make([]float32, k*k)
		for i := range k {
			values[i*k+i] = 1
		}
		t := tensors.FromFlatDataAndDimensions(values, k, k)
		if v := store.GetVariable(path); v != nil {
			return v.SetValue(t)
		}
		store.VariableWithValue(path, t)
		return nil
	}
	return m
}

// blockSession prepares a training of the block by the objective of a training of the head.
func (t *Trainer) blockSession(of Training, b *blockData, seed uint64, lr, proxyLR float64, epochs int) (*session,
	error) {
	of.Head, of.HeadStart, of.model = "", "", blockModel(b.k, b.width)
	of.Model, of.Dim, of.Data, of.HeldOut = of.model.identity, b.width, b.data, 0
	of.Seed, of.LR, of.Epochs, of.Decay, of.Every, of.Progress = seed, lr, epochs, 1, 0, nil
	if of.ProxyLR > 0 {
		of.ProxyLR = proxyLR
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
	rows := b.data.Train.(*Array)
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

// variable returns the values of a variable of a training side by side, nil if there is none.
func (l *lanes) variable(k int, path string) ([]float32, error) {
	v := l.weights.GetVariable(lanePath(k, path))
	if v == nil {
		return nil, nil
	}
	value, err := v.Value()
	if err != nil {
		return nil, err
	}
	return tensors.CopyFlatData[float32](value)
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

// gradientScales returns for each training the lengths of block and proxies over those of their gradients, means over
// the first four batches: the learning rates at which they would move by all their length. A gradient of zero gives 0.
func (l *lanes) gradientScales(ctx context.Context, sessions []*session) (block, proxies []float64, err error) {
	const batches = 4
	block, proxies = make([]float64, len(sessions)), make([]float64, len(sessions))
	inputs := make([]*inputs, len(sessions))
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	for k, s := range sessions {
		s.LR, s.ProxyLR = 1, math.Min(s.ProxyLR, 1)
		if s.objective.proxies > 0 {
			s.ProxyLR = 1
		}
		inputs[k] = s.inputs(inner)
	}
	paths := []string{"/block/weight", proxiesPath}
	for step := range min(batches, sessions[0].Steps()) {
		if err := l.set(sessions); err != nil {
			return nil, nil, err
		}
		values := make([]stepValues, len(sessions))
		before := make([][2][]float32, len(sessions))
		for k := range sessions {
			for p, path := range paths {
				if before[k][p], err = l.variable(k, path); err != nil {
					return nil, nil, err
				}
			}
			if values[k], err = inputs[k].next(ctx, step); err != nil {
				return nil, nil, err
			}
		}
		_, err := l.run(values)
		for _, v := range values {
			free(v.images)
		}
		if err != nil {
			return nil, nil, err
		}
		for k := range sessions {
			for p, to := range []*float64{&block[k], &proxies[k]} {
				after, err := l.variable(k, paths[p])
				if err != nil {
					return nil, nil, err
				}
				moved, length := 0.0, 0.0
				for i, v := range before[k][p] {
					moved += float64(after[i]-v) * float64(after[i]-v)
					length += float64(v) * float64(v)
				}
				if length > 0 {
					*to += math.Sqrt(moved/length) / batches
				}
			}
		}
	}
	for k := range sessions {
		for _, of := range []*float64{&block[k], &proxies[k]} {
			if *of > 0 && !math.IsInf(*of, 0) {
				*of = 1 / *of
			} else {
				*of = 0
			}
		}
	}
	return block, proxies, nil
}

// trainBlocks trains side by side, and calls after with the block of each training after each epoch.
func (l *lanes) trainBlocks(ctx context.Context, sessions []*session,
	after func(epoch int, sums []tally, blocks [][]float32) error) error {
	if err := l.set(sessions); err != nil {
		return err
	}
	return trainSessions(ctx, sessions, l.run, func(epoch int, sums []tally) error {
		blocks := make([][]float32, len(sessions))
		for k := range sessions {
			var err error
			if blocks[k], err = l.variable(k, "/block/weight"); err != nil {
				return err
			}
		}
		return after(epoch, sums, blocks)
	})
}

// key is what a choice depends on: the features, and all of the config but the seed.
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
	folds, err := foldsOf(a, whole)
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
	start := whole.start(best)
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

// start is one of [moments.starts].
func (m *moments) start(i int) headStart {
	if i < 2 {
		return []headStart{{Name: "features"}, {Name: "features less their mean", mean: m.mean}}[i]
	}
	s, ok := whitened(m.scatter, m.mean, shrinkages[i-2])
	if !ok {
		return headStart{Name: "features"}
	}
	return s
}

// chooseStart returns the number of the best start.
func (h *chosenHead) chooseStart(ctx context.Context, a *algebra, folds []fold) (best int, err error) {
	count := len(folds[0].starts)
	for _, f := range folds {
		count = min(count, len(f.starts))
	}
	means := make([]scores, count)
	for _, f := range folds {
		for i := range count {
			z, err := f.starts[i].apply(a, f.held.matrix)
			if err != nil {
				return 0, err
			}
			r, err := rank(ctx, a, z, f.held.labels)
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
	h.StartMAPAtR, h.StartRecall, h.PriceOfPlain = means[best].mapR, means[best].recall, means[0].recall
	return best, nil
}

// lengths are the numbers of epochs that are tried: a tenth, three tenths, and all.
func lengths(epochs int) []int {
	return slices.Compact([]int{(epochs + 9) / 10, (3*epochs + 9) / 10, epochs})
}

// chooseTraining chooses rate and steps, and prepares the graph that trains by them.
func (t *Trainer) chooseTraining(ctx context.Context, a *algebra, s *session, folds []fold, best int, h *chosenHead,
) error {
	var sessions []*session
	defer func() {
		for _, f := range sessions {
			f.step.free()
		}
	}()
	blocks, held := make([]*blockData, len(folds)), make([]matrix, len(folds))
	base := make([]scores, len(folds))
	for i, f := range folds {
		var err error
		if blocks[i], err = newBlock(a, f.starts[best], f.train, s.Dim); err != nil {
			return err
		}
		z, err := f.starts[best].apply(a, f.held.matrix)
		if err != nil {
			return err
		}
		if held[i], err = blocks[i].coordinates(a, z); err != nil {
			return err
		}
		if base[i], err = rank(ctx, a, held[i], f.held.labels); err != nil {
			return err
		}
		h.Price -= base[i].recall / float64(len(folds))
		if _, err := s.Config.sampler(blocks[i].data, nil); err != nil {
			return nil // The classes of a fold do not fill a batch: nothing is trained.
		}
		one, err := t.blockSession(s.Training, blocks[i], uint64(i+1), 1, 1, s.Epochs)
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
	scale, proxyScale, err := l.gradientScales(ctx, sessions)
	if err != nil {
		l.free()
		return err
	}
	bestScore, bestRate := 0.0, 0.0
	for _, rate := range relativeRates {
		for k, one := range sessions {
			one.LR, one.ProxyLR = rate*scale[k], rate*proxyScale[k]
			one.state = Checkpoint{}
		}
		err := l.trainBlocks(ctx, sessions, func(epoch int, _ []tally, trained [][]float32) error {
			if !slices.Contains(lengths(s.Epochs), epoch) {
				return nil
			}
			var mapR, recall []float64
			for k, f := range folds {
				r, err := rankBlock(ctx, a, blocks[k], held[k], trained[k], f.held.labels)
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
				bestScore, bestRate, h.epochs = score, rate, epoch
				h.GainMAPAtR, h.GainRecall = stat.Mean(mapR, nil), stat.Mean(recall, nil)
			}
			return nil
		})
		if err != nil {
			l.free()
			return err
		}
	}
	if h.epochs == 0 {
		l.free()
		return nil
	}
	h.Rate, h.Steps = bestRate, h.epochs*s.StepsPerEpoch
	for i, one := range sessions { // On all classes, with seeds that are none of a run's.
		one.step.free()
		if sessions[i], err = t.blockSession(s.Training, h.block, uint64(i+1), 1, 1, s.Epochs); err != nil {
			l.free()
			return err
		}
	}
	if sessions[0].objective.proxies > 0 { // There are more proxies now.
		l.free()
		if l, err = t.newLanes(sessions); err != nil {
			return err
		}
	}
	h.lanes = l
	if scale, proxyScale, err = l.gradientScales(ctx, sessions); err != nil {
		return err
	}
	h.lr, h.proxyLR = bestRate*stat.Mean(scale, nil), bestRate*stat.Mean(proxyScale, nil)
	return nil
}

// rankBlock ranks held-out rows in the coordinates of a block that was trained.
func rankBlock(ctx context.Context, a *algebra, b *blockData, held matrix, trained []float32, labels []int64) (scores,
	error) {
	first := newMatrix(held.rows, b.k)
	for i := range held.rows {
		copy(first.row(i), held.row(i))
	}
	moved, err := a.times(first, transposedRows(matrix{trained, b.k, b.k}))
	if err != nil {
		return scores{}, err
	}
	all := matrix{slices.Clone(held.values), held.rows, held.cols}
	for i := range held.rows {
		copy(all.row(i), moved.row(i))
	}
	return rank(ctx, a, all, labels)
}

// trainChosen trains heads whose start, rate and steps are chosen, those with the same choice side by side.
func (t *Trainer) trainChosen(ctx context.Context, trainings []Training) (outs []*Outcome, err error) {
	outs = make([]*Outcome, len(trainings))
	var sessions []*session
	defer func() {
		for _, s := range sessions {
			s.step.free()
		}
	}()
	groups := make(map[string][]int)
	var keys []string
	for i, training := range trainings {
		s, err := t.newSession(training)
		if err != nil {
			return nil, err
		}
		sessions = append(sessions, s)
		if err := s.open(); err != nil {
			return nil, err
		}
		key := s.choiceKey()
		if groups[key] == nil {
			keys = append(keys, key)
		}
		groups[key] = append(groups[key], i)
	}
	for _, key := range keys {
		head, err := t.choose(ctx, sessions[groups[key][0]])
		if err != nil {
			return nil, err
		}
		size := 1
		if head.lanes != nil {
			size = head.lanes.count
		}
		for some := range slices.Chunk(groups[key], size) {
			var group []*session
			for _, i := range some {
				group = append(group, sessions[i])
			}
			if err := t.trainBlocksOf(ctx, head, group); err != nil {
				return nil, err
			}
			for _, i := range some {
				if outs[i], err = sessions[i].finish(ctx); err != nil {
					return nil, err
				}
				choice := head.HeadChoice
				outs[i].Measures.Head = &choice
			}
		}
	}
	return outs, nil
}

// trainBlocksOf trains the blocks of trainings, sets the weights of their heads, and writes what a training writes.
func (t *Trainer) trainBlocksOf(ctx context.Context, head *chosenHead, group []*session) error {
	trained := make([][]float32, len(group))
	for i := range group {
		trained[i] = make([]float32, head.block.k*head.block.k)
		for j := range head.block.k {
			trained[i][j*head.block.k+j] = 1
		}
	}
	if head.epochs > 0 {
		var blocks []*session
		defer func() {
			for _, b := range blocks {
				b.step.free()
			}
		}()
		for i := range head.lanes.count { // A graph has a fixed number: the last ones are trained for nothing.
			of := group[min(i, len(group)-1)]
			b, err := t.blockSession(of.Training, head.block, of.Seed, head.lr, head.proxyLR, head.epochs)
			if err != nil {
				return err
			}
			if b.state = of.state; i < len(group) && of.Training.Progress != nil {
				b.Progress = of.Training.Progress
			}
			b.state.Epoch, b.state.Epochs, b.state.Triplets, b.state.Diverged = 0, nil, nil, ""
			blocks = append(blocks, b)
		}
		err := head.lanes.trainBlocks(ctx, blocks, func(epoch int, sums []tally, all [][]float32) error {
			for i := range group {
				if err := blocks[i].endEpoch(epoch, &sums[i], false); err != nil {
					return err
				}
			}
			copy(trained, all)
			return nil
		})
		if err != nil {
			return err
		}
		for i, s := range group {
			s.state = blocks[i].state
		}
	}
	for i, s := range group {
		if err := s.setLinear(head.block, trained[i]); err != nil {
			return err
		}
		s.choice = &head.HeadChoice
		if err := s.save(); err != nil {
			return err
		}
	}
	return nil
}

// setLinear sets the weights of a linear head, which takes features after the scale and shift of the data.
func (s *session) setLinear(b *blockData, block []float32) error {
	features := s.Data.Train.Shape().Dim(0)
	weight, bias := b.linear(block, features)
	rows, _ := weight.Dims()
	values, biases := make([]float32, 0, rows*features), make([]float32, rows)
	for i := range rows {
		offset := bias[i]
		for j, w := range weight.RawRowView(i) {
			scale, shift := 1.0, 0.0
			if s.Data.Scale != nil { // x = (x̂ − shift) / scale
				scale, shift = float64(s.Data.Scale[j]), float64(s.Data.Shift[j])
			}
			values = append(values, float32(w/scale))
			offset -= w * shift / scale
		}
		biases[i] = float32(offset)
	}
	for path, t := range map[string]*tensors.Tensor{
		"/fc/weight": tensors.FromFlatDataAndDimensions(values, rows, features),
		"/fc/bias":   tensors.FromFlatDataAndDimensions(biases, rows),
	} {
		v := s.step.weights.GetVariable(path)
		if v == nil || !strings.HasPrefix(s.Head, linearHead) {
			return fmt.Errorf("the head %s has no variable %s", s.Head, path)
		}
		if err := v.SetValue(t); err != nil {
			return err
		}
	}
	return nil
}

// Reference is what heads are held against: the test set by its features, without a head.
type Reference struct {
	Name string `json:"name"` // "features", or "whitened features".
	Measures
}

// References measures the test set by its features as they are and, where classes have images that differ, whitened by
// the scatter within the training classes, W + 0.01 tr(W)/F I. Every heldOut-th class is no training class; 0 is none.
func (t *Trainer) References(ctx context.Context, data *Data, heldOut int) ([]Reference, error) {
	without, err := HeldOutClasses(data.Train.Labels(), heldOut)
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
	if w, ok := whitened(m.scatter, m.mean, 0.01/1.01); ok { // But for a factor.
		w.Name = "whitened features"
		starts = append(starts, w)
	}
	var out []Reference
	for _, start := range starts {
		var of [2]*retrieval.Embeddings
		for i, split := range []Samples{data.Test, data.Gallery} {
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

func (c *choices) free() {
	c.Lock()
	defer c.Unlock()
	if c.head != nil {
		c.head.lanes.free()
	}
	c.head = nil
}

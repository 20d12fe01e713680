package experiment

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
)

// WithLoss is the spec with a loss in the place of its rule: the loss by its name as [losses.Parse] reads it, and the miner
// of its pairs or triplets as [miners.Parse] does, or "". Both are kept under their canonical names. A loss with proxies
// wants their learning rate in ProxyLR; one without wants 0 there.
func (s Spec) WithLoss(loss, miner string) (Spec, error) {
	l, err := losses.Parse(loss)
	if err != nil {
		return s, err
	}
	if miner == "all" {
		miner = "" // Which is what a loss does by itself.
	}
	if miner != "" {
		if _, err := miners.Parse(miner); err != nil {
			return s, err
		}
		if err := losses.CheckMined(l); err != nil {
			return s, fmt.Errorf("miner %s: %w", miner, err)
		}
	}
	s.Rule, s.rule = "", nil
	s.Loss, s.Miner, s.Exchange = l.String(), miner, ""
	if losses.PerClass(l) == 0 {
		s.ProxyLR = 0
	}
	return s, nil
}

// WithExchange is the spec with parts of its loss exchanged, as [dmlx.ParseExchange] reads them; "" for none.
func (s Spec) WithExchange(parts string) (Spec, error) {
	x, err := dmlx.ParseExchange(parts)
	if err != nil {
		return s, err
	}
	s.Exchange = x.String()
	return s, nil
}

// Objective says in one line what the spec trains by: its rule, or "loss " and its loss with the miner, if it has one, and
// the parts that are exchanged: "loss ms, miner ms, pair=lin-ms".
func (s Spec) Objective() string {
	if s.Loss == "" {
		return s.Rule
	}
	text := "loss " + s.Loss
	if s.Miner != "" {
		text += ", miner " + s.Miner
	}
	if s.Exchange != "" {
		text += ", " + s.Exchange
	}
	return text
}

// validateObjective tells what is wrong with what a spec trains by.
func (s Spec) validateObjective() error {
	if s.Loss == "" {
		if s.Miner != "" || s.Exchange != "" || s.ProxyLR != 0 {
			return fmt.Errorf("a miner, an exchange of parts and a learning rate of proxies belong to a loss, the spec has the rule %q", s.Rule)
		}
		_, err := s.TheRule()
		return err
	}
	if s.Rule != "" {
		return fmt.Errorf("the spec has the rule %q and the loss %q: want one of them", s.Rule, s.Loss)
	}
	same, err := s.WithLoss(s.Loss, s.Miner)
	if err == nil {
		same, err = same.WithExchange(s.Exchange)
	}
	if err != nil {
		return err
	}
	if got, want := s.Objective(), same.Objective(); got != want {
		return fmt.Errorf("%s is not named as runs are known by: want %s", got, want)
	}
	l, err := losses.Parse(s.Loss)
	if err != nil {
		return err
	}
	switch has := losses.PerClass(l) > 0; {
	case has && (!(s.ProxyLR > 0) || math.IsInf(s.ProxyLR, 0)):
		return fmt.Errorf("learning rate of the proxies of loss %s is %g, must be a positive number", s.Loss, s.ProxyLR)
	case !has && s.ProxyLR != 0:
		return fmt.Errorf("loss %s has no proxies, and so no learning rate of theirs", s.Loss)
	}
	return nil
}

// proxyRate is the learning rate of the proxies in an epoch, on the schedule of the network's.
func (s Spec) proxyRate(epoch int) float64 {
	s.LR = s.ProxyLR
	return s.rate(epoch)
}

// descent is what a step of training descends: a rule, or a loss with what belongs to it.
type descent struct {
	rule     dmlx.Rule
	loss     *losses.Named // nil for a rule.
	miner    miners.Miner  // nil for all pairs and triplets.
	perClass int           // Proxies of a class.
	proxies  int           // All of them.
	noise    bool          // Whether the miner draws.
	exchange dmlx.Exchange
}

// newDescent reads what a spec trains by, for so many classes.
func newDescent(s Spec, classes int) (by descent, err error) {
	if s.Loss == "" {
		by.rule, err = s.TheRule()
		return by, err
	}
	if by.loss, err = losses.Parse(s.Loss); err != nil {
		return by, err
	}
	by.perClass = losses.PerClass(by.loss)
	by.proxies = by.perClass * classes
	if by.exchange, err = dmlx.ParseExchange(s.Exchange); err != nil {
		return by, err
	}
	by.exchange.PerAnchor = max(s.ImagesPerClass, by.perClass) // An anchor has no more positives, be they images or proxies.
	if s.Miner == "" {
		return by, nil
	}
	if by.miner, err = miners.Parse(s.Miner); err != nil {
		return by, err
	}
	switch m := by.miner.(type) {
	case miners.DistanceWeighted:
		by.noise = true
	case miners.SemiHardNegatives:
		m.PerAnchor = s.ImagesPerClass - 1 // A batch has no more of a class.
		by.miner = m
	}
	return by, nil
}

// surgery gives the normalised embeddings, and proxies or nil, with the loss's gradient behind them, of embeddings x [B, D]
// with labels that count the classes from 0, int32 [B]. noise is for a miner that draws, uniform in [0, 1), [B, B].
func (by descent) surgery(x, labels, proxies, noise *Node) (f, p *Node) {
	var classes *Node
	if proxies != nil {
		rows := make([]int32, by.proxies)
		for i := range rows {
			rows[i] = int32(i / by.perClass)
		}
		classes = Const(x.Graph(), rows)
	}
	loss := by.loss.Of
	switch m := by.miner.(type) {
	case nil:
	case miners.DistanceWeighted:
		m.Noise = noise
		loss = miners.With(m, loss)
	default:
		loss = miners.With(m, loss)
	}
	c := dmlx.ComposeLoss(dmlx.NewLossBatch(x, labels, proxies, classes), loss)
	if by.exchange.String() != "" {
		c = c.Exchange(by.exchange)
	}
	return c.Surgery()
}

// numbering counts the classes that are trained on from 0, in the order of their labels: the rows of their proxies.
func numbering(labels []int64, without map[int64]bool) map[int64]int32 {
	there := make(map[int64]bool)
	for _, l := range labels {
		if !without[l] {
			there[l] = true
		}
	}
	out := make(map[int64]int32, len(there))
	for i, l := range slices.Sorted(maps.Keys(there)) {
		out[l] = int32(i)
	}
	return out
}

// firstProxies are where a run's proxies start: unit vectors [n, dim] in any direction. A row depends on the seed and its
// number alone.
func firstProxies(n, dim int, seed uint64) []float32 {
	out := make([]float32, 0, n*dim)
	for i := range n {
		rng, square := stream(seed, streamProxies, uint64(i)), 0.0
		row := make([]float64, dim)
		for square == 0 {
			for j := range row {
				row[j] = rng.NormFloat64()
				square += row[j] * row[j]
			}
		}
		for _, v := range row {
			out = append(out, float32(v/math.Sqrt(square)))
		}
	}
	return out
}

// noise is what a miner draws from in a step, [size, size].
func noise(size, step int, seed uint64) *tensors.Tensor {
	rng := stream(seed, streamMiner, uint64(step))
	return tensors.FromFlatDataAndDimensions(uniform(rng, size*size), size, size)
}

func uniform(rng *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = rng.Float32()
	}
	return out
}

// proxyClasses are the data set's labels of the classes that have proxies, in the order of their rows.
func (t *trainer) proxyClasses() string {
	labels := make([]string, len(t.classes))
	for label, i := range t.classes {
		labels[i] = fmt.Sprint(label)
	}
	return "[" + strings.Join(labels, ", ") + "]"
}

package train

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
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
)

// WithRule is the spec with another rule, which may be the user's own.
func (c Config) WithRule(r dmlx.Rule) (Config, error) {
	id, err := dissect.IdentityOf(r)
	if err != nil {
		return c, err
	}
	c.Rule, c.rule = id, &r
	c.Loss, c.Miner, c.Exchange, c.ProxyLR = "", "", "", 0
	return c, nil
}

// TheRule is the rule itself. It fails for the identity of a custom rule in a config that was not made by [Config.WithRule], and
// for a spec that trains by a loss.
func (c Config) ParsedRule() (dmlx.Rule, error) {
	if c.Loss != "" {
		return dmlx.Rule{}, fmt.Errorf("the spec trains by %s, not by a rule", c.Objective())
	}
	if c.rule != nil {
		if id, err := dissect.IdentityOf(*c.rule); err == nil && id == c.Rule {
			return *c.rule, nil
		}
	}
	return dmlx.ParseRule(c.Rule)
}

// WithRuleValueOf returns the config with the rule value of another config of the same rule: a custom rule cannot be made from
// its identity, which is all that a stored config has.
func (c Config) WithRuleValueOf(o Config) Config {
	c.rule = o.rule
	return c
}

// WithLoss is the config with a loss in the place of its rule: the loss by its name as [losses.Parse] reads it, and the miner
// of its pairs or triplets as [miners.Parse] does, or "". Both are kept under their canonical names. A loss with proxies
// wants their learning rate in ProxyLR; one without wants 0 there.
func (c Config) WithLoss(loss, miner string) (Config, error) {
	l, err := losses.Parse(loss)
	if err != nil {
		return c, err
	}
	if miner == "all" {
		miner = "" // Which is what a loss does by itself.
	}
	if miner != "" {
		if _, err := miners.Parse(miner); err != nil {
			return c, err
		}
		if err := losses.CheckMined(l); err != nil {
			return c, fmt.Errorf("miner %s: %w", miner, err)
		}
	}
	c.Rule, c.rule = "", nil
	c.Loss, c.Miner, c.Exchange = l.String(), miner, ""
	if losses.PerClass(l) == 0 {
		c.ProxyLR = 0
	}
	return c, nil
}

// WithExchange is the config with parts of its loss exchanged, as [dmlx.ParseExchange] reads them; "" for none.
func (c Config) WithExchange(parts string) (Config, error) {
	x, err := dmlx.ParseExchange(parts)
	if err != nil {
		return c, err
	}
	c.Exchange = x.String()
	return c, nil
}

// Objective says in one line what the spec trains by: its rule, or "loss " and its loss with the miner, if it has one, and
// the parts that are exchanged: "loss ms, miner ms, pair=lin-ms".
func (c Config) Objective() string {
	if c.Loss == "" {
		return c.Rule
	}
	text := "loss " + c.Loss
	if c.Miner != "" {
		text += ", miner " + c.Miner
	}
	if c.Exchange != "" {
		text += ", " + c.Exchange
	}
	return text
}

// validateObjective tells what is wrong with what a spec trains by.
func (c Config) validateObjective() error {
	if c.Loss == "" {
		if c.Miner != "" || c.Exchange != "" || c.ProxyLR != 0 {
			return fmt.Errorf("a miner, an exchange of parts and a learning rate of proxies belong to a loss, the spec has the rule %q", c.Rule)
		}
		_, err := c.ParsedRule()
		return err
	}
	if c.Rule != "" {
		return fmt.Errorf("the spec has the rule %q and the loss %q: want one of them", c.Rule, c.Loss)
	}
	same, err := c.WithLoss(c.Loss, c.Miner)
	if err == nil {
		same, err = same.WithExchange(c.Exchange)
	}
	if err != nil {
		return err
	}
	if got, want := c.Objective(), same.Objective(); got != want {
		return fmt.Errorf("%s is not named as runs are known by: want %s", got, want)
	}
	l, err := losses.Parse(c.Loss)
	if err != nil {
		return err
	}
	switch has := losses.PerClass(l) > 0; {
	case has && (!(c.ProxyLR > 0) || math.IsInf(c.ProxyLR, 0)):
		return fmt.Errorf("learning rate of the proxies of loss %s is %g, must be a positive number", c.Loss, c.ProxyLR)
	case !has && c.ProxyLR != 0:
		return fmt.Errorf("loss %s has no proxies, and so no learning rate of theirs", c.Loss)
	}
	return nil
}

// objective is what a step of training descends: a rule, or a loss with what belongs to it.
type objective struct {
	rule     dmlx.Rule
	loss     *losses.Named // nil for a rule.
	miner    miners.Miner  // nil for all pairs and triplets.
	perClass int           // Proxies of a class.
	proxies  int           // All of them.
	noise    bool          // Whether the miner draws.
	exchange dmlx.Exchange
}

// newObjective reads what a spec trains by, for so many classes.
func newObjective(s Config, classes int) (by objective, err error) {
	if s.Loss == "" {
		by.rule, err = s.ParsedRule()
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
func (by objective) surgery(x, labels, proxies, noise *Node) (f, p *Node) {
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
func numberClasses(labels []int64, without map[int64]bool) map[int64]int32 {
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
func initialProxies(n, dim int, seed uint64) []float32 {
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
func minerNoise(size, step int, seed uint64) *tensors.Tensor {
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
func (s *session) proxyClasses() string {
	labels := make([]string, len(s.classes))
	for label, i := range s.classes {
		labels[i] = fmt.Sprint(label)
	}
	return "[" + strings.Join(labels, ", ") + "]"
}

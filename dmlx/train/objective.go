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

// WithRule returns the config with a rule, built in or custom, and without a loss. It keeps the miner of a rule and
// removes that of a loss.
func (c Config) WithRule(r dmlx.Rule) (Config, error) {
	id, err := dissect.IdentityOf(r)
	if err != nil {
		return c, err
	}
	if c.Loss != "" {
		c.Loss, c.Miner, c.Exchange, c.ProxyLR = "", "", "", 0
	}
	c.Rule, c.rule = id, &r
	return c, nil
}

// ParsedRule returns the rule of the config. It fails if the config has a loss, and if it has the identity of a
// custom rule that was not set by [Config.WithRule], as after reading it from a file.
func (c Config) ParsedRule() (dmlx.Rule, error) {
	if c.Loss != "" {
		return dmlx.Rule{}, fmt.Errorf("the objective is %s, not a rule", c.Objective())
	}
	if c.rule != nil {
		if id, err := dissect.IdentityOf(*c.rule); err == nil && id == c.Rule {
			return *c.rule, nil
		}
	}
	return dmlx.ParseRule(c.Rule)
}

// WithRuleValueOf returns the config with the rule value of o, which has the same rule. A stored config has only the
// identity of its rule, and a custom rule cannot be parsed from that.
func (c Config) WithRuleValueOf(o Config) Config {
	c.rule = o.rule
	return c
}

// WithLoss returns the config with a loss and without a rule. loss is a name that [losses.Parse] reads; miner is one
// that [miners.Parse] reads and selects the pairs or triplets of the loss, and "" or "all" for no miner. Both are
// stored under their canonical names. The caller sets ProxyLR if the loss has proxies.
func (c Config) WithLoss(loss, miner string) (Config, error) {
	l, err := losses.Parse(loss)
	if err != nil {
		return c, err
	}
	if miner == "all" {
		miner = "" // A loss without a miner takes all pairs or triplets.
	}
	if miner != "" {
		if miner, err = miners.Canonical(miner); err != nil {
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

// WithMiner returns the config with another miner of its rule's triplets, or of its loss's pairs or triplets, under its
// canonical name. "" stands for easy-positive with a rule, the paper's easy positives and hard negatives, and for all
// with a loss.
func (c Config) WithMiner(miner string) (Config, error) {
	if c.Loss != "" {
		exchange, proxyLR := c.Exchange, c.ProxyLR
		c, err := c.WithLoss(c.Loss, miner)
		c.Exchange, c.ProxyLR = exchange, proxyLR
		return c, err
	}
	if miner != "" {
		m, err := miners.Parse(miner)
		if err != nil {
			return c, err
		}
		if err := miners.CheckTriplets(m); err != nil {
			return c, fmt.Errorf("miner %s: %w", miner, err)
		}
		if miner, err = miners.Canonical(miner); err != nil {
			return c, err
		}
	}
	if miner == ruleMiner {
		miner = ""
	}
	c.Miner = miner
	return c, nil
}

// ruleMiner is the name of the miner that a rule has by default. Batches mine by it themselves, see [dmlx.NewBatch].
const ruleMiner = "easy-positive"

// WithExchange returns the config with parts of its loss replaced, in the syntax of [dmlx.ParseExchange]; "" replaces
// none.
func (c Config) WithExchange(parts string) (Config, error) {
	x, err := dmlx.ParseExchange(parts)
	if err != nil {
		return c, err
	}
	c.Exchange = x.String()
	return c, nil
}

// Objective returns in one line what is trained: the rule, or "loss " and the loss, with the miner and the exchanged
// parts, if any: "cos/con/con", "cos/lin/cir, miner hard", "loss ms, miner ms, pair=lin-ms".
func (c Config) Objective() string {
	text := c.Rule
	if c.Loss != "" {
		text = "loss " + c.Loss
	}
	if c.Miner != "" {
		text += ", miner " + c.Miner
	}
	if c.Exchange != "" {
		text += ", " + c.Exchange
	}
	return text
}

// validateObjective reports what is wrong with the rule or loss.
func (c Config) validateObjective() error {
	if c.Loss == "" {
		if c.Exchange != "" || c.ProxyLR != 0 {
			return fmt.Errorf("the objective is the rule %q: Exchange and ProxyLR must be empty, they belong to a loss", c.Rule)
		}
		same, err := c.WithMiner(c.Miner)
		if err != nil {
			return err
		}
		if same.Miner != c.Miner {
			return fmt.Errorf("miner %q of a rule is not in canonical form: want %q", c.Miner, same.Miner)
		}
		_, err = c.ParsedRule()
		return err
	}
	if c.Rule != "" {
		return fmt.Errorf("the objective has the rule %q and the loss %q: want one of them", c.Rule, c.Loss)
	}
	same, err := c.WithLoss(c.Loss, c.Miner)
	if err == nil {
		same, err = same.WithExchange(c.Exchange)
	}
	if err != nil {
		return err
	}
	if got, want := c.Objective(), same.Objective(); got != want {
		return fmt.Errorf("%s is not in canonical form: want %s", got, want)
	}
	l, err := losses.Parse(c.Loss)
	if err != nil {
		return err
	}
	switch has := losses.PerClass(l) > 0; {
	case has && (!(c.ProxyLR > 0) || math.IsInf(c.ProxyLR, 0)):
		return fmt.Errorf("learning rate of the proxies of loss %s is %g, must be a positive number", c.Loss, c.ProxyLR)
	case !has && c.ProxyLR != 0:
		return fmt.Errorf("loss %s has no proxies: ProxyLR must be 0", c.Loss)
	}
	return nil
}

// objective is the parsed form of what [Config.Objective] names: a rule, or a loss with its miner and exchanged
// parts.
type objective struct {
	rule     dmlx.Rule
	loss     *losses.Named // nil for a rule.
	miner    miners.Miner  // nil for all pairs and triplets.
	perClass int           // Proxies of a class.
	proxies  int           // Proxies of all classes.
	noise    bool          // Whether the miner samples at random.
	exchange dmlx.Exchange
}

// newObjective parses the objective of a config for a number of training classes.
func newObjective(s Config, classes int) (obj objective, err error) {
	if s.Loss == "" {
		obj.rule, err = s.ParsedRule()
		return obj, err
	}
	if obj.loss, err = losses.Parse(s.Loss); err != nil {
		return obj, err
	}
	obj.perClass = losses.PerClass(obj.loss)
	obj.proxies = obj.perClass * classes
	if obj.exchange, err = dmlx.ParseExchange(s.Exchange); err != nil {
		return obj, err
	}
	obj.exchange.PerAnchor = max(s.ImagesPerClass, obj.perClass) // The most positives of an anchor, images or proxies.
	if s.Miner == "" {
		return obj, nil
	}
	if obj.miner, err = miners.Parse(s.Miner); err != nil {
		return obj, err
	}
	switch m := obj.miner.(type) {
	case miners.DistanceWeighted:
		obj.noise = true
	case miners.SemiHardNegatives:
		m.PerAnchor = s.ImagesPerClass - 1 // The most positives of an anchor.
		obj.miner = m
	}
	return obj, nil
}

// surgery returns the normalized embeddings f, and the proxies p or nil, as nodes whose gradient is that of the loss.
// x are embeddings [B, D] and labels count the classes from 0, int32 [B]. noise, uniform in [0, 1), [B, B], is for a
// miner that samples.
func (obj objective) surgery(x, labels, proxies, noise *Node) (f, p *Node) {
	var classes *Node
	if proxies != nil {
		rows := make([]int32, obj.proxies)
		for i := range rows {
			rows[i] = int32(i / obj.perClass)
		}
		classes = Const(x.Graph(), rows)
	}
	loss := obj.loss.Of
	switch m := obj.miner.(type) {
	case nil:
	case miners.DistanceWeighted:
		m.Noise = noise
		loss = miners.With(m, loss)
	default:
		loss = miners.With(m, loss)
	}
	c := dmlx.ComposeLoss(dmlx.NewLossBatch(x, labels, proxies, classes), loss)
	if obj.exchange.String() != "" {
		c = c.Exchange(obj.exchange)
	}
	return c.Surgery()
}

// numberClasses numbers the classes that are trained on from 0, in the order of their labels. The numbers are the
// rows of their proxies.
func numberClasses(labels []int64, without map[int64]bool) map[int64]int32 {
	present := make(map[int64]bool)
	for _, l := range labels {
		if !without[l] {
			present[l] = true
		}
	}
	out := make(map[int64]int32, len(present))
	for i, l := range slices.Sorted(maps.Keys(present)) {
		out[l] = int32(i)
	}
	return out
}

// initialProxies returns unit vectors [n, dim] of uniformly distributed directions. A row depends only on the seed
// and its number.
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

// minerNoise returns the random numbers of a miner that samples, for one step: uniform in [0, 1), [size, size].
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

// proxyClasses returns the labels of the classes that have proxies, in the order of the proxies' rows.
func (s *session) proxyClasses() string {
	labels := make([]string, len(s.classes))
	for label, i := range s.classes {
		labels[i] = fmt.Sprint(label)
	}
	return "[" + strings.Join(labels, ", ") + "]"
}

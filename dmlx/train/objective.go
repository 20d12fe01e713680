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
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
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
	c.Rule, c.rule, c.loss = id, &r, nil
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

// WithValuesOf returns the config with the functions of o, which has the same rule, loss and model. A stored config has
// only the identities of functions of the user's own, and these cannot be parsed.
func (c Config) WithValuesOf(o Config) Config {
	c.rule, c.loss, c.model = o.rule, o.loss, o.model
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
	c.Loss, c.loss = l.String(), nil
	return c.withLoss(losses.PerClass(l), miner)
}

// LossFunction is a loss of the user's own. [Config.WithLossFunction] trains by it.
type LossFunction struct {
	Name string
	Of   dmlx.LossFunc
	// Proxies is the number of proxies of each class that the loss has, as [dmlx.LossBatch] gives them; 0 for a loss of
	// pairs or triplets.
	Proxies int
	// Miner selects the pairs or triplets of the loss; see [Config.WithLoss].
	Miner string
}

// WithLossFunction returns the config with a loss of the user's own and without a rule. The caller sets ProxyLR if the
// loss has proxies. Loss is set to the name and a digest of the loss's graph, so that an edited loss is another loss.
func (c Config) WithLossFunction(l LossFunction) (Config, error) {
	id, err := dissect.IdentityOfLoss(l.Name, l.Of, l.Proxies)
	if err != nil {
		return c, err
	}
	of := l.Of
	l.Of = func(b *dmlx.LossBatch) *Node { // GoMLX recovers from errors alone.
		defer func() {
			if r := recover(); r != nil {
				panic(errs.Panicked(r))
			}
		}()
		return of(b)
	}
	c.Loss, c.loss = id, &ownLoss{l, id}
	return c.withLoss(l.Proxies, l.Miner)
}

// ownLoss is a loss of the user's own with its identity.
type ownLoss struct {
	LossFunction
	identity string
}

// lossFunc returns the loss of a config and its number of proxies of a class. It fails if the config has the identity
// of a loss of the user's own that was not set by [Config.WithLossFunction], as after reading it from a file.
func (c Config) lossFunc() (of dmlx.LossFunc, perClass int, err error) {
	if c.loss != nil && c.loss.identity == c.Loss {
		return c.loss.Of, c.loss.Proxies, nil
	}
	if strings.Contains(c.Loss, "#") {
		return nil, 0, fmt.Errorf("loss %s is a function of the program that trained it: set it by Config.WithLossFunction",
			c.Loss)
	}
	l, err := losses.Parse(c.Loss)
	if err != nil {
		return nil, 0, err
	}
	return l.Of, losses.PerClass(l), nil
}

// withLoss returns the config, whose loss is set, with a miner and without a rule.
func (c Config) withLoss(perClass int, miner string) (_ Config, err error) {
	if miner == "all" {
		miner = "" // A loss without a miner takes all pairs or triplets.
	}
	if miner != "" {
		if miner, err = miners.Canonical(miner); err != nil {
			return c, err
		}
		if perClass > 0 {
			return c, fmt.Errorf("miner %s: loss %s has proxies in place of pairs and triplets of images, of which a miner "+
				"chooses", miner, c.Loss)
		}
	}
	c.Rule, c.rule = "", nil
	c.Miner, c.Exchange = miner, ""
	if perClass == 0 {
		c.ProxyLR = 0
	}
	return c, nil
}

// WithMiner returns the config with another miner of its rule's triplets, or of its loss's pairs or triplets, under its
// canonical name. "" stands for easy-positive with a rule, the paper's easy positives and hard negatives, and for all
// with a loss.
func (c Config) WithMiner(miner string) (Config, error) {
	if c.Loss != "" {
		_, perClass, err := c.lossFunc()
		if err != nil {
			return c, err
		}
		exchange, proxyLR := c.Exchange, c.ProxyLR
		c, err = c.withLoss(perClass, miner)
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
	_, perClass, err := c.lossFunc()
	if err != nil {
		return err
	}
	var same Config
	if c.loss != nil && c.loss.identity == c.Loss {
		same, err = c.withLoss(perClass, c.Miner)
	} else {
		same, err = c.WithLoss(c.Loss, c.Miner)
	}
	if err == nil {
		same, err = same.WithExchange(c.Exchange)
	}
	if err != nil {
		return err
	}
	if got, want := c.Objective(), same.Objective(); got != want {
		return fmt.Errorf("%s is not in canonical form: want %s", got, want)
	}
	switch has := perClass > 0; {
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
	loss     dmlx.LossFunc // nil for a rule.
	miner    miners.Miner  // nil for all pairs and triplets.
	perClass int           // Proxies of a class.
	proxies  int           // Proxies of all classes.
	noise    bool          // Whether the miner samples at random.
	exchange dmlx.Exchange
	options  stepOptions
}

// newObjective parses the objective of a config for a number of training classes.
func newObjective(s Config, classes int) (obj objective, err error) {
	if obj.options, err = s.stepOptions(); err != nil {
		return obj, err
	}
	if s.Loss == "" {
		if obj.rule, err = s.ParsedRule(); err != nil {
			return obj, err
		}
		return obj, obj.parseMiner(s)
	}
	if obj.loss, obj.perClass, err = s.lossFunc(); err != nil {
		return obj, err
	}
	obj.proxies = obj.perClass * classes
	if obj.exchange, err = dmlx.ParseExchange(s.Exchange); err != nil {
		return obj, err
	}
	obj.exchange.PerAnchor = max(s.ImagesPerClass, obj.perClass) // The most positives of an anchor, images or proxies.
	return obj, obj.parseMiner(s)
}

// parseMiner sets the miner of a config, if it has one.
func (obj *objective) parseMiner(c Config) (err error) {
	if c.Miner == "" {
		return nil
	}
	if obj.miner, err = miners.Parse(c.Miner); err != nil {
		return err
	}
	switch m := obj.miner.(type) {
	case miners.DistanceWeighted:
		obj.noise = true
		if c.Loss == "" { // A rule gathers the vectors of each triplet, also of those that are not valid.
			m.PerAnchor = c.ImagesPerClass - 1
			obj.miner = m
		}
	case miners.SemiHardNegatives:
		m.PerAnchor = c.ImagesPerClass - 1 // The most positives of an anchor.
		obj.miner = m
	}
	return nil
}

// minerWith returns the miner, which draws from noise if it samples.
func (obj objective) minerWith(noise *Node) miners.Miner {
	if m, is := obj.miner.(miners.DistanceWeighted); is {
		m.Noise = noise
		return m
	}
	return obj.miner
}

// surgery returns the normalized embeddings f, and the proxies p or nil, as nodes whose gradient is that of the loss.
// x are embeddings [B, D] and labels count the classes from 0, int32 [B]. noise, uniform in [0, 1), of the shape of S,
// is for a miner that samples. bank is nil without one.
func (obj objective) surgery(x, labels, proxies, noise *Node, bank *dmlx.Bank) (f, p *Node) {
	var classes *Node
	if proxies != nil {
		rows := make([]int32, obj.proxies)
		for i := range rows {
			rows[i] = int32(i / obj.perClass)
		}
		classes = Const(x.Graph(), rows)
	}
	loss := obj.loss
	if m := obj.minerWith(noise); m != nil {
		loss = miners.With(m, loss)
	}
	batch := dmlx.NewLossBatch(x, labels, proxies, classes)
	if bank != nil {
		batch = dmlx.NewLossBatchWith(x, labels, bank)
	}
	c := dmlx.ComposeLoss(batch, loss)
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

// minerNoise returns the random numbers of a miner that samples, for one step: uniform in [0, 1), [rows, columns].
func minerNoise(rows, columns, step int, seed uint64) *tensors.Tensor {
	rng := stream(seed, streamMiner, uint64(step))
	return tensors.FromFlatDataAndDimensions(uniform(rng, rows*columns), rows, columns)
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

package train

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/sampling"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
)

// Objective is what a run trains: a rule, or a loss, with a miner and exchanged parts. It is a value: [ParseObjective],
// [ByRule] and [ByLoss] return one with what its names stand for, which goes with it to the graph. Its fields, the
// names, are what is stored. The zero value is the rule cos/con/con.
type Objective struct {
	// Rule is the identity of the rule, as [dissect.IdentityOf] returns it; empty where a loss is trained.
	Rule string `json:"rule"`
	// Loss is the canonical name of a loss, see [losses.Named], or the identity of one of the user's own.
	Loss string `json:"loss,omitempty"`
	// Miner is the canonical name of the miner that selects the pairs or triplets of the loss, or the triplets of the
	// rule. Exchange names the parts of the loss that are replaced, in the syntax of [dmlx.ParseExchange].
	Miner    string `json:"miner,omitempty"`
	Exchange string `json:"exchange,omitempty"`

	meaning *meaning // nil for an objective that was read from a file, until it is parsed.
}

// meaning is what the names of an objective stand for.
type meaning struct {
	names    Objective     // Without a meaning.
	rule     dmlx.Rule     // Of an objective without a loss.
	loss     dmlx.LossFunc // nil for a rule.
	perClass int           // Proxies of a class.
	miner    miners.Miner  // nil for all pairs and triplets.
	exchange dmlx.Exchange
	measured func() (measured, error)
}

// measured is what batches of random classes say of an objective.
type measured struct {
	scale float64 // See [Objective.Scale].
	fault error   // What is wrong with a rule of the user's own.
}

// means returns the objective with names that stand for m.
func (o Objective) means(m meaning) Objective {
	o.meaning = nil
	m.names = o
	o.meaning = &m
	return o
}

// resolved returns the objective with its meaning. It fails if that cannot be read off its names: if a function of the
// user's own was not set by [ByRule] or [ByLoss], as after reading the objective from a file.
func (o Objective) resolved() (Objective, error) {
	names := o
	if names.meaning = nil; o.meaning != nil && o.meaning.names == names {
		return o, nil
	}
	var out Objective
	var err error
	switch {
	case o.Loss == "":
		var r dmlx.Rule // For no name.
		if o.Rule != "" {
			r, err = dmlx.ParseRule(o.Rule)
		}
		if err == nil {
			out, err = ByRule(r)
		}
	case strings.Contains(o.Loss, "#"):
		err = fmt.Errorf("loss %s is a function of the program that trained it: set it by train.ByLoss", o.Loss)
	default:
		out, err = namedLoss(o.Loss)
	}
	if err == nil {
		out, err = out.WithMiner(o.Miner)
	}
	if err == nil && o.Exchange != "" {
		out, err = out.WithExchange(o.Exchange)
	}
	return out, err
}

// ByRule returns the objective of a rule, known by its name or with functions of the user's own.
func ByRule(r dmlx.Rule) (Objective, error) {
	id, err := dissect.IdentityOf(r)
	if err != nil {
		return Objective{}, err
	}
	return Objective{Rule: id}.means(meaning{rule: r, measured: sync.OnceValues(func() (m measured, err error) {
		b, err := backend.Go()
		if err != nil {
			return m, err
		}
		checked, err := dissect.Check(b, r)
		if err == nil {
			m = measured{checked.Scale, checked.Err()}
		}
		return m, err
	})}), nil
}

// LossFunction is a loss of the user's own. [ByLoss] makes it an objective.
type LossFunction struct {
	Name string
	Of   dmlx.LossFunc
	// Proxies is the number of proxies of each class that the loss has, as [dmlx.LossBatch] gives them; 0 for a loss of
	// pairs or triplets.
	Proxies int
	// Miner selects the pairs or triplets of the loss; see [Objective.WithMiner].
	Miner string
}

// ByLoss returns the objective of a loss of the user's own. Its Loss is the name and a digest of the loss's graph, so
// that an edited loss is another loss.
func ByLoss(l LossFunction) (Objective, error) {
	id, err := dissect.IdentityOfLoss(l.Name, l.Of, l.Proxies)
	if err != nil {
		return Objective{}, err
	}
	of := func(b *dmlx.LossBatch) *Node { // GoMLX recovers from errors alone.
		defer func() {
			if r := recover(); r != nil {
				panic(errs.Panicked(r))
			}
		}()
		return l.Of(b)
	}
	return lossObjective(id, l.Name, of, l.Proxies).WithMiner(l.Miner)
}

// namedLoss returns the objective of a loss by a name that [losses.Parse] reads.
func namedLoss(name string) (Objective, error) {
	l, err := losses.Parse(name)
	if err != nil {
		return Objective{}, err
	}
	return lossObjective(l.String(), l.Name, l.Of, losses.PerClass(l)), nil
}

func lossObjective(id, name string, of dmlx.LossFunc, perClass int) Objective {
	return Objective{Loss: id}.means(meaning{loss: of, perClass: perClass,
		measured: sync.OnceValues(func() (m measured, err error) {
			b, err := backend.Go()
			if err == nil {
				m.scale, err = dissect.LossScale(b, of, perClass)
			}
			if err != nil {
				err = fmt.Errorf("loss %s: %w", name, err)
			}
			return m, err
		})})
}

// ParseObjective reads a rule, as "cos/lin/cir?tau=2", or a loss as tables name it, "loss ms"; a miner and exchanged
// parts of a loss may follow: "loss ms, miner ms, pair=lin-ms".
func ParseObjective(text string) (Objective, error) {
	if loss, is := strings.CutPrefix(text, "loss "); is {
		return ParseLoss(loss)
	}
	return parseObjective(text, func(name string) (Objective, error) {
		r, err := dmlx.ParseRule(name)
		if err != nil {
			return Objective{}, err
		}
		return ByRule(r)
	})
}

// ParseLoss reads a loss, which a miner and exchanged parts may follow: "ms, miner ms, pair=lin-ms".
func ParseLoss(text string) (Objective, error) { return parseObjective(text, namedLoss) }

// parseObjective reads a rule or loss with what follows its name.
func parseObjective(text string, named func(string) (Objective, error)) (Objective, error) {
	fields := strings.Split(text, ", ")
	o, err := named(strings.TrimSpace(fields[0]))
	if err != nil {
		return Objective{}, err
	}
	for _, field := range fields[1:] {
		if miner, is := strings.CutPrefix(field, "miner "); is && o.Miner == "" {
			o, err = o.WithMiner(strings.TrimSpace(miner))
		} else if !is && strings.Contains(field, "=") && o.Exchange == "" {
			o, err = o.WithExchange(field)
		} else {
			err = fmt.Errorf("%q is neither a miner, as in \"ms, miner ms\", nor an exchanged part, as in \"ms, "+
				"pair=lin-ms\"", field)
		}
		if err != nil {
			return Objective{}, fmt.Errorf("%q: %w", text, err)
		}
	}
	return o, nil
}

// IsRule reports whether the objective is a rule and not a loss.
func (o Objective) IsRule() bool { return o.Loss == "" }

// Custom reports whether the objective has functions of the user's own.
func (o Objective) Custom() bool { return strings.Contains(o.Rule+o.Loss, "#") }

// ParsedRule returns the rule of the objective. It fails for a loss, and for the identity of a custom rule that was
// read from a file.
func (o Objective) ParsedRule() (dmlx.Rule, error) {
	if !o.IsRule() {
		return dmlx.Rule{}, fmt.Errorf("the objective is %s, not a rule", o)
	}
	o, err := o.resolved()
	if err != nil {
		return dmlx.Rule{}, err
	}
	return o.meaning.rule, nil
}

// Proxies returns the number of proxies that the loss has for each class: 0 for a rule, and for a loss of pairs or
// triplets.
func (o Objective) Proxies() int {
	o, err := o.resolved()
	if err != nil {
		return 0
	}
	return o.meaning.perClass
}

// Scale returns the length of the gradient of the rule or loss over that of the rule cos/con/con, both on a batch of
// random classes. An objective of scale s trains at about 1/s of the learning rate of cos/con/con. It is measured once.
func (o Objective) Scale() (float64, error) {
	o, err := o.resolved()
	if err != nil {
		return 0, err
	}
	m, err := o.meaning.measured()
	return m.scale, err
}

// Check returns an error if the names have no meaning, or if functions of the user's own fail on batches of random
// classes; see [dissect.Check].
func (o Objective) Check() error {
	custom := o.Custom()
	o, err := o.resolved()
	if err != nil || !custom {
		return err
	}
	m, err := o.meaning.measured()
	return errors.Join(err, m.fault)
}

// WithMiner returns the objective with another miner of its rule's triplets, or of its loss's pairs or triplets, under
// its canonical name. "" stands for easy-positive with a rule, the paper's easy positives and hard negatives, and for
// all with a loss.
func (o Objective) WithMiner(miner string) (Objective, error) {
	out, err := o.resolved()
	if err != nil {
		return o, err
	}
	m := *out.meaning
	out.Miner, m.miner = "", nil
	if miner == "" || !o.IsRule() && miner == "all" {
		return out.means(m), nil
	}
	if m.miner, err = miners.Parse(miner); err == nil {
		out.Miner, err = miners.Canonical(miner)
	}
	if err != nil {
		return o, err
	}
	switch {
	case !o.IsRule() && m.perClass > 0:
		return o, fmt.Errorf("miner %s: loss %s has proxies in place of pairs and triplets of images, of which a miner "+
			"chooses", out.Miner, o.Loss)
	case o.IsRule():
		if err := miners.CheckTriplets(m.miner); err != nil {
			return o, fmt.Errorf("miner %s: %w", miner, err)
		}
		if out.Miner == ruleMiner {
			out.Miner, m.miner = "", nil
		}
	}
	return out.means(m), nil
}

// ruleMiner is the name of the miner that a rule has by default. Batches mine by it themselves, see [dmlx.NewBatch].
const ruleMiner = "easy-positive"

// WithExchange returns the objective with parts of its loss replaced, in the syntax of [dmlx.ParseExchange]; ""
// replaces none. A rule has none to replace.
func (o Objective) WithExchange(parts string) (Objective, error) {
	if o.IsRule() && parts != "" {
		return o, fmt.Errorf("rule %s: the exchange %s belongs to a loss", o.Rule, parts)
	}
	x, err := dmlx.ParseExchange(parts)
	if err != nil {
		return o, err
	}
	out, err := o.resolved()
	if err != nil {
		return o, err
	}
	m := *out.meaning
	out.Exchange, m.exchange = x.String(), x
	return out.means(m), nil
}

// String returns in one line what is trained: the rule, or "loss " and the loss, with the miner and the exchanged
// parts, if any: "cos/con/con", "cos/lin/cir, miner hard", "loss ms, miner ms, pair=lin-ms".
func (o Objective) String() string {
	text := o.Rule
	if o.Loss != "" {
		text = "loss " + o.Loss
	}
	if o.Miner != "" {
		text += ", miner " + o.Miner
	}
	if o.Exchange != "" {
		text += ", " + o.Exchange
	}
	return text
}

// WithValuesOf returns the config with the functions of o, which has the same objective and model. A stored config has
// only the identities of functions of the user's own, and these cannot be parsed.
func (c Config) WithValuesOf(o Config) Config {
	c.meaning, c.model = o.meaning, o.model
	return c
}

// validateObjective reports what is wrong with the rule or loss.
func (c Config) validateObjective() error {
	switch {
	case c.Rule != "" && c.Loss != "":
		return fmt.Errorf("the objective has the rule %q and the loss %q: want one of them", c.Rule, c.Loss)
	case c.IsRule() && (c.Exchange != "" || c.ProxyLR != 0):
		return fmt.Errorf("the objective is the rule %q: Exchange and ProxyLR must be empty, they belong to a loss", c.Rule)
	}
	same, err := c.Objective.resolved()
	if err != nil {
		return err
	}
	if c.Rule != "" {
		same.Rule = c.Rule // It may be called by an alias.
	}
	if got, want := c.Objective.String(), same.String(); got != want {
		return fmt.Errorf("%s is not in canonical form: want %s", got, want)
	}
	switch has := same.meaning.perClass > 0; {
	case has && (!(c.ProxyLR > 0) || math.IsInf(c.ProxyLR, 0)):
		return fmt.Errorf("learning rate of the proxies of loss %s is %g, must be a positive number", c.Loss, c.ProxyLR)
	case !has && c.ProxyLR != 0:
		return fmt.Errorf("loss %s has no proxies: ProxyLR must be 0", c.Loss)
	}
	return nil
}

// objective is what a config's objective means for its batches and classes.
type objective struct {
	meaning
	proxies int  // Proxies of all classes.
	noise   bool // Whether the miner samples at random.
	options stepOptions
}

// newObjective returns the objective of a config for a number of training classes.
func newObjective(c Config, classes int) (obj objective, err error) {
	if obj.options, err = c.stepOptions(); err != nil {
		return obj, err
	}
	o, err := c.Objective.resolved()
	if err != nil {
		return obj, err
	}
	obj.meaning, obj.proxies = *o.meaning, o.meaning.perClass*classes
	obj.exchange.PerAnchor = max(c.ImagesPerClass, obj.perClass) // The most positives of an anchor, images or proxies.
	switch m := obj.miner.(type) {
	case miners.DistanceWeighted:
		obj.noise = true
		if c.IsRule() { // A rule gathers the vectors of each triplet, also of those that are not valid.
			m.PerAnchor = c.ImagesPerClass - 1
			obj.miner = m
		}
	case miners.SemiHardNegatives:
		m.PerAnchor = c.ImagesPerClass - 1 // The most positives of an anchor.
		obj.miner = m
	}
	return obj, nil
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

// initialProxies returns unit vectors [n, dim] of uniformly distributed directions. A row depends only on the seed
// and its number.
func initialProxies(n, dim int, seed uint64) []float32 {
	out := make([]float32, 0, n*dim)
	for i := range n {
		rng, square := sampling.Stream(seed, sampling.Proxies, uint64(i)), 0.0
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
	rng := sampling.Stream(seed, sampling.Miner, uint64(step))
	values := make([]float32, rows*columns)
	for i := range values {
		values[i] = rng.Float32()
	}
	return tensors.FromFlatDataAndDimensions(values, rows, columns)
}

// proxyClasses returns the labels of the classes that have proxies, in the order of the proxies' rows.
func (s *session) proxyClasses() string {
	labels := make([]string, len(s.classes))
	for label, i := range s.classes {
		labels[i] = fmt.Sprint(label)
	}
	return "[" + strings.Join(labels, ", ") + "]"
}

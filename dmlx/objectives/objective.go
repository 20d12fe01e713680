// Package objectives has what a training minimizes: a rule or a loss, with a miner and exchanged parts. An [Objective]
// is a value: its names are parsed once, and what they stand for goes with it from the command line to the graph of a
// step.
package objectives

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/formula"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
)

// Objective is what a run trains: a rule, or a loss, with a miner and exchanged parts. It is a value: [Parse],
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

// Parsed returns the objective under canonical names, with what they stand for. It fails if that cannot be read off the
// names: if a function of the user's own was not set by [ByRule] or [ByLoss], as after reading the objective from a
// file.
func (o Objective) Parsed() (Objective, error) {
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
			r, err = dmlx.ParseRecorded(o.Rule) // Which may have options without an effect.
		}
		if err == nil {
			out, err = byRule(r)
		}
	case strings.Contains(o.Loss, "#"):
		err = fmt.Errorf("loss %s is a function of the program that trained it: set it by objectives.ByLoss", o.Loss)
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

// ByRule returns the objective of a rule, known by its name or with functions of the user's own. An option without an
// effect is an error, as for [dmlx.ParseRule].
func ByRule(r dmlx.Rule) (Objective, error) {
	if r.Validate() == nil && !r.Custom() {
		if _, err := dmlx.ParseRule(r.Name()); err != nil {
			return Objective{}, err
		}
	}
	return byRule(r)
}

func byRule(r dmlx.Rule) (Objective, error) {
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

// Parse reads a rule, as "cos/lin/cir?tau=2", or a loss as tables name it, "loss ms"; a miner and exchanged
// parts of a loss may follow: "loss ms, miner ms, pair=lin-ms".
func Parse(text string) (Objective, error) {
	fields := formula.Split(text, ",")
	loss, is := strings.CutPrefix(fields[0], "loss ")
	var o Objective
	var r dmlx.Rule
	var err error
	if is {
		o, err = namedLoss(strings.TrimSpace(loss))
	} else if r, err = dmlx.ParseRule(strings.TrimSpace(fields[0])); err == nil {
		o, err = byRule(r)
	}
	if err != nil {
		return Objective{}, err
	}
	for _, field := range fields[1:] {
		field = strings.TrimLeft(field, " ")
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

// ParseLoss reads a loss, which a miner and exchanged parts may follow: "ms, miner ms, pair=lin-ms".
func ParseLoss(text string) (Objective, error) { return Parse("loss " + text) }

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
	o, err := o.Parsed()
	if err != nil {
		return dmlx.Rule{}, err
	}
	return o.meaning.rule, nil
}

// Proxies returns the number of proxies that the loss has for each class: 0 for a rule, and for a loss of pairs or
// triplets.
func (o Objective) Proxies() int {
	o, err := o.Parsed()
	if err != nil {
		return 0
	}
	return o.meaning.perClass
}

// Scale returns the length of the gradient of the rule or loss over that of the rule cos/con/con, both on a batch of
// random classes. An objective of scale s trains at about 1/s of the learning rate of cos/con/con. It is measured once.
func (o Objective) Scale() (float64, error) {
	o, err := o.Parsed()
	if err != nil {
		return 0, err
	}
	m, err := o.meaning.measured()
	return m.scale, err
}

// Check returns an error if the names have no meaning, or if functions or formulas of the user's own fail on batches of
// random classes; see [dissect.Check].
func (o Objective) Check() error {
	own := o.Custom() || strings.Contains(o.Rule, "[") // Functions or formulas.
	o, err := o.Parsed()
	if err != nil || !own {
		return err
	}
	m, err := o.meaning.measured()
	return errors.Join(err, m.fault)
}

// WithMiner returns the objective with another miner of its rule's triplets, or of its loss's pairs or triplets, under
// its canonical name. "" stands for easy-positive with a rule, the paper's easy positives and hard negatives, and for
// all with a loss.
func (o Objective) WithMiner(miner string) (Objective, error) {
	out, err := o.Parsed()
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
	out, err := o.Parsed()
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

// Validate returns an error if the names are not those of a rule or a loss, in canonical form. A rule may have an
// alias.
func (o Objective) Validate() error {
	if o.Rule != "" && o.Loss != "" {
		return fmt.Errorf("the objective has the rule %q and the loss %q: want one of them", o.Rule, o.Loss)
	}
	same, err := o.Parsed()
	if err != nil {
		return err
	}
	if o.Rule != "" {
		same.Rule = o.Rule
	}
	if got, want := o.String(), same.String(); got != want {
		return fmt.Errorf("%s is not in canonical form: want %s", got, want)
	}
	return nil
}

// Package losses has the losses of deep metric learning as they were published, each as a function of a batch's
// similarities ([dmlx.LossBatch]) to be differentiated by machine: taken apart by [dissect.Loss] and
// [dissect.LossParts], or trained with.
//
// A loss is a struct with its parameters; its constructor fills in the usual ones, which are the paper's own unless the
// field says where they are from, and [Parse] reads it by name:
//
//	loss := losses.NewMultiSimilarity()
//	loss.Beta = 40
//	same, err := losses.Parse("ms?beta=40")
//
// All work on L2-normalized embeddings, where a distance is D = √(2−2S). Means are over what has a loss, as
// pytorch-metric-learning's are, where the paper has a sum; each says so. What a batch lacks, positives, negatives or
// triplets, contributes zero with a zero gradient. Nothing is allocated that is larger than [B, B] or [B, C], but by
// those of rankings, which compare all pairs of images for each anchor, [B, B, B].
package losses

import (
	"fmt"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/query"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// Loss is a loss with its parameters. *Contrastive and the others of this package are.
type Loss interface {
	// Of builds the loss of a batch, a float32 scalar.
	Of(b *dmlx.LossBatch) *Node
	params() []param
}

// param is a parameter by its name in a loss's name: a number or a switch.
type param struct {
	name string
	at   *float64
	on   *bool
	ok   func(v float64) bool // nil: any finite number.
	want string               // What ok asks for.
}

func positive(v float64) bool { return v > 0 }

// About is what there is to know of a loss.
type About struct {
	Name    string `json:"name"` // As [Parse] reads it, without parameters.
	Title   string `json:"title"`
	Source  string `json:"source"`  // Paper and equation.
	Text    string `json:"formula"` // The loss as a formula.
	Proxies bool   `json:"proxies"` // Whether it has vectors of its own.
	// Peer says what pytorch-metric-learning has in its place, and where that departs from the paper.
	Peer string `json:"pytorch_metric_learning"`
}

type entry struct {
	About
	make func() Loss
}

// table lists the losses: name to constructor.
var table = []entry{
	{aboutContrastive, func() Loss { return NewContrastive() }},
	{aboutTriplet, func() Loss { return NewTriplet() }},
	{aboutSoftTriplet, func() Loss { return NewSoftTriplet() }},
	{aboutNPair, func() Loss { return NewNPair() }},
	{aboutInfoNCE, func() Loss { return NewInfoNCE() }},
	{aboutLifted, func() Loss { return NewLifted() }},
	{aboutGeneralLifted, func() Loss { return NewGeneralLifted() }},
	{aboutMargin, func() Loss { return NewMargin() }},
	{aboutMultiSimilarity, func() Loss { return NewMultiSimilarity() }},
	{aboutCircle, func() Loss { return NewCircle() }},
	{aboutBinomial, func() Loss { return NewBinomial() }},
	{aboutNCA, func() Loss { return NewNCA() }},
	{aboutSupCon, func() Loss { return NewSupCon() }},
	{aboutSINCERE, func() Loss { return NewSINCERE() }},
	{aboutSigLIP, func() Loss { return NewSigLIP() }},
	{aboutTCM, func() Loss { return NewTCM() }},
	{aboutSmoothAP, func() Loss { return NewSmoothAP() }},
	{aboutSupAP, func() Loss { return NewSupAP() }},
	{aboutRecallAtK, func() Loss { return NewRecallAtK() }},
	{aboutProxyNCA, func() Loss { return NewProxyNCA() }},
	{aboutProxyNCAPlus, func() Loss { return NewProxyNCAPlus() }},
	{aboutProxyAnchor, func() Loss { return NewProxyAnchor() }},
	{aboutSoftTriple, func() Loss { return NewSoftTriple() }},
	{aboutNormSoftmax, func() Loss { return NewNormSoftmax() }},
	{aboutArcFace, func() Loss { return NewArcFace() }},
	{aboutSubCenter, func() Loss { return NewSubCenter() }},
	{aboutCosFace, func() Loss { return NewCosFace() }},
	{aboutPFML, func() Loss { return NewPFML() }},
}

// All lists the losses, those of pairs and triplets first.
func All() []About { return slice.Map(table, func(e entry) About { return e.About }) }

// Names lists the names that [Parse] reads.
func Names() []string { return slice.Map(All(), func(a About) string { return a.Name }) }

// Named is a loss with its name and what there is to know of it.
type Named struct {
	About
	Loss
}

// Own returns a loss of the user's own, without parameters.
func Own(name string, of dmlx.LossFunc) *Named {
	return &Named{About{Name: name, Title: name, Text: "a function of your own", Source: "This notebook"}, own{of}}
}

type own struct{ of dmlx.LossFunc }

func (o own) Of(b *dmlx.LossBatch) *Node { return o.of(b) }
func (own) params() []param              { return nil }

// Parse reads a loss by its name, with parameters behind it that are not the published ones: "circle?gamma=64&m=0.25".
func Parse(name string) (*Named, error) {
	body, text, hasParameters := strings.Cut(name, "?")
	var out *Named
	for _, t := range table {
		if t.Name == body {
			out = &Named{t.About, t.make()}
		}
	}
	if out == nil {
		return nil, errs.NoSuch(fmt.Sprintf("loss %q: there is none of that name", name), body, Names())
	}
	if !hasParameters {
		return out, nil
	}
	params := out.params()
	settings := make([]query.Option, len(params))
	for i, p := range params {
		if settings[i].Name = p.name; p.on != nil {
			settings[i].On = func() { *p.on = true }
		} else {
			settings[i].Set = func(v float64) { *p.at = v }
		}
	}
	if err := query.Read("parameter", text, settings); err != nil {
		return nil, fmt.Errorf("loss %q: %w", name, err)
	}
	return out, check(name, out.Loss)
}

// check names the first parameter of a loss that makes no sense.
func check(name string, l Loss) error {
	for _, p := range l.params() {
		if p.at != nil && p.ok != nil && !p.ok(*p.at) {
			return fmt.Errorf("loss %q: %s is %g; want %s", name, p.name, *p.at, p.want)
		}
	}
	return nil
}

// String is the loss's canonical name: parameters are listed where they are not the published ones.
func (n *Named) String() string {
	var published []param
	for _, t := range table {
		if t.Name == n.Name {
			published = t.make().params()
		}
	}
	var fields []string
	for i, p := range n.params() {
		switch {
		case p.on != nil && *p.on && !*published[i].on:
			fields = append(fields, p.name)
		case p.at != nil && *p.at != *published[i].at:
			fields = append(fields, query.Number(p.name, *p.at))
		}
	}
	return query.Join(n.Name, fields)
}

// PerClass is how many proxies a loss has for each class: 0 for one of pairs or triplets.
func PerClass(l Loss) int {
	if n, is := l.(*Named); is {
		l = n.Loss
	}
	if p, is := l.(interface{ perClass() int }); is {
		return p.perClass()
	}
	return 0
}

// CheckMined tells whether a miner can choose the terms of a loss: not of one with proxies, whose terms are of an image
// and a proxy.
func CheckMined(n *Named) error {
	if PerClass(n) > 0 {
		return fmt.Errorf("%s has proxies in place of pairs and triplets of images, of which a miner chooses", n)
	}
	return nil
}

// CheckClasses returns an error unless the classes are those of a loss's proxies: [PerClass] of each, in consecutive
// rows.
func CheckClasses(l Loss, classes []int64) error {
	k := PerClass(l)
	seen := make(map[int64]bool)
	for i := 0; i < len(classes); {
		class, n := classes[i], 1
		for i+n < len(classes) && classes[i+n] == class {
			n++
		}
		if n != k || seen[class] {
			return fmt.Errorf("the proxies' classes: class %d at row %d: want %d proxies of each class, in consecutive rows",
				class, i, k)
		}
		seen[class] = true
		i += n
	}
	return nil
}

// one is embedded by losses with a proxy a class.
type one struct{}

func (one) perClass() int { return 1 }

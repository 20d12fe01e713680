package dmlx

import (
	"cmp"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// Loss is a loss function of Table 1 as it is written down, to be differentiated by machine and held against its rule.
// The triplets of the batch, and the sets 𝒫 and 𝒩, are held fixed: choosing them has no gradient.
type Loss struct {
	Name string
	// RuleName is the loss's rule by Table 1, as [ParseRule] reads it; "" if it is Name.
	RuleName string
	Text     string // The loss as a formula.
	// Constant is c in ∂L/∂f = c · G, where G is the gradient of the loss's rule, a mean over triplets; 0 where no c does
	// that.
	Constant func(o Options) float64
	// Why says what the loss does that its rule does not, where Constant is 0, or what was held fixed; TeX between $.
	Why string
	// Of builds the mean of the loss over the valid triplets of b: a scalar with a gradient with respect to f, the
	// normalized embeddings [B, D], or to s = f fᵀ.
	Of func(b *Batch, f, s *Node) *Node
}

// Rule returns the loss's rule by Table 1 with the given options; the zero rule if its name is no rule's.
func (l Loss) Rule(o Options) Rule {
	r, _ := ParseRule(cmp.Or(l.RuleName, l.Name))
	r.Options = o
	return r
}

// Losses are the seven methods of Table 1 under the names of their rules ([Aliases]). The paper's components of MS and
// SCT integrate to another loss than the one that was published; table1-ms-published and table1-sct-published are
// those. At a rule's own parameters and triplets none of these is a loss of package losses, but for triplet-euc and
// triplet-cos, which losses.Triplet and losses.SoftTriplet contain.
var Losses = []Loss{
	{
		// This is L_euc (Eq. 3).
		Name: "triplet-euc", Text: "max(D_ap² − D_an² + m, 0), m = 4",
		Why:      "with m = 4 the hinge is never at rest, since D² ≤ 4",
		Constant: func(Options) float64 { return 4 }, // ∂D²/∂D = 2 over T^con = 0.5.
		Of: func(b *Batch, f, _ *Node) *Node {
			square := func(other *Node) *Node {
				return ReduceSum(Square(Sub(b.anchorRows(f), Gather(f, graphs.Column(other)))), 1)
			}
			hinge := AddScalar(Sub(square(b.Triplets.Positive), square(b.Triplets.Negative)), 4)
			return b.mean(Max(hinge, ZerosLike(hinge)))
		},
	},
	{
		// This is L_cos (Eq. 4).
		Name: "triplet-cos", Text: "−log(exp(τS_ap) / (exp(τS_ap) + exp(τS_an)))",
		Constant: func(o Options) float64 { return Tau.In(o) },
		Of: func(b *Batch, _, s *Node) *Node {
			ap, an := b.similarities(s)
			return b.mean(Softplus(MulScalar(Sub(an, ap), Tau.In(b.Options))))
		},
	},
	{
		Name: "table1-circle", Text: "log(1 + exp(τ(S_an² − S_ap(2−S_ap))))",
		Constant: func(o Options) float64 { return 2 * Tau.In(o) }, // ∂(S²) = 2S and ∂(S(2−S)) = 2(1−S).
		Of: func(b *Batch, _, s *Node) *Node {
			ap, an := b.similarities(s)
			return b.mean(Softplus(MulScalar(Sub(Square(an), Mul(ap, AddScalar(Neg(ap), 2))), Tau.In(b.Options))))
		},
	},
	{
		Name: "table1-binomial", Text: "log(1 + exp(−α(S_ap−λ)))/α + log(1 + exp(β(S_an−λ)))/β",
		Constant: func(Options) float64 { return 2 }, // 1 over T^con = 0.5.
		Of: func(b *Batch, _, s *Node) *Node {
			ap, an := b.similarities(s)
			one := OnesLike(ap)
			return b.mean(binomial(b, ap, an, one, one))
		},
	},
	{
		Name: "table1-ms", Text: "log(1 + m₊exp(−α(S_ap−λ)))/(αm₊) + log(1 + m₋exp(β(S_an−λ)))/(βm₋), m₊ and m₋ held fixed",
		Why: "what $P^{sig-ms}$ integrates to: the similarities to other members weigh the pair and get no " +
			"gradient themselves",
		Constant: func(Options) float64 { return 2 },
		Of: func(b *Batch, _, s *Node) *Node {
			ap, an := b.similarities(s)
			mPositive, mNegative := relativeSimilarity(b)
			return b.mean(binomial(b, ap, an, mPositive, mNegative))
		},
	},
	{
		Name: "table1-ms-published", RuleName: "table1-ms", Text: "log(1 + Σ exp(−α(S_ak−λ)))/α + log(1 + Σ " +
			"exp(β(S_ak−λ)))/β, as published: sums over 𝒫 and 𝒩 with the pair itself",
		Why: "the published loss sums where $P^{sig-ms}$ takes a mean, and moves every member of 𝒫 and 𝒩, not the " +
			"triplet's alone",
		Constant: func(Options) float64 { return 0 },
		Of:       multiSimilarity,
	},
	{
		Name: "table1-dr-ms", Text: "the loss of table1-ms with m₊ and m₋ held fixed, before its regularizer",
		Why: "DR-MS adds a regularizer for the direction that the rule takes outright: a projected direction is " +
			"the gradient of no loss on $S$: $M$ of such a rule is not symmetric",
		Constant: func(Options) float64 { return 0 },
		Of: func(b *Batch, _, s *Node) *Node {
			ap, an := b.similarities(s)
			mPositive, mNegative := relativeSimilarity(b)
			return b.mean(binomial(b, ap, an, mPositive, mNegative))
		},
	},
	{
		Name: "table1-sct", Text: "triplet-cos, with S_ap held fixed where S_an > S_ap",
		Why:      "what $T^{cos}$ with $T^{sc1}$ integrates to",
		Constant: func(o Options) float64 { return Tau.In(o) },
		Of: func(b *Batch, _, s *Node) *Node {
			ap, an := b.similarities(s)
			held := Where(GreaterThan(an, ap), StopGradient(ap), ap)
			return b.mean(Softplus(MulScalar(Sub(an, held), Tau.In(b.Options))))
		},
	},
	{
		Name: "table1-sct-published", RuleName: "table1-sct", Text: "S_an where S_an > S_ap, else triplet-cos, as " +
			"published (λ = 1)",
		Why:      "the published loss pushes hard negatives with weight λ, the rule with $T^{cos}$",
		Constant: func(Options) float64 { return 0 },
		Of: func(b *Batch, _, s *Node) *Node {
			ap, an := b.similarities(s)
			return b.mean(Where(GreaterThan(an, ap), an, Softplus(MulScalar(Sub(an, ap), Tau.In(b.Options)))))
		},
	},
}

// similarities are S_ap and S_an of the triplets as functions of s.
func (b *Batch) similarities(s *Node) (ap, an *Node) {
	at := func(other *Node) *Node { return Gather(s, Stack([]*Node{b.Triplets.Anchor, other}, 1)) }
	return at(b.Triplets.Positive), at(b.Triplets.Negative)
}

// mean over the valid triplets; 0 if there is none.
func (b *Batch) mean(x *Node) *Node {
	valid := b.Triplets.Valid
	count := ReduceAllSum(ConvertDType(valid, x.DType()))
	return Div(ReduceAllSum(graphs.Only(valid, x)), Max(count, OnesLike(count)))
}

func binomial(b *Batch, ap, an, mPositive, mNegative *Node) *Node {
	o := b.Options
	term := func(s, m *Node, slope float64) *Node {
		// log(1+m·exp(x))/m = Softplus(x+log m)/m.
		x := MulScalar(AddScalar(s, -Lambda.In(o)), slope)
		return Div(Softplus(Add(x, Log(m))), m)
	}
	return Add(DivScalar(term(ap, mPositive, -Alpha.In(o)), Alpha.In(o)),
		DivScalar(term(an, mNegative, Beta.In(o)), Beta.In(o)))
}

func multiSimilarity(b *Batch, _, s *Node) *Node {
	o := b.Options
	ap, an := b.similarities(s)
	positives, negatives := b.relative()
	rows := b.anchorRows(s)
	term := func(self *Node, set others, slope float64) *Node {
		e := func(x *Node) *Node { return Exp(MulScalar(AddScalar(x, -Lambda.In(o)), slope)) }
		all := e(rows)
		sum := Add(e(self), ReduceSum(graphs.Only(set.belong, all), 1))
		return Log1P(sum)
	}
	return b.mean(Add(DivScalar(term(ap, positives, -Alpha.In(o)), Alpha.In(o)),
		DivScalar(term(an, negatives, Beta.In(o)), Beta.In(o))))
}

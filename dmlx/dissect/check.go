package dissect

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"github.com/gomlx/compute"
	"gonum.org/v1/gonum/mat"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// Grade says how a rule fares in a check.
type Grade int

// The grades. A rule can be trained unless one of its findings is Bad.
const (
	Good Grade = iota
	Doubtful
	Bad
)

// String returns the grade in a word.
func (v Grade) String() string { return [...]string{"good", "doubtful", "bad"}[v] }

// CheckFinding is one thing that a check found.
type CheckFinding struct {
	Check   string // What was looked at, such as "finite".
	Grade   Grade
	Part    string // The part that is to blame, if one is: "pair weight square".
	Message string // What was found, with its numbers.
	// File and Line are where the part's function is or fails, if a part is to blame that is the user's own.
	File string
	Line int
}

// String is the finding on one line.
func (f CheckFinding) String() string {
	s := fmt.Sprintf("%s: %s: ", f.Check, f.Grade)
	if f.Part != "" {
		s += f.Part + ": "
	}
	s += f.Message
	if f.File != "" {
		s += fmt.Sprintf(" (%s, line %d)", filepath.Base(f.File), f.Line)
	}
	return s
}

// Checked is a rule with what was found about it.
type Checked struct {
	Rule     dmlx.Rule
	Findings []CheckFinding
	// Scale is the length of the rule's gradient over that of cos/con/con, on a batch of random classes; 0 if it could
	// not be measured. A rule of scale s trains at about 1/s of the learning rate of cos/con/con.
	Scale float64
}

// Err is the first Bad finding as an error, or nil.
func (c *Checked) Err() error {
	for _, f := range c.Findings {
		if f.Grade == Bad {
			return fmt.Errorf("rule %s: %v", c.Rule.Name(), f)
		}
	}
	return nil
}

// String lists the findings, a line each.
func (c *Checked) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rule %s\n", c.Rule.Name())
	for _, f := range c.Findings {
		fmt.Fprintln(&b, f)
	}
	return b.String()
}

// Limits of what passes for good.
const (
	smallestScale, largestScale = 0.02, 10
	largestRotationError        = 1e-3 // Relative; float32 leaves about 1e-6.
)

// Check tries a rule on batches that show what is wrong with rules: whether its parts build and have the right shapes
// at any size of a batch, whether weights and gradient are finite, also at any similarity, whether it depends on the
// embeddings' similarities alone, so that turning all of them turns the gradient, how large it is beside cos/con/con,
// and whether a step brings positives nearer than negatives. What is wrong with the rule is a finding; the error is
// that of a backend that fails. The probes are the same at each call.
func Check(b compute.Backend, r dmlx.Rule) (*Checked, error) {
	if b == nil {
		return nil, errors.New("check: no backend")
	}
	// The rule that scale is measured by.
	base := once(b, dmlx.Rule{Options: dmlx.Options{Sum: r.Options.Sum}})
	c := &checker{rule: once(b, r.Traced()), base: base, Checked: &Checked{Rule: r}}
	defer c.rule.Close()
	defer base.Close()
	if _, err := c.try(probeBatch(4, 3, 8, 0.7, 1), base); err != nil {
		return nil, fmt.Errorf("check: cos/con/con fails on this backend: %w", err)
	}
	usual := probeBatch(8, 4, 16, 0.7, 1)
	if c.builds(usual, probeBatch(3, 3, 5, 0.7, 2)) && c.finite(usual) { // Else nothing more can be looked at.
		c.similarities()
		c.rotation(usual)
		c.scale(usual)
		c.sense(usual)
	}
	return c.Checked, nil
}

type checker struct {
	*Checked
	rule, base *Compiled
}

// tried is what a rule makes of a batch, finite or not.
type tried struct {
	*outcome
	e Embeddings
}

func (c *checker) try(e Embeddings, r *Compiled) (*tried, error) {
	if err := checkBatch(&e); err != nil {
		return nil, err
	}
	t, err := r.outcome(e, r.rule.Options)
	if err != nil {
		return nil, err
	}
	return &tried{t, e}, nil
}

// add notes a finding; a part that is the user's own is located.
func (c *checker) add(check string, grade Grade, of any, part, format string, args ...any) {
	f := CheckFinding{Check: check, Grade: grade, Part: part, Message: fmt.Sprintf(format, args...)}
	if of != nil {
		f.File, f.Line = graphs.Source(of)
	}
	c.Findings = append(c.Findings, f)
}

// fails notes an error that a part's function led to.
func (c *checker) fails(check string, err error) {
	f := CheckFinding{Check: check, Grade: Bad, Message: err.Error()}
	var part *dmlx.PartError
	if errors.As(err, &part) {
		f.Part, f.Message, f.File, f.Line = part.Part, part.What, part.File, part.Line
	}
	c.Findings = append(c.Findings, f)
}

func (c *checker) builds(batches ...Embeddings) bool {
	for _, e := range batches {
		if _, err := c.try(e, c.rule); err != nil {
			c.fails("builds", err)
			return false
		}
	}
	c.add("builds", Good, nil, "", "for batches of %d and %d images", batches[0].N, batches[1].N)
	return true
}

// blame names the part that gives a value that is not finite, and where.
func (c *checker) blame(t *tried) (of any, part, message string) {
	pairOf, pair := c.pair()
	tripletOf, triplet := c.triplet()
	for i, valid := range t.valid {
		if !valid {
			continue
		}
		for _, w := range []struct {
			of     any
			part   string
			symbol string
			values []float32
		}{{pairOf, pair, "P₊", t.pull}, {pairOf, pair, "P₋", t.push}, {tripletOf, triplet, "T", t.weight}} {
			if !finite(w.values[i]) {
				return w.of, w.part, fmt.Sprintf("%s is %v at S_ap = %.4g, S_an = %.4g", w.symbol, w.values[i], t.sap[i], t.san[i])
			}
		}
	}
	for i, v := range t.g {
		if !finite(v) {
			of, part = c.direction()
			return of, part, fmt.Sprintf("the gradient at image %d is %v though all weights are finite", i/t.e.Dim, v)
		}
	}
	return nil, "", ""
}

func (c *checker) finite(usual Embeddings) bool {
	batches := []struct {
		what string
		e    Embeddings
	}{{"a random batch", usual}, {"loose classes", probeBatch(8, 4, 16, 3, 3)}, {"tight classes",
		probeBatch(8, 4, 16, 0.02, 4)}}
	for _, k := range batches {
		t, err := c.try(k.e, c.rule)
		if err != nil {
			c.fails("finite", err)
			return false
		}
		if of, part, message := c.blame(t); message != "" {
			c.add("finite", Bad, of, part, "on %s, %s", k.what, message)
			return false
		}
	}
	c.add("finite", Good, nil, "", "weights and gradients of a random batch, of loose and of tight classes")
	return true
}

// similarities looks at the weights alone, where they are functions of S_ap and S_an.
func (c *checker) similarities() {
	const n = 41
	var sap, san []float32
	for i := range n * n {
		sap, san = append(sap, float32(i%n)/(n-1)*2-1), append(san, float32(i/n)/(n-1)*2-1)
	}
	p, q, w, err := c.rule.Weights(c.Rule.Options, sap, san)
	if err != nil { // A part that looks at the batch is no fault.
		c.add("any similarity", Good, nil, "", "not looked at: a part of the rule needs more than S_ap and S_an")
		return
	}
	t := &tried{outcome: &outcome{pull: p, push: q, weight: w, sap: sap, san: san, valid: make([]bool, len(sap))}}
	negative := 0
	for i := range t.valid {
		t.valid[i] = true
		if p[i]*w[i] < 0 || q[i]*w[i] < 0 {
			negative++
		}
	}
	if of, part, message := c.blame(t); message != "" {
		c.add("any similarity", Bad, of, part, "%s; similarities are between −1 and 1", message)
		return
	}
	more := ""
	if negative > 0 {
		more = fmt.Sprintf("; for %.0f %% of these triplets one is negative and turns its direction round",
			100*float64(negative)/float64(len(sap)))
	}
	c.add("any similarity", Good, nil, "", "the weights are finite for all S_ap and S_an from −1 to 1%s", more)
}

// rotation turns the embeddings and sees whether the gradient turns with them.
func (c *checker) rotation(e Embeddings) {
	turn := orthogonalMatrix(e.Dim)
	turned := e
	turned.Values = times(e.Values, turn, e.Dim)
	before, err := c.try(e, c.rule)
	if err == nil {
		var after *tried
		if after, err = c.try(turned, c.rule); err == nil {
			for _, k := range []struct {
				named   func() (of any, part string)
				was, is []float32
			}{
				{c.pair, append(before.pull, before.push...), append(after.pull, after.push...)},
				{c.triplet, before.weight, after.weight}, {c.direction, times(before.g, turn, e.Dim), after.g},
			} {
				if worst := largestDifference(k.was, k.is); !(worst <= largestRotationError) {
					of, part := k.named()
					c.add("rotation", Bad, of, part, "changes by %.2g of its largest value when all embeddings are turned "+
						"alike; it must depend on their similarities alone", worst)
					return
				}
			}
			c.add("rotation", Good, nil, "", "the gradient turns with the embeddings, to %.1g of its largest value",
				largestDifference(times(before.g, turn, e.Dim), after.g))
			return
		}
	}
	c.fails("rotation", err)
}

// scale holds the gradient's length against that of cos/con/con.
func (c *checker) scale(e Embeddings) {
	base, err := c.try(e, c.base)
	if err != nil {
		c.fails("scale", err)
		return
	}
	t, err := c.try(e, c.rule)
	if err != nil {
		c.fails("scale", err)
		return
	}
	c.Scale = norm32(t.g) / norm32(base.g)
	switch {
	case c.Scale == 0:
		c.add("scale", Doubtful, nil, "", "the gradient is zero on a random batch: the rule moves nothing")
	case c.Scale < smallestScale || c.Scale > largestScale:
		c.add("scale", Doubtful, nil, "", "the gradient is %.3g times as long as that of cos/con/con: train at about "+
			"%.2g times its learning rate", c.Scale, 1/c.Scale)
	default:
		c.add("scale", Good, nil, "", "the gradient is %.3g times as long as that of cos/con/con", c.Scale)
	}
}

// sense takes a small step and looks whether triplets are better off.
func (c *checker) sense(e Embeddings) {
	t, err := c.try(e, c.rule)
	if err != nil {
		c.fails("sense", err)
		return
	}
	size := norm32(t.raw)
	if size == 0 {
		return // Scale has said so.
	}
	const step = 1e-2
	row := func(values []float32, i int32) []float64 { return unitRow(values[int(i)*e.Dim : (int(i)+1)*e.Dim]) }
	moved := make([]float32, len(e.Values))
	typical := norm32(e.Values)
	for i, v := range e.Values {
		moved[i] = v - float32(step*typical/size)*t.raw[i]
	}
	var up, down, count float64
	for i, valid := range t.valid {
		if !valid {
			continue
		}
		a, p, n := t.anchor[i], t.positive[i], t.negative[i]
		up += dot(row(moved, a), row(moved, p)) - float64(t.sap[i])
		down += dot(row(moved, a), row(moved, n)) - float64(t.san[i])
		count++
	}
	up, down = up/count, down/count
	grade, advice := Good, ""
	if up-down <= 0 {
		grade, advice = Doubtful, ": negatives come nearer than positives do; is a sign wrong? A gradient is descended"
	}
	c.add("sense", grade, nil, "", "after a small step the mean S_ap changes by %+.2g, the mean S_an by %+.2g%s", up,
		down, advice)
}

// pair, triplet and direction return the name of a part of the rule, and its function if it is the user's own.
func (c *checker) pair() (of any, name string) {
	p := c.Rule.WithDefaults().Pair
	return own("pair weight", p.Name, p.Custom(), p.Of)
}

func (c *checker) triplet() (of any, name string) {
	t := c.Rule.WithDefaults().Triplet
	return own("triplet weight", t.Name, t.Custom(), t.Of)
}

func (c *checker) direction() (of any, name string) {
	d := c.Rule.WithDefaults().Direction
	return own("direction", d.Name, d.Custom(), d.Of)
}

func own(kind, name string, custom bool, of any) (any, string) {
	if !custom {
		of = nil
	}
	return of, kind + " " + cmp.Or(name, "custom")
}

// probeBatch is random classes with their images around them at a noise relative to the centers' length.
func probeBatch(classes, images, dim int, noise float64, seed uint64) Embeddings {
	return sample(rand.New(rand.NewPCG(seed, 2)), classes, images, dim, noise)
}

// orthogonalMatrix is a random rotation or reflection [n, n].
func orthogonalMatrix(n int) []float64 {
	var qr mat.QR
	qr.Factorize(mat.NewDense(n, n, gaussian(rand.New(rand.NewPCG(7, 7)), n*n)))
	var q mat.Dense
	qr.QTo(&q)
	return q.RawMatrix().Data
}

// times is the rows of x [N, n] times q [n, n].
func times(x []float32, q []float64, n int) []float32 {
	out := make([]float32, len(x))
	for i := 0; i < len(x); i += n {
		for j := range n {
			s := 0.0
			for k := range n {
				s += float64(x[i+k]) * q[k*n+j]
			}
			out[i+j] = float32(s)
		}
	}
	return out
}

// largestDifference is that of two vectors over the largest value of the first.
func largestDifference(x, y []float32) float64 {
	worst, largest := 0.0, 1e-30
	for i := range x {
		largest = max(largest, math.Abs(float64(x[i])))
		worst = max(worst, math.Abs(float64(x[i])-float64(y[i])))
	}
	return worst / largest
}

func unitRow(x []float32) []float64 {
	out, l := make([]float64, len(x)), max(norm32(x), 1e-30)
	for i, v := range x {
		out[i] = float64(v) / l
	}
	return out
}

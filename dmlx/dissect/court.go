//go:build !js

package dissect

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// # Losses side by side
//
// What is said of a loss's gradient at a batch is said of that at the embeddings, on the sphere. A unified gradient of
// contrastive losses (Li et al., arXiv 2402.18281) writes that of an anchor as a dissipation times the sum over its
// negatives of a weight times the negative less a ratio times the positive. These are the paper's factors: with T and P
// of an anchor (see composeloss.go in package dmlx), the dissipation is T Σ₋, the weights are P_an/Σ₋, and the ratio is
// Σ₊/Σ₋, the pull over the push.

// Judged is a loss of a [Court].
type Judged struct {
	Name     string
	Loss     dmlx.LossFunc
	PerClass int // How many proxies it has for each class.
}

// CourtBatch is a batch of a [Court].
type CourtBatch struct {
	Name string
	Embeddings
}

// CourtRow is what the gradient of a loss is like at a batch. All are 0 for a gradient that is zero.
type CourtRow struct {
	Loss    string `json:"loss"`
	Nearest Near   `json:"nearest_rule"`
	// Mined is the share of its squared length that the pairs of each image's nearest positive and negative give.
	Mined float64 `json:"share_of_mined_triplet"`
	Own   float64 `json:"share_of_own_triplet"` // The same of each image's pairs with the largest weights.
	Pairs float64 `json:"share_of_pairs"`       // The same of all pairs of images; the rest is of proxies.
	Norm  float64 `json:"norm"`                 // The length, over that of cos/con/con.
	// Active is the share of images whose gradient is at least a hundredth of the longest image's.
	Active  float64 `json:"active"`
	Pull    float64 `json:"pull"`    // The share of the anchors' weights that pull: 0.5 where pull equals push.
	Against float64 `json:"against"` // The share of weights that push positives or pull negatives.

	gradient []float64
}

// Court has the gradients of losses at the same batches side by side.
type Court struct {
	Batches, Losses []string
	Rows            [][]CourtRow // Of each batch, in the order of the losses.
	// Cosines are the lowest over the batches of the cosine of two losses' gradients; 0 if one is at rest.
	Cosines [][]float64
}

// Groups are the losses of which each has a cosine of at least this with another of its group, in their order. A loss
// alone is a group of one.
func (c *Court) Groups(cosine float64) (groups [][]string) {
	seen := make([]bool, len(c.Losses))
	var join func(i int) []int
	join = func(i int) []int {
		seen[i] = true
		of := []int{i}
		for j := range c.Losses {
			if !seen[j] && c.Cosines[i][j] >= cosine {
				of = append(of, join(j)...)
			}
		}
		return of
	}
	for i := range c.Losses {
		if seen[i] {
			continue
		}
		of := join(i)
		slices.Sort(of)
		groups = append(groups, slice.Map(of, func(i int) string { return c.Losses[i] }))
	}
	return groups
}

// Findings says in sentences what the losses' gradients have in common and in what they differ.
func (c *Court) Findings() (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	const same = 1 - 1e-6 // Within the rounding of float32.
	for i, x := range c.Losses {
		for j, y := range c.Losses[:i] {
			if c.Cosines[i][j] < same {
				continue
			}
			low, high := math.Inf(1), 0.0
			for _, rows := range c.Rows {
				scale := rows[i].Norm / rows[j].Norm
				low, high = min(low, scale), max(high, scale)
			}
			say("%s has the gradient of %s under another name, %.3g to %.3g times as long: a cosine of %.7f at least.", x, y,
				low, high, c.Cosines[i][j])
		}
	}
	for _, group := range c.Groups(0.95) {
		if len(group) > 1 {
			say("Alike, each at a cosine of 0.95 or more with another: %s.", strings.Join(group, ", "))
		}
	}
	for i, name := range c.Losses {
		for k, rows := range c.Rows {
			r := rows[i]
			if r.Norm == 0 {
				say("On %s, %s is at rest.", c.Batches[k], name)
			}
			if r.Nearest.Cosine >= same {
				say("On %s, %s has the gradient of the rule %s, %.3g times.", c.Batches[k], name, r.Nearest.Name,
					r.Nearest.Constant)
			}
			if r.Against > 1e-3 {
				say("On %s, %s pushes positives or pulls negatives with %.1f %% of its weight.", c.Batches[k], name, 100*r.Against)
			}
		}
	}
	for k, rows := range c.Rows {
		moving := slices.DeleteFunc(slices.Clone(rows), func(r CourtRow) bool { return r.Norm == 0 })
		if len(moving) == 0 {
			continue
		}
		by := func(of func(r CourtRow) float64) (low, high CourtRow, median float64) {
			slices.SortStableFunc(moving, func(x, y CourtRow) int { return cmp.Compare(of(x), of(y)) })
			x := slice.Map(moving, of)
			return moving[0], moving[len(moving)-1], 100 * stat.Quantile(0.5, stat.LinInterp, x, nil)
		}
		_, _, mined := by(func(r CourtRow) float64 { return r.Mined })
		_, _, own := by(func(r CourtRow) float64 { return r.Own })
		proxies, _, _ := by(func(r CourtRow) float64 { return r.Pairs })
		_, near, _ := by(func(r CourtRow) float64 { return r.Nearest.Cosine })
		short, long, _ := by(func(r CourtRow) float64 { return r.Norm })
		say("On %s, the nearest positive and negative of each image give %.0f %% of a gradient, and the pairs with its "+
			"largest weights %.0f %%: medians over losses, of squared lengths. What no pair of images gives is most of %s: "+
			"%.0f %%.", c.Batches[k], mined, own, proxies.Loss, 100*(1-proxies.Pairs))
		say("On %s, the nearest of a loss and a rule are %s and %s, at a cosine of %.3f. The longest gradient is that of "+
			"%s, %.3g times that of cos/con/con, and the shortest that of %s, %.3g times.", c.Batches[k], near.Loss,
			near.Nearest.Name, near.Nearest.Cosine, long.Loss, long.Norm, short.Loss, short.Norm)
	}
	return out
}

// MostJudged is how many images a batch of a [Court] may have.
const MostJudged = 256

// NewCourt takes losses apart at the same batches. Proxies are the means of classes with noise ([SampleProxies]). It
// computes on the Go backend, which needs no time to compile so many gradients.
func NewCourt(batches []CourtBatch, losses []Judged, rules []dmlx.Rule) (*Court, error) {
	if len(batches) == 0 || len(losses) == 0 || len(rules) == 0 {
		return nil, errors.New("want a batch, a loss and a rule at least")
	}
	c := &Court{}
	for _, e := range batches {
		err := checkBatch(&e.Embeddings)
		if err == nil && e.N > MostJudged {
			err = fmt.Errorf("%d images: losses are compared on at most %d; take some of them", e.N, MostJudged)
		}
		var rows []CourtRow
		if err == nil {
			rows, err = judge(ByClass(e.Embeddings), losses, rules)
		}
		if err != nil {
			return nil, fmt.Errorf("batch %s: %w", e.Name, err)
		}
		c.Batches, c.Rows = append(c.Batches, e.Name), append(c.Rows, rows)
	}
	for i, l := range losses {
		c.Losses = append(c.Losses, l.Name)
		c.Cosines = append(c.Cosines, make([]float64, len(losses)))
		for j := range losses {
			c.Cosines[i][j] = 1
			for _, rows := range c.Rows {
				x, y := rows[i].gradient, rows[j].gradient
				if lengths := norm(x) * norm(y); lengths > 0 {
					c.Cosines[i][j] = min(c.Cosines[i][j], dot(x, y)/lengths)
				} else {
					c.Cosines[i][j] = min(c.Cosines[i][j], 0)
				}
			}
		}
	}
	return c, nil
}

// judge takes losses apart at a batch.
func judge(e Embeddings, losses []Judged, rules []dmlx.Rule) ([]CourtRow, error) {
	b, err := probeBackend()
	if err != nil {
		return nil, err
	}
	candidates := RuleCandidates(rules)
	f, gradients, err := gradientsOf(e, candidates)
	if err != nil {
		return nil, err
	}
	plain, err := Rule(b, e, dmlx.Rule{})
	if err != nil {
		return nil, err
	}
	if len(plain.Triplets) == 0 {
		return nil, errors.New("the batch has no triplet: it needs two images of a class and two classes")
	}
	unit := norm(onSphere(f, plain.G, e.Dim))
	mined := minedBy(plain)
	var out []CourtRow
	for _, l := range losses {
		d, err := Loss(b, e, SampleProxies(e, l.PerClass, 0.5, 1), l.Loss)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.Name, err)
		}
		row := CourtRow{Loss: l.Name, Against: d.Implied.Against, gradient: onSphere(f, d.G[:e.N*e.Dim], e.Dim)}
		length := norm(row.gradient)
		if length == 0 {
			out = append(out, row)
			continue
		}
		row.Norm, row.Active = length/unit, active(row.gradient, e.Dim)
		row.Nearest = ranked(row.gradient, candidates, gradients)[0]
		var pull, push float64
		for _, a := range d.Implied.Anchors {
			pull, push = pull+a.Weight*a.PairPositive, push+a.Weight*a.PairNegative
		}
		row.Pull = pull / (pull + push)
		share := func(pairs []bool) (of float64, m []float32, err error) {
			if of, m, err = shareOf(e, d.G[:e.N*e.Dim], pairs); err != nil {
				err = fmt.Errorf("%s: %w", l.Name, err)
			}
			return of, m, err
		}
		weights := d.W
		all, m, err := share(nil)
		if l.PerClass > 0 {
			weights = m // The images' pairs have no weights of their own, but for what they give of the gradient.
		}
		if err == nil {
			row.Pairs = all
			row.Mined, _, err = share(mined)
		}
		if err == nil {
			row.Own, _, err = share(strongest(weights, d.Labels[:e.N]))
		}
		if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, nil
}

// minedBy are the pairs [N, N] of a rule's triplets, rows the anchors'.
func minedBy(r *Dissection) []bool {
	pairs := make([]bool, r.N*r.N)
	for _, t := range r.Triplets {
		pairs[t.Anchor*r.N+t.Positive], pairs[t.Anchor*r.N+t.Negative] = true, true
	}
	return pairs
}

// shareOf returns how much of the square of a gradient pairs of images make up, all of them if pairs is nil, and the
// matrix M of these pairs.
func shareOf(e Embeddings, g []float32, pairs []bool) (float64, []float32, error) {
	a, err := FromAutograd(e, Autograd{Gradient: g, Pairs: pairs})
	if err != nil {
		return 0, nil, err
	}
	return max(0, 1-a.Coordinates*a.Coordinates), a.M, nil
}

// MinedShare returns which part of the square of a gradient, g [N, Dim] at the normalized embeddings of a batch, the
// pairs make up that rules mine, of each anchor its nearest positive and its nearest negative, and which part all pairs
// of images do. If the first is much less than the second, the gradient differs from all rules by its miner.
func MinedShare(e Embeddings, g []float32) (mined, pairs float64, err error) {
	b, err := probeBackend()
	if err != nil {
		return 0, 0, err
	}
	plain, err := Rule(b, e, dmlx.Rule{})
	if err != nil {
		return 0, 0, err
	}
	if mined, _, err = shareOf(e, g, minedBy(plain)); err == nil {
		pairs, _, err = shareOf(e, g, nil)
	}
	return mined, pairs, err
}

// Course is what descending a loss does to a batch, before each of some steps and after the last: the variances within
// classes, the mean squared distance of images to the mean of their class, and between them, that of these means to
// their own mean; the length of the gradient over the first one; and the share of active images ([CourtRow.Active]).
// Zeng et al. (arXiv 2601.21450) compare seven losses so.
type Course struct {
	Loss    string    `json:"loss"`
	Within  []float64 `json:"variance_within"`
	Between []float64 `json:"variance_between"`
	Norm    []float64 `json:"norm"`
	Active  []float64 `json:"active"`
}

// Descend moves the normalized embeddings of a batch, without a network, along the gradient of a loss: by 0.05 a step,
// a root mean square over images, since gradients of losses differ in length. Proxies are the means of classes with
// noise, at each step. A loss at rest stays where it is.
func Descend(e Embeddings, l Judged, steps int) (*Course, error) {
	b, err := probeBackend()
	if err != nil {
		return nil, err
	}
	if err := checkBatch(&e); err != nil {
		return nil, err
	}
	c, out := CompileLoss(b, l.Loss), &Course{Loss: l.Name}
	defer c.Close()
	e = ByClass(e)
	size, images := math.Sqrt(float64(e.Dim)), math.Sqrt(float64(e.N)) // Rows as long as those of [Sample], for the noise.
	for range steps + 1 {
		d, err := c.Loss(e, SampleProxies(e, l.PerClass, 0.5, 1))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.Name, err)
		}
		f := d.F[:e.N*e.Dim]
		g := onSphere(f, d.G[:e.N*e.Dim], e.Dim)
		length := norm(g)
		within, between := variances(f, e.Labels, e.Dim)
		out.Within, out.Between, out.Norm = append(out.Within, within), append(out.Between, between), append(out.Norm, length)
		if length == 0 {
			out.Active = append(out.Active, 0)
			continue
		}
		out.Active = append(out.Active, active(g, e.Dim))
		for i, v := range f {
			e.Values[i] = float32(size * (float64(v) - 0.05*images/length*g[i]))
		}
	}
	for i := len(out.Norm) - 1; i >= 0 && out.Norm[0] > 0; i-- {
		out.Norm[i] /= out.Norm[0]
	}
	return out, nil
}

// variances are those within and between classes.
func variances(f []float32, labels []int64, dim int) (within, between float64) {
	means, count, all := map[int64][]float64{}, map[int64]float64{}, make([]float64, dim)
	for i, label := range labels {
		if means[label] == nil {
			means[label] = make([]float64, dim)
		}
		floats.Add(means[label], float64s(f[i*dim:(i+1)*dim]))
		count[label]++
	}
	for _, label := range slices.Sorted(maps.Keys(means)) {
		floats.Scale(1/count[label], means[label])
		floats.AddScaled(all, 1/float64(len(means)), means[label])
	}
	for i, label := range labels {
		d := floats.Distance(float64s(f[i*dim:(i+1)*dim]), means[label], 2)
		within += d * d / float64(len(labels))
	}
	for _, label := range slices.Sorted(maps.Keys(means)) {
		d := floats.Distance(means[label], all, 2)
		between += d * d / float64(len(means))
	}
	return within, between
}

// CourseFindings says in sentences how courses of losses from the same batch differ at their end.
func CourseFindings(batch string, courses []Course) (out []string) {
	for _, of := range []struct {
		what string
		x    func(c Course) []float64
	}{{"the variance within classes", func(c Course) []float64 { return c.Within }},
		{"the variance between classes", func(c Course) []float64 { return c.Between }},
		{"the gradient over its first length", func(c Course) []float64 { return c.Norm }},
		{"the share of active images", func(c Course) []float64 { return c.Active }}} {
		end := func(c Course) float64 { return of.x(c)[len(of.x(c))-1] }
		by := slices.SortedStableFunc(slices.Values(courses), func(a, b Course) int { return cmp.Compare(end(a), end(b)) })
		low, middle, high := by[0], by[len(by)/2], by[len(by)-1]
		out = append(out, fmt.Sprintf("After %d steps of equal length from %s, %s is %.3g with %s at least and %.3g with %s "+
			"at most; with %s, in the middle, it goes from %.3g to %.3g.", len(of.x(low))-1, batch, of.what, end(low), low.Loss,
			end(high), high.Loss, middle.Loss, of.x(middle)[0], end(middle)))
	}
	return out
}

// active is the share of rows that are a hundredth as long as the longest, or more.
func active(gradient []float64, dim int) float64 {
	var lengths []float64
	for row := range slices.Chunk(gradient, dim) {
		lengths = append(lengths, norm(row))
	}
	least := slices.Max(lengths) / 100
	return float64(slice.Count(lengths, func(v float64) bool { return v >= least })) / float64(len(lengths))
}

// strongest are each image's pairs with the largest weights, one positive and one negative, of w with n rows at least.
func strongest(w []float32, labels []int64) []bool {
	n := len(labels)
	pairs := make([]bool, n*n)
	columns := int(math.Sqrt(float64(len(w))))
	for a := range n {
		best := map[bool]int{}
		for j := range n {
			same := labels[j] == labels[a]
			at, there := best[same]
			v, most := math.Abs(float64(w[a*columns+j])), math.Abs(float64(w[a*columns+at]))
			if j != a && v > 0 && (!there || v > most) {
				best[same] = j
			}
		}
		for _, j := range best {
			pairs[a*n+j] = true
		}
	}
	return pairs
}

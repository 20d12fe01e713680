package losses

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/miners"
)

// peer is peer/peer.json, which peer/peer.py writes.
type peer struct {
	Batches []struct {
		Labels                       []int64
		Dim                          int
		Embeddings, Proxies, Centers []float32
		Losses                       []struct {
			Name, Peer        string
			Value             float64
			Gradient, Proxies []float32
		}
	}
}

func readPeer(t *testing.T) (p peer) {
	t.Helper()
	raw, err := os.ReadFile("peer/peer.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// named reads a loss and, behind " with its miner", mines as the loss's paper does.
func named(t *testing.T, name string) (l *Named, of dmlx.LossFunc) {
	t.Helper()
	body, mined := strings.CutSuffix(name, " with its miner")
	l, err := Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	if !mined {
		return l, l.Of
	}
	return l, miners.With(miners.NewMultiSimilarity(), l.Of)
}

// off is the largest difference, over the largest value.
func off(got, want []float32) float64 {
	var d, top float64
	for i, w := range want {
		d, top = max(d, math.Abs(float64(got[i]-w))), max(top, math.Abs(float64(w)))
	}
	return d / max(top, 1e-6)
}

// result is a loss of a batch with its gradients at the embeddings and proxies as given.
type result struct {
	value             float32
	gradient, proxies []float32
}

// evaluator makes one graph of several losses of batches like e: to compile them one by one would be the tests' time.
func evaluator(t *testing.T, b compute.Backend, e dissect.Embeddings, proxies []dissect.Proxies,
	of []dmlx.LossFunc) (evaluate func(values []float32) []result) {
	t.Helper()
	exec, err := NewExec(b, func(x, labels *Node) (out []*Node) {
		for i, loss := range of {
			var p, classes *Node
			if q := proxies[i]; q.N > 0 {
				p, classes = Const(x.Graph(), tensors.FromFlatDataAndDimensions(q.Values, q.N, q.Dim)), Const(x.Graph(), q.Classes)
			}
			c := dmlx.ComposeLoss(dmlx.NewLossBatch(x, labels, p, classes), loss)
			raw, rawP := c.Raw()
			if rawP == nil {
				rawP = raw
			}
			out = append(out, c.Value, raw, rawP)
		}
		return out
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exec.Finalize)
	return func(values []float32) []result {
		out, err := exec.Call(tensors.FromFlatDataAndDimensions(values, e.N, e.Dim),
			tensors.FromFlatDataAndDimensions(e.Labels, e.N))
		if err != nil {
			t.Fatal(err)
		}
		return results(out, proxies)
	}
}

func results(out []*tensors.Tensor, proxies []dissect.Proxies) []result {
	results := make([]result, len(proxies))
	for i := range results {
		results[i] = result{tensors.ToScalar[float32](out[3*i]), tensors.MustCopyFlatData[float32](out[3*i+1]), nil}
		if proxies[i].N > 0 {
			results[i].proxies = tensors.MustCopyFlatData[float32](out[3*i+2])
		}
	}
	return results
}

func TestAgreesWithPeer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	p := readPeer(t)
	seen := make(map[string]bool)
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		for i, batch := range p.Batches {
			if i > 0 && !strings.HasSuffix(t.Name(), "/go") {
				continue // Compiling is the time of this test.
			}
			e := dissect.Embeddings{Values: batch.Embeddings, N: len(batch.Labels), Dim: batch.Dim, Labels: batch.Labels}
			var of []dmlx.LossFunc
			var proxies []dissect.Proxies
			for _, want := range batch.Losses {
				l, loss := named(t, want.Name)
				seen[l.Name] = true
				q := dissect.Proxies{}
				if k := PerClass(l); k == 1 {
					q = proxiesOf(batch.Proxies, batch.Dim, 1)
				} else if k > 1 {
					q = proxiesOf(batch.Centers, batch.Dim, k)
				}
				of, proxies = append(of, loss), append(proxies, q)
			}
			evaluate := evaluator(t, b, e, proxies, of)
			for j, got := range evaluate(e.Values) {
				want := batch.Losses[j]
				if i == 0 && want.Name == "lifted-general" {
					continue // There the peer gives the class of one a loss, as its About says.
				}
				tolerance := 2e-5 // Of the largest value: float32's, in sums of a few hundred terms at scales of up to 256.
				if want.Name == "recall-at-k" {
					tolerance = 1e-4 // A similarity's rounding over 0.01, in the exponent, where nearly nothing is left to gain.
				}
				if off := math.Abs(float64(got.value)-want.Value) / max(math.Abs(want.Value), 1e-2); !(off <= tolerance) {
					t.Errorf("batch %d, %s: the value %g, %s has %g", i, want.Name, got.value, want.Peer, want.Value)
				}
				if off := off(got.gradient, want.Gradient); !(off <= tolerance) {
					t.Errorf("batch %d, %s: the gradient is off %s's by %.2g of its largest value", i, want.Name, want.Peer, off)
				}
				if off := off(got.proxies, want.Proxies); !(off <= tolerance) {
					t.Errorf("batch %d, %s: the proxies' gradient is off %s's by %.2g of its largest value", i, want.Name, want.Peer,
						off)
				}
			}
			finiteDifferences(t, e, batch.Losses[0].Gradient, evaluate, func(j int) string { return batch.Losses[j].Name })
		}
	})
	for _, name := range Names() {
		if !seen[name] {
			t.Errorf("%s is compared with nothing", name)
		}
	}
}

// finiteDifferences holds the gradients along some direction against what the losses do when the batch moves along it.
func finiteDifferences(t *testing.T, e dissect.Embeddings, direction []float32, evaluate func([]float32) []result,
	name func(j int) string) {
	t.Helper()
	length := 0.0
	for _, v := range direction {
		length += float64(v) * float64(v)
	}
	const h = 5e-4 // Small: means are over the terms that have a loss, and jump where one more has.
	up, down := slices.Clone(e.Values), slices.Clone(e.Values)
	for k, v := range direction {
		step := float32(h * float64(v) / math.Sqrt(length))
		up[k] += step
		down[k] -= step
	}
	here, high, low := evaluate(e.Values), evaluate(up), evaluate(down)
	for j := range here {
		if strings.HasPrefix(name(j), "circle") {
			continue // Its weights are held fixed: the value says nothing about the gradient.
		}
		var slope, largest float64
		for k, v := range here[j].gradient {
			slope += float64(v) * float64(direction[k]) / math.Sqrt(length)
			largest += float64(v) * float64(v)
		}
		got := float64(high[j].value-low[j].value) / (2 * h)
		rounding := 4e-7 * math.Abs(float64(here[j].value)) / h
		if math.Abs(got-slope) > 0.02*math.Sqrt(largest)+rounding {
			t.Errorf("%s: the derivative is %g, by differences %g, the gradient's length %g", name(j), slope, got,
				math.Sqrt(largest))
		}
	}
}

func proxiesOf(values []float32, dim, perClass int) dissect.Proxies {
	q := dissect.Proxies{Values: values, Dim: dim, N: len(values) / dim}
	for j := range q.N {
		q.Classes = append(q.Classes, int64(j/perClass))
	}
	return q
}

// circleBatch has embeddings on the unit circle.
func circleBatch(labels []int64, degrees ...float64) dissect.Embeddings {
	e := dissect.Embeddings{N: len(degrees), Dim: 2, Labels: labels}
	for _, d := range degrees {
		e.Values = append(e.Values, float32(math.Cos(d*math.Pi/180)), float32(math.Sin(d*math.Pi/180)))
	}
	return e
}

func theLoss(t *testing.T, b compute.Backend, name string, e dissect.Embeddings,
	q dissect.Proxies) *dissect.LossDissection {
	t.Helper()
	l, of := named(t, name)
	d, err := dissect.Loss(b, e, q, of)
	if err != nil {
		t.Fatalf("%s: %v", l, err)
	}
	return d
}

// Values on the circle. Of two classes at 0°, 60° and at 90°, 180° the similarities are ½ and 0 of the positive pairs;
// of the negative ones 0 (0°–90°), −1 (0°–180°), √3/2 (60°–90°) and −½ (60°–180°).
func TestValuesByHand(t *testing.T) {
	g, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	e := circleBatch([]int64{0, 0, 1, 1}, 0, 60, 90, 180)
	exp, log, root := math.Exp, math.Log, math.Sqrt
	h := root(3) / 2 // cos 30°
	d := func(s float64) float64 { return root(2 - 2*s) }
	soft := func(x float64) float64 { return log(1 + exp(x)) }
	hinge := func(x float64) float64 { return max(x, 0) }
	step := func(x, t float64) float64 { return 1 / (1 + exp(-x/t)) }
	far := func(x float64) float64 { // SupAP's H.
		if x < 0 {
			return step(x, 0.01)
		}
		return 100*(x-0.05) + step(0.05, 0.01) + 0.5
	}
	// Each anchor with its positive and its two negatives.
	anchors := [][3]float64{{0.5, 0, -1}, {0.5, h, -0.5}, {0, 0, h}, {0, -1, -0.5}}
	mean := func(of func(p, n, m float64) float64) (sum float64) {
		for _, a := range anchors {
			sum += of(a[0], a[1], a[2]) / 4
		}
		return sum
	}
	meanOver := func(values ...float64) float64 {
		sum, count := 0.0, 0.0
		for _, v := range values {
			if v > 0 {
				sum, count = sum+v, count+1
			}
		}
		return sum / max(count, 1)
	}
	overTriplets := func(of func(p, n float64) float64) float64 {
		var all []float64
		for _, a := range anchors {
			all = append(all, of(a[0], a[1]), of(a[0], a[2]))
		}
		return meanOver(all...)
	}
	// Proxies at 30° and 120°: the own ones are at 30°, 30°, 30° and 60°, the others at 120°, 60°, 60° and 150°.
	proxies := proxiesOf(circleBatch(nil, 30, 120).Values, 2, 1)
	toProxies := [][2]float64{{h, -0.5}, {h, 0.5}, {h, 0.5}, {0.5, -h}}
	meanProxies := func(of func(own, other float64) float64) (sum float64) {
		for _, a := range toProxies {
			sum += of(a[0], a[1]) / 4
		}
		return sum
	}
	four := proxiesOf(circleBatch(nil, 30, 30, 120, 120).Values, 2, 2)
	turned := func(s float64) float64 { return math.Cos(math.Acos(s) + 0.5) }
	lse := func(x ...float64) (sum float64) {
		for _, v := range x {
			sum += exp(v)
		}
		return log(sum)
	}
	// The negatives of both members of the two positive pairs, for the lifted structure.
	lifted := func(p float64, n ...float64) float64 {
		for i := range n {
			n[i] = 1 - d(n[i])
		}
		return hinge(lse(n...)+d(p)) * hinge(lse(n...)+d(p)) / 2
	}
	for name, want := range map[string]float64{
		"contrastive":  0.75 + meanOver((1-d(h))*(1-d(h))/2), // ½D² = ½ and 1.
		"triplet":      overTriplets(func(p, n float64) float64 { return hinge(2*n - 2*p + 0.2) }),
		"triplet-soft": overTriplets(func(p, n float64) float64 { return soft(d(p) - d(n)) }),
		// The anchors are rows 0 and 2, the positives 1 and 3: S_03 = −1, S_21 = h.
		"n-pair":         (soft(-1-0.5) + soft(h-0)) / 2,
		"info-nce":       mean(func(p, n, m float64) float64 { return lse(p/0.07, n/0.07, m/0.07) - p/0.07 }),
		"lifted":         (lifted(0.5, 0, -1, h, -0.5) + lifted(0, 0, h, -1, -0.5)) / 2,
		"lifted-general": mean(func(p, n, m float64) float64 { return hinge(d(p) + lse(1-d(n), 1-d(m))) }),
		"ms": mean(func(p, n, m float64) float64 {
			return soft(-2*(p-0.5))/2 + log(1+exp(50*(n-0.5))+exp(50*(m-0.5)))/50
		}),
		"circle": mean(func(p, n, m float64) float64 {
			w := func(s float64) float64 { return 80 * hinge(s+0.4) * (s - 0.4) }
			return soft(lse(w(n), w(m)) - 80*hinge(1.4-p)*(p-0.6))
		}),
		"binomial": (soft(0)+soft(1))/2 + (soft(-25)+soft(-75)+soft(50*(h-0.5))+soft(-50))/4,
		"nca":      mean(func(p, n, m float64) float64 { return lse(2*p, 2*n, 2*m) - 2*p }),
		"sup-con":  mean(func(p, n, m float64) float64 { return lse(10*p, 10*n, 10*m) - 10*p }),
		// With one positive an anchor there is none to leave out.
		"sincere?temperature=0.1": mean(func(p, n, m float64) float64 { return lse(10*p, 10*n, 10*m) - 10*p }),
		"siglip": mean(func(p, n, m float64) float64 {
			return soft(10-10*p) + soft(10*n-10) + soft(10*m-10)
		}),
		"tcm": (0.4+0.9)/2 + h - 0.5,
		// The rank of the positive is 1 but for the negatives that are nearer.
		"smooth-ap": mean(func(p, n, m float64) float64 {
			above := step(n-p, 0.01) + step(m-p, 0.01)
			return above / (1 + above)
		}),
		// The anchor itself is at S = 1, above all; nothing is above it.
		"smooth-ap?itself&temperature=0.1": mean(func(p, n, m float64) float64 {
			self := step(n-1, 0.1) + step(m-1, 0.1)
			above, right := step(n-p, 0.1)+step(m-p, 0.1), 1+step(1-p, 0.1)
			return (self/(1+step(p-1, 0.1)+self) + above/(right+above)) / 2
		}),
		// Leads of √3/2 − ½ and √3/2, beyond δ, in the second and third row; one of 0 in the third, which counts ½.
		"sup-ap": (far(-0.5)/(1+far(-0.5)) + far(h-0.5)/(1+far(h-0.5)) + (0.5+far(h))/(1.5+far(h)) +
			far(-0.5)/(1+far(-0.5))) / 4,
		"recall-at-k?k=2": mean(func(p, n, m float64) float64 {
			rank := 1 + step(n-p, 0.01) + step(m-p, 0.01)
			return 1 - (step(1-rank, 1)+step(2-rank, 1))/2
		}),

		"proxy-nca":    meanProxies(func(own, other float64) float64 { return 2*other - 2*own }),
		"proxy-nca++":  meanProxies(func(own, other float64) float64 { return soft(18*other - 18*own) }),
		"norm-softmax": meanProxies(func(own, other float64) float64 { return soft(20*other - 20*own) }),
		"arcface":      meanProxies(func(own, other float64) float64 { return soft(64 * (other - turned(own))) }),
		"cosface":      meanProxies(func(own, other float64) float64 { return soft(64 * (other - own + 0.35)) }),
		// Centers in one place are one.
		"sub-arcface?centers=2": meanProxies(func(own, other float64) float64 { return soft(64 * (other - turned(own))) }),
		// Of images: pairs within a class, then those that are nearer than δ = 0.6, at 30°; of an image and its proxy; an
		// image and another's; then the two proxies with each other, at 90°.
		"pfml?centers=1&alpha=2&delta=0.6": 2 * (-(1 + 1./2) + 1/(2-2*h) + 3/0.36 +
			-(3/0.36 + 1) + 4/0.36 + 1/0.36) / 4,
		"proxy-anchor": (log(1+2*exp(-32*(h-0.1))) + log(1+exp(-32*(h-0.1))+exp(-32*0.4)) +
			log(1+exp(32*0.6)+exp(-32*(h-0.1))) + log(1+exp(-32*0.4)+exp(32*0.6))) / 2,
		"soft-triple?centers=2": meanProxies(func(own, other float64) float64 { return soft(20 * (other - own + 0.01)) }),
	} {
		q := dissect.Proxies{}
		switch l, _ := named(t, name); PerClass(l) {
		case 1:
			q = proxies
		case 2:
			q = four
		}
		if got := float64(theLoss(t, g, name, e, q).Value); math.Abs(got-want) > 1e-5*max(math.Abs(want), 1) {
			t.Errorf("%s is %g, by hand %g", name, got, want)
		}
	}
}

// What is missing or all in one place gives zeros, and never NaN.
func TestDegenerateBatches(t *testing.T) {
	g, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	for what, e := range map[string]dissect.Embeddings{
		"one image a class": circleBatch([]int64{0, 1, 2}, 0, 50, 200),
		"one class":         circleBatch([]int64{0, 0, 0}, 0, 50, 200),
		"one image":         circleBatch([]int64{1}, 0),
		"all in one place":  circleBatch([]int64{0, 0, 1, 1}, 30, 30, 30, 30),
		"opposite":          circleBatch([]int64{0, 0, 1, 1}, 0, 180, 0, 180),
		"nearly one":        circleBatch([]int64{0, 0, 1, 1}, 0, 1e-3, 2e-3, 1e-2),
		"zeros":             {N: 4, Dim: 2, Values: make([]float32, 8), Labels: []int64{0, 0, 1, 1}},
	} {
		for _, a := range All() {
			for _, miner := range append([]string{""}, miners.Names()...) {
				if a.Proxies && miner != "" || what != "one class" && what != "one image a class" && miner != "" &&
					a.Name != "margin" {
					continue
				}
				l, of := named(t, a.Name)
				if miner != "" {
					m, err := miners.Parse(miner)
					if err != nil {
						t.Fatal(err)
					}
					of = miners.With(m, of)
				}
				q := dissect.Proxies{}
				if k := PerClass(l); k > 0 {
					q = proxiesOf(circleBatch(nil, make([]float64, 3*k)...).Values, 2, k)
				}
				d, err := dissect.Loss(g, e, q, of)
				if err != nil {
					t.Errorf("%s, %s, %s: %v", what, l, miner, err)
					continue
				}
				// Without positives or without negatives there is no triplet, and the losses of these are at rest.
				none := what == "one image a class" || what == "one class" || what == "one image"
				pairs := slices.Contains([]string{"contrastive", "ms", "binomial", "siglip", "tcm"}, a.Name) && miner != "ms"
				moved := slices.ContainsFunc(d.Raw, func(v float32) bool { return v != 0 })
				if none && !a.Proxies && !pairs && (d.Value != 0 || moved) {
					t.Errorf("%s, %s, %s: the loss is %g, it moves: %v", what, l, miner, d.Value, moved)
				}
			}
		}
	}
}

func TestNames(t *testing.T) {
	for _, a := range All() {
		l, err := Parse(a.Name)
		if err != nil || l.String() != a.Name || a.Source == "" || a.Text == "" || a.Title == "" || a.Peer == "" ||
			a.Proxies != (PerClass(l) > 0) {
			t.Errorf("%+v: %v, %v", a, l, err)
		}
	}
	for name, want := range map[string]string{
		"ms?beta=40":                     "ms?beta=40",
		"ms?beta=50&alpha=2":             "ms",
		"circle?gamma=64&m=0.25":         "circle?m=0.25&gamma=64",
		"proxy-nca?all&tau=2":            "proxy-nca?tau=2&all",
		"soft-triple?centers=3":          "soft-triple?centers=3",
		"contrastive?margin=0.5&power=1": "contrastive?margin=0.5&power=1",
	} {
		if l, err := Parse(name); err != nil || l.String() != want {
			t.Errorf("%s is read as %v, %v; want %s", name, l, err, want)
		}
	}
	for name, hint := range map[string]string{
		"":                        "multi",
		"multisimilarity":         "contrastive, triplet",
		"ms?gamma=1":              "alpha, beta, lambda",
		"ms?beta=x":               "finite number",
		"ms?beta=Inf":             "finite number",
		"ms?beta=0":               "positive number",
		"info-nce?temperature=-1": "positive number",
		"proxy-nca?all=1":         "takes no value",
		"soft-triple?centers=1.5": "whole number",
		"contrastive?power=3":     "1 or 2",
		"arcface?margin=4":        "angle",
		"sub-arcface?margin=-1":   "angle",
		"sub-arcface?centers=0":   "whole number",
		"smooth-ap?temperature=0": "positive number",
		"smooth-app":              "smooth-ap",
		"sup-ap?delta=-1":         "0 or a positive number",
		"sup-ap?rho=0":            "positive number",
		"recall-at-k?k=0.5":       "whole number",
		"siglip?t=-1":             "positive number",
		"siglip?bias=1":           "t, b",
		"tcm?margin=1":            "positive-margin",
		"pfml?delta=0":            "a distance",
		"pfml?alpha=0":            "positive number",
		"cosface?margin=NaN":      "finite number",
		"sincere?temperature=0":   "positive number",
	} {
		if hint == "multi" {
			hint = "there is none of that name"
		}
		if l, err := Parse(name); err == nil {
			t.Errorf("%q is read as %s", name, l)
		} else if !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: %v: does not say %q", name, err, hint)
		}
	}
	g, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	e := circleBatch([]int64{0, 0, 1}, 0, 30, 90)
	if _, err := dissect.Loss(g, e, dissect.Proxies{}, NewArcFace().Of); err == nil ||
		!strings.Contains(err.Error(), "needs proxies, 1 of each class") {
		t.Errorf("no proxies: %v", err)
	}
	if _, err := dissect.Loss(g, e, proxiesOf(e.Values, 2, 2), NewSoftTriple().Of); err == nil ||
		!strings.Contains(err.Error(), "10 proxies of each class") {
		t.Errorf("3 proxies for 10 a class: %v", err)
	}
}

// What some losses of a lone triplet are in the paper's terms.
func TestPartsOfALoneTriplet(t *testing.T) {
	g, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	var x []float32
	for i := range 9 {
		x = append(x, (float32(i)+0.5)/9)
	}
	for name, rule := range map[string]string{
		"info-nce?temperature=0.5":               "cos/con/cos?tau=2",
		"n-pair":                                 "cos/con/cos",
		"nca":                                    "cos/con/cos?tau=2",
		"sup-con?temperature=0.25":               "cos/con/cos?tau=4",
		"ms?beta=10":                             "cos/sig/con",
		"binomial?cost=5":                        "cos/sig/con",
		"norm-softmax?temperature=0.5":           "cos/con/cos?tau=2",
		"proxy-nca":                              "cos/con/con",
		"proxy-nca++?temperature=1":              "cos/con/cos?tau=2",
		"proxy-anchor?alpha=2&delta=0":           "cos/sig/con?lambda=0&beta=2",
		"triplet?margin=4":                       "cos/con/con",
		"soft-triple?centers=2&lambda=2&delta=0": "cos/con/cos?tau=2",
		"circle?m=0&gamma=1":                     "cos/lin/cir",
	} {
		l, of := named(t, name)
		got, err := dissect.LossParts(g, of, PerClass(l), x, x)
		if err != nil {
			t.Fatal(err)
		}
		r, err := dmlx.ParseRule(rule)
		if err != nil {
			t.Fatal(err)
		}
		want, err := dissect.RuleParts(g, r, x, x)
		if err != nil {
			t.Fatal(err)
		}
		// These weigh pull and push by constants of their own: P₋ is as P₊ up to one.
		scale := 1.0
		if l.Name == "binomial" || l.Name == "proxy-anchor" {
			scale = got.PairNegative[0] / want.PairNegative[0] / (got.PairPositive[0] / want.PairPositive[0])
		}
		for i := range x {
			p, q := got.PairPositive[i]/got.PairPositive[0], got.PairNegative[i]/got.PairPositive[0]
			wp, wq := want.PairPositive[i]/want.PairPositive[0], scale*want.PairNegative[i]/want.PairPositive[0]
			if math.Abs(p-wp) > 2e-3*max(1, wp) || math.Abs(q-wq) > 2e-3*max(1, wq) {
				t.Errorf("%s at %g: P₊ %g, P₋ %g; %s has %g, %g", name, x[i], p, q, rule, wp, wq)
			}
		}
		if got.Residual > 2e-3 {
			t.Errorf("%s: %g is left over", name, got.Residual)
		}
	}
}

// Losses that are one line as a formula, on a lone triplet: both weights of each are the rule's, times one number.
// Hardness-weighted contrastive learning (LLaVE, arXiv 2503.04812, Eq. 5) adds α times a similarity, held fixed, to
// each negative's exponent; that is the gradient of no loss. Tuned contrastive learning (Animesh, Chandraker, arXiv
// 2305.10675) weighs hard positives by j and negatives by k.
func TestLossesAsFormulas(t *testing.T) {
	t.Parallel()
	one := func(x, mask *Node) *Node { return ReduceAllSum(Where(mask, x, ZerosLike(x))) } // The only one there.
	own := map[string]dmlx.LossFunc{
		"llave": func(b *dmlx.LossBatch) *Node {
			n := one(b.S, b.Negative)
			n = Add(MulScalar(n, 1/0.5), MulScalar(StopGradient(n), 2))
			return Softplus(Sub(n, MulScalar(one(b.S, b.Positive), 1/0.5)))
		},
		"tuned": func(b *dmlx.LossBatch) *Node {
			p, n := MulScalar(one(b.S, b.Positive), 1/0.5), MulScalar(one(b.S, b.Negative), 1/0.5)
			all := Add(Add(Exp(p), MulScalar(Exp(Neg(p)), 0.3)), MulScalar(Exp(n), 1.5))
			return Sub(Log(all), p)
		},
	}
	var x []float32
	for i := range 9 {
		x = append(x, (float32(i)+0.5)/9)
	}
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	for name, rule := range map[string]string{
		"sincere?temperature=0.5":   "cos/con/cos?tau=2",
		"cosface?gamma=4":           "cos/con/[sigmoid(g*(San-Sap+m)), g=4, m=0.35]",
		"siglip?t=2&b=-1":           "cos/[sigmoid(-t*Sap-b), sigmoid(t*San+b), t=2, b=-1]/con",
		"siglip":                    "cos/sig/con?alpha=10&beta=10&lambda=1",
		"tcm":                       "cos/[where(Sap < m, 1, 0), where(San > n, 1, 0), m=0.9, n=0.5]/con",
		"smooth-ap?temperature=0.5": "cos/con/[exp((San-Sap)/t)/pow(1+2*exp((San-Sap)/t), 2), t=0.5]",
		"llave":                     "cos/con/[sigmoid((San-Sap)/t+a*San), t=0.5, a=2]",
		"tuned": "cos/[1+2*j*exp(-(Sap+San)/t)/k, 1, t=0.5, j=0.3, k=1.5]/" +
			"[1/(1+(exp(Sap/t)+j*exp(-Sap/t))/(k*exp(San/t))), t=0.5, j=0.3, k=1.5]",
	} {
		of, perClass := own[name], 0
		if of == nil {
			l, function := named(t, name)
			of, perClass = function, PerClass(l)
		}
		got, err := dissect.LossParts(b, of, perClass, x, x)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r, err := dmlx.ParseRule(rule)
		if err != nil {
			t.Fatal(err)
		}
		want, err := dissect.RuleParts(b, r, x, x)
		if err != nil {
			t.Fatal(err)
		}
		scale, top := float64(got.Positive[0]/want.Positive[0]), 0.0
		for _, v := range slices.Concat(got.Positive, got.Negative) {
			top = max(top, math.Abs(float64(v)))
		}
		for i := range got.Positive {
			if math.Abs(float64(got.Positive[i])-scale*float64(want.Positive[i])) > 1e-5*top ||
				math.Abs(float64(got.Negative[i])-scale*float64(want.Negative[i])) > 1e-5*top {
				t.Fatalf("%s at S_ap %g, S_an %g pulls by %g and pushes by %g; %s by %g and %g, times %g", name, x[i/9], x[i%9],
					got.Positive[i], got.Negative[i], rule, want.Positive[i], want.Negative[i], scale)
			}
		}
	}
}

// A name means one gradient: that of a rule by it and that of a loss by it are the same, and where Table 1's loss is
// not the published one, the rule is called table1-… instead.
func TestNamesMeanOneGradient(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	e := dissect.Embeddings{N: 24, Dim: 8}
	rng := rand.New(rand.NewPCG(3, 1))
	for i := range e.N {
		e.Labels = append(e.Labels, int64(i%6))
	}
	for range e.N * e.Dim {
		e.Values = append(e.Values, float32(rng.NormFloat64()))
	}
	// The published loss of the triplets that rules mine.
	compare := func(loss, rule string) dissect.Near {
		l, err := Parse(loss)
		if err != nil {
			t.Fatal(err)
		}
		r, err := dmlx.ParseRule(rule)
		if err != nil {
			t.Fatal(err)
		}
		d, err := dissect.Loss(b, e, dissect.Proxies{}, miners.With(miners.Extreme{Positive: miners.Easy,
			Negative: miners.Hard}, l.Of))
		if err != nil {
			t.Fatal(err)
		}
		near, err := dissect.Nearest(e, d.G, dissect.RuleCandidates([]dmlx.Rule{r}))
		if err != nil {
			t.Fatal(err)
		}
		return near[0]
	}
	for _, name := range dmlx.Aliases() {
		bare, apart := strings.CutPrefix(name, "table1-")
		if !slices.Contains(Names(), bare) {
			continue
		}
		if a := compare(bare, name); a.Error < 1e-4 == apart {
			t.Errorf("rule %s and loss %s: %+v", name, bare, a)
		}
	}
	for rule, loss := range map[string]string{"triplet-euc": "triplet?margin=4",
		"triplet-cos?tau=2": "triplet-soft?power=2"} {
		if a := compare(loss, rule); !(a.Error < 1e-4) {
			t.Errorf("rule %s and loss %s: %+v", rule, loss, a)
		}
	}
	seen := make(map[string]bool)
	for _, l := range dmlx.Losses {
		if seen[l.Name] || slices.Contains(Names(), l.Name) {
			t.Errorf("%s names two losses", l.Name)
		}
		seen[l.Name] = true
	}
}

// Every loss is one on S, so it is put together again from its parts: by the direction that it has, its pair weights
// and its triplet weights. With all of them exchanged the gradient is finite.
func TestExchangedParts(t *testing.T) {
	t.Parallel()
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	e := dissect.Embeddings{N: 16, Dim: 8}
	rng := rand.New(rand.NewPCG(5, 1))
	for i := range e.N {
		e.Labels = append(e.Labels, int64(i%4))
	}
	for range e.N * e.Dim {
		e.Values = append(e.Values, float32(rng.NormFloat64()))
	}
	for _, name := range Names() {
		if name == "pfml" {
			name += "?delta=1.5" // There it pushes, so that there are triplets.
		}
		l, of := named(t, name)
		p := dissect.Proxies{}
		if n := PerClass(l); n > 0 {
			p = dissect.Proxies{N: 5 * n, Dim: e.Dim} // One class has no image.
			for i := range p.N {
				p.Classes = append(p.Classes, int64(i/n))
			}
			for range p.N * p.Dim {
				p.Values = append(p.Values, float32(rng.NormFloat64()))
			}
		}
		d, err := dissect.Loss(b, e, p, of)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := dmlx.ParseExchange("direction=cos")
		if err != nil {
			t.Fatal(err)
		}
		g, _, err := dissect.Exchanged(b, e, p, of, whole)
		if err != nil {
			t.Fatal(err)
		}
		if o := off(g, d.G); !(o < 1e-5) {
			t.Errorf("%s: put together from its parts the gradient is off by %g", name, o)
		}
		all, err := dmlx.ParseExchange("direction=cos-orth&pair=lin-ms&triplet=cir")
		if err != nil {
			t.Fatal(err)
		}
		all.PerAnchor = 10
		g, _, err = dissect.Exchanged(b, e, p, of, all)
		if err != nil {
			t.Errorf("%s with other parts: %v", name, err)
		} else if o := off(g, d.G); !(o > 1e-3) {
			t.Errorf("%s with other parts is off by %g alone", name, o)
		}
		// Weights written as formulas are the named ones.
		var written [2][]float32
		for i, parts := range []string{"pair=lin&triplet=cir",
			"pair=[1-Sap, San]&triplet=[1/(1+exp(tau*(Sap*(2-Sap)-pow(San, 2))))]"} {
			x, err := dmlx.ParseExchange(parts)
			if err != nil {
				t.Fatal(err)
			}
			x.PerAnchor = 10
			if written[i], _, err = dissect.Exchanged(b, e, p, of, x); err != nil {
				t.Fatal(err)
			}
		}
		if o := off(written[1], written[0]); !(o < 1e-5) {
			t.Errorf("%s with weights as formulas is off by %g", name, o)
		}
	}
}

// What is far below 0 is not lost: an anchor that is at rest but for 10⁻⁸ counts as the others do.
func TestSmallLosses(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		exec, err := NewExec(b, func(x *Node) (*Node, *Node) {
			y := softplus(x)
			return y, Gradient(ReduceAllSum(y), x)[0]
		})
		if err != nil {
			t.Fatal(err)
		}
		defer exec.Finalize()
		x := []float32{-80, -40, -20, -17, -3, 0, 1, 16, 17, 80}
		out, err := exec.Call(x)
		if err != nil {
			t.Fatal(err)
		}
		values, slopes := tensors.MustCopyFlatData[float32](out[0]), tensors.MustCopyFlatData[float32](out[1])
		for i, v := range x {
			value, slope := math.Log1p(math.Exp(float64(v))), 1/(1+math.Exp(-float64(v)))
			if math.Abs(float64(values[i])/value-1) > 2e-6 || math.Abs(float64(slopes[i])/slope-1) > 2e-6 {
				t.Errorf("softplus(%g) = %g with slope %g, want %g with %g", v, values[i], slopes[i], value, slope)
			}
		}
	})
	g, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	// Two classes that are well apart and two that are not: anchors of the first have a loss of 10⁻¹⁰.
	e := circleBatch([]int64{0, 0, 1, 1, 2, 2, 3, 3}, 0, 10, 180, 190, 88, 96, 92, 100)
	l := &Circle{M: 0.2, Gamma: 600}
	d, err := dissect.Loss(g, e, dissect.Proxies{}, l.Of)
	if err != nil {
		t.Fatal(err)
	}
	want, least := 0.0, math.Inf(1)
	for a := range e.N {
		var positives, negatives float64
		for k := range e.N {
			s := float64(d.S[a*e.N+k])
			switch {
			case k == a:
			case e.Labels[k] == e.Labels[a]:
				positives += math.Exp(-l.Gamma * max(0, 1+l.M-s) * (s - 1 + l.M))
			default:
				negatives += math.Exp(l.Gamma * max(0, s+l.M) * (s - l.M))
			}
		}
		z := math.Log(positives) + math.Log(negatives)
		loss := max(z, 0) + math.Log1p(math.Exp(-math.Abs(z)))
		want, least = want+loss/float64(e.N), min(least, loss)
	}
	if least > 1e-8 || math.Abs(float64(d.Value)/want-1) > 1e-5 {
		t.Errorf("circle %g, want %g; the smallest of an anchor is %g", d.Value, want, least)
	}
}

// Where one member of a pair has no negatives its loss is that of the other's.
func TestLiftedWithOneSidedNegatives(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		e := circleBatch([]int64{0, 0, 1}, 0, 60, 90)
		of := func(b *dmlx.LossBatch) *Node { // Only the second has the negative.
			second := Equal(Iota(b.S.Graph(), b.S.Shape(), 0), OnesLike(b.S))
			return NewLifted().Of(b.MinedPairs(b.Positive, LogicalAnd(b.Negative, second)))
		}
		d, err := dissect.Loss(b, e, dissect.Proxies{}, of)
		if err != nil {
			t.Fatal(err)
		}
		pair := 1 - 2*math.Sin(15*math.Pi/180) + 1 // log exp(m − D_jl) + D_ij, of chords of 30° and 60°.
		if want := pair * pair / 2; math.Abs(float64(d.Value)-want) > 1e-5 {
			t.Errorf("%g, want %g", d.Value, want)
		}
	})
}

func TestCheckClasses(t *testing.T) {
	soft, _ := named(t, "soft-triple?centers=2")
	single, _ := named(t, "norm-softmax")
	for _, c := range []struct {
		l       Loss
		classes []int64
		ok      bool
	}{
		{single, []int64{4, 0, 1}, true}, {single, []int64{0, 0, 1}, false}, {single, []int64{0, 1, 0}, false},
		{soft, []int64{3, 3, 1, 1}, true}, {soft, []int64{0, 1, 0, 1}, false}, {soft, []int64{0, 0, 0, 1}, false}, {soft,
			[]int64{0, 0, 0, 0}, false},
	} {
		if err := CheckClasses(c.l, c.classes); (err == nil) != c.ok {
			t.Errorf("%v of %v: %v", c.l, c.classes, err)
		}
	}
}

package experiment

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/losses"
)

// tinyLoss is tiny with a loss, on classes of which one in three is held out, so that labels are no row numbers.
func tinyLoss(t *testing.T, loss, miner, exchange string) Spec {
	t.Helper()
	s, err := tiny().WithLoss(loss, miner)
	if err == nil {
		s, err = s.WithExchange(exchange)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.TrainClasses, s.HeldOut, s.ClassesPerBatch, s.ImagesPerClass = 6, 3, 3, 2
	if l, _ := losses.Parse(loss); losses.PerClass(l) > 0 {
		s.ProxyLR = 0.5
	}
	return s
}

// weightsOf are the bytes of a run's last weights.
func weightsOf(t *testing.T, s *Store, hash string) []byte {
	t.Helper()
	state, err := readCheckpoint(s.Path(hash))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(s.Path(hash), checkpointDir, state.Weights))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// variableOf reads a variable of a store.
func variableOf(t *testing.T, weights *model.Store, path string) []float32 {
	t.Helper()
	v := weights.GetVariable(path)
	if v == nil {
		t.Fatalf("no variable %s", path)
	}
	value, err := v.Value()
	if err != nil {
		t.Fatal(err)
	}
	out, err := tensors.CopyFlatData[float32](value)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A step moves the proxies, and the bias of the last layer, as the loss's dissection says, by rates of their own.
func TestStepByLoss(t *testing.T) {
	for _, name := range []string{"proxy-anchor", "soft-triple?centers=2", "ms?beta=20"} {
		spec := tinyLoss(t, name, "", "")
		spec.Epochs, spec.StepsPerEpoch = 1, 1
		for _, c := range choices() {
			if c.Name != "go" && name != "proxy-anchor" {
				continue
			}
			t.Run(name+" "+c.Name, func(t *testing.T) {
				s, _ := testStore(t)
				r := mustRun(t, c, s, spec)
				l, err := losses.Parse(name)
				if err != nil {
					t.Fatal(err)
				}
				perClass := losses.PerClass(l)
				set, err := openSet(spec)
				if err != nil {
					t.Fatal(err)
				}
				without, err := heldOut(set.Train.Labels, spec.HeldOut)
				if err != nil {
					t.Fatal(err)
				}
				classes := numbering(set.Train.Labels, without)
				if len(classes) != 4 {
					t.Fatalf("classes %v, want 4 of 6", classes)
				}
				p := dissect.Proxies{}
				if perClass > 0 {
					p = dissect.Proxies{N: 4 * perClass, Dim: spec.Dim, Values: firstProxies(4*perClass, spec.Dim, spec.Seed)}
					p.Classes = make([]int64, p.N)
					for label, i := range classes {
						for k := range perClass {
							p.Classes[int(i)*perClass+k] = label
						}
					}
				}
				// The embeddings of the first batch, by the weights at the start.
				weights := model.NewStore()
				if err := backbone.Init(weights, backbone.Small, spec.Dim, spec.Seed); err != nil {
					t.Fatal(err)
				}
				draws, err := newSampler(set.Train.Labels, without, spec.ClassesPerBatch, spec.ImagesPerClass, spec.Pad, spec.Seed)
				if err != nil {
					t.Fatal(err)
				}
				b := load(set.Train, draws.batch(0))
				bias := variableOf(t, weights, "/fc/bias")
				exec, err := model.NewExec(c.Backend, weights, func(scope *model.Scope, pixels, colours *Node) *Node {
					return backbone.Small.Embed(scope, normalizeColours(pixels, colours), spec.Dim, backbone.Pass{Training: true})
				})
				if err != nil {
					t.Fatal(err)
				}
				defer exec.Finalize()
				x, err := exec.Call1(tensors.FromFlatDataAndDimensions(b.pixels, len(b.labels), spec.Size, spec.Size, 3), colours(set))
				if err != nil {
					t.Fatal(err)
				}
				e := dissect.Embeddings{Values: tensors.MustCopyFlatData[float32](x), N: len(b.labels), Dim: spec.Dim}
				for _, label := range b.labels {
					e.Labels = append(e.Labels, int64(label))
				}
				d, err := dissect.Loss(c.Backend, e, p, l.Of)
				if err != nil {
					t.Fatal(err)
				}
				after := model.NewStore()
				if _, err := backbone.DecodeWeights(weightsOf(t, s, r.Hash), after, backbone.LoadOptions{Arch: backbone.Small, Dim: spec.Dim, Proxies: p.N}); err != nil {
					t.Fatal(err)
				}
				near := func(what string, got, want float64) {
					if math.Abs(got-want) > 2e-5*(1+math.Abs(want)) {
						t.Errorf("%s %g, want %g", what, got, want)
					}
				}
				gotBias, moved := variableOf(t, after, "/fc/bias"), 0.0
				for j := range spec.Dim {
					sum := 0.0
					for i := range e.N {
						sum += float64(d.Raw[i*spec.Dim+j])
					}
					near(fmt.Sprintf("bias %d", j), float64(gotBias[j]), float64(bias[j])-spec.LR*sum)
					moved += math.Abs(sum)
				}
				if moved == 0 {
					t.Error("nothing moved")
				}
				if p.N == 0 {
					if backbone.Proxies(after) != nil {
						t.Error("a loss without proxies has some")
					}
					return
				}
				moved = 0
				for i, v := range variableOf(t, after, "/proxies/weight") {
					g := float64(d.Raw[e.N*spec.Dim+i])
					near(fmt.Sprintf("proxy value %d", i), float64(v), float64(p.Values[i])-spec.ProxyLR*g)
					moved += math.Abs(g)
				}
				if moved == 0 {
					t.Error("no proxy moved")
				}
			})
		}
	}
}

func TestRunsByLoss(t *testing.T) {
	for _, by := range [][3]string{{"ms", "ms", ""}, {"triplet", "distance", ""}, {"margin", "semi-hard", ""}, {"soft-triple?centers=2", "", ""},
		{"n-pair", "", ""}, {"proxy-anchor", "", "pair=lin-ms"}, {"triplet-soft", "easy-positive", "direction=cos-orth&triplet=cir"}} {
		spec := tinyLoss(t, by[0], by[1], by[2])
		spec.LR = 0.01
		for _, c := range choices() {
			if c.Name != "go" && by[0] != "triplet" { // A step compiles for seconds: those that differ most will do.
				continue
			}
			t.Run(spec.Objective()+" "+c.Name, func(t *testing.T) {
				whole, _ := testStore(t)
				r := mustRun(t, c, whole, spec)
				if strings.Contains(r.Diverged, "not finite") || r.Recall[1] <= 0 || r.HeldOutRecall[1] <= 0 {
					t.Errorf("%+v", r)
				}
				epochs, err := whole.Metrics(r.Hash)
				if err != nil || len(epochs) != 3 || epochs[0].Triplets == 0 || epochs[0].GradientNorm == 0 {
					t.Errorf("metrics %+v, %v", epochs, err)
				}
				// Stopped and gone on with it is the same, to the bit, its proxies too.
				s, _ := testStore(t)
				runInTwoGoes(t, c, s, spec)
				if got, want := outcome(t, s, spec.Hash()), outcome(t, whole, spec.Hash()); !reflect.DeepEqual(got, want) {
					t.Error("differs from an undisturbed run")
				}
				if string(weightsOf(t, s, r.Hash)) != string(weightsOf(t, whole, r.Hash)) {
					t.Error("other weights than those of an undisturbed run")
				}
			})
		}
	}
}

func TestKilledProxiesGoOnBitByBit(t *testing.T) {
	spec := tinyLoss(t, "proxy-anchor", "", "")
	whole, _ := testStore(t)
	r := mustRun(t, goBackend(), whole, spec)
	s, warnings := testStore(t)
	runWithKills(t, s, spec)
	if string(weightsOf(t, s, r.Hash)) != string(weightsOf(t, whole, r.Hash)) {
		t.Error("other weights than those of an undisturbed run")
	}
	if len(*warnings) > 0 {
		t.Error(*warnings)
	}
}

// The proxies lie with the network, where a reader finds what they are of, and who has no use for them does without.
func TestProxiesAreSaved(t *testing.T) {
	spec := tinyLoss(t, "proxy-nca?tau=3", "", "")
	s, _ := testStore(t)
	r := mustRun(t, goBackend(), s, spec)
	raw := weightsOf(t, s, r.Hash)
	meta, err := backbone.Metadata(raw)
	if err != nil {
		t.Fatal(err)
	}
	if meta["loss"] != "proxy-nca?tau=3" || meta["rule"] != "" || meta["proxy_classes"] != "[0, 1, 3, 4]" || meta["proxies_per_class"] != "1" {
		t.Errorf("metadata %v", meta)
	}
	o := backbone.LoadOptions{Arch: backbone.Small, Dim: spec.Dim}
	weights := model.NewStore()
	if _, err := backbone.DecodeWeights(raw, weights, o); err != nil || backbone.Proxies(weights) != nil {
		t.Errorf("without proxies: %v", err)
	}
	o.Proxies = 4
	if _, err := backbone.DecodeWeights(raw, weights, o); err != nil || len(variableOf(t, weights, "/proxies/weight")) != 4*spec.Dim {
		t.Errorf("with proxies: %v", err)
	}
	o.Proxies = 5
	if _, err := backbone.DecodeWeights(raw, weights, o); err == nil || !strings.Contains(err.Error(), "proxies.weight is F32 [4 8], want F32 [5 8]") {
		t.Errorf("proxies of another number: %v", err)
	}
	for _, v := range backbone.Trainable(weights) {
		if v == backbone.Proxies(weights) {
			t.Error("the proxies are listed among the network's variables")
		}
	}
}

func TestFirstProxies(t *testing.T) {
	t.Parallel()
	few, many := firstProxies(3, 8, 7), firstProxies(5, 8, 7)
	if !reflect.DeepEqual(few, many[:24]) {
		t.Error("a proxy depends on how many there are")
	}
	if reflect.DeepEqual(few, firstProxies(3, 8, 8)) || reflect.DeepEqual(many[:8], many[8:16]) {
		t.Error("proxies are alike")
	}
	for i := range 5 {
		square := 0.0
		for _, v := range many[i*8 : (i+1)*8] {
			square += float64(v) * float64(v)
		}
		if math.Abs(square-1) > 1e-6 {
			t.Errorf("proxy %d is of length² %g", i, square)
		}
	}
}

func TestSpecByLoss(t *testing.T) {
	t.Parallel()
	good := tinyLoss(t, "proxy-anchor?alpha=32&delta=0.2", "", "")
	if good.Loss != "proxy-anchor?delta=0.2" || good.Rule != "" || good.Objective() != "loss proxy-anchor?delta=0.2" {
		t.Errorf("%+v", good)
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	if _, err := good.TheRule(); err == nil || !strings.Contains(err.Error(), "not by a rule") {
		t.Errorf("rule of a loss: %v", err)
	}
	if back, err := good.WithRule(dmlx.Rule{}); err != nil || back.Loss != "" || back.Validate() != nil {
		t.Errorf("%+v, %v", back, err)
	}
	if mined, err := good.WithLoss("ms", "all"); err != nil || mined.Miner != "" || mined.ProxyLR != 0 {
		t.Errorf("%+v, %v", mined, err)
	}
	hashes := map[string]bool{good.Hash(): true}
	for name, c := range map[string]struct {
		edit func(s *Spec)
		want string
	}{
		"no rate of proxies":  {func(s *Spec) { s.ProxyLR = 0 }, "learning rate of the proxies of loss proxy-anchor?delta=0.2 is 0"},
		"a rule too":          {func(s *Spec) { s.Rule = "cos/con/con" }, "want one of them"},
		"no proxies":          {func(s *Spec) { s.Loss = "ms" }, "has no proxies"},
		"not canonical":       {func(s *Spec) { s.Loss = "proxy-anchor?alpha=32" }, "want loss proxy-anchor"},
		"no such loss":        {func(s *Spec) { s.Loss = "nonsense" }, "there is none of that name"},
		"no such part":        {func(s *Spec) { s.Exchange = "pair=nonsense" }, "no pair weight"},
		"parts astray":        {func(s *Spec) { s.Exchange = "triplet=cir&pair=lin" }, "want loss proxy-anchor?delta=0.2, pair=lin&triplet=cir"},
		"no such miner":       {func(s *Spec) { s.Miner = "nonsense" }, "there is none of that name"},
		"a rule with a miner": {func(s *Spec) { s.Loss, s.ProxyLR, s.Rule, s.Miner = "", 0, "cos/con/con", "ms" }, "belong to a loss"},
	} {
		s := good
		c.edit(&s)
		if hashes[s.Hash()] {
			t.Errorf("%s: the hash of another spec", name)
		}
		hashes[s.Hash()] = true
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestLossThatIsNotFinite(t *testing.T) {
	spec := tinyLoss(t, "proxy-anchor", "", "")
	spec.ProxyLR = 1e38
	s, _ := testStore(t)
	if r := mustRun(t, goBackend(), s, spec); !strings.Contains(r.Diverged, "not finite") {
		t.Errorf("%+v", r)
	}
}

func TestLossRates(t *testing.T) {
	t.Parallel()
	for _, name := range Presets() {
		p, err := ParsePreset(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, loss := range losses.Names() {
			s, err := p.LossSpec(p.FineGrained, loss, "", "", 1)
			if err != nil || !(s.LR > 0) || (s.ProxyLR > 0) != (losses.PerClass(must(losses.Parse(loss))) > 0) {
				t.Errorf("%s, %s: %+v, %v", name, loss, s, err)
			}
		}
	}
	p, _ := ParsePreset("quick")
	// 0.3 · 0.5/10.6 for InfoNCE, 0.75/0.3 of that with a linear pair weight; four times 0.3 · 0.5/19.8.
	for _, c := range []struct {
		loss, exchange string
		lr, proxies    float64
	}{{"info-nce", "", 0.014, 0}, {"info-nce", "direction=cos-orth&triplet=cir", 0.014, 0}, {"info-nce", "pair=lin-ms", 0.035, 0}, {"norm-softmax", "", 0.03, 0.03}} {
		if s, err := p.LossSpec("minicar", c.loss, "", c.exchange, 1); err != nil || s.LR != c.lr || s.ProxyLR != c.proxies {
			t.Errorf("%s %s: rates %g and %g, %v, want %g and %g", c.loss, c.exchange, s.LR, s.ProxyLR, err, c.lr, c.proxies)
		}
	}
	if _, err := p.LossSpec("minicar", "nonsense", "", "", 1); err == nil {
		t.Error("a loss that there is not")
	}
}

func must[T any](v T, _ error) T { return v }

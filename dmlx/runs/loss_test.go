package runs

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// tinyLoss is tiny with a loss, on classes of which one in three is held out, so that labels are no row numbers.
func tinyLoss(t *testing.T, loss, miner, exchange string) Spec {
	t.Helper()
	s, err := tiny().by(objectives.ParseLoss(loss + ", miner " + miner))
	if err == nil {
		s, err = s.by(s.WithExchange(exchange))
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
	state, err := train.ReadCheckpoint(s.Path(hash))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(s.Path(hash), train.CheckpointDir, state.Weights))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestRunsByLoss(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	for _, by := range [][3]string{{"ms", "ms", ""}, {"triplet", "distance", ""}, {"margin", "semi-hard", ""},
		{"soft-triple?centers=2", "", ""},
		{"n-pair", "", ""}, {"proxy-anchor", "", "pair=lin-ms"}, {"triplet-soft", "easy-positive",
			"direction=cos-orth&triplet=cir"}} {
		spec := tinyLoss(t, by[0], by[1], by[2])
		spec.LR = 0.01
		for _, c := range trainers() {
			if c.Name != "go" && by[0] != "triplet" { // A step compiles for seconds: those that differ most will do.
				continue
			}
			t.Run(spec.Objective.String()+" "+c.Name, func(t *testing.T) {
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
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
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
	if meta["loss"] != "proxy-nca?tau=3" || meta["rule"] != "" || meta["proxy_classes"] != "[0, 1, 3, 4]" ||
		meta["proxies_per_class"] != "1" {
		t.Errorf("metadata %v", meta)
	}
	o := backbone.LoadOptions{Arch: backbone.Small, Dim: spec.Dim}
	weights := model.NewStore()
	if _, err := backbone.DecodeWeights(raw, weights, o); err != nil || backbone.Proxies(weights) != nil {
		t.Errorf("without proxies: %v", err)
	}
	o.Proxies = 4
	if _, err := backbone.DecodeWeights(raw, weights, o); err != nil ||
		backbone.Proxies(weights).Shape().Size() != 4*spec.Dim {
		t.Errorf("with proxies: %v", err)
	}
	o.Proxies = 5
	if _, err := backbone.DecodeWeights(raw, weights, o); err == nil ||
		!strings.Contains(err.Error(), "proxies.weight is F32 [4 8], want F32 [5 8]") {
		t.Errorf("proxies of another number: %v", err)
	}
	for _, v := range backbone.Trainable(weights) {
		if v == backbone.Proxies(weights) {
			t.Error("the proxies are listed among the network's variables")
		}
	}
}

func TestSpecByLoss(t *testing.T) {
	t.Parallel()
	good := tinyLoss(t, "proxy-anchor?alpha=32&delta=0.2", "", "")
	if good.Loss != "proxy-anchor?delta=0.2" || good.Rule != "" ||
		good.Objective.String() != "loss proxy-anchor?delta=0.2" {
		t.Errorf("%+v", good)
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	if _, err := good.ParsedRule(); err == nil || !strings.Contains(err.Error(), "not a rule") {
		t.Errorf("rule of a loss: %v", err)
	}
	if mined, err := good.by(objectives.ParseLoss("ms, miner all")); err != nil || mined.Miner != "" {
		t.Errorf("%+v, %v", mined, err)
	}
	hashes := map[string]bool{good.Hash(): true}
	for name, c := range map[string]struct {
		edit func(s *Spec)
		want string
	}{
		"no rate of proxies": {func(s *Spec) { s.ProxyLR = 0 }, "learning rate of the proxies of loss " +
			"proxy-anchor?delta=0.2 is 0"},
		"a rule too":    {func(s *Spec) { s.Rule = "cos/con/con" }, "want one of them"},
		"no proxies":    {func(s *Spec) { s.Loss = "ms" }, "has no proxies"},
		"not canonical": {func(s *Spec) { s.Loss = "proxy-anchor?alpha=32" }, "want loss proxy-anchor"},
		"no such loss":  {func(s *Spec) { s.Loss = "nonsense" }, "there is none of that name"},
		"no such part":  {func(s *Spec) { s.Exchange = "pair=nonsense" }, "no pair weight"},
		"parts astray": {func(s *Spec) { s.Exchange = "triplet=cir&pair=lin" },
			"want loss proxy-anchor?delta=0.2, pair=lin&triplet=cir"},
		"no such miner": {func(s *Spec) { s.Miner = "nonsense" }, "there is none of that name"},
		"a rule with a miner": {func(s *Spec) { s.Loss, s.ProxyLR, s.Rule, s.Miner = "", 0, "cos/con/con", "ms" },
			"it chooses pairs"},
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

package train

import (
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
	"github.com/gradient-surgery/dml/dmlx/internal/mesh"
	"github.com/gradient-surgery/dml/dmlx/internal/sampling"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// fastCompile keeps XLA from optimizing the programs of tests, which takes most of their time.
const fastCompile = "--xla_backend_optimization_level=0"

// allCases tells whether to run the cases that take minutes.
func allCases() bool { return os.Getenv("DMLX_TEST_ALL") != "" }

// relative returns the largest difference of two arrays as a share of the largest entry, and NaN if one has NaN.
func relative(a, b []float32) float64 {
	var apart, largest float64
	for i := range a {
		d := math.Abs(float64(a[i]) - float64(b[i]))
		if d != d || len(a) != len(b) {
			return math.NaN()
		}
		apart, largest = max(apart, d), max(largest, math.Abs(float64(a[i])))
	}
	return apart / max(largest, 1e-30)
}

// embeddingBatch is a batch for tests of the op: its embeddings are tanh(x·w).
type embeddingBatch struct {
	x, w, noise []float32
	labels      []int32
}

const opBatch, opDim, opClasses = 64, 16, 16

func newEmbeddingBatch() (b embeddingBatch) {
	rng := sampling.Stream(1, 77, 0)
	for range opBatch * opDim {
		b.x = append(b.x, float32(rng.NormFloat64()))
	}
	for range opDim * opDim {
		b.w = append(b.w, float32(rng.NormFloat64()/4))
	}
	for i := range opBatch {
		b.labels = append(b.labels, int32(i%opClasses))
	}
	b.noise = tensors.MustCopyFlatData[float32](objectives.Noise(opBatch, 0, 1))
	return b
}

// gradients returns the gradients that objectives give to embeddings, to w, and to their proxies. A graph has many
// objectives, since XLA takes a while for each graph.
func gradients(
	t *testing.T, b compute.Backend, devices int, in embeddingBatch, all []objective,
) (out [][]float32) {
	t.Helper()
	m, err := mesh.New(devices)
	if err != nil {
		t.Fatal(err)
	}
	const perGraph = 42
	for some := range slices.Chunk(all, perGraph) {
		exec, err := model.NewExec(b, model.NewStore(), func(_ *model.Scope, in []*Node) (out []*Node) {
			x, w, labels, noise := Tanh(MatMul(in[0], in[1])), in[1], in[2], in[3]
			for _, obj := range some {
				at := []*Node{x, w}
				batch := objectives.Inputs{X: x, Labels: labels, Noise: noise}
				if obj.Proxies > 0 {
					values := objectives.InitialProxies(obj.Proxies, opDim, 1)
					batch.Proxies = Const(x.Graph(), tensors.FromFlatDataAndDimensions(values, obj.Proxies, opDim))
				}
				f, p, _ := obj.Of(batch)
				total := ReduceAllSum(f)
				if p != nil {
					at, total = append(at, batch.Proxies), Add(total, ReduceAllSum(p))
				}
				out = append(out, Gradient(total, at...)...)
			}
			return out
		})
		if err != nil {
			t.Fatal(err)
		}
		m.Shard(exec, []mesh.Layout{mesh.Rows, mesh.Replicated}, []mesh.Layout{mesh.Replicated})
		raw, err := binary.Append(nil, binary.NativeEndian, in.x)
		if err != nil {
			t.Fatal(err)
		}
		x, err := m.CopyRows(b, shapes.Make(dtypes.Float32, opBatch, opDim), raw)
		if err != nil {
			t.Fatal(err)
		}
		values, err := m.Call(exec, x, m.Replicate(tensors.FromFlatDataAndDimensions(in.w, opDim, opDim)),
			m.Replicate(tensors.FromFlatDataAndDimensions(in.labels, opBatch)),
			m.Replicate(tensors.FromFlatDataAndDimensions(in.noise, opBatch, opBatch)))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			first := tensors.MustCopyFlatData[float32](v[0])
			if slices.Max(first) <= 0 {
				t.Errorf("a gradient on %d devices has no positive entry", devices)
			}
			for d, other := range v {
				if !slices.Equal(first, tensors.MustCopyFlatData[float32](other)) {
					t.Errorf("device %d of %d has another gradient than device 0", d, devices)
				}
			}
			out = append(out, first)
		}
		exec.Finalize()
	}
	return out
}

// The gradient at the embeddings is the same on several devices: of all combinations of the parts of a rule, of all
// losses, with proxies or not, and of the miners.
func TestOpOnDevices(t *testing.T) {
	choice := backendtest.OnDevices(t, 4, fastCompile)
	if choice == nil {
		return
	}
	var names []string // Of each gradient.
	var all []objective
	add := func(c Config, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		obj, err := newObjective(c, opClasses)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, obj)
		names = append(names, c.Objective.String()+" at embeddings", c.Objective.String()+" at w")
		if obj.Proxies > 0 {
			names = append(names, c.Objective.String()+" at proxies")
		}
	}
	base := Config{ClassesPerBatch: opClasses, ImagesPerClass: opBatch / opClasses, Dim: opDim}
	for i, r := range dmlx.Rules() {
		// By default each part of a rule at least twice.
		direction, pair, triplet := i/42, i/7%6, i%7
		if allCases() || (pair == triplet%6 || pair == (triplet+3)%6) && direction == (pair+triplet/2)%4 {
			add(base.by(objectives.ByRule(r)))
		}
	}
	rules := len(all)
	for i, name := range losses.Names() {
		if allCases() || hasProxies(t, name) || i%3 == 0 {
			add(base.by(objectives.ParseLoss(name)))
		}
	}
	for i, miner := range miners.Names()[1:] {
		if allCases() || i%3 == 0 {
			add(base.by(objectives.ParseLoss("triplet?margin=1, miner " + miner)))
		}
	}
	add(base.by(objectives.ParseLoss("ms, miner ms")))
	in := newEmbeddingBatch()
	one := gradients(t, choice.Backend, 1, in, all)
	counts := []int{4}
	if allCases() {
		counts = []int{2, 4}
	}
	for _, n := range counts {
		var worst [2]float64
		for i, got := range gradients(t, choice.Backend, n, in, all) {
			kind, limit := 0, 1e-6
			if i >= 2*rules { // Losses take exponentials of up to 64 × S.
				kind, limit = 1, 1e-5
			}
			d := relative(one[i], got)
			worst[kind] = max(worst[kind], d)
			if !(d <= limit) {
				t.Errorf("the gradient of %s is %.2g of its largest entry apart on %d devices", names[i], d, n)
			}
		}
		t.Logf("%d devices: %d rules at most %.1g of the largest entry apart, %d losses and miners %.1g", n, rules, worst[0],
			len(all)-rules, worst[1])
	}
}

// Trainings on several devices share their compiled steps, since XLA takes seconds for each.
func TestTrainingOnDevices(t *testing.T) {
	choice := backendtest.OnDevices(t, 4, fastCompile)
	if choice == nil {
		return
	}
	trainer := New(choice)
	defer trainer.Close()
	t.Run("resume", func(t *testing.T) { testResumeOnDevices(t, trainer) })
	t.Run("steps", func(t *testing.T) { testStepsOnDevices(t, trainer) })
	t.Run("network", func(t *testing.T) { testNetworkOnDevices(t, trainer) })
}

// testNetworkOnDevices compares the first step of networks of files on two devices with that on one.
func testNetworkOnDevices(t *testing.T, trainer *Trainer) {
	two, err := trainer.OnDevices(2)
	if err != nil {
		t.Fatal(err)
	}
	data := networkData(t, 32)
	// A ReLU6 on the other side makes a difference above rounding.
	for name, most := range map[string]float64{"vit_tiny": 1e-4, "efficientnet_lite0": 1e-3} {
		if name != "vit_tiny" && !allCases() {
			continue
		}
		c := networkConfig(t, "../onnx/testdata/"+name+".onnx")
		c.Rule, c.ClassesPerBatch, c.ImagesPerClass, c.FreezeBN = "cos-orth/lin-ms/cir", 4, 4, FreezeStatistics
		prepared, own, err := c.prepared(data)
		if err != nil {
			t.Fatal(err)
		}
		one, other := firstStep(t, trainer, prepared, own, 0), firstStep(t, two, prepared, own, 0)
		if apart := one.apart(other); !(apart < most) {
			t.Errorf("%s: the first step on two devices is %.1e from that on one", name, apart)
		} else {
			t.Logf("%s: the first step is %.1e apart", name, apart)
		}
	}
}

// devicesConfig returns a config whose batches of 16 images up to 16 devices can share.
func devicesConfig() Config {
	c := tinyConfig()
	c.Rule, c.ClassesPerBatch, c.ImagesPerClass = "cos-orth/lin-ms/cir", 4, 4
	return c
}

// testStepsOnDevices compares the change of the weights by the first step on several devices with that on one, beside a
// control: one device again, with initial weights moved by 1e-7 of themselves, that is, by rounding. Of five seeds it
// takes the medians: a ReLU, or a rounding to bf16, that falls on the other side makes a large difference of either.
func testStepsOnDevices(t *testing.T, trainer *Trainer) {
	data, base := samples.Images(tinySet(t, 6)), devicesConfig()
	custom := dmlx.Rule{Direction: dmlx.DirectionCosOrth, Pair: dmlx.PairWeight{Name: "square",
		Of: func(b *dmlx.Batch) (positive, negative *Node) { return Square(OneMinus(b.Sap)), Square(b.San) }}}
	type testCase struct {
		objective string // A rule, "custom", or "loss NAME, miner NAME".
		memory    Memory
		model     *Model // Of the user's own, which compiles faster than a backbone.
		always    bool   // Else only with allCases.
	}
	own, dropout := perceptron([]int{16, 16, 3}, 12, 8, 0), perceptron([]int{16, 16, 3}, 12, 8, 0.2)
	cases := []testCase{
		{objective: "cos-orth/lin-ms/cir", always: true},
		{objective: "loss proxy-anchor", model: &dropout, always: true},
		{objective: "loss triplet, miner distance", memory: Memory{MicroBatch: 8}, model: &own, always: true},
		{objective: "custom", model: &own, always: true},
	}
	for _, rule := range []string{"cos/con/con", "euc/euc/con", "cos/con/cos", "cos/lin/cir", "cos/sig/con",
		"cos-orth/sig-ms/con", "cos/con/cos+sc1", "euc-orth/lin-ms/cir+sc2"} {
		cases = append(cases, testCase{objective: rule, model: &own})
	}
	for _, name := range losses.Names() {
		if hasProxies(t, name) {
			cases = append(cases, testCase{objective: "loss " + name, model: &own})
		}
	}
	for _, miner := range []string{"semi-hard", "hard", "distance"} {
		cases = append(cases, testCase{objective: "loss triplet?margin=1, miner " + miner, model: &own})
	}
	for _, m := range []Memory{{Precision: BFloat16}, {Recompute: true}, {MicroBatch: 8}} {
		cases = append(cases, testCase{objective: "cos-orth/lin-ms/cir", memory: m})
	}
	cases = append(cases, testCase{objective: "loss proxy-nca", memory: Memory{BFloat16, 4, true}},
		testCase{objective: "loss ms, miner ms"})
	for _, c := range cases {
		if !c.always && !allCases() {
			continue
		}
		config, err := base, error(nil)
		loss, isLoss := strings.CutPrefix(c.objective, "loss ")
		switch {
		case isLoss:
			if config, err = config.by(objectives.ParseLoss(loss)); err == nil && config.Proxies() > 0 {
				config.ProxyLR = 0.5
			}
		case c.objective == "custom":
			config, err = config.by(objectives.ByRule(custom))
		default:
			config.Rule = c.objective
		}
		if err != nil {
			t.Fatal(err)
		}
		config.Memory = c.memory
		if c.model != nil {
			if config, err = config.WithModel(*c.model); err != nil {
				t.Fatal(err)
			}
		}
		counts := []int{4}
		if c.memory == (Memory{}) && (c.model == nil || allCases()) {
			counts = []int{2, 4}
		}
		const seeds = 5
		var one [seeds]stepChange
		var control, apart = make([]float64, seeds), make(map[int][]float64)
		for seed := range seeds {
			config.Seed = uint64(seed + 1)
			one[seed] = firstStep(t, trainer, config, data, 0)
			control[seed] = one[seed].apart(firstStep(t, trainer, config, data, 1e-7))
		}
		for _, n := range counts {
			many, err := trainer.OnDevices(n)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range seeds {
				config.Seed = uint64(seed + 1)
				apart[n] = append(apart[n], one[seed].apart(firstStep(t, many, config, data, 0)))
			}
		}
		for _, n := range counts {
			got, want := median(apart[n]), median(control)
			t.Logf("%s %s%s %+v: %d devices %.1e (largest %.1e), control %.1e (largest %.1e)", c.objective, config.Arch,
				config.Model, c.memory, n,
				got, slices.Max(apart[n]), want, slices.Max(control))
			if !(got <= 4*want) {
				t.Errorf("%s %+v: on %d devices the change of the weights is %.2g apart, on one with other rounding %.2g",
					c.objective, c.memory, n, got, want)
			}
		}
	}
}

func median(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }

func hasProxies(t *testing.T, loss string) bool {
	t.Helper()
	l, err := losses.Parse(loss)
	if err != nil {
		t.Fatal(err)
	}
	return losses.PerClass(l) > 0
}

// stepChange is what a step changes: the weights and proxies before and after it.
type stepChange struct{ before, after []float32 }

// apart returns the length of the difference of two changes, relative to that of the first.
func (a stepChange) apart(b stepChange) float64 {
	var difference, length float64
	for i := range a.before {
		x, y := float64(a.after[i])-float64(a.before[i]), float64(b.after[i])-float64(b.before[i])
		difference, length = difference+(x-y)*(x-y), length+x*x
	}
	return math.Sqrt(difference / length)
}

// firstStep takes the first step of a training from its initial weights, moved by a share of themselves.
func firstStep(t *testing.T, trainer *Trainer, c Config, data *samples.Data, move float64) (out stepChange) {
	t.Helper()
	s, err := trainer.newSession(Training{Config: c, Data: data, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.initialize(); err != nil {
		t.Fatal(err)
	}
	variables := backbone.Trainable(s.step.weights)
	if p := backbone.Proxies(s.step.weights); p != nil {
		variables = append(variables, p)
	}
	rng := sampling.Stream(c.Seed, 78, 0)
	for _, v := range variables {
		values := variableOf(t, s.step.weights, v.Path())
		for i := range values {
			values[i] *= float32(1 + move*rng.NormFloat64())
		}
		if move > 0 {
			if err := v.SetValue(tensors.FromFlatDataAndDimensions(values, v.Shape().Dimensions...)); err != nil {
				t.Fatal(err)
			}
		}
		out.before = append(out.before, values...)
	}
	if err := s.step.reseed(c.Seed, 0); err != nil {
		t.Fatal(err)
	}
	b, err := s.sampler.load(data.Train, s.classes, 0)
	if err != nil {
		t.Fatal(err)
	}
	images, err := s.step.upload(b, data.Train.Shape())
	if err != nil {
		t.Fatal(err)
	}
	replicate := s.step.mesh.Replicate
	in := stepValues{images: images, labels: replicate(tensors.FromFlatDataAndDimensions(b.labels, len(b.labels))),
		affine: replicate(data.Affine()), settings: new(held).of(s.step.mesh, c.settings(s.step.objective.options, 0))}
	if s.step.objective.Noise {
		in.noise = replicate(objectives.Noise(len(b.labels), 0, c.Seed))
	}
	last, err := s.step.run(in)
	if err != nil {
		t.Fatal(err)
	}
	var sum tally
	if err := sum.add(outcomeOf(last)); err != nil || sum.notFinite > 0 || sum.triplets == 0 {
		t.Fatalf("%d triplets, not finite in step %d, %v", sum.triplets, sum.notFinite, err)
	}
	for _, v := range variables {
		out.after = append(out.after, variableOf(t, s.step.weights, v.Path())...)
	}
	trainer.keep(s.step)
	return out
}

// testResumeOnDevices stops a training on four devices, goes on with one, and then with two. The outcome says so, and
// the weights end near those of one device. On one number of devices it ends with the same bits.
func testResumeOnDevices(t *testing.T, trainer *Trainer) {
	data, config := samples.Images(tinySet(t, 6)), devicesConfig()
	config.LR = 0.001 // Rounding of the first steps grows until the last one.
	// With state of an optimizer.
	options := Options{Optimizer: "sgd?momentum=0.9", HeadLR: 0.002}
	config, err := config.WithOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	// train trains an epoch on each number of devices in turn, and returns the change of the weights.
	train := func(devices ...int) (out *Outcome, change stepChange) {
		t.Helper()
		dir := t.TempDir()
		for epoch, n := range devices {
			on, err := trainer.OnDevices(n)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			training := Training{Config: config, ID: "tiny", Data: data, Dir: dir, Progress: func(p Progress) {
				if p.Epoch > epoch+1 && len(devices) > epoch+1 {
					stop()
				}
			}}
			out, err = on.Train(ctx, training)
			if last := epoch == len(devices)-1; last && err != nil || !last && ctx.Err() == nil {
				t.Fatalf("epoch %d: %v", epoch, err)
			}
			stop()
		}
		raw := lastWeights(t, dir)
		for _, decode := range []bool{false, true} {
			store := model.NewStore()
			err := backbone.Init(store, backbone.Small, config.Dim, config.Seed)
			if decode {
				store = model.NewStore()
				_, err = backbone.DecodeWeights(raw, store, backbone.LoadOptions{Arch: backbone.Small, Dim: config.Dim})
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range backbone.Trainable(store) {
				values := variableOf(t, store, v.Path())
				if decode {
					change.after = append(change.after, values...)
				} else {
					change.before = append(change.before, values...)
				}
			}
		}
		return out, change
	}
	_, one := train(1, 1, 1)
	out, changed := train(4, 1, 2)
	if want := []int{4, 1, 2}; !slices.Equal(out.Devices, want) {
		t.Errorf("the outcome has devices %v, want %v", out.Devices, want)
	}
	d := one.apart(changed)
	t.Logf("on 4, 1 and 2 devices the weights end %.2g of their change apart", d)
	if !(d <= 0.02) {
		t.Error("want at most 0.02")
	}
	config.Epochs = 2
	config.StepsPerEpoch = 2
	out, stopped := train(2, 2)
	if want := []int{2}; !slices.Equal(out.Devices, want) {
		t.Errorf("the outcome has devices %v, want %v", out.Devices, want)
	}
	if _, whole := train(2); !slices.Equal(stopped.after, whole.after) {
		t.Error("a training that is stopped on two devices ends with other bits")
	}

	// Two trainings at once take turns.
	var group errgroup.Group
	for seed := range 2 {
		group.Go(func() error {
			on, err := trainer.OnDevices(2)
			if err != nil {
				return err
			}
			c := config
			c.Seed = uint64(seed)
			_, err = on.Train(t.Context(), Training{Config: c, ID: "tiny", Data: data, Dir: t.TempDir()})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// The compiled step of ResNet-18 on four devices needs at most 0.4 of the temporary memory on one, and its collectives
// carry weights, statistics of batch normalization, embeddings and what is computed from them: no images, no
// activations.
func TestCompiledStepOnDevices(t *testing.T) {
	const batch, size, dim = 128, 64, 64
	dump := t.TempDir()
	choice := backendtest.OnDevices(t, 4, fastCompile, "--xla_dump_hlo_as_text", "--xla_dump_to="+dump)
	if choice != nil {
		compileOnDevices(t, New(choice), batch, size, dim, 1, 4)
		return
	}
	if t.Failed() {
		return
	}
	read := func(pattern string) (out []string) {
		files, err := filepath.Glob(filepath.Join(dump, pattern))
		if err != nil || len(files) != 2 {
			t.Fatalf("%d files %s, want 2; %v", len(files), pattern, err)
		}
		slices.Sort(files) // Their names begin with a number that counts up.
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(raw))
		}
		return out
	}
	var memory []float64
	for _, report := range read("*-memory-usage-report.txt") {
		found := regexp.MustCompile(`size ([0-9.]+)MiB, preallocated-temp`).FindStringSubmatch(report)
		if found == nil {
			t.Fatalf("no temporary memory in %.500s", report)
		}
		mib, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		memory = append(memory, mib)
	}
	t.Logf("temporary memory of a device: %.1f MiB of one, %.1f MiB of four", memory[0], memory[1])
	if !(memory[1] <= 0.4*memory[0]) {
		t.Errorf("on four devices that is %.2f of it, want at most 0.4", memory[1]/memory[0])
	}

	weights := model.NewStore()
	defer weights.Finalize()
	if err := backbone.Init(weights, backbone.ResNet18, dim, 1); err != nil {
		t.Fatal(err)
	}
	isWeight, widest := make(map[int]bool), 0 // By their numbers of elements.
	for _, v := range backbone.Trainable(weights) {
		isWeight[v.Shape().Size()] = true
		widest = max(widest, v.Shape().Dim(0))
	}
	carried := func(program string) (kinds map[string]int) {
		kinds = make(map[string]int)
		for _, line := range regexp.MustCompile(`(?m)^.* = (.*) (all-reduce|all-gather|all-to-all|reduce-scatter|`+
			`collective-permute|collective-broadcast)(-start)?\(`).FindAllStringSubmatch(program, -1) {
			for _, shape := range regexp.MustCompile(`[a-z0-9]+\[([0-9,]*)\]`).FindAllStringSubmatch(line[1], -1) {
				elements, rank := 1, 0
				for d := range strings.SplitSeq(shape[1], ",") {
					if n, err := strconv.Atoi(d); err == nil {
						elements, rank = elements*n, rank+1
					}
				}
				kinds[line[2]]++
				small := elements <= max(batch*max(batch, dim), widest) && rank <= 2
				if !small && !(line[2] == "all-reduce" && isWeight[elements]) {
					t.Errorf("%s carries %s", line[2], shape[0])
				}
			}
		}
		return kinds
	}
	programs := read("*cpu_after_optimizations.txt")
	if kinds := carried(programs[0]); len(kinds) > 0 {
		t.Errorf("one device has collectives: %v", kinds)
	}
	kinds := carried(programs[1])
	t.Logf("arrays that four devices exchange: %v", kinds)
	if kinds["all-gather"] == 0 || kinds["all-reduce"] < len(isWeight) {
		t.Error("want gathers, and a reduction of the gradient of each weight")
	}
}

// compileOnDevices compiles a step of ResNet-18 on each number of devices, and runs none.
func compileOnDevices(t *testing.T, trainer *Trainer, batchSize, size, dim int, devices ...int) {
	t.Helper()
	config := devicesConfig()
	config.Arch, config.Dim = string(backbone.ResNet18), dim
	for _, n := range devices {
		on, err := trainer.OnDevices(n)
		if err != nil {
			t.Fatal(err)
		}
		step, err := on.trainingStep(config, config.ClassesPerBatch)
		if err != nil {
			t.Fatal(err)
		}
		if err := backbone.Init(step.weights, backbone.ResNet18, dim, 1); err != nil {
			t.Fatal(err)
		}
		images, err := step.upload(batch{samples: make([]byte, batchSize*size*size*3), labels: make([]int32, batchSize)},
			shapes.Make(dtypes.Uint8, size, size, 3))
		if err != nil {
			t.Fatal(err)
		}
		in := []mesh.Value{images[0], step.mesh.Replicate(tensors.FromFlatDataAndDimensions(make([]float32, 6), 2, 3)),
			step.mesh.Replicate(tensors.FromFlatDataAndDimensions(make([]int32, batchSize), batchSize)),
			new(held).of(step.mesh, make([]float32, settingsSize))}
		var of []shapes.Shape
		for _, argument := range step.mesh.Arguments(in...) {
			of = append(of, argument.(*tensors.Tensor).Shape())
		}
		if _, err := step.exec.Compile(of...); err != nil {
			t.Fatal(err)
		}
		step.free()
	}
}

func TestTooManyDevices(t *testing.T) {
	for _, c := range trainers() {
		if _, err := c.OnDevices(64); err == nil || !strings.Contains(err.Error(), "the backend "+c.Name+" has") {
			t.Errorf("%s on 64 devices: %v", c.Name, err)
		}
		if on, err := c.OnDevices(AllDevices); err != nil || on.DeviceCount() != c.Backend.NumDevices() {
			t.Errorf("%s on all devices: %v", c.Name, err)
		}
		if _, err := c.OnDevices(-2); err == nil {
			t.Errorf("%s on -2 devices", c.Name)
		}
	}
	c := tinyConfig()
	c.ClassesPerBatch, c.ImagesPerClass = 6, 5
	for want, fits := range map[string]struct{ devices, microBatch int }{
		"": {3, 0}, "batches of 30 images cannot be divided evenly among 4 devices: use 1, 2 or 3 devices": {4, 0},
		"micro-batches of 10 images cannot be divided evenly among 3 devices: use 1 or 2 devices": {3, 10},
	} {
		c.MicroBatch = fits.microBatch
		err := c.FitsDevices(fits.devices)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", fits, err, want)
		}
	}
}

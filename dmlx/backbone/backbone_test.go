package backbone_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
)

// TestParameters compares with torchvision: the number of trainable values as its documentation gives them, the number
// of tensors in its state dictionaries (without num_batches_tracked), and names and shapes of some of each kind.
func TestParameters(t *testing.T) {
	for _, c := range []struct {
		arch            backbone.Arch
		dim             int
		values, tensors int
		some            map[string][]int
	}{
		{backbone.ResNet18, 1000, 11_689_512, 122 - 20, map[string][]int{
			"conv1.weight": {64, 3, 7, 7}, "bn1.running_var": {64}, "layer1.0.conv1.weight": {64, 64, 3, 3},
			"layer2.0.conv1.weight": {128, 64, 3, 3}, "layer2.0.downsample.0.weight": {128, 64, 1, 1},
			"layer2.0.downsample.1.bias": {128}, "layer4.1.bn2.weight": {512}, "fc.weight": {1000, 512}, "fc.bias": {1000}}},
		{backbone.ResNet50, 1000, 25_557_032, 320 - 53, map[string][]int{
			"conv1.weight": {64, 3, 7, 7}, "layer1.0.conv1.weight": {64, 64, 1, 1}, "layer1.0.conv2.weight": {64, 64, 3, 3},
			"layer1.0.conv3.weight": {256, 64, 1, 1}, "layer1.0.downsample.0.weight": {256, 64, 1, 1},
			"layer2.0.conv1.weight": {128, 256, 1, 1}, "layer3.5.bn3.running_mean": {1024},
			"layer4.0.downsample.0.weight": {2048, 1024, 1, 1}, "fc.weight": {1000, 2048}}},
		{backbone.Small, 32, 312_432, 12*5 + 2, map[string][]int{
			"conv1.weight": {16, 3, 5, 5}, "layer1.0.conv2.weight": {16, 16, 3, 3},
			"layer4.0.downsample.0.weight": {128, 64, 1, 1}, "fc.weight": {32, 128}}},
	} {
		byName := map[string]backbone.Param{}
		trainable := 0
		for _, p := range c.arch.Parameters(c.dim) {
			byName[p.Name] = p
			if p.Trainable {
				trainable += p.Size()
			}
		}
		if trainable != c.values {
			t.Errorf("%s: %d trainable values, want %d", c.arch, trainable, c.values)
		}
		if len(byName) != c.tensors {
			t.Errorf("%s: %d tensors, want %d", c.arch, len(byName), c.tensors)
		}
		for name, shape := range c.some {
			if !slices.Equal(byName[name].Shape, shape) {
				t.Errorf("%s: %s is %v, want %v", c.arch, name, byName[name].Shape, shape)
			}
		}
		if p := byName["bn1.running_mean"]; p.Trainable {
			t.Errorf("%s: %s is trainable", c.arch, p.Name)
		}
	}
	if got := backbone.Arch("vgg").Parameters(8); got != nil {
		t.Errorf("an unknown network has parameters %v", got)
	}
}

func TestParseArch(t *testing.T) {
	for _, name := range backbone.Arches() {
		if a, err := backbone.ParseArch(" " + strings.ToUpper(name)); err != nil || string(a) != name {
			t.Errorf("%s: %v, %v", name, a, err)
		}
	}
	if _, err := backbone.ParseArch("vgg"); err == nil || !strings.Contains(err.Error(), "small, resnet18, resnet50") {
		t.Errorf("unclear error: %v", err)
	}
}

// TestInit checks that values depend on seed and name alone, and that they follow PyTorch's distributions.
func TestInit(t *testing.T) {
	values := func(store *model.Store, path string) []float32 {
		return tensors.MustCopyFlatData[float32](store.GetVariable(path).MustValue())
	}
	initialized := func(dim int, seed uint64) *model.Store {
		store := model.NewStore()
		if err := backbone.Init(store, backbone.Small, dim, seed); err != nil {
			t.Fatal(err)
		}
		return store
	}
	a, b, other, wide := initialized(32, 1), initialized(32, 1), initialized(32, 2), initialized(64, 1)
	for v := range a.IterVariables() {
		if !slices.Equal(values(a, v.Path()), values(b, v.Path())) {
			t.Errorf("%s differs between two stores of one seed", v.Path())
		}
	}
	const conv, fc = "/layer4/0/conv2/weight", "/fc/weight"
	if slices.Equal(values(a, conv), values(other, conv)) {
		t.Error("two seeds, one convolution")
	}
	if !slices.Equal(values(a, conv), values(wide, conv)) {
		t.Error("the embedding's size changes a convolution")
	}
	std := 0.0
	for _, x := range values(a, conv) {
		std += float64(x) * float64(x)
	}
	std = math.Sqrt(std / float64(len(values(a, conv))))
	if want := math.Sqrt(2. / (128 * 9)); math.Abs(std-want) > 0.01*want {
		t.Errorf("convolution has standard deviation %g, want %g", std, want)
	}
	if bound := float32(1 / math.Sqrt(128)); slices.Max(values(a, fc)) > bound || slices.Max(values(a, fc)) < 0.99*bound {
		t.Errorf("fc reaches %g, want %g", slices.Max(values(a, fc)), bound)
	}
	before := values(a, fc)
	if err := backbone.InitHead(a, backbone.Small, 32, 7); err != nil {
		t.Fatal(err)
	}
	if slices.Equal(values(a, fc), before) || !slices.Equal(values(a, conv), values(b, conv)) {
		t.Error("InitHead is to change fc, and fc alone")
	}
	if err := backbone.InitHead(a, backbone.Small, 8, 7); err != nil {
		t.Fatal(err)
	}
	if got := a.GetVariable(fc).Shape().Dimensions; !slices.Equal(got, []int{8, 128}) {
		t.Errorf("a head of 8 dimensions has shape %v", got)
	}
	if err := backbone.Init(model.NewStore(), "vgg", 32, 1); err == nil {
		t.Error("an unknown network is initialized")
	}
	if err := backbone.Init(model.NewStore(), backbone.Small, 0, 1); err == nil {
		t.Error("an embedding of no dimensions is initialized")
	}
}

func TestTrainableIsSorted(t *testing.T) {
	store := model.NewStore()
	if err := backbone.Init(store, backbone.Small, 32, 1); err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, p := range backbone.Small.Parameters(32) {
		if p.Trainable {
			want++
		}
	}
	vars := backbone.Trainable(store)
	if len(vars) != want {
		t.Errorf("%d trainable variables, want %d", len(vars), want)
	}
	if !slices.IsSortedFunc(vars, func(a, b *model.Variable) int { return strings.Compare(a.Path(), b.Path()) }) {
		t.Error("not sorted")
	}
}

// embed runs a network at evaluation.
func embed(
	t *testing.T, b compute.Backend, store *model.Store, a backbone.Arch, dim int, images *tensors.Tensor,
) *tensors.Tensor {
	t.Helper()
	exec, err := model.NewExec(b, store, func(scope *model.Scope, x *graph.Node) *graph.Node {
		return a.Embed(scope, x, dim, backbone.Pass{})
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Call(images)
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// TestResNetsRun embeds a tiny image with each ResNet on the Go backend, which compiles fastest.
func TestResNetsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	for _, a := range []backbone.Arch{backbone.ResNet18, backbone.ResNet50} {
		store := model.NewStore()
		if err := backbone.Init(store, a, 4, 1); err != nil {
			t.Fatal(err)
		}
		out := embed(t, backends(t)["go"], store, a, 4, noise(1, 1, 33, 32, 3))
		for _, x := range tensors.MustCopyFlatData[float32](out) {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) || x == 0 {
				t.Errorf("%s gives %v", a, out)
			}
		}
	}
}

// TestBackendsAgree compares the small network's embedding and all its gradients between the backends.
func TestBackendsAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	const dim = 8
	all := map[string][]*tensors.Tensor{}
	for name, b := range backends(t) {
		store := model.NewStore()
		if err := backbone.Init(store, backbone.Small, dim, 1); err != nil {
			t.Fatal(err)
		}
		exec, err := model.NewExec(b, store, func(scope *model.Scope, x, r *graph.Node) []*graph.Node {
			y := backbone.Small.Embed(scope, x, dim, backbone.Pass{Training: true})
			inputs := []*graph.Node{x}
			for _, v := range backbone.Trainable(scope.Store()) {
				inputs = append(inputs, v.NodeValue(x))
			}
			return append([]*graph.Node{y}, graph.Gradient(graph.ReduceAllSum(graph.Mul(y, r)), inputs...)...)
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Call(noise(1, 6, 12, 12, 3), noise(2, 6, dim))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = out
	}
	want := all["go"]
	for name, got := range all {
		for i := range got {
			reference := zeros(want[i].Shape().Dimensions...)
			for j, x := range tensors.MustCopyFlatData[float32](want[i]) {
				reference.values[j] = float64(x)
			}
			near(t, name, got[i], reference, 1e-4)
		}
	}
}

// TestOverfits trains on eight noise images for a few steps, and again from the same start: to the same bits.
func TestOverfits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	const dim, steps = 4, 15
	for name, b := range backends(t) {
		t.Run(name, func(t *testing.T) {
			images, targets := noise(1, 8, 12, 12, 3), noise(2, 8, dim)
			store := model.NewStore()
			if err := backbone.Init(store, backbone.Small, dim, 1); err != nil {
				t.Fatal(err)
			}
			before := tensors.MustCopyFlatData[float32](embed(t, b, store, backbone.Small, dim, images))
			step, err := model.NewExec(b, store, sgd(backbone.Small, dim, 0.05))
			if err != nil {
				t.Fatal(err)
			}
			train := func() (losses []float32) {
				for range steps {
					out, err := step.Call(images, targets)
					if err != nil {
						t.Fatal(err)
					}
					losses = append(losses, tensors.ToScalar[float32](out[0]))
				}
				return losses
			}
			losses := train()
			if !(losses[steps-1] < 0.1*losses[0]) {
				t.Errorf("losses %v", losses)
			}
			if slices.Equal(before, tensors.MustCopyFlatData[float32](embed(t, b, store, backbone.Small, dim, images))) {
				t.Error("evaluation has not changed")
			}
			if err := backbone.Init(store, backbone.Small, dim, 1); err != nil {
				t.Fatal(err)
			}
			if again := train(); !slices.Equal(again, losses) {
				t.Errorf("not reproducible: losses %v, then %v", losses, again)
			}
		})
	}
}

// TestMistakesAreErrors checks that what goes wrong while a graph is built comes back as an error with a cause.
func TestMistakesAreErrors(t *testing.T) {
	b := backends(t)["go"]
	for _, c := range []struct {
		name, want string
		init       bool
		build      func(scope *model.Scope, x *graph.Node) *graph.Node
		dims       []int
	}{
		{"no Init", "Init or DecodeWeights comes first", false, func(s *model.Scope, x *graph.Node) *graph.Node {
			return backbone.Small.Embed(s, x, 4, backbone.Pass{})
		}, []int{1, 8, 8, 3}},
		{"one value per channel", "more than one value per channel", true, func(s *model.Scope, x *graph.Node) *graph.Node {
			return backbone.Small.Embed(s, x, 4, backbone.Pass{Training: true})
		}, []int{1, 8, 8, 3}},
		{"unknown network", "no network", true, func(s *model.Scope, x *graph.Node) *graph.Node {
			return backbone.Arch("vgg").Embed(s, x, 4, backbone.Pass{Training: true})
		}, []int{1, 8, 8, 3}},
		{"stride 0", "stride", true, func(_ *model.Scope, x *graph.Node) *graph.Node {
			return backbone.MaxPooling(x, 3, 0, 1)
		}, []int{1, 8, 8, 3}},
		{"channels", "channels differ", true, func(_ *model.Scope, x *graph.Node) *graph.Node {
			return backbone.Convolution(x, graph.Zeros(x.Graph(), noise(1, 3, 3, 2, 4).Shape()), 1, 1)
		}, []int{1, 8, 8, 3}},
	} {
		store := model.NewStore()
		if c.init {
			if err := backbone.Init(store, backbone.Small, 4, 1); err != nil {
				t.Fatal(err)
			}
		}
		exec, err := model.NewExec(b, store, c.build)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := exec.Call(noise(1, c.dims...)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: unclear error: %v", c.name, err)
		}
	}
}

package train

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/heads"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
	"github.com/gradient-surgery/dml/dmlx/optim"
	"github.com/gradient-surgery/dml/dmlx/samples"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

// Model is a network of the user's own. [Config.WithModel] puts it in the place of a backbone.
type Model struct {
	Name string
	// Input is the shape of a sample: {32, 32, 3} for images of 32 pixels, {512} for features.
	Input []int
	// Embed builds the graph from samples x, float32 [B, Input...], to embeddings, float32 [B, dim], before their
	// normalization. It creates its variables in the scope, as the layers of GoMLX do. They must be float32, and those
	// that are Trainable are trained. scope.IsTraining(g) is pass.Training; pass says what else a pass may ask for. A
	// model must not keep state of its own: the graph is built several times.
	Embed func(scope *model.Scope, x *Node, pass backbone.Pass) *Node
}

// ownModel is a [Model] with what its graph tells.
type ownModel struct {
	Model
	identity string
	dim      int
	paths    []string // Of its variables.
	metadata map[string]string

	// draw sets the initial values in place of the initializers of the variables, if it is not nil.
	draw func(store *model.Store, seed uint64) error
}

// WithModel returns the config with a network of the user's own in place of a backbone, with random initial weights
// ([Config.WithStart] takes others). It sets Dim to the dimension of the embeddings. Model is set to the name and a
// digest of the graph with its gradients and initial weights, so that an edited model is another model.
//
// Initial weights are drawn on the Go backend, whatever backend trains, from the seed of the config.
func (c Config) WithModel(m Model) (Config, error) {
	own, err := newOwnModel(m)
	if err != nil {
		return c, fmt.Errorf("model %s: %w", m.Name, err)
	}
	c = c.withoutNetwork()
	c.Weights, c.WeightsDigest, c.weightsFile = Random, "", ""
	c.Model, c.Dim, c.model = own.identity, own.dim, own
	return c, nil
}

// validateModel reports what is wrong with the network of a config.
func (c Config) validateModel() error {
	if c.Head != "" {
		h, err := c.head()
		switch {
		case err != nil:
			return err
		case c.Head != h.Layers():
			return fmt.Errorf("head %q is not in canonical form: want %q", c.Head, h.Layers())
		case c.HeadStart != "" && c.HeadStart != heads.ChosenStart:
			return fmt.Errorf("the start of head %s is %q, which this version does not train: want %s, or none", c.Head,
				c.HeadStart, heads.ChosenStart)
		case c.HeadStart != "" && (c.Optimizer != "" || c.Schedule != "" || c.MicroBatch != 0):
			return fmt.Errorf("the rate and the length of the head %s are chosen for plain SGD: optimizer, schedule "+
				"and micro-batches are options of a head with start=random", c.Head)
		case c.Arch != "" || c.Model != "":
			return fmt.Errorf("the network is both the head %s and %s%s: want one of them", c.Head, c.Arch, c.Model)
		case c.Weights != Random:
			return fmt.Errorf("weights %q: heads start from %s ones", c.Weights, Random)
		case c.Precision != "" || c.Recompute:
			return errors.New("precision and recomputed blocks are those of backbones: heads are trained in float32")
		case c.FreezeBN != "":
			return fmt.Errorf("the head %s has no batch normalization to freeze: FreezeBN must be empty", c.Head)
		case c.HeadLR != 0:
			return fmt.Errorf("the head %s is all that is trained: use LR in place of HeadLR", c.Head)
		case c.Augment != "" && c.Augment != samples.NoAugmentation:
			return fmt.Errorf("augmentation %s is for images, and the head %s is trained on features", c.Augment, c.Head)
		}
		return nil
	}
	if c.HeadStart != "" {
		return errors.New("the start of a head is given without a head")
	}
	if c.NetworkFile != "" {
		return c.validateNetwork()
	}
	if c.Model == "" {
		_, err := backbone.ParseArch(c.Arch)
		return err
	}
	switch {
	case c.Arch != "":
		return fmt.Errorf("the network is both the backbone %s and the model %s: want one of them", c.Arch, c.Model)
	case c.model == nil || c.model.identity != c.Model: // A network of a file has NetworkFile.
		return fmt.Errorf("the model %s is a function of the program that trained it: set it by Config.WithModel", c.Model)
	case c.FreezeBN != "":
		return fmt.Errorf("the model %s: only a backbone can freeze its batch normalization; use pass.Frozen in a model "+
			"that always does", c.Model)
	case c.HeadLR != 0 && !c.model.hasHead():
		return fmt.Errorf("the model %s has no variables in the scope %s, which the learning rate of the last layer is for",
			c.Model, strings.TrimSuffix(headScope, "/"))
	case c.Precision != "":
		return fmt.Errorf("precision %s: the model %s is trained in float32; it may convert by itself", c.Precision, c.Model)
	case c.Dim != c.model.dim:
		return fmt.Errorf("embedding dimension is %d, but that of the model %s is %d", c.Dim, c.Model, c.model.dim)
	}
	return nil
}

// hasHead tells whether the model has a last layer by its name.
func (m *ownModel) hasHead() bool {
	return slices.ContainsFunc(m.paths, func(path string) bool { return strings.HasPrefix(path, headScope) })
}

// fitsModel reports whether the samples of a data set are those that the backbone or model of the config embeds.
func (c Config) fitsModel(data *samples.Data) error {
	shape := data.Train.Shape()
	switch {
	case c.Model != "" && c.model != nil && !slices.Equal(shape.Dimensions, c.model.Input):
		return fmt.Errorf("%s: samples have the shape %v, but the model %s takes %v", data.Name, shape.Dimensions, c.Model,
			c.model.Input)
	case c.Model == "" && !(shape.Rank() == 3 && shape.Dim(2) == 3):
		return fmt.Errorf("%s: samples have the shape %v, but the backbone %s embeds images, [size, size, 3]: use a model "+
			"of your own (Config.WithModel)", data.Name, shape.Dimensions, c.Arch)
	case c.Augment != "" && c.Augment != samples.NoAugmentation && shape.Rank() != 3:
		return fmt.Errorf("%s: samples have the shape %v, but the augmentation %s is for images, [height, width, channels]",
			data.Name, shape.Dimensions, c.Augment)
	}
	return nil
}

// goBackend is the backend on which models are identified and initialized, the same everywhere.
var goBackend = sync.OnceValues(backend.Go)

func newOwnModel(m Model) (*ownModel, error) {
	if m.Name == "" || strings.ContainsAny(m.Name, "#?\n") {
		return nil, errors.New("the name must not be empty and must not contain # or ?")
	}
	if m.Embed == nil {
		return nil, errors.New("Embed is nil")
	}
	for _, d := range m.Input {
		if d < 1 {
			return nil, fmt.Errorf("samples of shape %v: want positive dimensions", m.Input)
		}
	}
	own := &ownModel{Model: m}
	var digests [2]string
	for i := range digests { // Twice, since a model that is not the same again could never be found again.
		var err error
		if digests[i], err = own.probe(); err != nil {
			return nil, err
		}
	}
	if digests[0] != digests[1] {
		return nil, errors.New("it builds another graph, or draws other initial weights, each time: " +
			"take random numbers and initial weights from the scope")
	}
	own.identity = m.Name + "#" + digests[0]
	return own, nil
}

// probe builds the graph of a training pass, sets dim and paths, and returns the digest of the model.
func (m *ownModel) probe() (digest string, err error) {
	defer errs.Catch(&err)
	store := model.NewStore()
	defer store.Finalize()
	var text string
	err = m.build(store, func(x *Node) error {
		if x.Rank() != 2 || x.Shape().Dim(0) != probeBatch || x.DType() != dtypes.Float32 {
			return fmt.Errorf("Embed returns %s for a batch of %d samples: want float32 [%d, dim]", x.Shape(), probeBatch,
				probeBatch)
		}
		m.dim, m.paths = x.Shape().Dim(1), nil
		outputs := []*Node{x}
		for v := range store.IterVariables() {
			if v.Name() == model.RNGStateVariableName {
				continue
			}
			if v.DType() != dtypes.Float32 {
				return fmt.Errorf("variable %s is %s: want float32", v.Path(), v.DType())
			}
			if slices.ContainsFunc(ownScopes, func(s string) bool { return strings.HasPrefix(v.Path(), s+"/") }) {
				return fmt.Errorf("variable %s: the scopes %s are the trainer's: use another one", v.Path(),
					strings.Join(ownScopes, ", "))
			}
			m.paths = append(m.paths, v.Path())
			if v.ChangedInGraph(x.Graph()) {
				outputs = append(outputs, v.NodeValue(x))
			}
		}
		slices.Sort(m.paths)
		trainable := backbone.Trainable(store)
		if len(trainable) == 0 {
			return errors.New("it has no trainable variables")
		}
		outputs = append(outputs, Gradient(ReduceAllSum(Sin(x)), nodesOf(trainable, x)...)...)
		text = graphs.Digest(nil, outputs...)
		return nil
	})
	if err != nil {
		return "", err
	}
	if err := m.initialize(store, 1); err != nil {
		return "", err
	}
	for _, path := range m.paths {
		v := store.GetVariable(path)
		values, err := backbone.Values(v)
		if err != nil {
			return "", err
		}
		sum, length := 0.0, 0.0 // Rounded, since processors round initial weights differently.
		for i, x := range values {
			sum += float64(x) * math.Cos(float64(i))
			length += math.Abs(float64(x))
		}
		text += fmt.Sprintf(" %s %s %v %.4f %.4g", path, v.Shape(), v.Trainable, sum/max(length, 1e-30), length)
	}
	return weights.DigestOf([]byte(text)), nil
}

// ownScopes are the scopes of variables that are no weights of a network.
var ownScopes = []string{"/proxies", "/sums", optim.Scope}

// probeBatch is the number of samples of the graph that identifies a model.
const probeBatch = 4

// build builds the graph of a training pass on the Go backend, without running it. It creates the variables in store.
func (m *ownModel) build(store *model.Store, use func(embeddings *Node) error) error {
	b, err := goBackend()
	if err != nil {
		return err
	}
	g := NewGraph(b, "model")
	defer g.Finalize()
	model.SetStore(g, store)
	x := Parameter(g, "x", batchShape(probeBatch, shapes.Make(dtypes.Float32, m.Input...)))
	return use(m.embed(store.RootScope(), x, backbone.Pass{Training: true}))
}

// embed builds the graph of the model. It panics with an error, whatever the user's function panics with.
func (m *ownModel) embed(scope *model.Scope, x *Node, pass backbone.Pass) *Node {
	defer func() {
		if r := recover(); r != nil {
			panic(errs.Panicked(r))
		}
	}()
	scope.Store().SetTraining(x.Graph(), pass.Training)
	return ConvertDType(m.Embed(scope, x, pass), dtypes.Float32)
}

// initialize creates the variables of the model, if the store lacks them, and sets their initial values.
func (m *ownModel) initialize(store *model.Store, seed uint64) (err error) {
	defer errs.Catch(&err)
	if m.draw != nil {
		return m.draw(store, seed)
	}
	fresh := model.NewStore()
	defer fresh.Finalize()
	fresh.SetParam("/"+model.ParamInitialSeed, int64(seed))
	if err := fresh.SetRNGStateFromSeed(int64(seed)); err != nil {
		return err
	}
	if err := m.build(fresh, func(*Node) error { return nil }); err != nil {
		return err
	}
	b, err := goBackend()
	if err != nil {
		return err
	}
	if err := fresh.InitializeVariables(b, nil); err != nil {
		return err
	}
	if err := store.SetRNGStateFromSeed(int64(seed)); err != nil {
		return err
	}
	for _, path := range m.paths {
		from := fresh.GetVariable(path)
		values, err := backbone.Values(from) // Through the host, since the variable is on the Go backend.
		if err == nil {
			err = backbone.SetVariable(store, path, values, from.Shape().Dimensions, from.Trainable)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *ownModel) encode(store *model.Store, metadata map[string]string) ([]byte, error) {
	all := map[string]string{"model": m.identity}
	maps.Copy(all, m.metadata)
	maps.Copy(all, metadata)
	paths := m.paths
	if p := backbone.Proxies(store); p != nil {
		paths = append(slices.Clone(paths), p.Path())
	}
	return backbone.EncodeVariables(store, paths, all)
}

func (m *ownModel) decode(raw []byte, store *model.Store, proxies int) error {
	if len(m.paths) > 0 && store.GetVariable(m.paths[0]) == nil {
		if err := m.initialize(store, 1); err != nil {
			return err
		}
	}
	return backbone.DecodeVariables(raw, store, m.paths, proxies, m.dim)
}

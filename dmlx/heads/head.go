// Package heads has small networks from frozen features to embeddings. [Parse] reads a [Head] from text. [Choose]
// chooses the start of a linear head, and the rate and length of its training, on classes held out; package train
// trains it. [Read] reads a trained head from its weights, and [References] says what the features reach without one.
//
// block.go has the coordinates in which a chosen head is trained, start.go those of its start, and matrix.go multiplies
// matrices on a backend.
package heads

import (
	"fmt"
	"strconv"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/internal/query"
)

// Head is a small network from frozen features to embeddings. [Parse] reads one from text.
type Head struct {
	// Hidden is the number of units of the hidden layer, with ReLU behind it; 0 for a linear layer alone.
	Hidden int
	// Start is [ChosenStart] or "", for a random one.
	Start string
}

const linearHead, mlpHead, mlpHidden, maxHidden = "linear", "mlp", 512, 1 << 14

// Parse reads a head: "linear", of which start and training are chosen on classes held out, "linear?start=random",
// or "mlp?hidden=256" with one hidden layer, of 512 units by default, which starts at random.
func Parse(text string) (Head, error) {
	name, options, asked := strings.Cut(text, "?")
	h := Head{}
	var known []query.Option
	switch name {
	case linearHead:
		h.Start = ChosenStart
		known = []query.Option{{Name: "start", Text: func(value string) error {
			switch value {
			case ChosenStart:
			case randomStart:
				h.Start = ""
			default:
				return fmt.Errorf("want %s or %s", ChosenStart, randomStart)
			}
			return nil
		}}}
	case mlpHead:
		h.Hidden = mlpHidden
		known = []query.Option{{Name: "hidden", Text: func(value string) (err error) {
			if h.Hidden, err = strconv.Atoi(value); err != nil || h.Hidden < 1 || h.Hidden > maxHidden {
				return fmt.Errorf("want a whole number from 1 to %d", maxHidden)
			}
			return nil
		}}}
	default:
		return h, fmt.Errorf("head %q: there is no %q; there are %s and %s, as in %s?hidden=256", text, name, linearHead,
			mlpHead, mlpHead)
	}
	if !asked {
		return h, nil
	}
	if err := query.Read("option", options, known); err != nil {
		return h, fmt.Errorf("head %q: %w", text, err)
	}
	return h, nil
}

// randomStart is the start of a linear head in its text form.
const randomStart = "random"

// String returns the canonical text, which [Parse] reads.
func (h Head) String() string {
	if h.Hidden == 0 && h.Start == "" {
		return linearHead + "?start=" + randomStart
	}
	return h.Layers()
}

// Layers returns the canonical text without the start, which is no part of a trained head.
func (h Head) Layers() string {
	switch h.Hidden {
	case 0:
		return linearHead
	case mlpHidden:
		return mlpHead
	}
	return mlpHead + "?hidden=" + strconv.Itoa(h.Hidden)
}

// layer is a linear layer as PyTorch's: weight [out, in] and bias [out].
type layer struct {
	name    string
	in, out int
}

func (h Head) layers(features, dim int) []layer {
	if h.Hidden == 0 {
		return []layer{{"fc", features, dim}}
	}
	return []layer{{"fc1", features, h.Hidden}, {"fc2", h.Hidden, dim}}
}

// Variables returns the paths of the weights, which have the names and layouts of PyTorch's Linear.
func (h Head) Variables() (paths []string) {
	for _, l := range h.layers(0, 0) {
		paths = append(paths, "/"+l.name+"/bias", "/"+l.name+"/weight")
	}
	return paths
}

// Init sets the initial weights of a head from features to dim values, as PyTorch's, and creates those that the store
// lacks.
func (h Head) Init(store *model.Store, features, dim int, seed uint64) error {
	for _, l := range h.layers(features, dim) {
		if err := backbone.InitLinear(store, l.name, l.in, l.out, seed); err != nil {
			return err
		}
	}
	return nil
}

// Embed returns the embeddings [B, dim] of features x [B, F], before normalization.
func (h Head) Embed(scope *model.Scope, x *Node) *Node {
	for i, l := range h.layers(0, 0) {
		if i > 0 {
			x = backbone.ReLU(x)
		}
		x = backbone.Linear(scope.At("%s", l.name), x)
	}
	return x
}

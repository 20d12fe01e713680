// Package onnx reads networks for images from ONNX files that PyTorch has exported, so that they can be trained
// further, whole or in part, and written back with their names.
//
//	net, err := onnx.Read(raw)
//	err = net.Init(store, nil)
//	exec, err := model.NewExec(b, store, func(scope *model.Scope, images *Node) *Node {
//		return net.Features(scope, images, backbone.Pass{})
//	})
//
// It reads what vision networks consist of and refuses the rest in a sentence. A file may come from anywhere: nothing
// outside it is read, and all sizes are checked before memory is taken.
//
// No library serves. github.com/gomlx/onnx-gomlx v0.5.1 opens no export with optimize=False, the one that keeps the
// names of weights; it reads external data from any path, ends the process on a cycle, computes Gelu's tanh form by
// erf, trains copies of fused attention weights in place of the file's, and has the wrong gradient for convolutions
// with even kernels.
package onnx

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// Network is a network of an ONNX file: from images, float32 [N, 3, H, W], to features [N, F]. It does not change.
type Network struct {
	// Size is the height and width of images; 0 where the file leaves it open.
	Size [2]int
	// Width is the number F of features.
	Width int
	// Metadata are those of the file; see [Network.Preprocessing].
	Metadata map[string]string
	// Notes say in a sentence each what the export has lost.
	Notes []string

	raw           []byte
	opset         int
	input, output string
	nodes         []*node
	tensors       map[string]*tensor
	variables     []string // The tensors that are variables, in the order of the file.
	role          map[string]role

	adapted map[string][]string // The weights with low-rank matrices; see WithLoRA.
	scale   float64             // Of their products.
}

// role is what a tensor is.
type role int

const (
	constant  role = iota
	fixed          // A constant that is too large for the host.
	average        // A running average of batch normalization.
	parameter      // Trained.
)

// Weight is a tensor that can be trained.
type Weight struct {
	Name  string
	Shape []int
}

// Read reads an ONNX file. The error says in a sentence what is wrong with it, or what is not supported and what to
// export instead.
func Read(raw []byte) (n *Network, err error) {
	defer func() {
		if what := durable.Looks(raw); err != nil && what != "" && what != durable.ONNX {
			err = fmt.Errorf("not an ONNX file: it is %s", what)
		}
	}()
	defer errs.Catch(&err)
	n = &Network{raw: raw, tensors: map[string]*tensor{}, role: map[string]role{}, Metadata: map[string]string{}}
	var inputs, outputs [][]byte
	var order []string
	graph := func(x field) error {
		switch x.number {
		case 1:
			node, err := parseNode(x.data)
			if err != nil {
				return err
			}
			if n.nodes = append(n.nodes, node); len(n.nodes) > maxNodes {
				return fmt.Errorf("the graph has more than %d nodes", maxNodes)
			}
		case 5:
			t, err := parseTensor(x.data)
			if err != nil {
				return err
			}
			if t.name == "" || n.tensors[t.name] != nil {
				return fmt.Errorf("tensor %.80q occurs twice, or has no name", t.name)
			}
			n.tensors[t.name] = t
			order = append(order, t.name)
		case 11:
			inputs = append(inputs, x.data)
		case 12:
			outputs = append(outputs, x.data)
		case 15:
			return errors.New("the file has sparse tensors, which are not supported")
		}
		return nil
	}
	err = fields(raw, func(x field) error {
		switch x.number {
		case 7:
			return fields(x.data, graph)
		case 8:
			domain, version := textOf(x.data), 0
			err := fields(x.data, func(x field) error {
				if x.number == 2 {
					version = int(int64(x.v))
				}
				return nil
			})
			if domain == "" || domain == "ai.onnx" {
				n.opset = version
			}
			return err
		case 14:
			return fields(x.data, func(pair field) error {
				if pair.number == 2 {
					n.Metadata[textOf(x.data)] = string(pair.data)
				}
				return nil
			})
		case 25:
			return errors.New("the file has functions: export with torch.onnx.export(…, dynamo=True, optimize=False)")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if n.nodes != nil && (n.opset < oldest || n.opset > newest) {
		return nil, fmt.Errorf("the file is of opset %d: want one from %d to %d, by opset_version=18", n.opset, oldest,
			newest)
	}
	for _, step := range []func() error{
		func() error { return n.ports(inputs, outputs) }, n.check, func() error { return n.assign(order) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	size := n.Size
	for i := range size {
		size[i] = cmp.Or(size[i], n.OpenSize())
	}
	_, err = n.Build(size) // Which sets the width.
	return n, err
}

// Digest returns the SHA-256 of the file in hexadecimal digits.
func (n *Network) Digest() string {
	sum := sha256.Sum256(n.raw)
	return hex.EncodeToString(sum[:])
}

// ports finds the input and the output of the graph.
func (n *Network) ports(inputs, outputs [][]byte) error {
	for _, in := range inputs {
		name, dims, err := parseValue(in)
		if err != nil {
			return err
		}
		if n.tensors[name] != nil { // Files of old versions list weights among the inputs.
			continue
		}
		if n.input != "" || name == "" || len(dims) != 4 || dims[1] != 3 {
			return fmt.Errorf("the input %.80q is of shape %.60v: want images alone, float32 [N, 3, H, W]", name,
				fmt.Sprint(dims))
		}
		if dims[0] > 0 {
			return fmt.Errorf("the batch is fixed at %d images: export with dynamic_shapes=({0: torch.export.Dim(\"N\")},)",
				dims[0])
		}
		for i, d := range dims[2:] {
			if n.Size[i] = max(d, 0); d > 1<<12 {
				return fmt.Errorf("images of %d pixels: want at most %d", d, 1<<12)
			}
		}
		n.input = name
	}
	if n.input == "" || len(outputs) == 0 {
		return errors.New("not an ONNX file, or a graph without input or output")
	}
	var err error
	if n.output, _, err = parseValue(outputs[0]); len(outputs) > 1 {
		n.Notes = append(n.Notes, fmt.Sprintf("Of %d outputs the first, %.80q, is taken as the features.", len(outputs),
			n.output))
	}
	return err
}

// check makes sure that nodes read what nodes before them write, so that there are no cycles.
func (n *Network) check() error {
	known := map[string]bool{n.input: true}
	for name := range n.tensors {
		known[name] = true
	}
	for _, node := range n.nodes {
		for _, in := range node.in {
			if in != "" && !known[in] {
				return fmt.Errorf("%s reads %.80q, which no node before it writes", node, in)
			}
		}
		for _, out := range node.out {
			if out != "" && known[out] {
				return fmt.Errorf("%s writes %.80q, which is written already", node, out)
			}
			known[out] = out != ""
		}
	}
	if !known[n.output] {
		return fmt.Errorf("no node writes the output %.80q", n.output)
	}
	return nil
}

// generated matches the names that exporters make up.
var generated = regexp.MustCompile(`^(val|t|_v|_to_copy|slice|arange)_\d+$|^onnx::|^_?\d+$|^/|^ortshared`)

// assign gives each tensor its role.
func (n *Network) assign(order []string) error {
	var listed []string
	if text, ok := n.Metadata["parameters"]; ok {
		if err := json.Unmarshal([]byte(text), &listed); err != nil {
			return errors.New("the metadata parameters are not a JSON list of names")
		}
	}
	read, copied, renamed, convolved := map[string]bool{}, 0, 0, false
	for _, node := range n.nodes {
		for _, in := range node.in {
			read[in] = true
		}
		switch {
		case node.op == "BatchNormalization" && len(node.in) == 5:
			n.role[node.in[3]], n.role[node.in[4]] = average, average
		case node.op == "Conv":
			convolved = convolved || len(node.in) > 2 && generated.MatchString(node.in[1])
		case node.op == "Identity" && n.tensors[node.in[0]] != nil:
			copied++
		}
	}
	isListed := map[string]bool{}
	missing := 0
	for _, name := range listed {
		if isListed[name] = true; n.tensors[name] == nil {
			missing++
		}
	}
	if missing > 0 && missing == len(listed) {
		return fmt.Errorf("none of the %d metadata parameters, such as %.80q, names a tensor of the file, such as %.80q",
			missing,
			listed[0], order[:min(1, len(order))])
	}
	paths := map[string]string{"/": "a tensor without letters"}
	for _, name := range order {
		t := n.tensors[name]
		if t.kind != float32Type || !read[name] {
			continue
		}
		switch {
		case n.role[name] == average:
		case isListed[name] || listed == nil && len(t.dims) > 0 && !generated.MatchString(name):
			n.role[name] = parameter
		case listed == nil && len(t.dims) > 1:
			n.role[name] = parameter
			renamed++
		case t.size() > maxConstant:
			n.role[name] = fixed
		default:
			continue
		}
		n.variables = append(n.variables, name)
		path := variablePath(name)
		if other := paths[path]; other != "" {
			return fmt.Errorf("the tensors %.80q and %.80q have the same name up to punctuation", name, other)
		}
		paths[path] = name
	}
	note := func(format string, args ...any) { n.Notes = append(n.Notes, fmt.Sprintf(format, args...)) }
	if missing > 0 {
		note("%d of the %d parameters that the file lists are not in it.", missing, len(listed))
	}
	if listed == nil {
		note("The file does not list its parameters: all named tensors of float32 count as such.")
	}
	if renamed > 0 {
		note("The export has renamed %d weights, so that results do not fit the PyTorch model: export with "+
			"optimize=False.", renamed)
	}
	if copied > 0 && renamed+len(listed) == 0 {
		note("The export may have merged equal tensors (%d copies), which are then trained as one: export with "+
			"dynamo=True.", copied)
	}
	if convolved && !n.Normalizes() {
		note("Batch normalization is folded into the convolutions: export with dynamo=True, optimize=False.")
	}
	return nil
}

// Parameters lists the tensors that can be trained, in the order of the file.
func (n *Network) Parameters() []Weight {
	var out []Weight
	for _, name := range n.variables {
		if n.role[name] == parameter {
			out = append(out, Weight{name, n.tensors[name].dims})
		}
	}
	return out
}

// Normalizes tells whether the network has batch normalization. An export may have folded it into convolutions.
func (n *Network) Normalizes() bool {
	return slices.ContainsFunc(n.nodes, func(node *node) bool { return node.op == "BatchNormalization" })
}

// Variables lists the paths of the variables that [Network.Init] creates.
func (n *Network) Variables() []string {
	return slice.Map(n.variables, variablePath)
}

// variablePath returns the path of a tensor's variable: "/blocks/0/norm1/weight" for "blocks.0.norm1.weight".
func variablePath(name string) string {
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '.' })
	return "/" + strings.ReplaceAll(strings.Join(parts, "/"), ":", "_")
}

// Init sets the variables of the network to the weights of the file, and creates those that the store lacks. Those of
// which trained returns true are trained; nil trains all parameters.
func (n *Network) Init(store *model.Store, trained func(name string) bool) (err error) {
	defer errs.Catch(&err)
	for _, name := range n.variables {
		t := n.tensors[name]
		trains := n.role[name] == parameter && (trained == nil || trained(name))
		if err := backbone.SetVariable(store, variablePath(name), t.float32s(), t.dims, trains); err != nil {
			return err
		}
	}
	return nil
}

package onnx

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/sampling"
)

// LoRA is low-rank adaptation (Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1):
// W + (Alpha/Rank)·B·A in place of each weight W [out, in] whose name matches, with A [Rank, in] and B [out, Rank], or
// of its rows of each of some Parts; see [Network.WithLoRA]. A weight [in, out], as MatMul and Gemm take it, gets the
// transposed product, in its columns. A starts at random, by the seed, as PyTorch's Linear, and
// B at zero, so that the network starts as that of the file. [ParseLoRA] reads it from text.
type LoRA struct {
	Weights *regexp.Regexp
	Parts   []string // Of fused weights, as [backbone.Rows] has them; none for whole weights.
	Rank    int
	Alpha   float64
}

// ParseLoRA reads "PATTERN[@PARTS]:RANK[:ALPHA]": 'attn\.qkv\.weight@q,v:8'. Alpha is the rank by default.
func ParseLoRA(text string) (l LoRA, err error) {
	fail := func(err error) (LoRA, error) {
		return l, errs.Invalid(fmt.Errorf(`low-rank adapters %q: %w; want PATTERN[@PARTS]:RANK[:ALPHA], as in `+
			`'attn\.qkv\.weight:8' or 'attn\.qkv\.weight@q,v:8'`, text, err))
	}
	pattern, last, found := cutLast(text)
	if !found {
		return fail(errors.New("there is no rank"))
	}
	if before, rank, more := cutLast(pattern); more {
		if l.Rank, err = strconv.Atoi(rank); err == nil {
			if l.Alpha, err = strconv.ParseFloat(last, 64); err != nil || !(l.Alpha > 0) || math.IsInf(l.Alpha, 0) {
				return fail(fmt.Errorf("alpha %q is no positive number", last))
			}
			pattern, last = before, rank
		}
	}
	if l.Rank, err = strconv.Atoi(last); err != nil || l.Rank < 1 {
		return fail(fmt.Errorf("rank %q is no positive whole number", last))
	}
	if l.Alpha == 0 {
		l.Alpha = float64(l.Rank)
	}
	pattern, parts, some := strings.Cut(pattern, "@")
	if some {
		l.Parts = strings.Split(parts, ",")
	}
	for i, part := range l.Parts {
		if _, _, err := backbone.Rows(part, 0); err != nil || part == "" || slices.Contains(l.Parts[:i], part) {
			return fail(cmp.Or(err, fmt.Errorf("rows %q: want parts that differ, behind commas", parts)))
		}
	}
	if pattern == "" {
		return fail(errors.New("there is no pattern"))
	}
	if l.Weights, err = regexp.Compile(pattern); err != nil {
		return fail(err)
	}
	return l, nil
}

// cutLast cuts a text around its last colon.
func cutLast(text string) (before, after string, found bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

// String returns the canonical text, which [ParseLoRA] reads.
func (l LoRA) String() string {
	text := l.Weights.String()
	if l.Parts != nil {
		text += "@" + strings.Join(l.Parts, ",")
	}
	text += ":" + strconv.Itoa(l.Rank)
	if l.Alpha != float64(l.Rank) {
		text += ":" + strconv.FormatFloat(l.Alpha, 'g', -1, 64)
	}
	return text
}

// WithLoRA returns the network with low-rank matrices beside weights. They are further variables, which [Network.Init]
// sets to zero. W stays a parameter. It fails if no parameter of two axes matches, or if one is too small for the rank.
func (n *Network) WithLoRA(l LoRA) (*Network, error) {
	if err := l.matchesSome(n); err != nil {
		return nil, err
	}
	m := *n
	m.tensors, m.role, m.variables = maps.Clone(n.tensors), maps.Clone(n.role), slices.Clone(n.variables)
	m.adapted, m.scale = map[string][]string{}, l.Alpha/float64(l.Rank)
	parts := l.Parts
	if len(parts) == 0 {
		parts = []string{""}
	}
	for _, w := range n.Parameters() {
		if len(w.Shape) != 2 || !l.Weights.MatchString(w.Name) {
			continue
		}
		out, in := w.Shape[0], w.Shape[1]
		if n.inOut(w.Name) {
			out, in = in, out
		}
		for _, part := range parts {
			from, to, err := backbone.Rows(part, out)
			if err != nil {
				return nil, fmt.Errorf("the weight %s: %w", w.Name, err)
			}
			if l.Rank < 1 || l.Rank > min(to-from, in) {
				return nil, fmt.Errorf("rank %d for the weight %s [%d, %d]: want a rank from 1 to %d", l.Rank, w.Name, to-from, in,
					min(to-from, in))
			}
			a, b := backbone.LowRank(w.Name, part)
			for name, dims := range map[string][]int{a: {l.Rank, in}, b: {to - from, l.Rank}} {
				if m.tensors[name] != nil {
					return nil, fmt.Errorf("the file has low-rank matrices of its own, %s: merge them before the export", name)
				}
				m.tensors[name] = &tensor{name: name, kind: float32Type, dims: dims, raw: make([]byte, 4*product(dims))}
				m.role[name] = parameter
			}
			m.variables = append(m.variables, a, b)
		}
		m.adapted[w.Name] = parts
	}
	return &m, nil
}

// InOut returns the weights with low-rank matrices that are [in, out], by their names in a store.
func (n *Network) InOut() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(n.adapted)) {
		if n.inOut(name) {
			names = append(names, backbone.TensorName(variablePath(name)))
		}
	}
	return names
}

// inOut tells whether a weight of two axes is [in, out], as the operator that multiplies by it shows, and not [out, in]
// as PyTorch's layers have it.
func (n *Network) inOut(name string) bool {
	return slices.ContainsFunc(n.nodes, func(node *node) bool {
		return len(node.in) > 1 && node.in[1] == name &&
			(node.op == "MatMul" || node.op == "Gemm" && node.integer("transB", 0) == 0)
	})
}

// matchesSome reports a pattern that matches no weight of two axes.
func (l LoRA) matchesSome(n *Network) error {
	var names, ends []string
	for _, w := range n.Parameters() {
		if len(w.Shape) != 2 {
			continue
		}
		if l.Weights.MatchString(w.Name) {
			return nil
		}
		names = append(names, w.Name)
		for end, found := w.Name, true; found; _, end, found = strings.Cut(end, ".") {
			ends = append(ends, end)
		}
	}
	if len(names) == 0 {
		return errors.New("the network has no weights of two axes for low-rank matrices: train some by --set train_only=…")
	}
	hint := "such as " + strings.Join(names[:min(3, len(names))], ", ")
	if near := errs.Nearest(strings.ReplaceAll(l.Weights.String(), `\`, ""), ends); near != "" {
		i := slices.IndexFunc(names, func(name string) bool { return strings.HasSuffix(name, near) })
		hint = "did you mean that of " + names[i] + "?"
	}
	return fmt.Errorf("the pattern %q matches none of the %d weights of two axes: %s", l.Weights, len(names), hint)
}

// DrawLowRank sets the matrices A to their initial values.
func (n *Network) DrawLowRank(store *model.Store, seed uint64) error {
	for _, path := range n.Variables() {
		name := backbone.TensorName(path)
		if _, isA := backbone.IsLowRank(name); !isA {
			continue
		}
		v := store.GetVariable(path)
		dims := v.Shape().Dimensions
		values := sampling.Linear(name, dims[1], v.Shape().Size(), seed)
		if err := v.SetValue(tensors.FromFlatDataAndDimensions(values, dims...)); err != nil {
			return err
		}
	}
	return nil
}

// adapt adds the low-rank products to a weight that has some.
func (e *evaluation) adapt(name string, w *Node) *Node {
	for _, part := range e.adapted[name] {
		a, b := backbone.LowRank(name, part)
		product, axis := MulScalar(MatMul(e.weight(b), e.weight(a)), e.scale), 0
		if e.inOut(name) {
			product, axis = Transpose(product, 0, 1), 1
		}
		out := w.Shape().Dim(axis)
		from, to, _ := backbone.Rows(part, out) // WithLoRA has checked it.
		w = Add(w, backbone.Extend(product, axis, from, out-to, 0))
	}
	return w
}

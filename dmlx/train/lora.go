package train

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/sampling"
	"github.com/gradient-surgery/dml/dmlx/onnx"
)

// LoRA is low-rank adaptation of a network of a file: W + (Alpha/Rank)·B·A in place of each weight W [out, in] whose
// name matches, with A [Rank, in] and B [out, Rank], or of its rows of each of some Parts; see [onnx.Network.WithLoRA].
// A starts at random, by the seed, as PyTorch's Linear, and B at zero, so that the network starts as that of the file.
// [ParseLoRA] reads it from text.
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

// Adapt returns a network with the low-rank matrices of the options, and what these are; n itself without them.
func (o Options) Adapt(n *onnx.Network) (adapted *onnx.Network, l LoRA, err error) {
	if o.LoRA == "" {
		return n, l, nil
	}
	if l, err = ParseLoRA(o.LoRA); err != nil {
		return nil, l, err
	}
	if err = l.matchesSome(n); err == nil {
		adapted, err = n.WithLoRA(l.Weights.MatchString, l.Rank, l.Alpha/float64(l.Rank), l.Parts...)
	}
	return adapted, l, err
}

// matchesSome reports a pattern that matches no weight of two axes.
func (l LoRA) matchesSome(n *onnx.Network) error {
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
	hint := "such as " + strings.Join(names[:min(3, len(names))], ", ")
	if near := errs.Nearest(strings.ReplaceAll(l.Weights.String(), `\`, ""), ends); near != "" {
		i := slices.IndexFunc(names, func(name string) bool { return strings.HasSuffix(name, near) })
		hint = "did you mean that of " + names[i] + "?"
	}
	return fmt.Errorf("the pattern %q matches none of the %d weights of two axes: %s", l.Weights, len(names), hint)
}

// validateLoRA reports what is wrong with the low-rank matrices.
func (c Config) validateLoRA() error {
	if c.LoRA == "" {
		return nil
	}
	l, err := ParseLoRA(c.LoRA)
	switch {
	case err != nil:
		return err
	case c.NetworkFile == "":
		return errors.New("low-rank adapters are for the network of an ONNX file")
	case c.Freeze != "" && c.TrainOnly == "":
		return fmt.Errorf("frozen weights %q beside low-rank adapters, with which all other weights but the last layer's "+
			"are frozen: leave them out, or name those that are trained", c.Freeze)
	}
	n, err := c.opened()
	if err != nil {
		return err
	}
	p, err := c.part()
	if err != nil {
		return err
	}
	for _, w := range n.Parameters() {
		if len(w.Shape) != 2 || !l.Weights.MatchString(w.Name) {
			continue
		}
		if p.only != nil && p.only.MatchString(w.Name) {
			return fmt.Errorf("the weight %s is both trained, by %q, and has low-rank matrices beside it, by %q: want one of "+
				"them", w.Name, p.only, l.Weights)
		}
		if p.freeze != nil && p.freeze.MatchString(w.Name) {
			return fmt.Errorf("the weight %s is both frozen, by %q, and changed by low-rank matrices, by %q: want one of them",
				w.Name, p.freeze, l.Weights)
		}
	}
	if _, _, err := c.Adapt(n); err != nil {
		return fmt.Errorf("%s: %w", c.Network(), err)
	}
	return nil
}

// drawLowRank sets the matrices A of a network to their initial values.
func drawLowRank(n *onnx.Network, store *model.Store, seed uint64) error {
	for _, path := range n.Variables() {
		name := strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", ".")
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

package train

import (
	"errors"
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/onnx"
)

// Adapt returns a network with the low-rank matrices of the options, and what these are; n itself without them.
func (o Options) Adapt(n *onnx.Network) (adapted *onnx.Network, l onnx.LoRA, err error) {
	if o.LoRA == "" {
		return n, l, nil
	}
	if l, err = onnx.ParseLoRA(o.LoRA); err == nil {
		adapted, err = n.WithLoRA(l)
	}
	return adapted, l, err
}

// validateLoRA reports what is wrong with the low-rank matrices.
func (c Config) validateLoRA() error {
	if c.LoRA == "" {
		return nil
	}
	l, err := onnx.ParseLoRA(c.LoRA)
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

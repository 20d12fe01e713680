package search

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Parameter is one dimension of a [Space]: a list of choices, or a range of numbers.
type Parameter struct {
	Name string `json:"name"`
	// Choices are its values; a range has none.
	Choices []string `json:"choices,omitempty"`
	// Low and High are the ends of a range, which includes both. Log means that it is sampled logarithmically.
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
	Log  bool    `json:"log,omitempty"`
	// Of and In make it conditional on an earlier parameter: it is used only if that one has a value of In. An empty Of
	// means always.
	Of string   `json:"of,omitempty"`
	In []string `json:"in,omitempty"`
}

// Space is the set of points to search. A parameter follows the one that it depends on.
type Space []Parameter

// Point has the value of each parameter that is used, as text: a choice, or a number.
type Point map[string]string

// digits is the number of significant digits of the numbers in a point. More would not matter, and be harder to read.
const digits = 3

// Check returns an error if a space is invalid.
func (s Space) Check() error {
	if len(s) == 0 {
		return errors.New("the space has no parameters: there is nothing to search")
	}
	for i, p := range s {
		if err := p.check(s[:i]); err != nil {
			return fmt.Errorf("parameter %s: %w", p.Name, err)
		}
	}
	return nil
}

func (p Parameter) check(before Space) error {
	if before.index(p.Name) >= 0 {
		return errors.New("occurs twice")
	}
	if p.Of != "" {
		i := before.index(p.Of)
		if i < 0 {
			return fmt.Errorf("depends on %q, which does not precede it", p.Of)
		}
		if len(p.In) == 0 {
			return fmt.Errorf("depends on %s, but lists none of its values", p.Of)
		}
	}
	if len(p.Choices) > 0 {
		for i, c := range p.Choices {
			if c == "" || slices.Contains(p.Choices[:i], c) {
				return fmt.Errorf("choice %q is empty or occurs twice", c)
			}
		}
		return nil
	}
	switch {
	case math.IsNaN(p.Low) || math.IsNaN(p.High) || math.IsInf(p.Low, 0) || math.IsInf(p.High, 0):
		return fmt.Errorf("range %g to %g: want finite numbers", p.Low, p.High)
	case !(p.Low < p.High):
		return fmt.Errorf("range %g to %g is empty: want low..high, low below high, or choices a,b,…", p.Low, p.High)
	case p.Log && p.Low <= 0:
		return fmt.Errorf("range %g to %g: a logarithmic range must begin above 0", p.Low, p.High)
	}
	return nil
}

func (s Space) index(name string) int {
	return slices.IndexFunc(s, func(p Parameter) bool { return p.Name == name })
}

// counts reports whether a parameter is used at a point, whose earlier values are set.
func (p Parameter) counts(at Point) bool {
	return p.Of == "" || slices.Contains(p.In, at[p.Of])
}

// Unit returns the position of a value in its range, from 0 to 1, or the number of a choice.
func (p Parameter) Unit(value string) (float64, error) {
	if len(p.Choices) > 0 {
		i := slices.Index(p.Choices, value)
		if i < 0 {
			return 0, fmt.Errorf("%s has no choice %q; there are %s", p.Name, value, strings.Join(p.Choices, ", "))
		}
		return float64(i), nil
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(v) {
		return 0, fmt.Errorf("%s is %q, want a number", p.Name, value)
	}
	low, high := p.Low, p.High
	if p.Log {
		if v <= 0 {
			return 0, fmt.Errorf("%s is %q, want a number above 0", p.Name, value)
		}
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	return min(max((v-low)/(high-low), 0), 1), nil // Rounding to a few digits may have left the range.
}

// value is the inverse of Unit.
func (p Parameter) value(unit float64) string {
	if len(p.Choices) > 0 {
		return p.Choices[min(max(int(unit), 0), len(p.Choices)-1)]
	}
	v := p.Low + unit*(p.High-p.Low)
	if p.Log {
		v = math.Exp(math.Log(p.Low) + unit*(math.Log(p.High)-math.Log(p.Low)))
	}
	text := strconv.FormatFloat(v, 'g', digits, 64)
	v, _ = strconv.ParseFloat(text, 64) // Never fails, because text was just formatted.
	return strconv.FormatFloat(min(max(v, p.Low), p.High), 'g', -1, 64)
}

// String returns the parameter in the syntax of [NewSpace].
func (p Parameter) String() string {
	if len(p.Choices) > 0 {
		return p.Name + "=" + strings.Join(p.Choices, ",")
	}
	return fmt.Sprintf("%s=%g..%g", p.Name, p.Low, p.High)
}

// Text returns a point as one line, in the order of the space.
func (s Space) Text(at Point) string {
	var out []string
	for _, p := range s {
		if v, there := at[p.Name]; there {
			out = append(out, p.Name+" "+v)
		}
	}
	return strings.Join(out, ", ")
}

// differences lists where another space differs from this one.
func (s Space) differences(o Space) []string {
	var out []string
	for _, p := range s {
		i := o.index(p.Name)
		switch {
		case i < 0:
			out = append(out, "also "+p.String())
		case p.String() != o[i].String() || p.Log != o[i].Log || p.Of != o[i].Of || !slices.Equal(p.In, o[i].In):
			out = append(out, fmt.Sprintf("%s, not %s", p, o[i]))
		}
	}
	for _, p := range o {
		if s.index(p.Name) < 0 {
			out = append(out, "no "+p.Name)
		}
	}
	if out == nil && !slices.EqualFunc(s, o, func(a, b Parameter) bool { return a.Name == b.Name }) {
		out = append(out, "its parameters in another order")
	}
	return out
}

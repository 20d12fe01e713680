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
	// Choices are what it can be; none for a range.
	Choices []string `json:"choices,omitempty"`
	// Low to High is a range, both ends included. Log spaces it by ratios.
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
	Log  bool    `json:"log,omitempty"`
	// Of and In tie it to a parameter before it: it counts where that one has one of these values. Empty: everywhere.
	Of string   `json:"of,omitempty"`
	In []string `json:"in,omitempty"`
}

// Space is what is searched. A parameter comes after the one that it is tied to.
type Space []Parameter

// Point is a value for each parameter of a space that counts there, as it is written: a choice, or a number.
type Point map[string]string

// digits is how many significant digits the numbers of a point have: more would tell nothing, and be harder to read.
const digits = 3

// Check tells what is wrong with a space.
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
		return errors.New("is there twice")
	}
	if p.Of != "" {
		i := before.index(p.Of)
		if i < 0 {
			return fmt.Errorf("is tied to %q, which does not come before it", p.Of)
		}
		if len(p.In) == 0 {
			return fmt.Errorf("is tied to no value of %s", p.Of)
		}
	}
	if len(p.Choices) > 0 {
		for i, c := range p.Choices {
			if c == "" || slices.Contains(p.Choices[:i], c) {
				return fmt.Errorf("choice %q is empty or there twice", c)
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
		return fmt.Errorf("range %g to %g: it is spaced by ratios, so its low end must be above 0", p.Low, p.High)
	}
	return nil
}

func (s Space) index(name string) int {
	return slices.IndexFunc(s, func(p Parameter) bool { return p.Name == name })
}

// counts tells whether a parameter counts at a point, of which those before it are set.
func (p Parameter) counts(at Point) bool {
	return p.Of == "" || slices.Contains(p.In, at[p.Of])
}

// Unit is where a value lies in the range, from 0 to 1, or the number of a choice.
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

// value writes what Unit reads.
func (p Parameter) value(unit float64) string {
	if len(p.Choices) > 0 {
		return p.Choices[min(max(int(unit), 0), len(p.Choices)-1)]
	}
	v := p.Low + unit*(p.High-p.Low)
	if p.Log {
		v = math.Exp(math.Log(p.Low) + unit*(math.Log(p.High)-math.Log(p.Low)))
	}
	text := strconv.FormatFloat(v, 'g', digits, 64)
	v, _ = strconv.ParseFloat(text, 64) // It was just written.
	return strconv.FormatFloat(min(max(v, p.Low), p.High), 'g', -1, 64)
}

// String is the range or the choices as [NewSpace] takes them.
func (p Parameter) String() string {
	if len(p.Choices) > 0 {
		return p.Name + "=" + strings.Join(p.Choices, ",")
	}
	return fmt.Sprintf("%s=%g..%g", p.Name, p.Low, p.High)
}

// Text is a point on one line, its parameters in the space's order.
func (s Space) Text(at Point) string {
	var out []string
	for _, p := range s {
		if v, there := at[p.Name]; there {
			out = append(out, p.Name+" "+v)
		}
	}
	return strings.Join(out, ", ")
}

// differences lists what the space has and another has not, a piece of text each.
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

package npy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// header is what an array's header says.
type header struct {
	descr   string // the values' type, as in "<f4"
	fortran bool
	shape   []int
}

// parser reads the Python literal that a header is, from left to right.
type parser struct{ text string }

// parseHeader reads a header: a dictionary of exactly the keys descr, fortran_order and shape, in any order.
func parseHeader(text string) (header, error) {
	h, p := header{}, &parser{text}
	read := map[string]func() error{
		"descr":         func() (err error) { h.descr, err = p.str(); return err },
		"fortran_order": func() (err error) { h.fortran, err = p.boolean(); return err },
		"shape":         func() (err error) { h.shape, err = p.tuple(); return err },
	}
	if !p.skip("{") {
		return h, p.want("{")
	}
	for !p.skip("}") {
		key, err := p.str()
		if err != nil {
			return h, err
		}
		value := read[key]
		if value == nil {
			return h, fmt.Errorf("key %q, unknown or twice; want descr, fortran_order and shape once each", key)
		}
		delete(read, key)
		if !p.skip(":") {
			return h, p.want(":")
		}
		if err := value(); err != nil {
			return h, err
		}
		if !p.skip(",") && !strings.HasPrefix(p.text, "}") {
			return h, p.want(", or }")
		}
	}
	if len(read) > 0 {
		return h, errors.New("a key is missing; want descr, fortran_order and shape")
	}
	if p.skip(""); p.text != "" {
		return h, p.want("nothing")
	}
	return h, nil
}

// skip drops space and then a token, and space behind it. It tells whether the token was there.
func (p *parser) skip(token string) bool {
	const space = " \t\n\r"
	p.text = strings.TrimLeft(p.text, space)
	rest, ok := strings.CutPrefix(p.text, token)
	if ok {
		p.text = strings.TrimLeft(rest, space)
	}
	return ok
}

// want is the error for a text that does not go on as it should.
func (p *parser) want(token string) error {
	return fmt.Errorf("want %s at %.20q", token, p.text)
}

// str reads a string in quotes, without escapes.
func (p *parser) str() (string, error) {
	for _, quote := range []string{"'", `"`} {
		if !strings.HasPrefix(p.text, quote) {
			continue
		}
		s, rest, ok := strings.Cut(p.text[1:], quote)
		if !ok || strings.ContainsAny(s, "\\\n\r\x00") {
			break
		}
		p.text = rest
		return s, nil
	}
	return "", p.want("a string in quotes")
}

func (p *parser) boolean() (bool, error) {
	switch {
	case p.skip("True"):
		return true, nil
	case p.skip("False"):
		return false, nil
	}
	return false, p.want("True or False")
}

// tuple reads a tuple of numbers from 0; one of a single number ends with a comma.
func (p *parser) tuple() ([]int, error) {
	if !p.skip("(") {
		return nil, p.want("(")
	}
	shape, comma := []int{}, true
	for !strings.HasPrefix(p.text, ")") {
		if !comma {
			return nil, p.want(", or )")
		}
		end := len(p.text) - len(strings.TrimLeft(p.text, "0123456789"))
		d, err := strconv.Atoi(p.text[:end])
		if err != nil || end > 1 && p.text[0] == '0' {
			return nil, p.want("a dimension")
		}
		if shape = append(shape, d); len(shape) > maxDims {
			return nil, fmt.Errorf("more than %d dimensions", maxDims)
		}
		p.text = p.text[end:]
		comma = p.skip(",")
	}
	if len(shape) == 1 && !comma {
		return nil, p.want(", behind the only dimension")
	}
	p.skip(")")
	return shape, nil
}

package npy

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// header is what an array's header says.
type header struct {
	descr   string // the values' type, as in "<f4"
	fortran bool
	shape   []int
}

// A headerEntry is a key and its value: a text without escapes, a truth, or a tuple of numbers from 0.
const (
	blank       = `[ \t\n\r]*`
	headerEntry = blank + `(?:'(\w+)'|"(\w+)")` + blank + `:` + blank + `(?:'([^'\\\n\r\x00]*)'|"([^"\\\n\r\x00]*)"|` +
		`(True|False)|(\(` + blank + `(?:` + number + `,` + blank + `)*(?:` + number + `)?\)))` + blank
	number = `(?:0|[1-9]\d*)` + blank
)

var (
	headerEntries = regexp.MustCompile(headerEntry)
	headerText    = regexp.MustCompile(`^` + blank + `\{` + headerEntry + `(?:,` + headerEntry + `){2},?` + blank +
		`\}` + blank + `$`)
)

// parseHeader reads a header: a Python dictionary of exactly the keys descr, fortran_order and shape, in any order.
func parseHeader(text string) (h header, err error) {
	fail := fmt.Errorf("its header is %.100q, want {'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", text)
	if !headerText.MatchString(text) {
		return h, fail
	}
	read := make(map[string]bool) // Keys with a value of their kind.
	for _, m := range headerEntries.FindAllStringSubmatch(text, -1) {
		key, truth, tuple := m[1]+m[2], m[5], m[6]
		switch {
		case key == "descr" && truth == "" && tuple == "":
			h.descr = m[3] + m[4]
		case key == "fortran_order" && truth != "":
			h.fortran = truth == "True"
		case key == "shape" && tuple != "":
			h.shape = []int{}
			for _, digits := range strings.FieldsFunc(tuple, func(r rune) bool { return r < '0' || r > '9' }) {
				d, err := strconv.Atoi(digits)
				if err != nil {
					return h, fail
				}
				h.shape = append(h.shape, d)
			}
			if len(h.shape) == 1 && !strings.Contains(tuple, ",") { // A number in brackets.
				return h, fail
			}
		default:
			return h, fail
		}
		read[key] = true
	}
	if len(read) < 3 { // One is there twice.
		return h, fail
	}
	if len(h.shape) > maxDims {
		return h, fmt.Errorf("more than %d dimensions", maxDims)
	}
	return h, nil
}

// Package query reads and writes the options behind a name, as in "cos/lin/cir?sum&tau=2": numbers, switches and other
// values, with & between them.
package query

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// Option is a number, a switch or a text that a name may set. One of its functions is not nil.
type Option struct {
	Name string
	Set  func(v float64)          // Takes a number.
	On   func()                   // Turns a switch on.
	Text func(value string) error // Takes any value. Its error names neither the option nor the value.
}

// Fields splits options into keys and values, in their order. The value of a switch is ok = false in has.
func Fields(text string) (keys, values []string, has []bool) {
	for field := range strings.SplitSeq(text, "&") {
		key, value, ok := strings.Cut(field, "=")
		keys, values, has = append(keys, key), append(values, value), append(has, ok)
	}
	return keys, values, has
}

// Read sets options from text. kind is what an error calls them, "option" or "parameter". An option that is not there
// or is given twice, a switch with a value and a number that is not finite are errors.
func Read(kind, text string, options []Option) error {
	keys, values, has := Fields(text)
	for i, key := range keys {
		at := slices.IndexFunc(options, func(o Option) bool { return o.Name == key })
		if at < 0 {
			names := slice.Map(options, func(o Option) string { return o.Name })
			what := fmt.Sprintf("no %s %q", kind, key)
			if text == "" {
				what = fmt.Sprintf("no %s follows the question mark", kind)
			}
			return errs.NoSuch(what, key, names)
		}
		if slices.Contains(keys[:i], key) {
			return fmt.Errorf("%s %s is given twice", kind, key)
		}
		o := options[at]
		if o.On != nil {
			if has[i] {
				return fmt.Errorf("%s %s is a switch and takes no value", kind, key)
			}
			o.On()
			continue
		}
		if o.Text != nil {
			if err := o.Text(values[i]); err != nil {
				return fmt.Errorf("%s %s is %q: %w", kind, key, values[i], err)
			}
			continue
		}
		v, err := strconv.ParseFloat(values[i], 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s %s needs a finite number, not %q", kind, key, values[i])
		}
		o.Set(v)
	}
	return nil
}

// Number is an option with its value, as [Read] reads it.
func Number(name string, v float64) string { return name + "=" + strconv.FormatFloat(v, 'g', -1, 64) }

// Join puts options behind a name, if there are any.
func Join(name string, fields []string) string {
	if len(fields) == 0 {
		return name
	}
	return name + "?" + strings.Join(fields, "&")
}

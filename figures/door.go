package figures

import (
	"fmt"
	"math"
	"reflect"
)

// finite reports whether a value can be drawn.
func finite[T float32 | float64](v T) bool { return v-v == 0 }

// allFinite is the check of all that is drawn: it returns an error that says which number of something is infinite or
// NaN, such as "Stages[2].Rule is NaN".
func allFinite(what string, of any) error {
	if path := unfit(reflect.ValueOf(of)); path != "" {
		return fmt.Errorf("%s: %s; want finite numbers", what, path)
	}
	return nil
}

// unfit returns the path of the first number that is not finite, and what it is; empty without one.
func unfit(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Sprintf(" is %v", x)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if path := unfit(v.Index(i)); path != "" {
				return fmt.Sprintf("[%d]%s", i, path)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if path := unfit(v.Field(i)); path != "" {
				return "." + v.Type().Field(i).Name + path
			}
		}
	}
	return ""
}

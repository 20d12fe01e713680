package cli

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseNumbers reads the value of a flag: numbers and ranges with commas between them.
func ParseNumbers(flag, text string) ([]uint64, error) {
	fail := Usagef("--%s %q: want numbers and ranges, as in 1-5 or 1,3,8", flag, text)
	const most = 10000 // Runs of a rule: more is a typing error.
	var out []uint64
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		first, err := strconv.ParseUint(low, 10, 64)
		if err != nil {
			return nil, fail
		}
		last := first
		if isRange {
			if last, err = strconv.ParseUint(high, 10, 64); err != nil || last < first {
				return nil, fail
			}
		}
		if last-first >= most || len(out) >= most {
			return nil, Usagef("--%s %q: want at most %d numbers", flag, text, most)
		}
		for seed := first; ; seed++ {
			out = append(out, seed)
			if seed == last {
				break
			}
		}
	}
	return out, nil
}

// ByteSize is the value of --keep, a number of bytes: "8GB", "500MB".
type ByteSize int64

func (*ByteSize) Type() string { return "SIZE" }

func (b *ByteSize) String() string {
	if *b == 0 {
		return ""
	}
	return fmt.Sprintf("%gGB", float64(*b)/1e9)
}

func (b *ByteSize) Set(text string) error {
	for unit, size := range map[string]float64{"GB": 1e9, "MB": 1e6} {
		number, found := strings.CutSuffix(strings.ToUpper(strings.TrimSpace(text)), unit)
		if v, err := strconv.ParseFloat(strings.TrimSpace(number), 64); found && err == nil && v > 0 && v < 1e6 {
			*b = ByteSize(v * size)
			return nil
		}
	}
	return Usagef("want a size, as in 8GB or 500MB")
}

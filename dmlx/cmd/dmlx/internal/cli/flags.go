package cli

import (
	"fmt"
	"strconv"
	"strings"
)

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

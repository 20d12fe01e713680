package figures

import (
	"image/color"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

func TestSpan(t *testing.T) {
	t.Parallel()
	s := spanOf(3, math.NaN(), 1, math.Inf(1), math.Inf(-1))
	s.addMean(stats.Mean{Mean: 4, Std: 1})
	s.addMean(Missing)
	s.add(2, -1, math.NaN())
	if s != (span{-1, 5}) {
		t.Errorf("%v", s)
	}
	for _, c := range []struct{ of, want span }{
		{span{0, 10}, span{-1, 11}}, {span{4, 4}, span{3.5, 4.5}}, {spanOf(), span{-10, 110}},
	} {
		if got := c.of.padded(0.1, 0.5); got != c.want {
			t.Errorf("%v with room is %v, want %v", c.of, got, c.want)
		}
	}
}

func TestStack(t *testing.T) {
	t.Parallel()
	c := draw.New(vgimg.New(100, 100))
	parts := stack(c, 10, 3)
	for i, p := range parts {
		if high := p.Max.Y - p.Min.Y; math.Abs(float64(high)-80./3) > 1e-9 {
			t.Errorf("part %d is %v high", i, high)
		}
	}
	if parts[0].Max.Y != c.Max.Y || math.Abs(float64(parts[2].Min.Y-c.Min.Y)) > 1e-9 {
		t.Errorf("from %v to %v", parts[0].Max.Y, parts[2].Min.Y)
	}
	if r := inset(rect(0, 0, 10, 20), 2); r != (vg.Rectangle{Min: pt(2, 2), Max: pt(8, 18)}) || center(r) != pt(5, 10) {
		t.Errorf("%v", r)
	}
}

func TestRaster(t *testing.T) {
	t.Parallel()
	img := raster(2, 3, 4, 5, func(column, row int) color.NRGBA { return color.NRGBA{uint8(column), uint8(row), 7, 255} })
	if b := img.Bounds(); b.Dx() != 8 || b.Dy() != 15 {
		t.Fatalf("%v", b)
	}
	for y := range 15 {
		for x := range 8 {
			if got := img.NRGBAAt(x, y); got != (color.NRGBA{uint8(x / 4), uint8(y / 5), 7, 255}) {
				t.Fatalf("pixel %d, %d is %v", x, y, got)
			}
		}
	}
}

func TestRuleBlocks(t *testing.T) {
	t.Parallel()
	table := &Table{}
	for _, row := range [][]any{{"a", 1}, {"a", 1}, {"a", 2}, {"b", 2}, {"b", stats.Mean{Mean: 2, N: 1}}} {
		table.Rows = append(table.Rows, Row(row...))
	}
	if table.RuleBlocks(1); !slices.Equal(table.Rules, []int{3}) {
		t.Errorf("by the first column after rows %v", table.Rules)
	}
	table.Rules = nil
	if table.RuleBlocks(2); !slices.Equal(table.Rules, []int{2, 3, 4}) {
		t.Errorf("by two columns after rows %v", table.Rules)
	}
	if table.Rows[4][1].Score == nil || table.Rows[0][1].Text != "1" {
		t.Errorf("cells %+v", table.Rows)
	}
}

package drawn

import (
	"image"
	"image/color"
	"image/draw"
	"math"

	"golang.org/x/image/vector"
)

// supersample is how many times finer than the image a scene is drawn, each way. The rasterizer's own coverage is
// already exact for one shape; the finer grid is for what coverage gets wrong where shapes meet, and for patterns.
const supersample = 2

// rgb is a color, each channel in [0, 1].
type rgb [3]float64

// hsv is the color of hue h (a turn is 1), saturation s and value v.
func hsv(h, s, v float64) rgb {
	h = (h - math.Floor(h)) * 6
	channel := func(n float64) float64 {
		k := math.Mod(n+h, 6)
		return v * (1 - s*max(0, min(k, 4-k, 1)))
	}
	return rgb{channel(5), channel(3), channel(1)}
}

// gray is the neutral color of value v.
func gray(v float64) rgb { return rgb{v, v, v} }

// times scales the color: darker for k < 1, lighter for k > 1.
func (c rgb) times(k float64) rgb {
	return rgb{clamp01(c[0] * k), clamp01(c[1] * k), clamp01(c[2] * k)}
}

// mix goes from c at t = 0 to d at t = 1.
func (c rgb) mix(d rgb, t float64) rgb {
	return rgb{lerp(c[0], d[0], t), lerp(c[1], d[1], t), lerp(c[2], d[2], t)}
}

// luma is the perceived lightness (Rec. 709 weights).
func (c rgb) luma() float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

func lerp(a, b, t float64) float64 { return a + (b-a)*t }

func clamp01(v float64) float64 { return max(0, min(1, v)) }

// affine maps (x, y) to (a[0] x + a[1] y + a[2], a[3] x + a[4] y + a[5]).
type affine [6]float64

func translation(x, y float64) affine { return affine{1, 0, x, 0, 1, y} }

func scaling(x, y float64) affine { return affine{x, 0, 0, 0, y, 0} }

func rotation(angle float64) affine {
	sin, cos := math.Sincos(angle)
	return affine{cos, -sin, 0, sin, cos, 0}
}

// then is the map that applies a first and b to its result.
func (a affine) then(b affine) affine {
	return affine{
		b[0]*a[0] + b[1]*a[3], b[0]*a[1] + b[1]*a[4], b[0]*a[2] + b[1]*a[5] + b[2],
		b[3]*a[0] + b[4]*a[3], b[3]*a[1] + b[4]*a[4], b[3]*a[2] + b[4]*a[5] + b[5],
	}
}

func (a affine) apply(x, y float64) (float64, float64) {
	return a[0]*x + a[1]*y + a[2], a[3]*x + a[4]*y + a[5]
}

func (a affine) inverse() affine {
	det := a[0]*a[4] - a[1]*a[3]
	i := affine{a[4] / det, -a[1] / det, 0, -a[3] / det, a[0] / det, 0}
	i[2] = -(i[0]*a[2] + i[1]*a[5])
	i[5] = -(i[3]*a[2] + i[4]*a[5])
	return i
}

// point is a place in the scene: x to the right, y down, the picture is [−1, 1]².
type point struct{ x, y float64 }

// corner is a polygon's corner, rounded with about this radius.
type corner struct{ x, y, radius float64 }

// segment is a piece of path in pixels: op 'M' (1 point), 'L' (1), 'Q' (2) or 'C' (3).
type segment struct {
	op byte
	p  [3][2]float32
}

// canvas is one worker's drawing surface: a path is built in scene coordinates, then filled.
type canvas struct {
	size  int // of the finished image, pixels
	img   *image.RGBA
	mask  *image.Alpha
	frame affine // scene [−1, 1]² to pixels of img
	at    affine // what is drawn now, to pixels: frame, with the pose before it
	path  []segment
	ras   vector.Rasterizer
	ink   image.Uniform
}

func newCanvas(size int) *canvas {
	side := size * supersample
	half := float64(side) / 2
	cv := &canvas{
		size:  size,
		img:   image.NewRGBA(image.Rect(0, 0, side, side)),
		mask:  image.NewAlpha(image.Rect(0, 0, side, side)),
		frame: affine{half, 0, half, 0, half, half},
	}
	cv.at = cv.frame
	return cv
}

// clear paints everything in one color.
func (cv *canvas) clear(c rgb) {
	cv.ink.C = c.at(1)
	draw.Draw(cv.img, cv.img.Rect, &cv.ink, image.Point{}, draw.Src)
}

func (c rgb) at(alpha float64) color.Color {
	to8 := func(v float64) uint8 { return uint8(clamp01(v)*255 + 0.5) }
	return color.NRGBA{to8(c[0]), to8(c[1]), to8(c[2]), to8(alpha)}
}

// within runs paint with the local map m in front of the present one.
func (cv *canvas) within(m affine, paint func()) {
	saved := cv.at
	cv.at = m.then(saved)
	paint()
	cv.at = saved
}

func (cv *canvas) add(op byte, points ...point) {
	s := segment{op: op}
	for i, p := range points {
		x, y := cv.at.apply(p.x, p.y)
		s.p[i] = [2]float32{float32(x), float32(y)}
	}
	cv.path = append(cv.path, s)
}

// polygon adds a closed outline with each corner rounded by a parabola.
func (cv *canvas) polygon(corners ...corner) *canvas {
	n := len(corners)
	for i, c := range corners {
		before, after := corners[(i+n-1)%n], corners[(i+1)%n]
		in, out := toward(c, before), toward(c, after)
		op := byte('L')
		if i == 0 {
			op = 'M'
		}
		cv.add(op, in)
		if c.radius > 0 {
			cv.add('Q', point{c.x, c.y}, out)
		}
	}
	return cv
}

// toward is where c's rounding begins on the edge to d: its radius away, but never past the middle.
func toward(c, d corner) point {
	length := math.Sqrt((d.x-c.x)*(d.x-c.x) + (d.y-c.y)*(d.y-c.y))
	if c.radius == 0 || length == 0 {
		return point{c.x, c.y}
	}
	t := min(c.radius/length, 0.5)
	return point{lerp(c.x, d.x, t), lerp(c.y, d.y, t)}
}

// rect adds a rectangle with rounded corners.
func (cv *canvas) rect(x0, y0, x1, y1, radius float64) *canvas {
	return cv.polygon(corner{x0, y0, radius}, corner{x1, y0, radius}, corner{x1, y1, radius}, corner{x0, y1, radius})
}

// ellipse adds an ellipse of four cubic Bézier curves (error 3e-4 of the radius).
func (cv *canvas) ellipse(x, y, rx, ry float64) *canvas {
	const k = 0.5522847498307936 // 4/3 (√2 − 1)
	cv.add('M', point{x + rx, y})
	cv.add('C', point{x + rx, y + k*ry}, point{x + k*rx, y + ry}, point{x, y + ry})
	cv.add('C', point{x - k*rx, y + ry}, point{x - rx, y + k*ry}, point{x - rx, y})
	cv.add('C', point{x - rx, y - k*ry}, point{x - k*rx, y - ry}, point{x, y - ry})
	cv.add('C', point{x + k*rx, y - ry}, point{x + rx, y - k*ry}, point{x + rx, y})
	return cv
}

// line adds a straight stroke of the given width with flat ends.
func (cv *canvas) line(x0, y0, x1, y1, width float64) *canvas {
	dx, dy := x1-x0, y1-y0
	length := math.Sqrt(dx*dx + dy*dy)
	if length == 0 {
		return cv
	}
	nx, ny := -dy/length*width/2, dx/length*width/2
	return cv.polygon(corner{x0 + nx, y0 + ny, 0}, corner{x1 + nx, y1 + ny, 0}, corner{x1 - nx, y1 - ny, 0},
		corner{x0 - nx, y0 - ny, 0})
}

// rasterize hands the path, which it ends, to the rasterizer, over no more pixels than the path covers.
func (cv *canvas) rasterize() image.Rectangle {
	x0, y0 := float32(math.Inf(1)), float32(math.Inf(1))
	x1, y1 := -x0, -y0
	for _, s := range cv.path {
		for _, p := range s.points() {
			x0, y0, x1, y1 = min(x0, p[0]), min(y0, p[1]), max(x1, p[0]), max(y1, p[1])
		}
	}
	side := float32(cv.img.Rect.Dx())
	x0, y0, x1, y1 = max(x0, 0), max(y0, 0), min(x1, side), min(y1, side)
	if x0 >= x1 || y0 >= y1 {
		cv.path = cv.path[:0]
		return image.Rectangle{}
	}
	box := image.Rect(int(x0), int(y0), int(math.Ceil(float64(x1))), int(math.Ceil(float64(y1))))
	cv.ras.Reset(box.Dx(), box.Dy())
	left, top := float32(box.Min.X), float32(box.Min.Y)
	for _, s := range cv.path {
		p := s.p
		for i := range p {
			p[i][0] -= left
			p[i][1] -= top
		}
		switch s.op {
		case 'M':
			cv.ras.ClosePath()
			cv.ras.MoveTo(p[0][0], p[0][1])
		case 'L':
			cv.ras.LineTo(p[0][0], p[0][1])
		case 'Q':
			cv.ras.QuadTo(p[0][0], p[0][1], p[1][0], p[1][1])
		case 'C':
			cv.ras.CubeTo(p[0][0], p[0][1], p[1][0], p[1][1], p[2][0], p[2][1])
		}
	}
	cv.ras.ClosePath()
	cv.path = cv.path[:0]
	return box
}

func (s *segment) points() [][2]float32 {
	switch s.op {
	case 'Q':
		return s.p[:2]
	case 'C':
		return s.p[:3]
	}
	return s.p[:1]
}

// fill paints the path in one color and ends it.
func (cv *canvas) fill(c rgb, alpha float64) {
	if box := cv.rasterize(); !box.Empty() {
		cv.ink.C = c.at(alpha)
		cv.ras.DrawOp = draw.Over
		cv.ras.Draw(cv.img, box, &cv.ink, image.Point{})
	}
}

// shade paints the path with a color of its own at each place and ends it. paint is given scene coordinates of the
// present map, and the width of a pixel in them, over which it should blur its edges.
func (cv *canvas) shade(paint func(x, y, pixel float64) rgb) {
	box := cv.rasterize()
	if box.Empty() {
		return
	}
	cv.ras.DrawOp = draw.Src
	cv.ras.Draw(cv.mask, box, image.Opaque, image.Point{})
	back := cv.at.inverse()
	pixel := math.Sqrt(math.Abs(back[0]*back[4] - back[1]*back[3]))
	for py := box.Min.Y; py < box.Max.Y; py++ {
		for px := box.Min.X; px < box.Max.X; px++ {
			alpha := float64(cv.mask.Pix[cv.mask.PixOffset(px, py)]) / 255
			if alpha == 0 {
				continue
			}
			x, y := back.apply(float64(px)+0.5, float64(py)+0.5)
			c := paint(x, y, pixel)
			to := cv.img.Pix[cv.img.PixOffset(px, py):]
			for k := range 3 {
				to[k] = uint8(lerp(float64(to[k]), clamp01(c[k])*255, alpha) + 0.5)
			}
		}
	}
}

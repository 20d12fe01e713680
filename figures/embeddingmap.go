package figures

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"image"
	"image/color"
	stddraw "image/draw"
	"image/jpeg"
	"image/png"
	"math"
	"strings"

	ximage "golang.org/x/image/draw"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// MapKind is the kind of a point on an embedding map.
type MapKind byte

// The kinds of points.
const (
	MapRight   MapKind = 'r' // A query whose nearest image is of its class.
	MapWrong   MapKind = 'w' // A query whose nearest image is of another class.
	MapLone    MapKind = 'l' // A query whose class has no other image.
	MapGallery MapKind = 'g' // An image of the gallery that is not a query.
)

// MapPoint is an image on an embedding map.
type MapPoint struct {
	X, Y  float64
	Class string
	Kind  MapKind
	// Nearest is the index of the point nearest to a query, or −1 without one.
	Nearest int
}

// EmbeddingMap is a map of images by their embeddings in two dimensions. It is a [Figure]. As HTML it is one
// self-contained block: the image under the pointer is shown with its nearest image, and the other images of its
// class are marked. Without scripts the block is the figure.
type EmbeddingMap struct {
	*Figure
	points []MapPoint
	thumb  func(i int) image.Image
	count  map[MapKind]int
	limits [4]float64 // Least and largest X, then Y.
}

const (
	// mapSide is the side of the area of the points, mapLeft and mapEnd the room beside it, mapLine that of a line above.
	mapSide, mapLeft, mapEnd, mapLine = vg.Length(400), vg.Length(40), vg.Length(8), vg.Length(18)
	// mapThumbs is the largest number of images in an HTML map, spriteBytes the largest file of them, mapBytes the
	// largest map.
	mapThumbs   = 1200
	mapBytes    = 245_000
	spriteBytes = 90_000
)

// NewEmbeddingMap returns a map with the labels x and y of its axes. Both axes have the same scale. thumb returns the
// picture of point i.
func NewEmbeddingMap(
	provenance string, x, y Markup, points []MapPoint, thumb func(i int) image.Image,
) (*EmbeddingMap, error) {
	if len(points) == 0 || thumb == nil {
		return nil, fmt.Errorf("map: %d points, a function of pictures: %v; want at least one point and the function",
			len(points), thumb != nil)
	}
	count := make(map[MapKind]int)
	width, height := spanOf(), spanOf()
	for i, p := range points {
		if !finite(p.X + p.Y) {
			return nil, fmt.Errorf("map: point %d is at %v, %v; want finite coordinates", i, p.X, p.Y)
		}
		if !strings.ContainsRune("rwlg", rune(p.Kind)) {
			return nil, fmt.Errorf("map: point %d has the kind %q; want r, w, l or g", i, p.Kind)
		}
		if p.Nearest >= len(points) || p.Nearest == i {
			return nil, fmt.Errorf("map: the nearest of point %d is point %d of %d; want another point, or -1", i, p.Nearest,
				len(points))
		}
		count[p.Kind]++
		width.add(p.X)
		height.add(p.Y)
	}
	// Both axes have one scale, so that distances compare in all directions.
	half := 0.53 * max(width.high-width.low, height.high-height.low, 1e-9)
	plotted := newPlot("", x, y)
	for axis, s := range map[*plot.Axis]span{&plotted.X: width, &plotted.Y: height} {
		middle := (s.low + s.high) / 2
		setAxis(axis, middle-half, middle+half, roundStep(half/2))
	}
	plotted.Add(lightGrid(), painter(func(c draw.Canvas, _ *plot.Plot, x, y place) {
		for _, kind := range []MapKind{MapGallery, MapLone, MapRight, MapWrong} { // Wrong ones on top.
			for _, k := range points {
				if k.Kind == kind {
					drawMapPoint(c, kind, pt(x(k.X), y(k.Y)))
				}
			}
		}
	}))
	m := &EmbeddingMap{points: points, thumb: thumb, count: count,
		limits: [4]float64{plotted.X.Min, plotted.X.Max, plotted.Y.Min, plotted.Y.Max}}
	// A label that is wider than the area would move it.
	plotted.X.Label.Text = inLines(plotted.X.Label.TextStyle, x, mapSide, mapSide)
	plotted.Y.Label.Text = fitted(plotted.Y.Label.TextStyle, y, mapSide)
	below := 32 + labelSize*1.15*vg.Length(strings.Count(plotted.X.Label.Text, "\n"))
	key := m.key()
	m.Figure = &Figure{
		Width:  2*margin + mapLeft + mapSide + mapEnd,
		Height: 2*margin - m.area(0, 0).Min.Y + below + noteRoom(provenance),
		Alt: fmt.Sprintf("Map of %d embeddings. Of the queries, %d have an image of their class nearest, "+
			"%d one of another class, %d have no match.", len(points), count[MapRight], count[MapWrong], count[MapLone]),
		Provenance: provenance,
		panels: func(c draw.Canvas) {
			drawPlot(plotted, around(plotted, c, m.area(c.Min.X, c.Max.Y)))
			key.draw(c, pt(c.Min.X+mapLeft, c.Max.Y-mapLine/2))
		},
	}
	return m, nil
}

// key returns the legend above the area of the points.
func (m *EmbeddingMap) key() legend {
	l := legend{width: mapSide, mark: 10, after: 14, line: 12}
	for _, k := range []struct {
		kind MapKind
		name string
	}{{MapRight, "its class is nearest"}, {MapWrong, "another class is nearest"}, {MapLone, "no match"},
		{MapGallery, "gallery"}} {
		if n := m.count[k.kind]; n > 0 {
			l.add(fmt.Sprintf("%s: %d", k.name, n), func(c draw.Canvas, at vg.Point) {
				drawMapPoint(c, k.kind, at.Add(pt(4, 0)))
			})
		}
	}
	return l
}

// area returns the area of the points in a map whose panel has its top left corner at a point.
func (m *EmbeddingMap) area(x, y vg.Length) vg.Rectangle {
	y -= mapLine + m.key().end.Y
	return rect(x+mapLeft, y-mapSide, x+mapLeft+mapSide, y)
}

// drawMapPoint draws a point in the shape and color of its kind.
func drawMapPoint(c draw.Canvas, kind MapKind, at vg.Point) {
	switch kind {
	case MapRight:
		dot(c, Blue, 1.7, draw.CircleGlyph{}, at.X, at.Y)
	case MapWrong:
		cross(c, at, 2.4, stroke(paper, 2.4))
		cross(c, at, 2.4, stroke(Vermilion, 1.2))
	case MapLone:
		dot(c, quiet, 2, draw.RingGlyph{}, at.X, at.Y)
	case MapGallery:
		dot(c, scale{paper, quiet}.at(0.6), 1.3, draw.BoxGlyph{}, at.X, at.Y)
	}
}

// Formats returns those of a figure, html, and txt, which is the alternative text.
func (m *EmbeddingMap) Formats() []string { return htmlFormats(m.Figure) }

func (m *EmbeddingMap) bytes(format string) ([]byte, error) {
	return htmlBytes(m.Figure, format, m.html)
}

//go:embed embeddingmap.js
var mapScript string

// mapData is the input of the script.
type mapData struct {
	X       []int    `json:"x"` // In 1/10000 of the picture's width.
	Y       []int    `json:"y"` // In 1/10000 of its height, downward.
	Class   []int    `json:"c"`
	Kinds   string   `json:"k"`
	Nearest []int    `json:"n"` // Index among the points shown; −1 for one that is not shown.
	Other   []int    `json:"o"` // The class of the nearest; −1 without one.
	Names   []string `json:"names"`
	Columns int      `json:"columns"` // Of the sprite, as are Rows.
	Rows    int      `json:"rows"`
	Sprite  string   `json:"sprite"`
	Note    string   `json:"note,omitempty"` // Is put after the map.
}

func (m *EmbeddingMap) html() ([]byte, error) {
	picture, err := m.drawing()
	if err != nil {
		return nil, err
	}
	raw, err := m.input(base64.StdEncoding.EncodedLen(len(picture)))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	id := hex.EncodeToString(sum[:6])
	const block = "position:relative;display:inline-block;max-width:100%"
	return fmt.Appendf(nil, `<div data-map="%s" tabindex="0" style="%s">`+
		`<img src="data:image/png;base64,%s" alt="%s" width="%.0f" style="display:block;max-width:100%%;height:auto">`+
		`<script>for (const root of document.querySelectorAll('[data-map="%s"]:not([data-awake])')) (%s)(root, %s)</script>`+
		"</div>\n", id, block, base64.StdEncoding.EncodeToString(picture), html.EscapeString(m.Alt),
		m.Width.Points()*96/72, id, strings.TrimSpace(mapScript), raw), nil
}

// Script returns the map as JavaScript, for a page that has the map's picture already: a function of an element that
// holds nothing but an image of the map, and is positioned.
func (m *EmbeddingMap) Script() (string, error) {
	raw, err := m.input(0)
	return fmt.Sprintf("root => (%s)(root, %s)", strings.TrimSpace(mapScript), raw), err
}

// input returns the script's input as JSON. taken are the bytes of the map that the rest of its block takes.
func (m *EmbeddingMap) input(taken int) ([]byte, error) {
	shown := m.shown()
	d := mapData{Columns: spriteColumns(len(shown))}
	d.Rows = (len(shown) + d.Columns - 1) / d.Columns
	place, class := make(map[int]int), make(map[string]int)
	for i, p := range shown {
		place[p] = i
	}
	number := func(name string) int {
		if _, known := class[name]; !known {
			class[name], d.Names = len(d.Names), append(d.Names, name)
		}
		return class[name]
	}
	data := m.area(margin, m.height()-margin)
	side := data.Size()
	for _, i := range shown {
		p := m.points[i]
		x := data.Min.X + side.X*vg.Length((p.X-m.limits[0])/(m.limits[1]-m.limits[0]))
		y := data.Min.Y + side.Y*vg.Length((p.Y-m.limits[2])/(m.limits[3]-m.limits[2]))
		d.X = append(d.X, int(math.Round(1e4*float64(x/m.Width))))
		d.Y = append(d.Y, int(math.Round(1e4*float64(1-y/m.height()))))
		d.Class = append(d.Class, number(p.Class))
		d.Kinds += string(p.Kind)
		nearest, other := -1, -1
		if p.Nearest >= 0 {
			other = number(m.points[p.Nearest].Class)
			if n, there := place[p.Nearest]; there {
				nearest = n
			}
		}
		d.Nearest, d.Other = append(d.Nearest, nearest), append(d.Other, other)
	}
	if len(shown) < len(m.points) {
		d.Note = fmt.Sprintf("%d of the %d images, in equal steps, are shown under the pointer.", len(shown), len(m.points))
	}
	rest, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	// Base 64 takes 4 bytes for 3.
	room := (mapBytes - len(mapScript) - len(rest) - taken) / 4 * 3
	sprite, err := m.sprite(shown, min(room, spriteBytes))
	if err != nil {
		return nil, err
	}
	d.Sprite = "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(sprite)
	return json.Marshal(d) // JSON escapes <, so no class name can end the script.
}

// drawing returns the figure as a PNG file with a small palette.
func (m *EmbeddingMap) drawing() ([]byte, error) {
	raw, err := m.png(144)
	if err != nil {
		return nil, err
	}
	img, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	var palette color.Palette
	for _, k := range []color.NRGBA{ink, Blue, Vermilion, quiet} {
		for step := range 12 { // Enough for soft edges.
			palette = append(palette, scale{k, paper}.at(float64(step)/12))
		}
	}
	palette = append(palette, paper, faint)
	out := image.NewPaletted(img.Bounds(), palette)
	stddraw.Draw(out, out.Rect, img, img.Bounds().Min, stddraw.Src)
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	err = encoder.Encode(&b, out)
	return b.Bytes(), err
}

// shown returns the points whose pictures go into an HTML map: all of them, or mapThumbs in equal steps.
func (m *EmbeddingMap) shown() []int {
	n := min(len(m.points), mapThumbs)
	out := make([]int, n)
	for i := range out {
		out[i] = i * len(m.points) / n
	}
	return out
}

func spriteColumns(n int) int { return max(1, int(math.Ceil(math.Sqrt(float64(n))))) }

// sprite returns all pictures as one JPEG file, in the best quality that fits into room bytes.
func (m *EmbeddingMap) sprite(shown []int, room int) ([]byte, error) {
	columns := spriteColumns(len(shown))
	rows := (len(shown) + columns - 1) / columns
	for _, try := range []struct{ side, quality int }{{48, 75}, {32, 75}, {32, 50}, {24, 65}, {24, 50}, {24, 42}, {24, 35},
		{16, 60}, {16, 35}, {8, 40}, {8, 10}} {
		sheet := image.NewRGBA(image.Rect(0, 0, columns*try.side, rows*try.side))
		stddraw.Draw(sheet, sheet.Rect, image.NewUniform(paper), image.Point{}, stddraw.Src)
		for i, p := range shown {
			img := m.thumb(p)
			if img == nil {
				return nil, fmt.Errorf("map: point %d has no picture", p)
			}
			at := image.Pt(i%columns*try.side, i/columns*try.side)
			ximage.CatmullRom.Scale(sheet, image.Rectangle{Min: at, Max: at.Add(image.Pt(try.side, try.side))}, img,
				img.Bounds(), ximage.Src, nil)
		}
		var b bytes.Buffer
		if err := jpeg.Encode(&b, sheet, &jpeg.Options{Quality: try.quality}); err != nil {
			return nil, err
		}
		if b.Len() <= room {
			return b.Bytes(), nil
		}
	}
	return nil, fmt.Errorf("map: %d pictures do not fit into %d bytes", len(shown), room)
}

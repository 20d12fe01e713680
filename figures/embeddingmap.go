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
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// MapKind is what a point of an embedding map is.
type MapKind byte

// The kinds of points.
const (
	MapRight   MapKind = 'r' // A query whose nearest item is of its class.
	MapWrong   MapKind = 'w' // A query whose nearest item is of another.
	MapLone    MapKind = 'l' // A query that has no match to be found.
	MapGallery MapKind = 'g' // An item of the gallery, which is no query.
)

// MapPoint is an image on an embedding map.
type MapPoint struct {
	X, Y  float64
	Class string
	Kind  MapKind
	// Nearest is the place among the points of the nearest item of a query; −1 where there is none.
	Nearest int
}

// EmbeddingMap is a map of images by their embeddings in two dimensions. It is a [Figure], and as HTML one block in which
// the image under the pointer is shown, with its nearest one and the others of its class; without scripts it is the
// figure. It loads nothing.
type EmbeddingMap struct {
	*Figure
	points []MapPoint
	thumb  func(i int) image.Image
	data   vg.Rectangle // Where the points lie on the figure.
	limits [4]float64   // X from, to; Y from, to.
}

const (
	mapSide = vg.Length(400)
	// mapThumbs is how many images an HTML map shows, spriteBytes how large the file of all of them may be, and mapBytes how
	// large the map.
	mapThumbs   = 1200
	mapBytes    = 245_000
	spriteBytes = 90_000
)

// NewEmbeddingMap makes a map with the labels of its axes. thumb gives the picture of a point.
func NewEmbeddingMap(provenance string, x, y Markup, points []MapPoint, thumb func(i int) image.Image) (*EmbeddingMap,
	error) {
	if len(points) == 0 || thumb == nil {
		return nil, fmt.Errorf("map: %d points, with pictures: %v; want at least one, with its picture", len(points),
			thumb != nil)
	}
	count := make(map[MapKind]int)
	low, high := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(-1), math.Inf(-1)}
	for i, p := range points {
		if math.IsNaN(p.X+p.Y) || math.IsInf(p.X, 0) || math.IsInf(p.Y, 0) {
			return nil, fmt.Errorf("map: point %d is at %v, %v", i, p.X, p.Y)
		}
		if !strings.ContainsRune("rwlg", rune(p.Kind)) {
			return nil, fmt.Errorf("map: point %d is of the kind %q; want one of r, w, l, g", i, p.Kind)
		}
		if p.Nearest >= len(points) || p.Nearest == i {
			return nil, fmt.Errorf("map: the nearest of point %d is point %d of %d", i, p.Nearest, len(points))
		}
		count[p.Kind]++
		for axis, v := range [2]float64{p.X, p.Y} {
			low[axis], high[axis] = min(low[axis], v), max(high[axis], v)
		}
	}
	// Both axes have one scale: a distance on the map is a distance, wherever it points.
	half := 0.53 * max(high[0]-low[0], high[1]-low[1], 1e-9)
	plotted := newPlot("", x, y)
	for axis, a := range []*plot.Axis{&plotted.X, &plotted.Y} {
		middle := (low[axis] + high[axis]) / 2
		a.Min, a.Max = middle-half, middle+half
		a.Tick.Marker = every(roundStep(half/2), a.Min, a.Max)
	}
	plotted.Add(lightGrid(), mapDots(points))
	m := &EmbeddingMap{points: points, thumb: thumb, limits: [4]float64{plotted.X.Min, plotted.X.Max, plotted.Y.Min,
		plotted.Y.Max}}
	const left, under, over, beside = vg.Length(40), vg.Length(32), vg.Length(18), vg.Length(8)
	foot := margin + under
	if provenance != "" {
		foot += noteSize + 6
	}
	m.data = vg.Rectangle{Min: vg.Point{X: margin + left, Y: foot},
		Max: vg.Point{X: margin + left + mapSide, Y: foot + mapSide}}
	m.Figure = &Figure{
		Width: m.data.Max.X + beside + margin, Height: m.data.Max.Y + over + margin,
		Alt: fmt.Sprintf("Map of %d embeddings. Of the queries, %d have an image of their class nearest, %d one of another class, %d have no match.",
			len(points), count[MapRight], count[MapWrong], count[MapLone]),
		Provenance: provenance,
	}
	m.panels = func(c draw.Canvas) {
		drawPlot(plotted, around(plotted, c, m.data))
		at := vg.Point{X: m.data.Min.X, Y: m.data.Max.Y + over/2}
		for _, k := range []struct {
			kind MapKind
			name string
		}{{MapRight, "its class is nearest"}, {MapWrong, "another class is nearest"}, {MapLone, "no match"},
			{MapGallery, "gallery"}} {
			if count[k.kind] == 0 {
				continue
			}
			at.X += 4
			drawMapPoint(c, k.kind, at)
			name := fmt.Sprintf("%s: %d", k.name, count[k.kind])
			s := aligned(style(tickSize, ink), text.XLeft, text.YCenter)
			c.FillText(s, vg.Point{X: at.X + 6, Y: at.Y}, name)
			at.X += 6 + s.Width(name) + 14
		}
	}
	return m, nil
}

// mapDots draws points, those that matter most last.
type mapDots []MapPoint

func (d mapDots) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, kind := range []MapKind{MapGallery, MapLone, MapRight, MapWrong} {
		for _, k := range d {
			if k.Kind == kind {
				drawMapPoint(c, kind, vg.Point{X: x(k.X), Y: y(k.Y)})
			}
		}
	}
}

// drawMapPoint draws a kind by shape and color.
func drawMapPoint(c draw.Canvas, kind MapKind, at vg.Point) {
	switch kind {
	case MapRight:
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: Blue, Radius: 1.7, Shape: draw.CircleGlyph{}}, at)
	case MapWrong:
		const r = 2.4
		for _, l := range []draw.LineStyle{stroke(paper, 2.4), stroke(Vermilion, 1.2)} {
			c.StrokeLine2(l, at.X-r, at.Y-r, at.X+r, at.Y+r)
			c.StrokeLine2(l, at.X-r, at.Y+r, at.X+r, at.Y-r)
		}
	case MapLone:
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: quiet, Radius: 2, Shape: draw.RingGlyph{}}, at)
	case MapGallery:
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: scale{paper, quiet}.at(0.6), Radius: 1.3, Shape: draw.BoxGlyph{}}, at)
	}
}

// Formats are those of a figure, html, and txt, which is the figure in words.
func (m *EmbeddingMap) Formats() []string { return append(m.Figure.Formats(), "html", "txt") }

func (m *EmbeddingMap) bytes(format string) ([]byte, error) {
	switch format {
	case "html":
		return m.html()
	case "txt":
		return []byte(strings.TrimSpace(m.Alt+"\n"+m.Provenance) + "\n"), nil
	}
	return m.Figure.bytes(format)
}

//go:embed embeddingmap.js
var mapScript string

// mapData is what the script is given.
type mapData struct {
	X       []int    `json:"x"` // Of 10 000 of the picture's width.
	Y       []int    `json:"y"` // Of 10 000 of its height, downwards.
	Class   []int    `json:"c"`
	Kinds   string   `json:"k"`
	Nearest []int    `json:"n"` // Among the points shown; −1 for one that is not.
	Other   []int    `json:"o"` // The class of the nearest; −1 where there is none.
	Names   []string `json:"names"`
	Columns int      `json:"columns"` // Of the sprite.
	Rows    int      `json:"rows"`
	Sprite  string   `json:"sprite"`
}

func (m *EmbeddingMap) html() ([]byte, error) {
	picture, err := m.drawing()
	if err != nil {
		return nil, err
	}
	shown := m.shown()
	d := mapData{Columns: spriteColumns(len(shown))}
	d.Rows = (len(shown) + d.Columns - 1) / d.Columns
	place, class := make(map[int]int), make(map[string]int)
	for i, p := range shown {
		place[p] = i
	}
	number := func(name string) int {
		n, known := class[name]
		if !known {
			n = len(d.Names)
			class[name], d.Names = n, append(d.Names, name)
		}
		return n
	}
	var kinds strings.Builder
	for _, i := range shown {
		p := m.points[i]
		x := m.data.Min.X + (m.data.Max.X-m.data.Min.X)*vg.Length((p.X-m.limits[0])/(m.limits[1]-m.limits[0]))
		y := m.data.Min.Y + (m.data.Max.Y-m.data.Min.Y)*vg.Length((p.Y-m.limits[2])/(m.limits[3]-m.limits[2]))
		d.X, d.Y = append(d.X, int(math.Round(1e4*float64(x/m.Width)))),
			append(d.Y, int(math.Round(1e4*float64(1-y/m.height()))))
		d.Class = append(d.Class, number(p.Class))
		kinds.WriteByte(byte(p.Kind))
		nearest, other := -1, -1
		if p.Nearest >= 0 {
			other = number(m.points[p.Nearest].Class)
			if n, there := place[p.Nearest]; there {
				nearest = n
			}
		}
		d.Nearest, d.Other = append(d.Nearest, nearest), append(d.Other, other)
	}
	d.Kinds = kinds.String()
	rest, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	room := (mapBytes - len(mapScript) - len(rest) - base64.StdEncoding.EncodedLen(len(picture))) / 4 * 3 // In base 64.
	sprite, err := m.sprite(shown, min(room, spriteBytes))
	if err != nil {
		return nil, err
	}
	d.Sprite = "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(sprite)
	raw, err := json.Marshal(d) // Which escapes <, so that no name ends the script.
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	id := hex.EncodeToString(sum[:6])
	note := ""
	if len(shown) < len(m.points) {
		note = fmt.Sprintf("%d of the %d images, in equal steps, are shown under the pointer.", len(shown), len(m.points))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<div data-map="%s" tabindex="0" style="position:relative;display:inline-block;max-width:100%%">`+
		`<img src="data:image/png;base64,%s" alt="%s" width="%.0f" style="display:block;max-width:100%%;height:auto">`+
		"<script>(%s)(%q, %s)</script></div>\n",
		id, base64.StdEncoding.EncodeToString(picture), html.EscapeString(m.Alt), m.Width.Points()*96/72,
		strings.TrimSpace(mapScript), id, raw)
	if note != "" {
		fmt.Fprintf(&b, `<div style="font-size:85%%;opacity:.7">%s</div>`+"\n", html.EscapeString(note))
	}
	return b.Bytes(), nil
}

// drawing is the figure as a PNG file of few colors.
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

// shown are the points whose pictures go with an HTML map: all, or so many in equal steps.
func (m *EmbeddingMap) shown() []int {
	n := min(len(m.points), mapThumbs)
	out := make([]int, n)
	for i := range out {
		out[i] = i * len(m.points) / n
	}
	return out
}

func spriteColumns(n int) int { return max(1, int(math.Ceil(math.Sqrt(float64(n))))) }

// sprite is all pictures as one JPEG file, as fine as there is room for in bytes.
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

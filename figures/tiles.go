package figures

import (
	"fmt"
	"image/color"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// TileKind is a kind of entries in [Tiles]: its name, the letter in its squares, which may be empty, and its color.
type TileKind struct {
	Name, Letter string
	Tone         color.NRGBA
}

// TileLine is a named group of entries, each by the index of its kind.
type TileLine struct {
	Name  string
	Kinds []int
}

// tilePlan is a layout of tiles: the room of the groups' names, the tiles' side, what is from one to the next, how many
// stand side by side in a line, and how many kinds in a line of the key.
type tilePlan struct {
	left, side, step, keyLine vg.Length
	across, kinds             int
}

const tilesLeft, tilesKey, tilesBetween, tilesInset = vg.Length(64), vg.Length(26), vg.Length(7), vg.Length(4)

// tilesFor returns the layout of groups for a width. A narrow one has smaller tiles.
func tilesFor(lines []TileLine, width vg.Length) tilePlan {
	names := widest(printed(style(tickSize, ink)), tilesLeft-tilesInset, lines, func(l TileLine) Markup { return l.Name })
	left := min(names+tilesInset, max(tilesLeft, 0.4*width))
	room := width - 2*margin - left
	p := tilePlan{left: left, side: 12, step: 14, keyLine: 17, kinds: min(max(int(room/160), 1), 3)}
	if p.kinds == 1 {
		p.side, p.step, p.keyLine = 9, 10, 12
	}
	p.across = max(int(room/p.step+1e-9), 1)
	return p
}

// Tiles draws a square for each entry of some groups, colored by kind, with the kind's letter so that the picture can
// be read without colors. The key has the kinds that occur, with their numbers. It returns an error without groups, and
// for an index without a kind.
func Tiles(alt string, kinds []TileKind, lines []TileLine, provenance string) (*Figure, error) {
	if len(lines) == 0 {
		return nil, fmt.Errorf("tiles: no groups, want at least one")
	}
	counts := make([]int, len(kinds))
	for _, l := range lines {
		for _, k := range l.Kinds {
			if k < 0 || k >= len(kinds) {
				return nil, fmt.Errorf("tiles of %s: kind %d, want 0 to %d", l.Name, k, len(kinds)-1)
			}
			counts[k]++
		}
	}
	var words []string
	var known []TileKind // In the key.
	for i, k := range kinds {
		if counts[i] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[i], k.Name))
			known = append(known, TileKind{fmt.Sprintf("%s: %d", k.Name, counts[i]), k.Letter, k.Tone})
		}
	}
	return laid(566, func(width vg.Length) *Figure {
		p := tilesFor(lines, width)
		key := tilesKey + vg.Length((len(known)+p.kinds-1)/p.kinds-1)*p.keyLine
		height := 2*margin + key + noteRoom(provenance)
		for _, l := range lines {
			height += p.height(l) + tilesBetween
		}
		return &Figure{
			Width: width, Height: height, Alt: alt + ": " + strings.Join(words, ", ") + ".", Provenance: provenance,
			panels: func(c draw.Canvas) {
				x, y := c.Min.X+p.left, c.Max.Y-p.side
				name := aligned(style(tickSize, ink), text.XLeft, text.YCenter)
				for i, k := range known {
					at := pt(x+vg.Length(i%p.kinds*p.across)*p.step/vg.Length(p.kinds), y-vg.Length(i/p.kinds)*p.keyLine)
					k.draw(c, at, p.side)
					at.X += p.side + tilesInset
					room := (c.Max.X-x)/vg.Length(p.kinds) - p.side - 3*tilesInset
					write(c, name, at.X, at.Y+p.side/2, fitted(name, k.Name, room))
				}
				y = c.Max.Y - key
				for _, l := range lines {
					write(c, aligned(name, text.XRight, text.YCenter), x-tilesInset, y-p.side/2,
						fitted(name, l.Name, p.left-tilesInset))
					for i, k := range l.Kinds {
						at := pt(x+p.step*vg.Length(i%p.across), y-p.side-p.step*vg.Length(i/p.across))
						kinds[k].draw(c, at, p.side)
					}
					y -= p.height(l) + tilesBetween
				}
			},
		}
	}), nil
}

// height returns that of a group.
func (p tilePlan) height(l TileLine) vg.Length {
	return p.step * vg.Length(max((len(l.Kinds)+p.across-1)/p.across, 1))
}

func (k TileKind) draw(c draw.Canvas, at vg.Point, side vg.Length) {
	r := vg.Rectangle{Min: at, Max: at.Add(pt(side, side))}
	if k.Tone.A > 0 {
		fill(c, r, k.Tone)
	}
	outline(c, r, stroke(quiet, 0.4))
	write(c, aligned(style(noteSize, ink), text.XCenter, text.YCenter), at.X+side/2, at.Y+side/2, k.Letter)
}

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

// The layout of tiles: the picture's width, the room of the groups' names, the tiles' side, what is from one to the
// next, how many stand side by side, the key's room, and how many kinds it has in a line.
const (
	tilesWidth, tilesLeft, tileSide, tileStep   = vg.Length(566), vg.Length(64), vg.Length(12), vg.Length(14)
	tilesKey, keyLine, tilesBetween, tilesInset = vg.Length(26), vg.Length(17), vg.Length(7), vg.Length(4)

	tilesAcross, tileKinds = int((tilesWidth - 2*margin - tilesLeft) / tileStep), 3
)

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
	key := tilesKey + vg.Length((len(known)+tileKinds-1)/tileKinds-1)*keyLine
	height := 2*margin + key + noteRoom(provenance)
	for _, l := range lines {
		height += l.height() + tilesBetween
	}
	return &Figure{
		Width: tilesWidth, Height: height, Alt: alt + ": " + strings.Join(words, ", ") + ".", Provenance: provenance,
		panels: func(c draw.Canvas) {
			x, y := c.Min.X+tilesLeft, c.Max.Y-tileSide
			name := aligned(style(tickSize, ink), text.XLeft, text.YCenter)
			room := vg.Length(tilesAcross) * tileStep / tileKinds // Of a kind in the key.
			for i, k := range known {
				at := pt(x+vg.Length(i%tileKinds)*room, y-vg.Length(i/tileKinds)*keyLine)
				k.draw(c, at)
				write(c, name, at.X+tileSide+tilesInset, at.Y+tileSide/2, fitted(name, k.Name, room-tileSide-3*tilesInset))
			}
			y = c.Max.Y - key
			for _, l := range lines {
				write(c, aligned(name, text.XRight, text.YCenter), x-tilesInset, y-tileSide/2,
					fitted(name, l.Name, tilesLeft-tilesInset))
				for i, k := range l.Kinds {
					kinds[k].draw(c, pt(x+tileStep*vg.Length(i%tilesAcross), y-tileSide-tileStep*vg.Length(i/tilesAcross)))
				}
				y -= l.height() + tilesBetween
			}
		},
	}, nil
}

// height returns that of a group.
func (l TileLine) height() vg.Length {
	return tileStep * vg.Length(max((len(l.Kinds)+tilesAcross-1)/tilesAcross, 1))
}

func (k TileKind) draw(c draw.Canvas, at vg.Point) {
	r := vg.Rectangle{Min: at, Max: at.Add(pt(tileSide, tileSide))}
	if k.Tone.A > 0 {
		fill(c, r, k.Tone)
	}
	outline(c, r, stroke(quiet, 0.4))
	write(c, aligned(style(noteSize, ink), text.XCenter, text.YCenter), at.X+tileSide/2, at.Y+tileSide/2, k.Letter)
}

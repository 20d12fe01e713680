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

const (
	tileSide, tileGap, tilesAcross        = vg.Length(12), vg.Length(2), 35
	tilesLeft, tilesKey, tilesBetween     = vg.Length(64), vg.Length(26), vg.Length(7)
	tileStep                              = tileSide + tileGap
	tilesInset, tilesKeyLine, tilesLetter = vg.Length(4), vg.Length(17), noteSize
)

// Tiles draws a square for each entry of some groups, colored by kind, with the kind's letter so that the picture can
// be read without colors. The key has the kinds that occur, with their numbers. It returns an error without groups, and
// for an index without a kind.
func Tiles(alt string, kinds []TileKind, lines []TileLine, provenance string) (*Figure, error) {
	if len(lines) == 0 {
		return nil, fmt.Errorf("tiles: no groups, want at least one")
	}
	height := tilesKey
	const across = 3 // Kinds in a line of the key.
	counts := make([]int, len(kinds))
	for _, l := range lines {
		for _, k := range l.Kinds {
			if k < 0 || k >= len(kinds) {
				return nil, fmt.Errorf("tiles of %s: kind %d, want 0 to %d", l.Name, k, len(kinds)-1)
			}
			counts[k]++
		}
		height += l.height() + tilesBetween
	}
	var words []string
	for i, k := range kinds {
		if counts[i] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[i], k.Name))
		}
	}
	keyLines := vg.Length((len(words) + across - 1) / across)
	height += (keyLines-1)*tilesKeyLine + noteRoom(provenance)
	return &Figure{
		Width: tilesLeft + tilesAcross*tileStep + 2*margin, Height: height + 2*margin,
		Alt: alt + ": " + strings.Join(words, ", ") + ".", Provenance: provenance,
		panels: func(c draw.Canvas) {
			x, y := c.Min.X+tilesLeft, c.Max.Y-tileSide
			name := aligned(style(tickSize, ink), text.XLeft, text.YCenter)
			at := 0
			for i, k := range kinds {
				if counts[i] == 0 {
					continue
				}
				corner := pt(x+vg.Length(at%across)*tilesAcross*tileStep/across, y-vg.Length(at/across)*tilesKeyLine)
				k.draw(c, corner)
				c.FillText(name, corner.Add(pt(tileSide+tilesInset, tileSide/2)), fmt.Sprintf("%s: %d", k.Name, counts[i]))
				at++
			}
			y = c.Max.Y - tilesKey - (keyLines-1)*tilesKeyLine
			for _, l := range lines {
				write(c, aligned(style(tickSize, ink), text.XRight, text.YCenter),
					c.Min.X+tilesLeft-tilesInset, y-tileSide/2, l.Name)
				for i, k := range l.Kinds {
					at := pt(c.Min.X+tilesLeft+tileStep*vg.Length(i%tilesAcross), y-tileSide-tileStep*vg.Length(i/tilesAcross))
					kinds[k].draw(c, at)
				}
				y -= l.height() + tilesBetween
			}
		},
	}, nil
}

func (l TileLine) height() vg.Length {
	return tileStep * vg.Length((len(l.Kinds)+tilesAcross-1)/tilesAcross)
}

func (k TileKind) draw(c draw.Canvas, at vg.Point) {
	r := vg.Rectangle{Min: at, Max: at.Add(pt(tileSide, tileSide))}
	if k.Tone.A > 0 {
		fill(c, r, k.Tone)
	}
	outline(c, r, stroke(quiet, 0.4))
	write(c, aligned(style(tilesLetter, ink), text.XCenter, text.YCenter), at.X+tileSide/2, at.Y+tileSide/2, k.Letter)
}

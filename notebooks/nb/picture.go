package nb

import (
	"math"

	"github.com/janpfeifer/gonb/gonbui"
	"github.com/janpfeifer/gonb/gonbui/protocol"

	"github.com/gradient-surgery/dml/figures"
)

// Update displays a figure, as [Show] does, in place of the output that has an ID: that of gonbui.UpdateHTML, or of an
// earlier call. It is for the last picture of what was updated in place, and does nothing outside a notebook.
func Update(id string, f *figures.Figure) error {
	if !gonbui.IsNotebook {
		return nil
	}
	data, metadata, err := formats(f)
	if err == nil {
		gonbui.SendData(&protocol.DisplayData{Data: data, Metadata: metadata, DisplayID: id})
	}
	return err
}

// encoded returns a figure as a small image file and its type.
func encoded(f *figures.Figure) (kind protocol.MIMEType, data []byte, err error) {
	img, err := f.Image()
	if err != nil {
		return "", nil, err
	}
	return compact(img)
}

// width returns the width of a figure in CSS pixels.
func width(f *figures.Figure) int { return int(math.Round(f.Width.Points() * 96 / 72)) }

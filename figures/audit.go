package figures

import "image/color"

// AuditTone is the color of a verdict's cell. All tones are light enough for black text, and they differ in lightness,
// so that the words carry the meaning.
type AuditTone int

// The tones.
const (
	NoTone     AuditTone = iota
	Confirming           // Blue.
	Divided              // Yellow.
	Opposing             // Vermilion.
	Undecided            // Gray.
)

// Color returns the tone's color, from Okabe and Ito's palette but pale.
func (t AuditTone) Color() color.NRGBA {
	switch t {
	case Confirming:
		return color.NRGBA{0xa9, 0xd3, 0xee, 0xff}
	case Divided:
		return color.NRGBA{0xf9, 0xf3, 0xb4, 0xff}
	case Opposing:
		return color.NRGBA{0xee, 0xa5, 0x77, 0xff}
	case Undecided:
		return color.NRGBA{0xe4, 0xe4, 0xe4, 0xff}
	}
	return color.NRGBA{}
}

package figures

import "image/color"

// The tones of verdicts, from Okabe and Ito's palette but pale: light enough for black text, and different in
// lightness, so that the words carry the meaning.
var (
	Confirming = color.NRGBA{0xa9, 0xd3, 0xee, 0xff} // Blue.
	Divided    = color.NRGBA{0xf3, 0xdc, 0x6b, 0xff} // Yellow, which a dark theme turns into brown.
	Opposing   = color.NRGBA{0xee, 0xa5, 0x77, 0xff} // Vermilion.
	Undecided  = color.NRGBA{0xe4, 0xe4, 0xe4, 0xff} // Gray.
)

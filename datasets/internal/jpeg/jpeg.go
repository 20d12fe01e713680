// Package jpeg decodes JPEG files to exactly the pixels that libjpeg-turbo gives, and so Pillow and torchvision.
//
// No library serves. A network's features move in the second digit with the rounding of its images, and the standard
// library's image/jpeg rounds the inverse cosine transform at another place and repeats chroma samples where libjpeg
// interpolates: TestStandardLibraryDiffers counts the values. Bindings to libjpeg-turbo need cgo, which this module
// does without.
//
// Baseline, extended sequential and progressive files of 8 bits and Huffman codes are read, with one, three or four
// components. Where libjpeg warns and then invents a part of the picture, a file is refused: data that end early,
// invalid codes, missing restart markers, scans out of turn. So is a progressive file whose scans do not bring all
// coefficients, because libjpeg smooths it. Where libjpeg warns and the picture is whole, it is read with a warning:
// extraneous bytes before a marker, another version of JFIF, a color transform that Adobe does not define.
package jpeg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Decode returns the picture in a file as Pillow's Image.open(file).convert("RGB") does: red, green and blue of its
// pixels, row by row. A picture of more than maxPixels pixels, or of more than the file's bytes can hold, is refused
// before memory is taken for it; so is one of more than 100 scans. A file that ends early is [io.ErrUnexpectedEOF].
// warning says what is wrong with a file whose picture is whole; "" is nothing.
func Decode(file []byte, maxPixels int) (width, height int, rgb []uint8, warning string, err error) {
	d := decoder{file: file, maxPixels: maxPixels}
	if err := d.decode(); err != nil {
		return 0, 0, nil, "", err
	}
	rgb = d.rgb()
	return d.width, d.height, rgb, strings.Join(d.warnings, "; "), nil
}

type decoder struct {
	file      []byte
	at        int // where the next marker begins
	maxPixels int

	width, height int // in pixels
	progressive   bool
	components    []component
	across, down  int // the finest sampling factors
	restart       int // MCUs between restart markers, 0 for none
	scans         int // so far
	quant         [4]*[64]int64
	dc, ac        [4]*huffman

	jfif           bool
	adobe          bool
	adobeTransform uint8

	extra    bool // extraneous bytes were met
	warnings []string
}

func (d *decoder) warn(format string, args ...any) {
	d.warnings = append(d.warnings, fmt.Sprintf(format, args...))
}

// extraneous notes bytes that belong to nothing, the first of them.
func (d *decoder) extraneous(at int) {
	if !d.extra {
		d.extra = true
		d.warn("extraneous bytes at byte %d, where a marker should be", at)
	}
}

// component is one of the frame's planes: luma, chroma, or ink.
type component struct {
	id           uint8
	across, down int // sampling factors
	table        uint8
	quant        *[64]int64 // as it stood at the component's first scan, row by row; in odd columns times 2³²

	width, height          int     // in samples
	blocksWide, blocksTall int     // of what is stored: whole MCUs
	stride                 int     // of samples
	samples                []uint8 // [8·blocksTall, stride]
	// Of progressive files:
	coefficients []int16  // [blocksTall, blocksWide, 64], in natural order
	set          []uint64 // [blocksTall, blocksWide], which of them are not 0, in zigzag order, all but the first
	low          [64]int8 // the lowest bit that scans have brought of a coefficient, in zigzag order; -1 for none
}

// maxScans bounds the passes over a picture: a scan of a few bytes can skip all of its blocks. No table of libjpeg's
// cjpeg has more (MAX_SCANS of its rdswitch.c); its usual ones have 6 and 10.
const maxScans = 100

// Markers of JPEG, ITU-T T.81 table B.1.
const (
	sof0  = 0xc0
	sof1  = 0xc1
	sof2  = 0xc2
	dht   = 0xc4
	rst0  = 0xd0
	rst7  = 0xd7
	soi   = 0xd8
	eoi   = 0xd9
	sos   = 0xda
	dqt   = 0xdb
	dri   = 0xdd
	app0  = 0xe0
	app14 = 0xee
	com   = 0xfe
)

func (d *decoder) decode() error {
	if len(d.file) < 2 || d.file[0] != 0xff || d.file[1] != soi {
		return errors.New("no JPEG marker at its start")
	}
	d.at = 2
	for {
		marker, err := d.marker()
		if err != nil {
			return err
		}
		switch {
		case marker == eoi:
			return d.finish()
		case rst0 <= marker && marker <= rst7:
			continue // They stand alone.
		case marker == soi:
			return fmt.Errorf("a second start of image at byte %d", d.at-2)
		case marker < sof0 || marker == 0xde || marker == 0xdf || 0xf0 <= marker && marker < com:
			return fmt.Errorf("marker %#x at byte %d, which no JPEG of these kinds has", marker, d.at-2)
		}
		begin := d.at
		segment, err := d.segment()
		if err != nil {
			return err
		}
		switch marker {
		case sof0, sof1, sof2:
			d.progressive = marker == sof2
			err = d.frame(segment)
		case dht:
			err = d.huffmanTables(segment)
		case dqt:
			err = d.quantTables(segment)
		case dri:
			if len(segment) != 2 {
				return errors.New("restart interval of the wrong length")
			}
			d.restart = int(binary.BigEndian.Uint16(segment))
		case sos:
			err = d.scan(segment)
		case app0:
			if len(segment) >= 14 && string(segment[:5]) == "JFIF\x00" {
				if segment[5] != 1 && !d.jfif {
					d.warn("JFIF version %d; want 1", segment[5])
				}
				d.jfif = true
			}
		case app14:
			if len(segment) >= 12 && string(segment[:5]) == "Adobe" {
				d.adobe, d.adobeTransform = true, segment[11]
			}
		default:
			// Lossless, hierarchical and arithmetic frames, SOF3 and on, and what belongs to them alone.
			if sof0 < marker && marker <= 0xcf {
				err = fmt.Errorf("an unsupported kind of JPEG, SOF%d", marker-sof0)
			}
		}
		if err != nil {
			return fmt.Errorf("%w (segment at byte %d)", err, begin-2)
		}
	}
}

// marker reads the next marker. Bytes of 0xff may stand before it (ITU-T T.81 B.1.1.2); others, and 0xff before a 0,
// are extraneous.
func (d *decoder) marker() (uint8, error) {
	for ; d.at+1 < len(d.file); d.at++ {
		switch next := d.file[d.at+1]; {
		case d.file[d.at] != 0xff || next == 0:
			d.extraneous(d.at)
		case next != 0xff:
			d.at += 2
			return next, nil
		}
	}
	return 0, io.ErrUnexpectedEOF
}

// segment reads the segment behind a marker, without its length.
func (d *decoder) segment() ([]byte, error) {
	if d.at+2 > len(d.file) {
		return nil, io.ErrUnexpectedEOF
	}
	n := int(binary.BigEndian.Uint16(d.file[d.at:]))
	if n < 2 {
		return nil, fmt.Errorf("a segment of %d bytes", n)
	}
	if d.at+n > len(d.file) {
		return nil, io.ErrUnexpectedEOF
	}
	s := d.file[d.at+2 : d.at+n]
	d.at += n
	return s, nil
}

func (d *decoder) frame(s []byte) error {
	switch {
	case d.components != nil:
		return errors.New("a second frame")
	case len(s) < 6 || len(s) != 6+3*int(s[5]):
		return errors.New("a frame header of the wrong length")
	case s[0] != 8:
		return fmt.Errorf("%d bits a sample; want 8", s[0])
	case s[5] != 1 && s[5] != 3 && s[5] != 4:
		return fmt.Errorf("%d components; want 1, 3 or 4", s[5])
	}
	d.height, d.width = int(binary.BigEndian.Uint16(s[1:])), int(binary.BigEndian.Uint16(s[3:]))
	if d.width < 1 || d.height < 1 || d.width > d.maxPixels/d.height {
		return fmt.Errorf("%d×%d pixels; want at least 1 and at most %d in all", d.width, d.height, d.maxPixels)
	}
	components := make([]component, s[5])
	d.across, d.down = 1, 1
	for i := range components {
		c := &components[i]
		c.id, c.across, c.down, c.table = s[6+3*i], int(s[7+3*i]>>4), int(s[7+3*i]&15), s[8+3*i]
		if c.across < 1 || c.across > 4 || c.down < 1 || c.down > 4 || c.table > 3 {
			return fmt.Errorf("component %d: sampling %d×%d, table %d", i+1, c.across, c.down, c.table)
		}
		for _, earlier := range components[:i] {
			if earlier.id == c.id {
				return fmt.Errorf("two components %d", c.id)
			}
		}
		d.across, d.down = max(d.across, c.across), max(d.down, c.down)
	}
	wide, tall := ceil(d.width, 8*d.across), ceil(d.height, 8*d.down)
	least := 0 // Bits that hold the picture: at least one code a block in progressive files, two in others.
	for i := range components {
		c := &components[i]
		c.width, c.height = ceil(d.width*c.across, d.across), ceil(d.height*c.down, d.down)
		least += ceil(c.width, 8) * ceil(c.height, 8)
	}
	if !d.progressive {
		least *= 2
	}
	if have := len(d.file) - d.at; least > 8*have { // Before memory is taken for them.
		return fmt.Errorf("%w: %d×%d pixels take %d bytes or more and it has %d more",
			io.ErrUnexpectedEOF, d.width, d.height, ceil(least, 8), have)
	}
	for i := range components {
		c := &components[i]
		if d.across%c.across != 0 || d.down%c.down != 0 {
			return fmt.Errorf("component %d: sampling %d×%d beside %d×%d is unsupported", i+1, c.across, c.down, d.across,
				d.down)
		}
		c.blocksWide, c.blocksTall = wide*c.across, tall*c.down
		c.stride = 8 * c.blocksWide
		c.samples = make([]uint8, 8*c.blocksTall*c.stride)
		if d.progressive {
			c.coefficients = make([]int16, 64*c.blocksTall*c.blocksWide)
			c.set = make([]uint64, c.blocksTall*c.blocksWide)
			for k := range c.low {
				c.low[k] = -1
			}
		}
	}
	d.components = components
	return nil
}

func ceil(a, b int) int { return (a + b - 1) / b }

func (d *decoder) quantTables(s []byte) error {
	for len(s) > 0 {
		wide, id := int(s[0]>>4), s[0]&15
		if wide > 1 || id > 3 || len(s) < 1+64*(1+wide) {
			return errors.New("a damaged quantization table")
		}
		table := &[64]int64{}
		for k, i := range natural {
			step := int64(s[1+k])
			if wide == 1 {
				step = int64(binary.BigEndian.Uint16(s[1+2*k:]))
			}
			table[i] = step << (32 * (i & 1))
		}
		d.quant[id] = table
		s = s[1+64*(1+wide):]
	}
	return nil
}

func (d *decoder) huffmanTables(s []byte) error {
	for len(s) > 0 {
		if len(s) < 17 || s[0]&15 > 3 || s[0]>>4 > 1 {
			return errors.New("a damaged Huffman table")
		}
		n := 0
		for _, count := range s[1:17] {
			n += int(count)
		}
		if n > 256 || len(s) < 17+n {
			return errors.New("a damaged Huffman table")
		}
		table, err := newHuffman([16]uint8(s[1:17]), s[17:17+n])
		if err != nil {
			return err
		}
		if id := s[0] & 15; s[0]>>4 == 0 {
			d.dc[id] = table
		} else {
			d.ac[id] = table
		}
		s = s[17+n:]
	}
	return nil
}

// finish checks that the scans brought every coefficient, and transforms the coefficients of a progressive file.
func (d *decoder) finish() error {
	if d.components == nil {
		return errors.New("no picture in it")
	}
	for i := range d.components {
		c := &d.components[i]
		if c.quant == nil {
			return fmt.Errorf("component %d is in no scan", i+1)
		}
		for k, low := range c.low {
			switch {
			case low < 0:
				return fmt.Errorf("its scans end early: none has coefficient %d of component %d", k, i+1)
			case low > 0:
				return fmt.Errorf("its scans end early: none has the lowest %d bits of coefficient %d of component %d",
					low, k, i+1)
			}
		}
		for n := 0; 64*n < len(c.coefficients); n++ {
			var b block
			for i, v := range c.coefficients[64*n:][:64] {
				if v != 0 {
					set, beyond := b.put(i, int32(v), c.quant)
					b.set, b.beyond = b.set|set, b.beyond|beyond
				}
			}
			if !c.transform(n%c.blocksWide, n/c.blocksWide, &b) {
				return errRange
			}
		}
		c.coefficients, c.set = nil, nil
	}
	return nil
}

// natural is the place, row by row, of a coefficient in zigzag order.
var natural = [64]uint8{
	0, 1, 8, 16, 9, 2, 3, 10,
	17, 24, 32, 25, 18, 11, 4, 5,
	12, 19, 26, 33, 40, 48, 41, 34,
	27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36,
	29, 22, 15, 23, 30, 37, 44, 51,
	58, 59, 52, 45, 38, 31, 39, 46,
	53, 60, 61, 54, 47, 55, 62, 63,
}

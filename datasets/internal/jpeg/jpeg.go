// Package jpeg decodes JPEG files to the very values that libjpeg-turbo gives, and so Pillow and torchvision: a network's
// features move in the second digit with the rounding of its images. The standard library's image/jpeg rounds the inverse
// cosine transform elsewhere, which is as right, but differs in a value of forty.
//
// Baseline, extended sequential and progressive files of 8 bits and Huffman codes are read, with one, three or four
// components. What libjpeg warns of and goes on, data that end early or codes that do not exist, is an error here: a
// picture that is partly invented is no image to train on.
package jpeg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Decode gives the picture in a file as Pillow's Image.open(file).convert("RGB") does: red, green and blue of its pixels, row by
// row. A picture of more than maxPixels pixels is refused before memory is taken for it. A file that ends early is
// [io.ErrUnexpectedEOF].
func Decode(file []byte, maxPixels int) (width, height int, rgb []uint8, err error) {
	d := decoder{file: file, maxPixels: maxPixels}
	if err := d.decode(); err != nil {
		return 0, 0, nil, err
	}
	return d.width, d.height, d.rgb(), nil
}

type decoder struct {
	file      []byte
	at        int // where the next marker is looked for
	maxPixels int

	width, height int // in pixels
	progressive   bool
	components    []component
	across, down  int // the finest sampling factors
	restart       int // MCUs between restart markers, 0 for none
	quant         [4]*[64]int32
	dc, ac        [4]*huffman

	jfif           bool
	adobe          bool
	adobeTransform uint8
}

// component is one of the frame's planes of samples.
type component struct {
	id           uint8
	across, down int // sampling factors
	table        uint8
	quant        *[64]int32 // as it stood at the component's first scan, in natural order

	width, height          int     // in samples
	blocksWide, blocksTall int     // of what is stored: whole MCUs
	stride                 int     // of samples
	samples                []uint8 // [8·blocksTall, stride]
	coefficients           []int16 // of progressive files, [blocksTall, blocksWide, 64], in natural order
}

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
	tem   = 0x01
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
		case marker == tem || rst0 <= marker && marker <= rst7:
			continue // They stand alone.
		case marker == soi:
			return errors.New("a second start of image")
		}
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
			d.jfif = d.jfif || len(segment) >= 5 && string(segment[:5]) == "JFIF\x00"
		case app14:
			if len(segment) >= 12 && string(segment[:5]) == "Adobe" {
				d.adobe, d.adobeTransform = true, segment[11]
			}
		default:
			// Lossless, hierarchical and arithmetic frames: SOF3 and on, but DHT, JPG and DAC among them.
			if 0xc0 < marker && marker <= 0xcf && marker != 0xc8 && marker != 0xcc {
				return fmt.Errorf("an unsupported kind of JPEG, SOF%d", marker-0xc0)
			}
		}
		if err != nil {
			return err
		}
	}
}

// marker finds the next marker. Bytes before it are passed over, as libjpeg does with a warning.
func (d *decoder) marker() (uint8, error) {
	for ; d.at+1 < len(d.file); d.at++ {
		if d.file[d.at] == 0xff && d.file[d.at+1] != 0 && d.file[d.at+1] != 0xff {
			d.at += 2
			return d.file[d.at-1], nil
		}
	}
	return 0, io.ErrUnexpectedEOF
}

// segment is what follows a marker.
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
	for i := range components {
		c := &components[i]
		if d.across%c.across != 0 || d.down%c.down != 0 {
			return fmt.Errorf("component %d: sampling %d×%d beside %d×%d is unsupported", i+1, c.across, c.down, d.across, d.down)
		}
		c.width, c.height = ceil(d.width*c.across, d.across), ceil(d.height*c.down, d.down)
		c.blocksWide, c.blocksTall = wide*c.across, tall*c.down
		c.stride = 8 * c.blocksWide
		c.samples = make([]uint8, 8*c.blocksTall*c.stride)
		if d.progressive {
			c.coefficients = make([]int16, 64*c.blocksTall*c.blocksWide)
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
		table := &[64]int32{}
		for k := range table {
			if wide == 1 {
				table[natural[k]] = int32(binary.BigEndian.Uint16(s[1+2*k:]))
			} else {
				table[natural[k]] = int32(s[1+k])
			}
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

// finish transforms what has been gathered over the scans of a progressive file.
func (d *decoder) finish() error {
	if d.components == nil {
		return errors.New("no picture in it")
	}
	for i := range d.components {
		c := &d.components[i]
		if c.quant == nil {
			return fmt.Errorf("component %d is in no scan", i+1)
		}
		for n := 0; 64*n < len(c.coefficients); n++ {
			var b block
			for i, v := range c.coefficients[64*n:][:64] {
				if v != 0 {
					b.values[i] = int32(v) * c.quant[i]
					b.set |= 1 << i
				}
			}
			c.transform(n%c.blocksWide, n/c.blocksWide, &b)
		}
		c.coefficients = nil
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

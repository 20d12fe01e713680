package jpeg

import (
	"errors"
	"fmt"
	"io"
)

// scan is a pass over blocks of some components.
type scan struct {
	bits
	of           *decoder
	parts        []part
	first, last  int // coefficients, in zigzag order
	high, low    int // of progressive files, the bits of them: all above low; high is the low of the pass before, or 0
	progressive  bool
	blocksToSkip int    // EOBRUN: how many blocks have no more to come
	band         uint64 // the coefficients, as set of a component
	block        block
}

// part is the state of a component within a scan.
type part struct {
	*component
	dc, ac    *huffman
	predicted int32 // the DC value of the block before
}

var (
	errCode  = errors.New("damaged data: an invalid code, or too few of them")
	errRoom  = errors.New("damaged data: more coefficients than a block has")
	errRest  = errors.New("damaged data: more than the picture takes")
	errReset = errors.New("damaged data: no restart marker where one should be")
	errRange = errors.New("damaged data: a coefficient that no picture has")
)

// scan reads a scan, its header and its data.
func (d *decoder) scan(header []byte) error {
	if d.scans++; d.scans > maxScans {
		return fmt.Errorf("more than %d scans", maxScans)
	}
	s, err := d.newScan(header)
	if err != nil {
		return err
	}
	s.data, s.at = d.file, d.at
	if err := s.blocks(d.restart); err != nil {
		if err == io.ErrUnexpectedEOF {
			return err
		}
		return fmt.Errorf("%w, before byte %d", err, s.at)
	}
	d.at = s.at
	return nil
}

// blocks reads a scan's data. Restart is the number of MCUs between restart markers, 0 for none.
func (s *scan) blocks(restart int) error {
	wide, tall := s.parts[0].blocksWide/s.parts[0].across, s.parts[0].blocksTall/s.parts[0].down // In MCUs.
	alone := len(s.parts) == 1
	if alone { // An MCU is a block then, and those that only fill MCUs up are left out.
		wide, tall = ceil(s.parts[0].width, 8), ceil(s.parts[0].height, 8)
	}
	until, next := restart, uint8(rst0)
	for y := range tall {
		for x := 0; x < wide; x++ {
			if restart > 0 && until == 0 {
				if err := s.reset(next); err != nil {
					return err
				}
				until, next = restart, rst0+(next-rst0+1)%8
			}
			if s.blocksToSkip > 0 && s.high == 0 {
				n := min(s.blocksToSkip, wide-x)
				if restart > 0 {
					n = min(n, until)
				}
				s.blocksToSkip, until, x = s.blocksToSkip-n, until-n, x+n-1
				continue
			}
			until--
			for i := range s.parts {
				p := &s.parts[i]
				if alone {
					if err := s.decode(p, x, y); err != nil {
						return err
					}
					continue
				}
				for v := range p.down {
					for h := range p.across {
						if err := s.decode(p, x*p.across+h, y*p.down+v); err != nil {
							return err
						}
					}
				}
			}
		}
		if err := s.check(); err != nil {
			return err
		}
	}
	return s.end()
}

// end notes data that are left over. They are extraneous if the data before them end as encoders end them, in a byte
// filled up with ones; otherwise codes were read that were none, and the picture may be wrong.
func (s *scan) end() error {
	n, rest := s.unread(), s.data[s.at:]
	if n == 0 && (len(rest) < 2 || rest[0] == 0xff && rest[1] != 0) {
		return nil
	}
	if fill := (s.n - s.beyond) % 8; s.n > s.beyond && s.held>>((s.n-fill)&63)&(1<<fill-1) != 1<<fill-1 {
		return errRest
	}
	s.of.extraneous(s.at - n)
	return nil
}

func (d *decoder) newScan(header []byte) (*scan, error) {
	if d.components == nil {
		return nil, errors.New("a scan before the frame")
	}
	if len(header) < 4 || header[0] < 1 || header[0] > 4 || len(header) != 4+2*int(header[0]) {
		return nil, errors.New("a scan header of the wrong length")
	}
	n := int(header[0])
	end := header[1+2*n:]
	s := &scan{of: d, progressive: d.progressive, first: 0, last: 63}
	if d.progressive {
		s.first, s.last, s.high, s.low = int(end[0]), int(end[1]), int(end[2]>>4), int(end[2]&15)
		s.band = 1<<(s.last&63)<<1 - 1<<(s.first&63)
		dc := s.first == 0 && s.last == 0
		ac := s.first > 0 && s.last >= s.first && s.last <= 63 && n == 1
		if !dc && !ac || s.low > 13 || s.high > 0 && s.low != s.high-1 {
			return nil, fmt.Errorf("a scan of coefficients %d to %d of %d components, bits %d to %d",
				s.first, s.last, n, s.high, s.low)
		}
	} else if end[0] != 0 || end[1] != 63 || end[2] != 0 {
		return nil, fmt.Errorf("a scan of coefficients %d to %d, bits %#x, in a file that is not progressive",
			end[0], end[1], end[2])
	}
	blocks := 0
	for k := range n {
		id, tables := header[1+2*k], header[2+2*k]
		i := 0
		for i < len(d.components) && d.components[i].id != id {
			i++
		}
		if i == len(d.components) || tables>>4 > 3 || tables&15 > 3 {
			return nil, fmt.Errorf("a scan of component %d with tables %#x", id, tables)
		}
		c := &d.components[i]
		for _, p := range s.parts {
			if p.component == c {
				return nil, fmt.Errorf("a scan of component %d twice", id)
			}
		}
		p := part{component: c, dc: d.dc[tables>>4], ac: d.ac[tables&15]}
		switch {
		case s.first == 0 && s.high == 0 && p.dc == nil || s.last > 0 && p.ac == nil:
			return nil, errors.New("a scan whose Huffman table is missing")
		case s.first == 0 && s.high == 0 && p.dc.largest > 15:
			return nil, fmt.Errorf("a damaged Huffman table: DC values of %d bits", p.dc.largest)
		case !d.progressive && c.quant != nil:
			return nil, fmt.Errorf("a second scan of component %d", id)
		}
		if d.progressive {
			if err := s.follow(c); err != nil {
				return nil, err
			}
		}
		if c.quant == nil {
			if c.quant = d.quant[c.table]; c.quant == nil {
				return nil, errors.New("a scan whose quantization table is missing")
			}
		}
		s.parts = append(s.parts, p)
		blocks += c.across * c.down
	}
	if n > 1 && blocks > 10 { // ITU-T T.81 B.2.3.
		return nil, fmt.Errorf("a scan of %d blocks at once", blocks)
	}
	return s, nil
}

// follow notes which bits of the component's coefficients the scan brings. Each must come once, in the order of T.81
// G.1.1.
func (s *scan) follow(c *component) error {
	if s.first > 0 && c.low[0] < 0 {
		return fmt.Errorf("a scan of coefficients %d to %d of component %d before its first", s.first, s.last, c.id)
	}
	for k := s.first; k <= s.last; k++ {
		if have := int(c.low[k]); have < 0 && s.high > 0 || have >= 0 && (have == 0 || have != s.high) {
			return fmt.Errorf("a scan of bits %d to %d of coefficient %d of component %d out of turn",
				s.high, s.low, k, c.id)
		}
		c.low[k] = int8(s.low)
	}
	return nil
}

// check returns an error if the data ended before the blocks, or had an invalid code.
func (s *scan) check() error {
	switch {
	case s.bad:
		return errCode
	case !s.over():
		return nil
	case s.at >= len(s.data)-1:
		return io.ErrUnexpectedEOF
	}
	return errCode
}

// reset reads a restart marker and begins anew behind it.
func (s *scan) reset(marker uint8) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := s.end(); err != nil {
		return err
	}
	s.of.at = s.at
	found, err := s.of.marker()
	if err != nil {
		return err
	}
	if found != marker {
		return errReset
	}
	s.bits = bits{data: s.data, at: s.of.at}
	s.blocksToSkip = 0
	for i := range s.parts {
		s.parts[i].predicted = 0
	}
	return nil
}

// decode reads the scan's coefficients of a block.
func (s *scan) decode(p *part, x, y int) error {
	if !s.progressive {
		if err := s.sequential(p); err != nil {
			return err
		}
		if !p.transform(x, y, &s.block) {
			return errRange
		}
		return nil
	}
	at := y*p.blocksWide + x
	block := (*[64]int16)(p.coefficients[64*at:])
	switch {
	case s.first == 0 && s.high == 0:
		return s.dcFirst(p, block)
	case s.first == 0:
		if s.bit() {
			block[0] |= 1 << s.low
		}
		return nil
	case s.high == 0:
		return s.acFirst(p, block, &p.set[at])
	}
	return s.acRefine(p, block, &p.set[at])
}

// difference reads a DC value, which is stored as its difference from that of the block before.
func (s *scan) difference(p *part) (int32, error) {
	p.predicted += s.signed(int(s.symbol(p.dc)))
	if p.predicted != int32(int16(p.predicted)) {
		return 0, errRange
	}
	return p.predicted, nil
}

// sequential reads a whole block, ITU-T T.81 F.2.2.
func (s *scan) sequential(p *part) error {
	s.block = block{}
	dc, err := s.difference(p)
	if err != nil {
		return err
	}
	held, n := s.held, s.n // In registers, for speed: this loop is symbol and signed.
	ac, quant, b := p.ac, p.quant, &s.block
	set, beyond := b.put(0, dc, quant)
	for k := 1; k < 64; k++ {
		if n < 32 {
			s.held, s.n = held, n
			s.fill()
			held, n = s.held, s.n
		}
		entry := ac.look[held>>((n-lookBits)&63)&(1<<lookBits-1)]
		if entry == 0 {
			s.held, s.n = held, n
			entry = s.long(ac)
		}
		n -= uint(entry >> 8)
		run, count := int(entry>>4&15), uint(entry&15)
		if count == 0 {
			if run < 15 {
				break
			}
			k += 15
			continue
		}
		if k += run; k > 63 {
			return errRoom
		}
		bit, v := b.put(int(natural[k&63]), extend(int32(held>>(n&63)), count), quant)
		set, beyond = set|bit, beyond|v
	}
	s.held, s.n, b.set, b.beyond = held, n, set, beyond
	return nil
}

// dcFirst, acFirst and acRefine are the passes of ITU-T T.81 G.1.2.
func (s *scan) dcFirst(p *part, block *[64]int16) error {
	dc, err := s.difference(p)
	dc <<= s.low
	if err == nil && dc != int32(int16(dc)) {
		err = errRange
	}
	block[0] = int16(dc)
	return err
}

func (s *scan) acFirst(p *part, block *[64]int16, set *uint64) error {
	for k := s.first; k <= s.last; k++ {
		symbol := s.symbol(p.ac)
		run, count := int(symbol>>4), int(symbol&15)
		if count == 0 {
			if run < 15 {
				s.blocksToSkip = 1<<run + int(s.take(run)) - 1
				break
			}
			k += 15
			continue
		}
		if k += run; k > s.last {
			return errRoom
		}
		v := s.signed(count) << s.low
		if v != int32(int16(v)) {
			return errRange
		}
		block[natural[k]] = int16(v)
		*set |= 1 << k
	}
	return nil
}

func (s *scan) acRefine(p *part, block *[64]int16, set *uint64) error {
	if s.blocksToSkip > 0 && *set&s.band == 0 { // There is nothing to refine.
		s.blocksToSkip--
		return nil
	}
	k := s.first
	if s.blocksToSkip == 0 {
		for ; k <= s.last; k++ {
			symbol := s.symbol(p.ac)
			run, count := int(symbol>>4), symbol&15
			value := int16(0)
			switch {
			case count > 1:
				return errCode
			case count == 1:
				value = -1 << s.low
				if s.bit() {
					value = 1 << s.low
				}
			case run < 15:
				s.blocksToSkip = 1<<run + int(s.take(run))
			}
			if s.blocksToSkip > 0 {
				break
			}
			for ; k <= s.last; k++ {
				if block[natural[k]] != 0 {
					s.refine(&block[natural[k]])
					continue
				}
				if run == 0 {
					break
				}
				run--
			}
			if value != 0 {
				if k > s.last {
					return errRoom
				}
				block[natural[k]] = value
				*set |= 1 << k
			}
		}
	}
	if s.blocksToSkip > 0 {
		for ; k <= s.last; k++ {
			if block[natural[k]] != 0 {
				s.refine(&block[natural[k]])
			}
		}
		s.blocksToSkip--
	}
	return nil
}

// refine reads one more bit of a coefficient.
func (s *scan) refine(v *int16) {
	if bit := int16(1) << s.low; s.bit() && *v&bit == 0 {
		if *v > 0 {
			*v += bit
		} else {
			*v -= bit
		}
	}
}

package jpeg

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// lookBits is the length of the codes that one look into a table decodes.
const lookBits = 9

// huffman is a table of codes, ITU-T T.81 annex C.
type huffman struct {
	look    [1 << lookBits]uint16 // by packed; 0 where codes are longer
	most    [18]int32             // the largest code of a length, -1 for none; beyond 16, all are
	first   [17]int32             // added to a code of a length, it gives its symbol's place
	symbols [256]uint8
	largest uint8 // of the symbols
}

// packed is a symbol and, in the high byte, the length of its code and of the number that follows, which the symbol's
// low 4 bits tell.
func packed(length uint, symbol uint8) uint16 {
	return uint16(length+uint(symbol&15))<<8 | uint16(symbol)
}

func newHuffman(counts [16]uint8, symbols []byte) (*huffman, error) {
	h := &huffman{}
	copy(h.symbols[:], symbols)
	if len(symbols) > 0 {
		h.largest = slices.Max(symbols)
	}
	code, place := int32(0), int32(0)
	h.most[0] = -1
	for i, count := range counts {
		length := i + 1
		h.first[length] = place - code
		if count > 0 && code+int32(count) >= 1<<length { // The code of ones alone is no code: ITU-T T.81 C.2.
			return nil, fmt.Errorf("a damaged Huffman table: too many codes of up to %d bits", length)
		}
		for range count {
			if length <= lookBits {
				for k := range int32(1) << (lookBits - length) {
					h.look[code<<(lookBits-length)|k] = packed(uint(length), symbols[place])
				}
			}
			code, place = code+1, place+1
		}
		h.most[length] = -1
		if count > 0 {
			h.most[length] = code - 1
		}
		code <<= 1
	}
	h.most[17] = 1<<31 - 1
	return h, nil
}

// bits reads the data of a scan bit by bit, up to the next marker, and zeros beyond it. over tells whether zeros were
// used.
type bits struct {
	data   []byte
	at     int
	held   uint64 // the next bits, in the low n
	n      uint   // at most 63, as &63 behind n tells the compiler: a shift then takes one instruction
	beyond uint   // of them, zeros beyond the data
	bad    bool
}

// fill holds at least 32 bits.
func (b *bits) fill() {
	for b.n < 32 {
		if b.beyond == 0 && b.at+4 <= len(b.data) {
			word := binary.BigEndian.Uint32(b.data[b.at:])
			if inverted := ^word; (inverted-0x01010101)&^inverted&0x80808080 == 0 { // No byte of it is 0xff.
				b.held, b.n, b.at = b.held<<32|uint64(word), b.n+32, b.at+4
				return
			}
		}
		v := uint8(0)
		switch {
		case b.beyond > 0 || b.at >= len(b.data):
			b.beyond += 8
		case b.data[b.at] != 0xff:
			v = b.data[b.at]
			b.at++
		case b.at+1 < len(b.data) && b.data[b.at+1] == 0:
			v = 0xff
			b.at += 2
		default:
			b.beyond += 8
		}
		b.held, b.n = b.held<<8|uint64(v), b.n+8
	}
}

// over tells whether more bits were taken than there are, or a code did not exist.
func (b *bits) over() bool { return b.bad || b.n < b.beyond }

// unread returns the number of whole bytes that were fetched and not taken.
func (b *bits) unread() int { return max(0, int(b.n)-int(b.beyond)) / 8 }

// take reads up to 16 bits that are held.
func (b *bits) take(count int) int32 {
	b.n -= uint(count)
	return int32(b.held>>(b.n&63)) & (1<<(count&31) - 1)
}

// bit reads one bit.
func (b *bits) bit() bool {
	if b.n == 0 {
		b.fill()
	}
	b.n--
	return b.held>>(b.n&63)&1 != 0
}

// symbol decodes a symbol and leaves at least 16 bits held.
func (b *bits) symbol(h *huffman) uint8 {
	if b.n < 32 {
		b.fill()
	}
	entry := h.look[b.held>>((b.n-lookBits)&63)&(1<<lookBits-1)]
	if entry == 0 {
		entry = b.long(h)
	}
	b.n -= uint(entry>>8 - entry&15)
	return uint8(entry)
}

// long finds the entry, as of huffman.look, of a code that is longer than lookBits; of no code it is 0.
func (b *bits) long(h *huffman) uint16 {
	for length := uint(lookBits + 1); length <= 16; length++ {
		if code := int32(b.held>>((b.n-length)&63)) & (1<<length - 1); code <= h.most[length] {
			return packed(length, h.symbols[uint8(code+h.first[length])])
		}
	}
	b.bad = true
	return 0
}

// signed reads a number of count bits, ITU-T T.81 F.2.2.1: the lower half of the values stand for negative numbers.
func (b *bits) signed(count int) int32 { return extend(b.take(count), uint(count)) }

// extend does so with the low bits of v, without a branch, which would be guessed wrong every other time.
func extend(v int32, count uint) int32 {
	low := lows[count&15]
	v &= low
	return v - low&^((low>>1-v)>>31)
}

var lows = [16]int32{0, 1<<1 - 1, 1<<2 - 1, 1<<3 - 1, 1<<4 - 1, 1<<5 - 1, 1<<6 - 1, 1<<7 - 1, 1<<8 - 1, 1<<9 - 1,
	1<<10 - 1, 1<<11 - 1, 1<<12 - 1, 1<<13 - 1, 1<<14 - 1, 1<<15 - 1}

package backbone

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// The objects that a pickle of tensors is made of, beside string, int, bool and nil. Anything else is a placeholder.
type (
	dict        map[string]any // Keys that are not strings are left out.
	list        struct{ items []any }
	tuple       []any
	name        struct{ module, name string } // A class or function.
	placeholder struct{}
	mark        struct{}

	// storage is a run of values elsewhere in the file.
	storage struct {
		dtype, key string
		length     int
	}
	// tensor is a view of a storage.
	tensor struct {
		storage        storage
		offset         int
		shape, strides []int
	}
)

// storageTypes are the names of types under which torch.save writes storages of numbers, and theirs in safetensors.
var storageTypes = map[string]string{"FloatStorage": "F32", "DoubleStorage": "F64", "HalfStorage": "F16",
	"BFloat16Storage": "BF16", "LongStorage": "I64", "IntStorage": "I32", "ShortStorage": "I16", "CharStorage": "I8",
	"ByteStorage": "U8", "BoolStorage": "BOOL"}

var dtypeSizes = map[string]int{"F32": 4, "F64": 8, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1,
	"BOOL": 1}

var errCut = errors.New("its pickle ends too early")

// machine runs a pickle.
type machine struct {
	data     []byte // What is left of the program.
	read     int    // How many bytes it has taken.
	steps    int    // How many opcodes it has executed.
	stack    []any
	memo     map[int]any
	storages map[string]storage // Those that it has named.
}

func newMachine(program []byte) *machine {
	return &machine{data: program, memo: map[int]any{}, storages: map[string]storage{}}
}

// Limits of a pickle, far beyond those of the largest checkpoints: its length, of which ResNet-50 has 30 kB, and its
// opcodes, each of which can make an object.
const (
	maxPickle  = 16 << 20
	maxOpcodes = 1 << 19
)

// run returns the object of the pickle at the beginning of the program. It takes memory in proportion to its length.
// The object may hold itself, and share parts: who walks through it keeps count.
func (m *machine) run() (any, error) {
	for {
		if m.steps++; m.steps > maxOpcodes {
			return nil, fmt.Errorf("its pickle has more than %d opcodes", maxOpcodes)
		}
		op, err := m.take(1)
		if err != nil {
			return nil, err
		}
		if op[0] == '.' {
			return m.pop()
		}
		if err := m.do(op[0]); err != nil {
			return nil, err
		}
	}
}

// take gives the next n bytes of the program.
func (m *machine) take(n int) ([]byte, error) {
	if n < 0 || n > len(m.data) {
		return nil, errCut
	}
	b := m.data[:n]
	m.data, m.read = m.data[n:], m.read+n
	return b, nil
}

// number takes a little-endian number of n bytes, 1 to 8.
func (m *machine) number(n int) (int, error) {
	b, err := m.take(n)
	if err != nil {
		return 0, err
	}
	var wide [8]byte
	copy(wide[:], b)
	return int(binary.LittleEndian.Uint64(wide[:])), nil
}

// text takes a string behind its length of n bytes.
func (m *machine) text(n int) (string, error) {
	length, err := m.number(n)
	if err != nil {
		return "", err
	}
	b, err := m.take(length)
	return string(b), err
}

// line takes a line.
func (m *machine) line() (string, error) {
	n := bytes.IndexByte(m.data[:min(len(m.data), 1000)], '\n')
	if n < 0 {
		return "", errCut
	}
	text, err := m.take(n + 1)
	return string(text[:n]), err
}

func (m *machine) push(v any) { m.stack = append(m.stack, v) }

func (m *machine) pop() (any, error) {
	if len(m.stack) == 0 {
		return nil, errors.New("its pickle takes from an empty stack")
	}
	v := m.stack[len(m.stack)-1]
	m.stack = m.stack[:len(m.stack)-1]
	return v, nil
}

// popMark pops what is above the last mark, and the mark.
func (m *machine) popMark() ([]any, error) {
	for i := len(m.stack) - 1; i >= 0; i-- {
		if _, ok := m.stack[i].(mark); ok {
			items := slices.Clone(m.stack[i+1:])
			m.stack = m.stack[:i]
			return items, nil
		}
	}
	return nil, errors.New("its pickle has no mark")
}

// top is the object on the stack.
func (m *machine) top() any {
	if len(m.stack) == 0 {
		return nil
	}
	return m.stack[len(m.stack)-1]
}

// fields sets pairs of a key and a value in the dictionary on the stack.
func (m *machine) fields(pairs []any) error {
	if len(pairs)%2 != 0 {
		return errors.New("its pickle has a key without a value")
	}
	if d, ok := m.top().(dict); ok {
		for i := 0; i < len(pairs); i += 2 {
			if key, ok := pairs[i].(string); ok {
				d[key] = pairs[i+1]
			}
		}
	}
	return nil
}

// pops pops n objects, in the order in which they were pushed.
func (m *machine) pops(n int) ([]any, error) {
	if n > len(m.stack) {
		return nil, errors.New("its pickle takes from an empty stack")
	}
	items := slices.Clone(m.stack[len(m.stack)-n:])
	m.stack = m.stack[:len(m.stack)-n]
	return items, nil
}

// do executes an opcode (pickletools.py in Python's library).
func (m *machine) do(op byte) error {
	var v any = placeholder{}
	var err error
	switch op {
	case 0x80: // PROTO
		_, err = m.take(1)
		return err
	case 0x95: // FRAME
		_, err = m.take(8)
		return err
	case '(':
		v = mark{}
	case 'N':
		v = nil
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		v = op == 0x88
	case 'K':
		v, err = m.number(1)
	case 'M':
		v, err = m.number(2)
	case 'J':
		var n int
		n, err = m.number(4)
		v = int(int32(n))
	case 0x8a: // LONG1; the longest that counts has 8 bytes.
		var n int
		if n, err = m.number(1); err == nil && n <= 8 {
			var b int
			b, err = m.number(n)
			v = b << (64 - 8*n) >> (64 - 8*n)
		} else if err == nil {
			_, err = m.take(n)
		}
	case 'G':
		_, err = m.take(8)
	case 'X', 'T', 'U', 0x8c, 0x8d: // Strings behind their lengths.
		v, err = m.text(map[byte]int{'X': 4, 'T': 4, 'U': 1, 0x8c: 1, 0x8d: 8}[op])
	case 'B', 'C', 0x8e, 0x96: // Bytes.
		_, err = m.text(map[byte]int{'B': 4, 'C': 1, 0x8e: 8, 0x96: 8}[op])
	case '}':
		v = dict{}
	case ']':
		v = &list{}
	case ')':
		v = tuple{}
	case 0x8f: // EMPTY_SET
	case 0x85, 0x86, 0x87: // TUPLE1 to TUPLE3
		var items []any
		items, err = m.pops(int(op) - 0x84)
		v = tuple(items)
	case 't':
		var items []any
		items, err = m.popMark()
		v = tuple(items)
	case 'l', 'd', 0x91: // LIST, DICT, FROZENSET of what is above the mark.
		var items []any
		items, err = m.popMark()
		switch op {
		case 'l':
			v = &list{items}
		case 'd':
			m.push(dict{})
			return errors.Join(err, m.fields(items))
		}
	case 'a', 's', 'b': // APPEND, SETITEM; BUILD sets an object's state, which is not looked at.
		items, err := m.pops(map[byte]int{'a': 1, 's': 2, 'b': 1}[op])
		if l, ok := m.top().(*list); ok && op == 'a' && err == nil {
			l.items = append(l.items, items[0])
		} else if op == 's' && err == nil {
			err = m.fields(items)
		}
		return err
	case 'e', 'u', 0x90: // APPENDS, SETITEMS, ADDITEMS
		items, err := m.popMark()
		if l, ok := m.top().(*list); ok && op == 'e' && err == nil {
			l.items = append(l.items, items...)
		} else if op == 'u' && err == nil {
			err = m.fields(items)
		}
		return err
	case '0':
		_, err = m.pop()
		return err
	case '1':
		_, err = m.popMark()
		return err
	case '2':
		v = m.top()
	case 'q', 'r', 0x94: // BINPUT, LONG_BINPUT, MEMOIZE
		at := len(m.memo)
		if op != 0x94 {
			at, err = m.number(map[byte]int{'q': 1, 'r': 4}[op])
		}
		m.memo[at] = m.top()
		return err
	case 'h', 'j':
		var at int
		at, err = m.number(map[byte]int{'h': 1, 'j': 4}[op])
		v = m.memo[at]
	case 'c':
		var n name
		if n.module, err = m.line(); err == nil {
			n.name, err = m.line()
		}
		v = n
	case 0x93: // STACK_GLOBAL
		var items []any
		if items, err = m.pops(2); err == nil {
			module, _ := items[0].(string)
			of, _ := items[1].(string)
			v = name{module, of}
		}
	case 'R', 0x81: // REDUCE, NEWOBJ
		var items []any
		if items, err = m.pops(2); err == nil {
			v, err = made(items[0], items[1])
		}
	case 0x92: // NEWOBJ_EX
		_, err = m.pops(3)
	case 'Q': // BINPERSID
		var id any
		if id, err = m.pop(); err == nil {
			v, err = m.stored(id)
		}
	default:
		return fmt.Errorf("its pickle has the opcode %#x, which state dicts do not have", op)
	}
	if err == nil {
		m.push(v)
	}
	return err
}

// made is what the functions of state dicts make of their arguments, and a placeholder for any other.
func made(function, arguments any) (any, error) {
	args, _ := arguments.(tuple)
	switch function {
	case name{"collections", "OrderedDict"}:
		return dict{}, nil
	case name{"torch._utils", "_rebuild_parameter"}:
		if len(args) > 0 {
			return args[0], nil
		}
	case name{"torch._utils", "_rebuild_tensor_v2"}:
		if len(args) < 4 {
			break
		}
		t, ok := tensor{}, true
		if t.storage, ok = args[0].(storage); !ok {
			return placeholder{}, nil // Of a type without numbers.
		}
		t.offset, ok = args[1].(int)
		shape, of := sizes(args[2])
		strides, at := sizes(args[3])
		if t.shape, t.strides = shape, strides; !ok || !of || !at || t.offset < 0 || t.offset > t.storage.length ||
			len(shape) != len(strides) {
			return nil, errors.New("its pickle has a tensor whose shape, strides and offset are not numbers from 0, as many " +
				"strides as dimensions, within its storage")
		}
		return t, nil
	}
	return placeholder{}, nil
}

// sizes reads a tuple of numbers from 0.
func sizes(v any) ([]int, bool) {
	items, ok := v.(tuple)
	if !ok || len(items) > 64 {
		return nil, false
	}
	out := make([]int, len(items))
	for i, item := range items {
		if out[i], ok = item.(int); !ok || out[i] < 0 {
			return nil, false
		}
	}
	return out, true
}

// stored reads the identity of a storage: "storage", its type, its key, its device and its length.
func (m *machine) stored(id any) (any, error) {
	t, _ := id.(tuple)
	if len(t) < 5 || t[0] != "storage" {
		return nil, errors.New("its pickle refers to something else than a storage")
	}
	of, _ := t[1].(name)
	key, isKey := t[2].(string)
	length, isLength := t[4].(int)
	if !isKey || !isLength || length < 0 {
		return nil, errors.New("its pickle has a storage without a key or length")
	}
	if dtype, known := storageTypes[of.name]; known && of.module == "torch" {
		m.storages[key] = storage{dtype, key, length}
		return m.storages[key], nil
	}
	return placeholder{}, nil
}

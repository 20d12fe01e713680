package backbone

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
)

// # Files of torch.save
//
// A file of torch.save is a zip archive of a pickle, data.pkl, which refers to the values of tensors in other members;
// before PyTorch 1.6 it was a sequence of pickles with the values behind them. A pickle is a program that makes objects
// by calling functions of any module, which is how such files run code where Python loads them. Here nothing is
// called: three functions that make tensors and dictionaries are known by name, whatever else the program names stays
// a placeholder, and values are read where they lie.
//
// github.com/nlpodyssey/gopickle v0.3.0 reads these files too. It allocates what a file says before it looks whether
// the file is as long, and panics on an opcode of 255 and on old archives; it is not made for files from strangers.

// pickleLimit bounds data.pkl, of which ResNet-50 has 30 kB.
const pickleLimit = 64 << 20

var legacyMagic = []byte("\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.") // A pickle of 0x1950a86a20f9469cfc6c.

// isTorchFile tells whether a file is one of torch.save.
func isTorchFile(data []byte) bool {
	return bytes.HasPrefix(data, []byte("PK\x03\x04")) || bytes.HasPrefix(data, legacyMagic)
}

// parseTorch returns the tensors of a state dict that torch.save has written, or of a dictionary that has one under
// "state_dict", "model_state_dict" or "model". A prefix that all names share, as "module.", is left out.
func parseTorch(data []byte) (map[string]entry, error) {
	var top any
	var locate func(s storage) (offset int, err error)
	var err error
	if bytes.HasPrefix(data, legacyMagic) {
		top, locate, err = openLegacy(data)
	} else {
		top, locate, err = openArchive(data)
	}
	if err != nil {
		return nil, fmt.Errorf("not a file of torch.save: %w", err)
	}
	found := tensorsOf(top)
	for _, key := range []string{"state_dict", "model_state_dict", "model"} {
		if d, ok := top.(dict); ok && len(found) == 0 {
			found = tensorsOf(d[key])
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no tensors in the file: want a state dict; save it by " +
			"torch.save(model.state_dict(), \"weights.pth\")")
	}
	prefix := sharedPrefix(slices.Collect(maps.Keys(found)))
	entries := make(map[string]entry, len(found))
	for name, t := range found {
		offset, err := locate(t.storage)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		e := entry{DType: t.storage.dtype, Shape: t.shape, strides: t.strides}
		size := dtypeSizes[e.DType]
		last := t.offset // The last value's place.
		for i, d := range t.shape {
			if d == 0 {
				last = t.offset - 1
				break
			}
			if t.strides[i] > 0 && (d-1) > (t.storage.length-last)/t.strides[i] {
				return nil, fmt.Errorf("%s: shape %v with strides %v reaches beyond its %d values", name, t.shape, t.strides,
					t.storage.length)
			}
			last += (d - 1) * t.strides[i]
		}
		if last >= t.storage.length {
			return nil, fmt.Errorf("%s: shape %v reaches beyond its %d values", name, t.shape, t.storage.length)
		}
		e.Offsets = [2]int{offset + size*t.offset, offset + size*(last+1)}
		entries[strings.TrimPrefix(name, prefix)] = e
	}
	return entries, nil
}

// tensorsOf are the tensors of a dictionary by name.
func tensorsOf(v any) map[string]tensor {
	out := map[string]tensor{}
	d, _ := v.(dict)
	for name, value := range d {
		if t, ok := value.(tensor); ok {
			out[name] = t
		}
	}
	return out
}

// sharedPrefix is the longest dotted prefix that all names have.
func sharedPrefix(names []string) string {
	prefix := names[0]
	for _, name := range names[1:] {
		for !strings.HasPrefix(name, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return prefix[:strings.LastIndexByte(prefix, '.')+1]
}

// openArchive reads the pickle of a zip archive. locate gives the place of a storage's values in the file.
func openArchive(data []byte) (top any, locate func(storage) (int, error), err error) {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, nil, err
	}
	members := make(map[string]*zip.File, len(archive.File))
	dir := ""
	for _, f := range archive.File {
		members[f.Name] = f
		if d, found := strings.CutSuffix(f.Name, "data.pkl"); found {
			dir = d
		}
	}
	// PyTorch stores members uncompressed, so that they are where they are mapped to memory from.
	stored := func(name string) (offset int, content []byte, err error) {
		f := members[dir+name]
		if f == nil {
			return 0, nil, fmt.Errorf("%s is not in the archive", name)
		}
		at, err := f.DataOffset()
		if err != nil || f.Method != zip.Store || at < 0 || at > int64(len(data)) ||
			f.UncompressedSize64 > uint64(int64(len(data))-at) {
			return 0, nil, fmt.Errorf("%s is compressed or reaches beyond the file", name)
		}
		content = data[at : at+int64(f.UncompressedSize64)]
		if crc32.ChecksumIEEE(content) != f.CRC32 {
			return 0, nil, fmt.Errorf("%s is damaged: its checksum is another", name)
		}
		return int(at), content, nil
	}
	if members[dir+"constants.pkl"] != nil {
		return nil, nil, errors.New("it is a TorchScript archive; want a state dict")
	}
	if members[dir+"byteorder"] != nil {
		if _, order, err := stored("byteorder"); err != nil || string(order) != "little" {
			return nil, nil, fmt.Errorf("byte order %q (%v): want little", order, err)
		}
	}
	_, program, err := stored("data.pkl")
	if err != nil {
		return nil, nil, err
	}
	if len(program) > pickleLimit {
		return nil, nil, fmt.Errorf("data.pkl has %d bytes; want at most %d", len(program), pickleLimit)
	}
	top, err = newMachine(program).run()
	places := map[string]int{}
	return top, func(s storage) (int, error) {
		if at, known := places[s.key]; known {
			return at, nil
		}
		at, content, err := stored("data/" + s.key)
		if err == nil && len(content)/dtypeSizes[s.dtype] < s.length {
			err = fmt.Errorf("data/%s has %d bytes for %d values of %s", s.key, len(content), s.length, s.dtype)
		}
		if err == nil {
			places[s.key] = at
		}
		return at, err
	}, err
}

// openLegacy reads a file of PyTorch before 1.6: pickles of a magic number, the protocol, the system, the object and
// the keys of its storages, and the storages in the order of their keys, each a number of values and these.
func openLegacy(data []byte) (top any, locate func(storage) (int, error), err error) {
	rest := data
	var parts [5]any
	storages := map[string]storage{} // The object names their types and lengths.
	for i := range parts {
		m := newMachine(rest[:min(len(rest), pickleLimit)])
		if parts[i], err = m.run(); err != nil {
			return nil, nil, err
		}
		maps.Copy(storages, m.storages)
		rest = rest[m.read:]
	}
	keys, ok := parts[4].(*list)
	if !ok {
		return nil, nil, errors.New("its list of storages is missing")
	}
	places := map[string]int{}
	for _, k := range keys.items {
		key, _ := k.(string)
		s, known := storages[key]
		if !known {
			return nil, nil, fmt.Errorf("storage %q is of no type of numbers", key)
		}
		if len(rest) < 8 || binary.LittleEndian.Uint64(rest) != uint64(s.length) ||
			s.length > (len(rest)-8)/dtypeSizes[s.dtype] {
			return nil, nil, fmt.Errorf("storage %q is damaged or cut off", key)
		}
		places[key] = len(data) - len(rest) + 8
		rest = rest[8+s.length*dtypeSizes[s.dtype]:]
	}
	return parts[3], func(s storage) (int, error) {
		if at, known := places[s.key]; known && storages[s.key] == s {
			return at, nil
		}
		return 0, fmt.Errorf("storage %q is not in the file", s.key)
	}, nil
}

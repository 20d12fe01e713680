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

var legacyMagic = []byte("\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.") // A pickle of 0x1950a86a20f9469cfc6c.

// isTorchFile tells whether a file is one of torch.save.
func isTorchFile(data []byte) bool {
	return bytes.HasPrefix(data, []byte("PK\x03\x04")) || bytes.HasPrefix(data, legacyMagic)
}

// parseTorch returns the tensors that a file of torch.save has in its dictionaries, by the path of their keys: those of
// a state dict by their names, and "state_dict/conv1.weight" of a checkpoint that has one.
func parseTorch(data []byte) (map[string]entry, error) {
	open := openArchive
	if bytes.HasPrefix(data, legacyMagic) {
		open = openLegacy
	}
	top, locate, err := open(data)
	if err != nil {
		return nil, fmt.Errorf("not a file of torch.save: %w", err)
	}
	found := map[string]tensor{}
	budget := maxOpcodes
	if err := tensorsOf(found, "", top, 4, &budget); err != nil {
		return nil, fmt.Errorf("not a file of torch.save: %w", err)
	}
	if len(found) == 0 {
		there := "an object of a class"
		if d, ok := top.(dict); ok && len(d) == 0 {
			there = "an empty dictionary"
		} else if ok {
			there = "under " + some(slices.Sorted(maps.Keys(d)), 100)
		}
		return nil, fmt.Errorf("no tensors in the file (%s): want a state dict; save it by "+
			"torch.save(model.state_dict(), \"weights.pth\")", there)
	}
	entries := make(map[string]entry, len(found))
	for name, t := range found {
		offset, err := locate(t.storage)
		if err == nil {
			entries[name], err = t.at(offset)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", clip(name, 60), err)
		}
	}
	return entries, nil
}

// maxRepeated is how many values a tensor may have that repeats those of its storage, by strides of 0.
const maxRepeated = 1 << 24

// at is the tensor of a storage that begins at an offset. It fails if the tensor reaches beyond the storage.
func (t tensor) at(offset int) (entry, error) {
	e := entry{DType: t.storage.dtype, Shape: t.shape, strides: t.strides}
	last, values, empty := t.offset, 1, slices.Contains(t.shape, 0) // last is the last value's place.
	for i, d := range t.shape {
		if empty {
			break
		}
		if t.strides[i] > 0 && (d-1) > (t.storage.length-last)/t.strides[i] {
			return e, fmt.Errorf("shape %s with strides %s reaches beyond its %d values", sizesText(t.shape),
				sizesText(t.strides), t.storage.length)
		}
		if last += (d - 1) * t.strides[i]; d > max(t.storage.length, maxRepeated)/values {
			return e, fmt.Errorf("shape %s has more values than its %d, which strides of 0 repeat", sizesText(t.shape),
				t.storage.length)
		}
		values *= d
	}
	if empty {
		last = t.offset - 1
	} else if last >= t.storage.length {
		return e, fmt.Errorf("shape %s reaches beyond its %d values", sizesText(t.shape), t.storage.length)
	}
	size := dtypeSizes[e.DType]
	e.Offsets = [2]int{offset + size*t.offset, offset + size*(last+1)}
	return e, nil
}

// tensorsOf puts the tensors of a dictionary, and of those in it to a depth, into out by the path of their keys. The
// dictionaries may hold each other, so that budget bounds the visits.
func tensorsOf(out map[string]tensor, path string, v any, depth int, budget *int) error {
	d, _ := v.(dict)
	for name, value := range d {
		if *budget--; *budget < 0 {
			return errors.New("its dictionaries are nested too deep")
		}
		switch value := value.(type) {
		case tensor:
			out[path+name] = value
		case dict:
			if depth > 1 && len(path)+len(name) < 1000 {
				if err := tensorsOf(out, path+name+"/", value, depth-1, budget); err != nil {
					return err
				}
			}
		}
	}
	return nil
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
	if len(program) > maxPickle {
		return nil, nil, fmt.Errorf("data.pkl has %d bytes; want at most %d", len(program), maxPickle)
	}
	top, err = newMachine(program).run()
	places := map[string][2]int{} // Where each storage is, and how many bytes it has.
	return top, func(s storage) (int, error) {
		place, known := places[s.key]
		if !known {
			at, content, err := stored("data/" + s.key)
			if err != nil {
				return 0, err
			}
			place = [2]int{at, len(content)}
			places[s.key] = place
		}
		if place[1]/dtypeSizes[s.dtype] < s.length {
			return 0, fmt.Errorf("data/%.40q has %d bytes for %d values of %s", s.key, place[1], s.length, s.dtype)
		}
		return place[0], nil
	}, err
}

// openLegacy reads a file of PyTorch before 1.6: pickles of a magic number, the protocol, the system, the object and
// the keys of its storages, and the storages in the order of their keys, each a number of values and these.
func openLegacy(data []byte) (top any, locate func(storage) (int, error), err error) {
	rest := data
	var parts [5]any
	storages := map[string]storage{} // The object names their types and lengths.
	for i := range parts {
		m := newMachine(rest[:min(len(rest), maxPickle)])
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

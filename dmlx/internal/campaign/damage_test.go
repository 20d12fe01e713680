//go:build unix

package campaign

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

// damaged is bytes with one to three faults, never the same as before.
func (t *try) damaged(raw []byte) []byte {
	for {
		out := slices.Clone(raw)
		for range 1 + t.IntN(3) {
			out = t.fault(out)
		}
		if !bytes.Equal(out, raw) {
			return out
		}
	}
}

func (t *try) fault(b []byte) []byte {
	if len(b) == 0 {
		return []byte{byte(t.Uint32())}
	}
	at := t.IntN(len(b))
	if t.IntN(3) == 0 { // Headers are at the beginning.
		at = t.IntN(min(len(b), 256))
	}
	n := min(1+t.IntN(1<<t.IntN(10)), len(b)-at)
	switch t.IntN(12) {
	case 0, 1, 2:
		b[at] ^= 1 << t.IntN(8)
	case 3:
		b[at] = pick(t, []byte{0, 1, 0x7f, 0x80, 0xff, '"', '{', '[', '-', '9'})
	case 4:
		clear(b[at : at+n])
	case 5:
		return b[:at]
	case 6:
		return slices.Delete(b, at, at+n)
	case 7:
		return slices.Insert(b, at, slices.Clone(b[at:at+n])...)
	case 8:
		for i := range n {
			b[at+i] = byte(t.Uint32())
		}
	case 9:
		return append(b, b[at:at+n]...)
	case 10:
		return t.jsonFault(b)
	case 11:
		if t.IntN(4) == 0 {
			return nil
		}
		copy(b[at:at+n], b[t.IntN(len(b)-n+1):])
	}
	return b
}

// jsonFault changes a digit, or puts a strange value in the place of one.
func (t *try) jsonFault(b []byte) []byte {
	var digits []int
	for i, c := range b {
		if c >= '0' && c <= '9' {
			digits = append(digits, i)
		}
	}
	if len(digits) == 0 {
		return b[:len(b)/2]
	}
	at := pick(t, digits)
	if t.IntN(2) == 0 {
		b[at] = '0' + (b[at]-'0'+byte(1+t.IntN(9)))%10
		return b
	}
	strange := []string{"-1", "1e308", "1e999", "null", "[]", "{}", `""`, "9999999999", "0.5", strings.Repeat("[", 20000),
		strings.Repeat("9", 400), `"../../x"`, "\x00", "\xff"}
	return slices.Replace(b, at, at+1, []byte(pick(t, strange))...)
}

// spoil damages a file, removes it, or puts a folder in its place.
func (t *try) spoil(path string) {
	switch t.IntN(12) {
	case 0:
		t.must(os.Remove(path))
	case 1:
		t.must(os.Remove(path))
		t.must(os.MkdirAll(filepath.Join(path, "x"), 0o755))
	default:
		raw, err := os.ReadFile(path)
		t.must(err)
		t.must(os.WriteFile(path, t.damaged(raw), 0o644))
	}
}

// damageFinished spoils a file of a finished run, which is then shown, listed, verified and trained.
func damageFinished(t *try) {
	s := pick(t, t.specs)
	store := t.single("runs", s)
	file := pick(t, t.filesIn(store))
	t.spoil(file)
	what := "damaged " + strings.TrimPrefix(file, store+string(os.PathSeparator))
	t.look(store, s, what)
	t.train(store, s, what)
}

// look has commands that only read tell of a run: those that have numbers to tell must have the right ones.
func (t *try) look(store string, s spec, what string) {
	var shown struct {
		Result json.RawMessage `json:"result"`
		Runs   []struct {
			Run    string          `json:"run"`
			Result json.RawMessage `json:"result"`
		} `json:"runs"`
	}
	served := func(raw json.RawMessage, by string) {
		if len(raw) == 0 || string(raw) == "null" {
			return
		}
		if hash, have, err := numbers(raw); err != nil || hash == s.hash && have != s.numbers {
			t.fail(&t.Wrong, "%s: %s serves other numbers (%v): %s", what, by, err, raw)
		}
	}
	tells := func(args ...string) bool {
		r := t.run(t.with(store, args...)...)
		return r.code == 0 && json.Unmarshal(r.stdout, &shown) == nil
	}
	if tells("runs", "show", s.hash, "--json") {
		served(shown.Result, "runs show")
	}
	if tells("runs", "list", "--json") {
		for _, run := range shown.Runs {
			served(run.Result, "runs list")
		}
	}
	if t.run(t.with(store, "runs", "verify", s.hash)...).code == 0 && exists(filepath.Join(store, s.hash, "result.json")) {
		if err := t.sound(store, s.hash); err != nil {
			t.fail(&t.Wrong, "%s: runs verify says that it is sound, but %v", what, err)
		}
	}
}

// damageUnfinished spoils a file of an unfinished run, which is then gone on with.
func damageUnfinished(t *try) {
	k := t.IntN(len(t.stopped))
	s, store := t.specs[t.of[k]], t.fresh("runs", t.stopped[k])
	file := pick(t, t.filesIn(filepath.Join(store, s.hash)))
	t.spoil(file)
	what := "damaged " + strings.TrimPrefix(file, store+string(os.PathSeparator)) + " of an unfinished run"
	if t.IntN(3) == 0 {
		t.look(store, s, what)
	}
	t.train(store, s, what)
}

// damageNPY reads a NumPy file with faults. What is read must be what the file's bytes say: the values are its end, in
// the type and order that its header names, which is read once more for that.
func damageNPY(t *try) {
	raw := t.damagedFile(".npy")
	file := filepath.Join(t.dir, "x.npy")
	t.must(os.WriteFile(file, raw, 0o644))
	read := false
	faithful := func(want string, err error, shape []int, values int, at func(i int, kind string, bits uint64) bool) {
		if err != nil {
			return
		}
		read = true
		n := 1
		for _, d := range shape {
			n *= d
		}
		kind, width := npyType.FindSubmatch(raw), 0
		if kind != nil {
			width = int(kind[2][0] - '0')
		}
		if kind == nil || n != values || n*width > len(raw) {
			t.fail(&t.Wrong, "%d %s values of shape %v of %d bytes", values, want, shape, len(raw))
			return
		}
		for i, end := 0, raw[len(raw)-n*width:]; i < n; i++ {
			if !at(i, string(kind[1])+string(kind[2]), unsigned(end[i*width:][:width])) {
				t.fail(&t.Wrong, "%s value %d is not that of the file", want, i)
				return
			}
		}
	}
	floats, shape, err := npy.ReadFloat32(file)
	faithful("float32", err, shape, len(floats), func(i int, kind string, bits uint64) bool {
		switch kind {
		case "f4":
			return math.Float32bits(floats[i]) == uint32(bits)
		case "f8":
			want := float32(math.Float64frombits(bits))
			return math.Float32bits(floats[i]) == math.Float32bits(want) || floats[i] != floats[i] && want != want
		case "f2":
			want := half(uint16(bits))
			return math.Float32bits(floats[i]) == math.Float32bits(want) || floats[i] != floats[i] && want != want
		case "u8":
			return floats[i] == float32(bits) // By way of float64 it would be rounded twice.
		}
		return floats[i] == float32(signed(kind, bits))
	})
	labels, shape, err := npy.ReadInt64(file)
	faithful("int64", err, shape, len(labels), func(i int, kind string, bits uint64) bool {
		return kind[0] != 'f' && labels[i] == signed(kind, bits) && (kind != "u8" || labels[i] >= 0)
	})
	t.wasRead(read)
}

var npyType = regexp.MustCompile(`['"]descr['"]\s*:\s*['"][<|=]?([fiu])([1248])['"]`)

// unsigned returns the bits of a number of 1, 2, 4 or 8 bytes.
func unsigned(b []byte) uint64 {
	switch len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// signed returns the integer of a type, such as "i2" and "u4", that has the bits.
func signed(kind string, bits uint64) int64 {
	shift := 64 - 8*int(kind[1]-'0')
	if kind[0] == 'u' {
		shift = 0
	}
	return int64(bits<<shift) >> shift
}

// half returns the value of a float16 by its definition: sign, 5 bits of the exponent, 10 of the fraction.
func half(bits uint16) float32 {
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	v := math.Ldexp(1+fraction/1024, exponent-15)
	switch {
	case exponent == 0:
		v = math.Ldexp(fraction/1024, -14)
	case exponent == 31 && fraction == 0:
		v = math.Inf(1)
	case exponent == 31:
		v = math.NaN()
	}
	return float32(math.Copysign(v, 1-2*float64(bits>>15)))
}

// damagedFile returns one of the store's files with a suffix, with faults.
func (t *try) damagedFile(suffix string) []byte {
	var files []string
	for _, f := range t.filesIn(t.store) {
		if strings.HasSuffix(f, suffix) {
			files = append(files, f)
		}
	}
	raw, err := os.ReadFile(pick(t, files))
	t.must(err)
	return t.damaged(raw)
}

func (t *try) wasRead(read bool) {
	if t.bad() > 0 {
		return
	}
	if read {
		t.Identical++
	} else {
		t.Refused++
	}
}

// damageImage opens a data set of which one image has faults. It is refused, or it is another set by its digest, of
// which no run is known (which is counted as refused), or all pixels are the same.
func damageImage(t *try) {
	dir := t.fresh("photographs", t.images)
	want, err := datasets.Open(dir, datasets.Options{Size: 16, Cache: filepath.Join(t.dir, "cache")})
	t.must(err)
	file := pick(t, t.filesIn(dir))
	raw, err := os.ReadFile(file)
	t.must(err)
	t.must(os.WriteFile(file, t.damaged(raw), 0o644))
	t.known(want, dir, datasets.Options{Size: 16, Cache: filepath.Join(t.dir, "cache-2")}, strings.HasSuffix(file, ".png"))
}

// known opens a set and compares it with another. checked says that each file has checksums of its own, so that it must
// be refused if a pixel differs.
func (t *try) known(want *datasets.Set, name string, o datasets.Options, checked bool) {
	defer want.Close()
	have, err := datasets.Open(name, o)
	if err != nil {
		t.Refused++
		return
	}
	defer have.Close()
	same := have.Train.N == want.Train.N && bytes.Equal(have.Train.Pixels, want.Train.Pixels) &&
		slices.Equal(have.Train.Labels, want.Train.Labels) && slices.Equal(have.Test.Labels, want.Test.Labels) &&
		bytes.Equal(have.Test.Pixels, want.Test.Pixels)
	switch {
	case !same && have.Digest == want.Digest:
		t.fail(&t.Wrong, "other images or labels under the same digest")
	case !same && checked:
		t.fail(&t.Wrong, "other pixels were read of a file with checksums")
	case have.Digest != want.Digest: // By names of classes, if by nothing else.
		t.Refused++
	default:
		t.Identical++
	}
}

// damageMAT opens a copy of CARS-196 whose list of images, a compressed MATLAB file with checksums, has faults.
func damageMAT(t *try) {
	root := t.dir
	t.must(makeFixture(root))
	o := datasets.Options{Size: 16, Root: root, Cache: filepath.Join(t.campaign.dir, "cache"),
		Reading: datasets.Reading{AllowPartial: true}}
	want, err := datasets.Open("cars", o)
	t.must(err)
	file := filepath.Join(root, "cars196", "cars_annos.mat")
	raw, err := os.ReadFile(file)
	t.must(err)
	t.must(os.WriteFile(file, t.damaged(raw), 0o644))
	o.Cache = filepath.Join(t.dir, "cache")
	t.known(want, "cars", o, false)
}

// damageCache opens a data set whose decoded images in the cache have faults: it is the same set. A folder in the place
// of photographs' pixels is refused by name.
func damageCache(t *try) {
	o := datasets.Options{Size: 16, Cache: filepath.Join(t.dir, "cache")}
	name := pick(t, []string{t.images, "minicar"})
	if name == "minicar" {
		o.TrainClasses, o.TestClasses = 2, 2
	}
	want, err := datasets.Open(name, o)
	t.must(err)
	var files []string
	for _, f := range t.filesIn(o.Cache) {
		if strings.HasSuffix(f, ".images") {
			files = append(files, f)
		}
	}
	file := pick(t, files)
	t.spoil(file)
	refused := false
	o.Note = func(string) { refused = true }
	have, err := datasets.Open(name, o)
	if info, _ := os.Stat(file); err != nil && info != nil && info.IsDir() && strings.Contains(err.Error(), file) &&
		strings.Contains(err.Error(), "DMLX_CACHE can name another folder") {
		t.wasRead(false)
		return
	}
	if err != nil || have.Digest != want.Digest || !bytes.Equal(have.Train.Pixels, want.Train.Pixels) ||
		!bytes.Equal(have.Test.Pixels, want.Test.Pixels) || !slices.Equal(have.Train.Labels, want.Train.Labels) ||
		!slices.Equal(have.Test.Labels, want.Test.Labels) {
		t.fail(&t.Wrong, "a damaged cache of %s changed it: %v", name, err)
		return
	}
	t.wasRead(!refused)
}

// damageSafetensors reads weights with faults. What is read must be what the file's own header says, which is read
// once more for that.
func damageSafetensors(t *try) {
	raw := t.damagedFile(".safetensors")
	_, _ = backbone.Metadata(raw) // They must not panic.
	_, _ = backbone.HeadDim(raw)
	store := model.NewStore()
	if _, err := backbone.DecodeWeights(raw, store, backbone.LoadOptions{Arch: "small", Dim: 8}); err != nil {
		t.Refused++
		return
	}
	var header map[string]struct {
		Offsets [2]int `json:"data_offsets"`
	}
	n := int(binary.LittleEndian.Uint64(raw))
	var all map[string]json.RawMessage
	t.must(json.Unmarshal(raw[8:8+n], &all))
	delete(all, "__metadata__")
	stripped, err := json.Marshal(all)
	t.must(err)
	t.must(json.Unmarshal(stripped, &header))
	back, err := backbone.EncodeWeights(store, "small", nil)
	t.must(err)
	m := int(binary.LittleEndian.Uint64(back))
	var again map[string]json.RawMessage
	t.must(json.Unmarshal(back[8:8+m], &again))
	for name, entry := range again {
		if name == "__metadata__" {
			continue
		}
		var e struct {
			Offsets [2]int `json:"data_offsets"`
		}
		t.must(json.Unmarshal(entry, &e))
		from, there := header[name]
		if !there || !bytes.Equal(raw[8+n+from.Offsets[0]:8+n+from.Offsets[1]], back[8+m+e.Offsets[0]:8+m+e.Offsets[1]]) {
			t.fail(&t.Wrong, "%s is not that of the file", name)
			return
		}
	}
	t.Identical++
}

package backbone

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

// LoadOptions says what a weight file is read as.
type LoadOptions struct {
	Arch Arch
	// Dim is the size of the embedding that the file's linear layer "fc" is to have.
	Dim int
	// WithoutHead leaves the file's "fc" unread, whatever its size (torchvision's has 1000 classes), and the store's as
	// it is: see [InitHead].
	WithoutHead bool
	// Proxies is how many rows of a loss's proxies the file is to have beside the network, see [SetProxies]. 0 leaves
	// those that there are unread.
	Proxies int
}

// proxiesName is the tensor of a loss's proxies, [C, dim]. It is no part of the network.
const proxiesName = "proxies.weight"

func proxies(n, dim int) Param { return Param{Name: proxiesName, Shape: []int{n, dim}} }

// Proxies is the variable of a loss's proxies, nil if the store has none. [Trainable] does not list it: it has a
// learning rate of its own.
func Proxies(store *model.Store) *model.Variable { return store.GetVariable(path(proxiesName)) }

// SetProxies creates, or overwrites, the proxies [n, dim] of a loss, row by row. They are saved and loaded with the
// network, as "proxies.weight".
func SetProxies(store *model.Store, values []float32, n, dim int) error {
	if n < 1 || dim < 1 || len(values) != n*dim {
		return fmt.Errorf("%d values for proxies [%d, %d]: want one each, and at least one proxy", len(values), n, dim)
	}
	return set(store, proxies(n, dim), values)
}

// EncodeWeights returns the network's variables, with "fc" and proxies if the store has them, as a safetensors file
// with PyTorch's names and layouts in float32, and the given metadata beside "format" and "arch". Equal weights and
// metadata give equal bytes.
func EncodeWeights(store *model.Store, a Arch, meta map[string]string) ([]byte, error) {
	if _, err := ParseArch(string(a)); err != nil {
		return nil, err
	}
	dim := 0
	if bias := store.GetVariable(path("fc.bias")); bias != nil {
		dim = bias.Shape().Size()
	}
	meta = maps.Clone(meta)
	if meta == nil {
		meta = map[string]string{}
	}
	meta["format"], meta["arch"] = "pt", string(a)

	out := newTensorFile(meta)
	params := a.Parameters(dim)
	if v := Proxies(store); v != nil {
		params = append(params, proxies(v.Shape().Dim(0), v.Shape().Dim(1)))
	}
	for _, p := range params {
		values, err := get(store, p)
		if err != nil {
			return nil, err
		}
		if values == nil {
			return nil, fmt.Errorf("no variable for %s's %s to save: Init or DecodeWeights comes first", a, p.Name)
		}
		out.put(p.Name, p.Shape, values)
	}
	return safetensors(out.header, out.body)
}

// DecodeWeights reads the bytes of a safetensors file, or of one of torch.save (.pth, .pt, .ckpt, .bin) in PyTorch's
// format of today or that before 1.6, with PyTorch's names and layouts into the store, creating or overwriting the
// network's variables, and returns the file's metadata. float16, bfloat16 and float64 become float32.
//
// The network is found by its names under any keys and any prefix, as under "state_dict" and "module."; what the file
// has beside it, such as an optimizer's state or a criterion, is left unread. But a tensor beside it that may change
// the embedding is unexpected unless [LoadOptions].WithoutHead is set. Missing, unexpected and misshapen tensors are
// named in one error, and then nothing is loaded; num_batches_tracked, which a model does not need, may be there or
// not.
func DecodeWeights(data []byte, store *model.Store, o LoadOptions) (meta map[string]string, err error) {
	if _, err := ParseArch(string(o.Arch)); err != nil {
		return nil, err
	}
	if o.Dim < 1 && !o.WithoutHead {
		return nil, fmt.Errorf("embedding of %d dimensions: want at least 1, or the file's head left out", o.Dim)
	}
	f, err := parseWeights(data)
	if err != nil {
		return nil, err
	}
	dim := o.Dim
	if o.WithoutHead {
		dim = 0
	}
	params := o.Arch.Parameters(dim)
	if o.Proxies > 0 {
		params = append(params, proxies(o.Proxies, o.Dim))
	}
	var missing, unexpected, misshapen []string
	known := map[string]bool{}
	for _, p := range params {
		e, ok := f.entries[p.Name]
		switch known[p.Name] = true; {
		case !ok:
			missing = append(missing, p.Name)
		case floating[e.DType] == nil || !slices.Equal(e.Shape, p.Shape):
			misshapen = append(misshapen, fmt.Sprintf("%s is %s %s, want F32 %s", p.Name, clip(e.DType, 10), sizesText(e.Shape),
				sizesText(p.Shape)))
		}
	}
	for name := range f.entries {
		if !known[name] && !(o.WithoutHead && isHead(name)) && !ignored(name) {
			unexpected = append(unexpected, name)
		}
	}
	if !o.WithoutHead {
		unexpected = append(unexpected, f.beside...)
	}
	slices.Sort(unexpected)
	var wrong []string
	lists, room := 3, 150 // Characters for the names of all lists.
	for _, list := range []struct {
		what  string
		names []string
	}{{"missing", missing}, {"unexpected", unexpected}, {"misshapen", misshapen}} {
		if len(list.names) > 0 {
			names := some(list.names, room/lists)
			wrong = append(wrong, fmt.Sprintf("%d %s (%s)", len(list.names), list.what, names))
			room -= utf8.RuneCountInString(names)
		}
		lists--
	}
	if len(wrong) > 0 {
		a, ok := f.arch()
		switch {
		case ok && a != o.Arch:
			return nil, fmt.Errorf("not the weights of %s: these look like %s's: --arch %s", o.Arch, a, a)
		case len(missing)+len(misshapen) == 0 && len(f.beside) > 0:
			return nil, fmt.Errorf("the weights of %s%s have %s beside them, which its embedding does not use: embed with "+
				"--features gap, or save the network alone", o.Arch, f.under(), some(f.beside, 100))
		case !f.named:
			return nil, fmt.Errorf("not the weights of %s: no conv1.weight under any prefix among the file's %d tensors "+
				"(%s): another architecture, or other names than torchvision's", o.Arch, len(f.entries),
				some(slices.Sorted(maps.Keys(f.entries)), 100))
		}
		return nil, fmt.Errorf("not the weights of %s%s: %s", o.Arch, f.under(), strings.Join(wrong, "; "))
	}
	for _, p := range params {
		if err := set(store, p, f.entries[p.Name].values(f.body)); err != nil {
			return nil, err
		}
	}
	return f.meta, nil
}

// ArchOf returns the network whose weights a file has, by the names and shapes of its tensors; ok is false if it is
// none of those that there are.
func ArchOf(data []byte) (a Arch, ok bool) {
	f, err := parseWeights(data)
	if err != nil {
		return "", false
	}
	return f.arch()
}

func (f *weightFile) arch() (Arch, bool) {
	for _, name := range Arches() {
		a := Arch(name)
		params := a.Parameters(0)
		fits := func(p Param) bool { return slices.Equal(f.entries[p.Name].Shape, p.Shape) }
		others := len(f.entries) // Those of a larger network of the same blocks.
		for name := range f.entries {
			if isHead(name) || ignored(name) {
				others--
			}
		}
		if others == len(params) && !slices.ContainsFunc(params, func(p Param) bool { return !fits(p) }) {
			return a, true
		}
	}
	return "", false
}

// HeadDim is the size of the embedding that a weight file's linear layer "fc" gives.
func HeadDim(data []byte) (int, error) {
	f, err := parseWeights(data)
	if err != nil {
		return 0, err
	}
	e, ok := f.entries["fc.bias"]
	if !ok || len(e.Shape) != 1 || e.Shape[0] < 1 {
		what := fmt.Sprintf("%d tensors: %s", len(f.entries), some(slices.Sorted(maps.Keys(f.entries)), 100))
		if f.named {
			what = "a network" + f.under() + " without one"
		}
		if len(f.beside) > 0 {
			what += "; beside it " + some(f.beside, 100)
		}
		return 0, fmt.Errorf("no linear layer fc, so no embedding, but %s: want --features gap for a network's features",
			what)
	}
	return e.Shape[0], nil
}

const metadataKey = "__metadata__"

// maxHeader is the longest header in bytes that safetensors' own reader takes.
const maxHeader = 100_000_000

// entry describes one tensor; its data lie at Offsets[0]:Offsets[1] of what follows the header.
type entry struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`

	// strides are the steps of the axes, in values; nil in C order. Files of torch.save have them.
	strides []int
}

// floating are the types that are read as float32, each with how to read a value.
var floating = map[string]func(raw []byte) float32{
	"F32":  func(raw []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(raw)) },
	"F64":  func(raw []byte) float32 { return float32(math.Float64frombits(binary.LittleEndian.Uint64(raw))) },
	"F16":  func(raw []byte) float32 { return float16.FromBits(binary.LittleEndian.Uint16(raw)).Float32() },
	"BF16": func(raw []byte) float32 { return bfloat16.FromBits(binary.LittleEndian.Uint16(raw)).Float32() },
}

// values are the tensor's values in C order, of a type that is floating.
func (e entry) values(body []byte) []float32 {
	raw, read, width := body[e.Offsets[0]:e.Offsets[1]], floating[e.DType], dtypeSizes[e.DType]
	total := 1
	for _, d := range e.Shape {
		total *= d
	}
	values, index, from := make([]float32, total), make([]int, len(e.Shape)), 0
	for i := range values {
		if e.strides == nil {
			values[i] = read(raw[width*i:])
			continue
		}
		values[i] = read(raw[width*from:])
		for axis := len(index) - 1; axis >= 0; axis-- {
			index[axis]++
			from += e.strides[axis]
			if index[axis] < e.Shape[axis] {
				break
			}
			from -= index[axis] * e.strides[axis]
			index[axis] = 0
		}
	}
	return values
}

// weightFile is what a file of weights has.
type weightFile struct {
	entries map[string]entry  // The network's tensors by torchvision's names; without a network, all of them.
	named   bool              // Whether there is a network with such names.
	prefix  string            // What stands before its names in the file.
	beside  []string          // Other tensors that may belong to a larger network, sorted.
	meta    map[string]string // nil for a file of torch.save.
	body    []byte            // What the offsets are into.
}

// under says under which prefix the network is.
func (f *weightFile) under() string {
	if f.prefix == "" {
		return ""
	}
	return fmt.Sprintf(` (under "%s")`, strings.Trim(clip(f.prefix, 32), `"`))
}

// parseWeights reads a safetensors file or a file of torch.save, and finds the network in it.
func parseWeights(data []byte) (*weightFile, error) {
	f, err := parseTensors(data)
	if err != nil {
		return nil, err
	}
	return f, f.findNetwork()
}

func parseTensors(data []byte) (f *weightFile, err error) {
	f = &weightFile{body: data}
	if isTorchFile(data) {
		f.entries, err = parseTorch(data)
	} else if f.entries, f.meta, f.body, err = parseSafetensors(data); err != nil {
		what := strings.TrimPrefix(err.Error(), "not a safetensors file: ")
		if looks := durable.Looks(data); looks != "" { // Asked last: the length of a header may look like anything.
			what = "it is " + looks
		}
		err = fmt.Errorf("not a safetensors file, nor one of torch.save: %s", what)
	}
	return f, err
}

// stemName is the first tensor of the networks, by which one is found; inner is one that a block does not have.
const (
	stemName = "conv1.weight"
	inner    = "layer1.0.conv1.weight"
)

// firstKeys are the keys of a checkpoint that win where it has several copies of the network.
var firstKeys = []string{"", "state_dict/", "model_state_dict/", "model/"}

// findNetwork keeps the tensors of the network, without what stands before all their names.
func (f *weightFile) findNetwork() error {
	var prefixes []string
	for name := range f.entries {
		prefix, ok := strings.CutSuffix(name, inner)
		if ok && (prefix == "" || strings.ContainsAny(prefix[len(prefix)-1:], "./")) {
			if _, ok := f.entries[prefix+stemName]; ok {
				prefixes = append(prefixes, prefix)
			}
		}
	}
	slices.Sort(prefixes)
	if len(prefixes) == 0 {
		return nil
	}
	f.named, f.prefix = true, prefixes[0]
	if len(prefixes) > 1 {
		chosen := slices.IndexFunc(firstKeys, func(key string) bool {
			of := slices.DeleteFunc(slices.Clone(prefixes), func(p string) bool {
				return strings.TrimSuffix(p, "module.") != key
			})
			return len(of) == 1
		})
		if chosen < 0 {
			return fmt.Errorf("several networks in the file, under %s: save one of them alone", some(prefixes, 150))
		}
		f.prefix = prefixes[slices.IndexFunc(prefixes, func(p string) bool {
			return strings.TrimSuffix(p, "module.") == firstKeys[chosen]
		})]
	}
	dict := f.prefix[:strings.LastIndexByte(f.prefix, '/')+1] // Others hold an optimizer, copies, and so on.
	network := map[string]entry{}
	for name, e := range f.entries {
		if rest, ok := strings.CutPrefix(name, f.prefix); ok {
			network[rest] = e
		} else if rest, ok := strings.CutPrefix(name, dict); ok && !strings.Contains(rest, "/") && !ignored(rest) {
			f.beside = append(f.beside, rest)
		}
	}
	slices.Sort(f.beside)
	f.entries = network
	return nil
}

// ignored tells whether an embedding does not depend on a tensor: a counter, or one of a loss.
func ignored(name string) bool {
	first, _, _ := strings.Cut(name, ".")
	return strings.HasSuffix(name, ".num_batches_tracked") || slices.Contains([]string{"criterion", "loss", "loss_fn",
		"loss_func", "proxies", "proxy", "arcface", "margin", "miner"}, strings.ToLower(first))
}

// some lists the first names of a list that room for so many characters has, each clipped, and counts the others.
func some(names []string, room int) string {
	const most = 3
	text, shown := "", 0
	for _, name := range names[:min(len(names), most)] {
		next := clip(name, min(60, room))
		if shown > 0 {
			next = ", " + next
		}
		if utf8.RuneCountInString(text+next) > room {
			break
		}
		text, shown = text+next, shown+1
	}
	if more := len(names) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// clip shortens what an error quotes from a file to so many characters, and keeps control characters from the terminal.
func clip(name string, most int) string {
	quoted := strconv.Quote(name[:min(len(name), 4*most)])
	if inner := quoted[1 : len(quoted)-1]; inner == name {
		quoted = name
	}
	if runes := []rune(quoted); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return quoted
}

// sizesText is a shape, shortened.
func sizesText(sizes []int) string {
	if len(sizes) > 6 {
		return strings.TrimSuffix(fmt.Sprint(sizes[:6]), "]") + fmt.Sprintf(" … %d in all]", len(sizes))
	}
	return fmt.Sprint(sizes)
}

// parseSafetensors returns the tensors, the metadata and the data of a safetensors file: 8 bytes with the header's
// length (little-endian), the header in JSON, and the data, which the header's offsets index
// (github.com/huggingface/safetensors). It fails if the header or a tensor reaches beyond the file, or if the bytes of
// a tensor of floating-point numbers do not fit its shape. Duplicate names (the last counts) and overlapping tensors
// pass, since each tensor is copied by itself.
//
// go-huggingface v0.4.1 also has a reader. It takes a hub's repository, not bytes, as the embedded weights are. It
// compares neither offsets with the file, so that a truncated file panics, nor extents with shapes, and it lets the
// same duplicates and overlaps pass. It does not write.
func parseSafetensors(data []byte) (entries map[string]entry, meta map[string]string, body []byte, err error) {
	fail := func(format string, args ...any) (map[string]entry, map[string]string, []byte, error) {
		return nil, nil, nil, fmt.Errorf("not a safetensors file: "+format, args...)
	}
	if len(data) < 8 {
		return fail("%d bytes", len(data))
	}
	size := binary.LittleEndian.Uint64(data)
	if size > maxHeader {
		return fail("a header of %d bytes: want at most %d", size, maxHeader)
	}
	if size > uint64(len(data)-8) {
		return fail("a header of %d bytes in a file of %d", size, len(data))
	}
	header, body := data[8:8+size], data[8+size:]
	var raw map[string]json.RawMessage
	if err := durable.ParseJSON(header, &raw); err != nil {
		return fail("%s", clip(err.Error(), 150))
	}
	if m, ok := raw[metadataKey]; ok {
		if err := json.Unmarshal(m, &meta); err != nil {
			return fail("%s: %s", metadataKey, clip(err.Error(), 150))
		}
		delete(raw, metadataKey)
	}
	entries = make(map[string]entry, len(raw))
	for name, text := range raw {
		var e entry
		if err := json.Unmarshal(text, &e); err != nil {
			return fail("%s: %s", clip(name, 60), clip(err.Error(), 150))
		}
		begin, end := e.Offsets[0], e.Offsets[1]
		if begin < 0 || end < begin || end > len(body) {
			return fail("%s at %d:%d of %d bytes", clip(name, 60), begin, end, len(body))
		}
		if width := dtypeSizes[e.DType]; floating[e.DType] != nil &&
			(!fits(e.Shape, (end-begin)/width) || (end-begin)%width != 0) {
			return fail("%s of shape %s in %d bytes", clip(name, 60), sizesText(e.Shape), end-begin)
		}
		entries[name] = e
	}
	return entries, meta, body, nil
}

// fits tells whether a shape has so many values, without overflow.
func fits(shape []int, size int) bool {
	product := 1
	for _, d := range shape {
		if d < 0 || d > 0 && product > size/d {
			return false
		}
		product *= d
	}
	return product == size
}

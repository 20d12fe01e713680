package presets

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

// file is a preset of the user's own as a TOML file.
type file struct {
	Name string `toml:"name"` // Default: the file's name.
	From string `toml:"from"` // Default: quick.

	FineGrained   string    `toml:"fine_grained"`
	CoarseGrained string    `toml:"coarse_grained"`
	Seeds         seeds     `toml:"seeds"`
	SweepSeeds    seeds     `toml:"sweep_seeds"`
	LR            rate      `toml:"lr"`
	Rates         []float64 `toml:"rates"`
	shape
	Size        count  `toml:"size"`
	Arch        string `toml:"arch"` // Or an ONNX file, which is sought where the preset's file is, as weights are.
	Weights     string `toml:"weights"`
	Precision   string `toml:"precision"`
	MicroBatch  count  `toml:"micro_batch"`
	Recompute   bool   `toml:"recompute"`
	RuleOptions string `toml:"options"`

	train.Options
	HeadLR rate   `toml:"head_lr"` // Instead of that of Options, since a rate of 0 would pass for one that is not given.
	Miner  string `toml:"miner"`
	// ProxyLR is the learning rate of the proxies of all losses that have some.
	ProxyLR rate `toml:"proxy_lr"`

	AllowPartial bool `toml:"allow_partial"`
	SkipBad      bool `toml:"skip_bad"`
	CropBoxes    bool `toml:"crop_boxes"`

	// Sets are the sizes of single data sets.
	Sets map[string]setShape `toml:"sets"`
	// LearningRates are the rates of single rules and losses, by data set.
	LearningRates map[string]map[string]rate `toml:"learning_rates"`
}

// shape is what a file says of the trainings on all data sets, or on one.
type shape struct {
	Batch          batch `toml:"batch"`
	ImagesPerClass count `toml:"images_per_class"`
	Dim            count `toml:"dim"`
	Epochs         count `toml:"epochs"`
	Steps          count `toml:"steps"`
}

type setShape struct {
	shape
	TrainClasses *int `toml:"train_classes"`
	TestClasses  *int `toml:"test_classes"`
}

// count is a positive number; 0 is a key that the file does not have.
type count int

// UnmarshalTOML implements [toml.Unmarshaler].
func (c *count) UnmarshalTOML(v any) error {
	n, whole := v.(int64)
	if !whole || n < 1 || n > math.MaxInt32 {
		return fmt.Errorf("%v: want a positive whole number", v)
	}
	*c = count(n)
	return nil
}

// seeds are whole numbers from 0.
type seeds []uint64

// UnmarshalTOML implements [toml.Unmarshaler].
func (s *seeds) UnmarshalTOML(v any) error {
	list, _ := v.([]any)
	*s = seeds{}
	for _, x := range list {
		if n, whole := x.(int64); whole && n >= 0 {
			*s = append(*s, uint64(n))
		}
	}
	if len(*s) == 0 || len(*s) < len(list) {
		return fmt.Errorf("%v: want a list of at least one seed, whole numbers from 0", v)
	}
	return nil
}

// rate is a learning rate; 0 is a key that the file does not have.
type rate float64

// UnmarshalTOML implements [toml.Unmarshaler].
func (r *rate) UnmarshalTOML(v any) error {
	switch v := v.(type) {
	case int64:
		*r = rate(v)
	case float64:
		*r = rate(v)
	}
	if !(*r > 0) || math.IsInf(float64(*r), 0) {
		return fmt.Errorf("%v: want a positive number as a learning rate", v)
	}
	return nil
}

// batch is a number of images, or classes × images as in "8x8".
type batch struct{ images, perClass int }

// UnmarshalTOML implements [toml.Unmarshaler].
func (b *batch) UnmarshalTOML(v any) (err error) {
	switch v := v.(type) {
	case int64:
		b.images, b.perClass, err = ParseBatch(strconv.FormatInt(v, 10))
	case string:
		b.images, b.perClass, err = ParseBatch(v)
	default:
		err = fmt.Errorf("batch is %v: want a number of images, or classes x images per class as in \"8x8\"", v)
	}
	return err
}

// ParseBatch reads a batch: a number of images, "64", or classes x images per class, "8x8". perClass is 0 for a number
// of images.
func ParseBatch(text string) (images, perClass int, err error) {
	fail := fmt.Errorf("batch %q: want classes x images per class, as in 8x8, or a number of images, as in 64", text)
	const most = 1 << 20 // Far beyond any use, and two such numbers have a product.
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > most {
			return 0
		}
		return n
	}
	first, second, both := strings.Cut(text, "x")
	images = number(first)
	if both {
		perClass = number(second)
		images *= perClass
	}
	if images == 0 {
		return 0, 0, fail
	}
	return images, perClass, nil
}

// Load returns the preset with a name, or reads one of the user's own from a TOML file: any path with the extension
// .toml. The file says from which preset it is made and what is different:
//
//	from = "quick"
//	seeds = [1, 2, 3, 4, 5]
//	batch = "16x4"          # classes x images of each, or a number of images
//	options = "tau=2"       # of all rules that use them
//
//	coarse_grained = "none" # no data set in the role of the paper's In-shop
//
//	[sets.minicar]          # for one data set
//	dim = 64
//
//	[learning_rates.minicar]
//	"cos/lin/cir" = 0.5
//
// A path in the file, also of another preset's file behind from, is relative to the file's folder. An unknown key is an
// error.
func Load(nameOrFile string) (Preset, error) {
	if filepath.Ext(nameOrFile) != ".toml" {
		p, err := Parse(nameOrFile)
		if err != nil {
			err = fmt.Errorf("%w, and files whose names end in .toml", err)
		}
		return p, err
	}
	return loaded(nameOrFile, func(path string) ([]byte, error) { return durable.ReadAtMost(path, maxFile) })
}

// LoadFS is [Load] for a file of a file system, as one that is embedded in a program.
func LoadFS(fsys fs.FS, file string) (Preset, error) {
	return loaded(file, func(path string) ([]byte, error) { return fs.ReadFile(fsys, filepath.ToSlash(path)) })
}

func loaded(file string, read func(path string) ([]byte, error)) (Preset, error) {
	p, err := load(file, read, 0)
	if err != nil {
		return p, fmt.Errorf("preset %s: %w", file, err)
	}
	return p, nil
}

// Limits of a preset's file: its size in bytes, and the parts of a key and the brackets within each other, for each of
// which the library keeps the whole path.
const (
	maxFile               = 1 << 18
	maxParts, maxBrackets = 256, 256
)

// checkDepth returns an error if a line of a TOML text has more than maxParts dots, as a key with so many parts has, or
// the text more than maxBrackets brackets, more than which cannot be in each other.
func checkDepth(text string) error {
	if strings.Count(text, "[")+strings.Count(text, "{") > maxBrackets {
		return fmt.Errorf("more than %d brackets", maxBrackets)
	}
	number := 0
	for line := range strings.Lines(text) {
		if number++; strings.Count(line, ".") > maxParts {
			return fmt.Errorf("line %d: more than %d dots", number, maxParts)
		}
	}
	return nil
}

// maxFrom is how many files may follow each other behind their from.
const maxFrom = 8

func load(path string, contents func(path string) ([]byte, error), behind int) (Preset, error) {
	raw, err := contents(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Preset{}, errors.New("no such file")
	} else if err != nil {
		return Preset{}, err
	}
	if err := cmp.Or(durable.Text(raw), checkDepth(string(raw))); err != nil {
		return Preset{}, err
	}
	var f file
	read, err := toml.Decode(string(raw), &f)
	if err != nil {
		return Preset{}, err
	}
	for _, key := range read.Keys() { // The library passes over what is no table where one should be.
		tables := map[string]int{"sets": 2, "learning_rates": 2}[key[0]]
		if len(key) <= tables && read.Type(key...) != "Hash" {
			return Preset{}, fmt.Errorf("%s: want a table, as in [%s.minicar]", key, key[0])
		}
	}
	if unknown := read.Undecoded(); len(unknown) > 0 {
		return Preset{}, unknownKey(unknown[0])
	}
	var p Preset
	switch {
	case filepath.Ext(f.From) != ".toml":
		p, err = Parse(cmp.Or(f.From, "quick"))
	case behind == maxFrom:
		err = fmt.Errorf("from = %q is the preset behind %d others: want at most %d", f.From, behind, maxFrom)
	default:
		p, err = load(localPath(f.From, filepath.Dir(path)), contents, behind+1)
	}
	if err != nil {
		return p, err
	}
	name := cmp.Or(f.Name, strings.TrimSuffix(filepath.Base(path), ".toml"))
	if !presetName.MatchString(name) || slices.Contains(Names(), name) {
		return p, fmt.Errorf("the name %q: want letters, digits and dashes, and none of %s", name,
			strings.Join(Names(), ", "))
	}
	if p, err = f.change(p, filepath.Dir(path)); err != nil {
		return p, err
	}
	p.Name, p.From, p.Origin, p.Changes = name, cmp.Or(p.From, p.Name), p.String(), nil
	return p, nil
}

var presetName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// localPath returns a path of a file in the folder dir: from that folder, if it is relative.
func localPath(path, dir string) string {
	if filepath.IsAbs(path) || dir == "" { // Of a command line.
		return path
	}
	return filepath.Join(dir, path)
}

// change returns a preset with the settings of the file, which lies in the folder dir.
func (f file) change(p Preset, dir string) (Preset, error) {
	local := func(path string) string {
		if strings.ContainsRune(path, '/') {
			return localPath(path, dir)
		}
		return path
	}
	if f.Weights != train.Pretrained && f.Weights != train.Random && f.Weights != "" {
		f.Weights = localPath(f.Weights, dir)
	}
	if weights.IsNetwork(f.Arch) {
		f.Arch = localPath(f.Arch, dir)
	}
	f.Options.HeadLR = float64(f.HeadLR)
	images, perClass := f.Batch.images, cmp.Or(f.Batch.perClass, int(f.ImagesPerClass))
	p, err := p.With(Settings{FineGrained: local(f.FineGrained), CoarseGrained: local(f.CoarseGrained), Seeds: f.Seeds,
		SweepSeeds: f.SweepSeeds, LR: float64(f.LR), Rates: f.Rates, Batch: images, ImagesPerClass: perClass,
		Dim: int(f.Dim), Epochs: int(f.Epochs), StepsPerEpoch: int(f.Steps), Size: int(f.Size), Arch: f.Arch,
		Weights:     f.Weights,
		Memory:      train.Memory{Precision: f.Precision, MicroBatch: int(f.MicroBatch), Recompute: f.Recompute},
		RuleOptions: f.RuleOptions, Miner: f.Miner, Options: f.Options, ProxyLR: float64(f.ProxyLR)})
	if err != nil {
		return p, err
	}
	r := &p.Reading
	r.AllowPartial, r.SkipBad = r.AllowPartial || f.AllowPartial, r.SkipBad || f.SkipBad
	r.CropBoxes = r.CropBoxes || f.CropBoxes
	if p.Base.HasFeatures() { // Of no other data.
		return p, nil
	}
	if _, err := p.ObjectiveSpec("minicar", Objective{}, 1); err != nil { // What a text of the file means is known here.
		return p, err
	}
	p.Sets = maps.Clone(p.Sets)
	for _, data := range slices.Sorted(maps.Keys(f.Sets)) {
		if p.Sets[runs.PaperName(data)], err = f.Sets[data].on(p, runs.PaperName(data)); err == nil {
			_, err = p.sized(p.Base, runs.PaperName(data))
		}
		if err != nil {
			return p, fmt.Errorf("sets.%s: %w", data, err)
		}
		p.Changes = append(p.Changes, "its own sizes on "+data)
	}
	return f.ownRates(p)
}

// on returns the size of a data set with what the file says of it alone.
func (s setShape) on(p Preset, data string) (Size, error) {
	z := p.sizeOf(data)
	z.Batch = cmp.Or(s.Batch.images, z.Batch)
	z.ImagesPerClass = cmp.Or(s.Batch.perClass, int(s.ImagesPerClass), z.ImagesPerClass)
	z.Dim, z.Epochs = cmp.Or(int(s.Dim), z.Dim), cmp.Or(int(s.Epochs), z.Epochs)
	z.StepsPerEpoch = cmp.Or(int(s.Steps), z.StepsPerEpoch)
	for _, c := range []struct{ to, value *int }{{&z.TrainClasses, s.TrainClasses}, {&z.TestClasses, s.TestClasses}} {
		if c.value != nil {
			*c.to = *c.value
		}
	}
	return z, cmp.Or(errs.AtLeast("train classes", z.TrainClasses, 0), errs.AtLeast("test classes", z.TestClasses, 0))
}

// ownRates returns the preset with the learning rates of single rules and losses. Those on a folder of images are found
// by its name, wherever it is.
func (f file) ownRates(p Preset) (Preset, error) {
	key := func(data, objective string) [2]string {
		return [2]string{runs.PaperName(filepath.Base(data)), objective}
	}
	rates := make(map[[2]string]float64)
	for _, data := range slices.Sorted(maps.Keys(f.LearningRates)) {
		var changes []string
		for _, text := range slices.Sorted(maps.Keys(f.LearningRates[data])) {
			rate := f.LearningRates[data][text]
			o, err := objectives.Parse(text)
			if err != nil {
				return p, fmt.Errorf("learning_rates.%s: %w", data, err)
			}
			rates[key(data, o.String())] = float64(rate)
			changes = append(changes, fmt.Sprintf("learning rate %g of %s on %s", rate, o, data))
		}
		if n := len(changes); n > 3 { // Those of a search are in the file, and each run has its own.
			changes = []string{fmt.Sprintf("%d learning rates on %s", n, data)}
		}
		p.Changes = append(p.Changes, changes...)
	}
	if len(rates) == 0 {
		return p, nil
	}
	general := p.Rate
	p.Rate = func(data, name string) float64 { return cmp.Or(rates[key(data, name)], general(data, name)) }
	return p, nil
}

// unknownKey returns the error of a key that no preset has, with the nearest one that it has.
func unknownKey(key toml.Key) error {
	of := reflect.TypeFor[file]()
	if len(key) == 3 && key[0] == "sets" {
		of = reflect.TypeFor[setShape]()
	}
	return errs.NoSuch(fmt.Sprintf("no key %q", key), key[len(key)-1], slices.Sorted(maps.Keys(keys(of))))
}

// keys returns the fields of a table of a preset's file by their keys.
func keys(of reflect.Type) map[string]reflect.StructField {
	out := make(map[string]reflect.StructField)
	for _, f := range reflect.VisibleFields(of) {
		if name := f.Tag.Get("toml"); name != "" && (out[name].Name == "" || len(f.Index) < len(out[name].Index)) {
			out[name] = f
		}
	}
	return out
}

// Keys returns the keys of a preset's file that [Preset.Set] sets.
func Keys() []string {
	all := keys(reflect.TypeFor[file]())
	for _, not := range []string{"name", "from", "sets", "learning_rates"} {
		delete(all, not)
	}
	return slices.Sorted(maps.Keys(all))
}

// Set returns the preset with values of keys of a preset's file, as in "epochs=3", "batch=8x4" or "seeds=1-5,8". A text
// needs no quotes, and true may be left out. Of a key that is given twice the last value counts.
func (p Preset) Set(settings ...string) (Preset, error) {
	var f file
	all := keys(reflect.TypeFor[file]())
	for _, setting := range settings {
		key, text, given := strings.Cut(setting, "=")
		key = strings.ReplaceAll(strings.TrimSpace(key), "-", "_")
		if !slices.Contains(Keys(), key) {
			return p, errs.NoSuch(fmt.Sprintf("no key %q", key), key, Keys())
		}
		if !given {
			text = "true"
		}
		field := reflect.ValueOf(&f).Elem().FieldByIndex(all[key].Index)
		if err := set(field, strings.TrimSpace(text)); err != nil {
			return p, fmt.Errorf("%s: %w", key, err)
		}
	}
	return f.change(p, "")
}

// set sets a field of a file to the value of a text, as the file's own values are read.
func set(field reflect.Value, text string) error {
	var number any = text // What is none is an error of the field's.
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		number = n
	} else if v, err := strconv.ParseFloat(text, 64); err == nil {
		number = v
	}
	switch at := field.Addr().Interface().(type) {
	case *string:
		*at = text
	case *bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q: want true or false", text)
		}
		*at = text == "true"
	case *[]float64:
		*at = nil
		for part := range strings.SplitSeq(text, ",") {
			v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
			if err != nil {
				return fmt.Errorf("%q: want numbers with commas between them", text)
			}
			*at = append(*at, v)
		}
	case *seeds:
		list, err := ParseNumbers(text)
		*at = list
		return err
	case *batch:
		return at.UnmarshalTOML(text)
	case toml.Unmarshaler:
		return at.UnmarshalTOML(number)
	}
	return nil
}

// ParseNumbers reads numbers and ranges with commas between them, as in 1-5 or 1,3,8.
func ParseNumbers(text string) ([]uint64, error) {
	fail := fmt.Errorf("%q: want numbers and ranges, as in 1-5 or 1,3,8", text)
	const most = 10000 // More is a typing error.
	var out []uint64
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			high = low
		}
		first, err := strconv.ParseUint(low, 10, 64)
		last, lastErr := strconv.ParseUint(high, 10, 64)
		if err != nil || lastErr != nil || last < first {
			return nil, fail
		}
		if last-first >= most || len(out) >= most {
			return nil, fmt.Errorf("%q: want at most %d numbers", text, most)
		}
		for i := range last - first + 1 {
			out = append(out, first+i)
		}
	}
	return out, nil
}

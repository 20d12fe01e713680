package train_test

import (
	"bytes"
	"encoding/csv"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/samples"
	"github.com/gradient-surgery/dml/dmlx/train"
)

var (
	regen = flag.Bool("regen", false, "train what is missing in testdata/heads.csv")
	files = flag.String("features", "", "folder with NAME-train.npy, NAME-test.npy and their labels, for -regen")
)

// headsFile has what heads on frozen features reach beside the features and their whitening, with one seed. Of all
// pairs of 28 sets of features with 49 objectives it has the first ones of a plan, [inRound], that was made before any
// was trained. Eight of the sets, lowRank, were added after heads on the others had been seen.
var headsFile = filepath.Join("testdata", "heads.csv")

// made are features that are drawn: about random centers, one for each class.
type made struct {
	name                 string
	dim, classes, images int
	center, noise        float64
	strong               float64 // Of the noise in the last half of the directions, as a factor.
	mean                 float64 // Of all features.
	decay                float64 // Of the scale from one direction to the next.
	relu, heavy, same    bool    // same: isotropic.
	wrong                float64 // Share of the training labels that are drawn.
	clusters, nuisance   int     // Of a class; directions that all classes share.
	spread               float64 // Of the scales of the features, as the standard deviation of their logarithm.
	rank                 int     // Directions in which classes differ, if not all.
}

var madeSets = []made{
	{name: "isotropic", dim: 64, classes: 40, images: 16, center: 1, noise: 1.7, same: true},
	{name: "isotropic, harder", dim: 128, classes: 60, images: 12, center: 1, noise: 2.6, same: true},
	{name: "isotropic, at 100 %", dim: 64, classes: 40, images: 16, center: 1, noise: 0.5, same: true},
	{name: "heavy tails", dim: 64, classes: 40, images: 16, center: 1, noise: 1, heavy: true, same: true},
	{name: "strong directions", dim: 64, classes: 40, images: 16, center: 1, noise: 0.9, strong: 3},
	{name: "strong directions, offset", dim: 96, classes: 50, images: 14, center: 1, noise: 1, strong: 2.5, mean: 5},
	{name: "offset", dim: 64, classes: 40, images: 16, center: 1, noise: 1.5, mean: 8},
	{name: "rectified", dim: 128, classes: 60, images: 12, center: 1, noise: 1.6, strong: 1.8, relu: true},
	{name: "rectified, few classes", dim: 96, classes: 12, images: 54, center: 1, noise: 1.7, strong: 1.8, relu: true},
	{name: "decaying", dim: 128, classes: 60, images: 12, center: 1, noise: 2, decay: 0.97, strong: 1.5},
	{name: "many classes of four", dim: 64, classes: 200, images: 4, center: 1, noise: 0.8, strong: 3},
	{name: "wrong labels", dim: 64, classes: 40, images: 16, center: 1, noise: 0.9, strong: 3, wrong: 0.1},
	{name: "shared directions", dim: 96, classes: 50, images: 14, center: 1, noise: 1.4, nuisance: 8},
	{name: "clusters in classes", dim: 64, classes: 50, images: 16, center: 1, noise: 1.2, strong: 2, clusters: 3},
	{name: "scales", dim: 96, classes: 50, images: 14, center: 1, noise: 1.8, spread: 1},
	{name: "small sample", dim: 256, classes: 80, images: 8, center: 1, noise: 2.6, strong: 1.6},
}

// lowRank are sets whose classes differ in few directions, as those of photographs do. In madeSets they differ in all
// directions alike, as was seen in the first heads on those, and these eight sets were added after it.
var lowRank = []made{
	{name: "low rank", dim: 128, classes: 60, images: 12, center: 1, noise: 1.5, rank: 16},
	{name: "low rank, strong directions", dim: 96, classes: 50, images: 14, center: 1, noise: 1.2, strong: 2, rank: 12},
	{name: "low rank, rectified", dim: 128, classes: 60, images: 12, center: 1, noise: 1.6, strong: 1.5, relu: true,
		rank: 16},
	{name: "low rank, decaying", dim: 128, classes: 60, images: 12, center: 1, noise: 1.5, decay: 0.97, rank: 16},
	{name: "low rank, four images", dim: 64, classes: 200, images: 4, center: 1, noise: 1.2, rank: 10},
	{name: "low rank, wrong labels", dim: 64, classes: 40, images: 16, center: 1, noise: 1.2, strong: 1.5, wrong: 0.1,
		rank: 10},
	{name: "low rank, small sample", dim: 256, classes: 80, images: 8, center: 1, noise: 2, rank: 20},
	{name: "low rank, clusters", dim: 64, classes: 50, images: 16, center: 1, noise: 1.2, clusters: 3, rank: 10},
}

// split draws as many classes as there are.
func (m made) split(seed, part uint64) *samples.Array {
	fixed, rng := rand.New(rand.NewPCG(seed, 101)), rand.New(rand.NewPCG(seed, 102+part))
	shared := make([][]float64, m.nuisance)
	for i := range shared {
		for range m.dim {
			shared[i] = append(shared[i], fixed.NormFloat64())
		}
	}
	directions := make([][]float64, m.rank)
	for i := range directions {
		for range m.dim {
			directions[i] = append(directions[i], fixed.NormFloat64()/math.Sqrt(float64(m.rank)))
		}
	}
	scale := make([]float64, m.dim)
	for j := range scale {
		scale[j] = math.Exp(m.spread * fixed.NormFloat64())
		if m.decay > 0 {
			scale[j] *= math.Pow(m.decay, float64(j))
		}
	}
	a := &samples.Array{Dims: []int{m.dim}}
	for c := range m.classes {
		centers := make([][]float64, max(m.clusters, 1))
		for k := range centers {
			at := make([]float64, m.rank)
			for i := range at {
				at[i] = m.center * rng.NormFloat64()
			}
			for j := range m.dim {
				v := 0.
				for i, d := range directions {
					v += at[i] * d[j]
				}
				if m.rank == 0 {
					v = m.center * rng.NormFloat64()
				}
				if k > 0 { // Clusters of a class have half of it in common.
					v = (centers[0][j] + v) / math.Sqrt2
				}
				centers[k] = append(centers[k], v)
			}
		}
		for i := range m.images {
			common := make([]float64, m.nuisance)
			for k := range common {
				common[k] = 2 * rng.NormFloat64()
			}
			length := 1.
			if m.heavy { // Student's t of three degrees of freedom for the whole sample.
				chi := 0.
				for range 3 {
					v := rng.NormFloat64()
					chi += v * v
				}
				length = 1 / math.Sqrt(chi/3)
			}
			for j, v := range centers[i%len(centers)] {
				noise := m.noise * length
				if m.strong > 0 && j >= m.dim/2 {
					noise *= m.strong
				}
				v += noise * rng.NormFloat64()
				for k, s := range common {
					v += s * shared[k][j]
				}
				if v = m.mean + scale[j]*v; m.relu {
					v = max(v, 0)
				}
				a.Values = append(a.Values, float32(v))
			}
			label := c
			if part == 0 && rng.Float64() < m.wrong {
				label = rng.IntN(m.classes)
			}
			a.Classes = append(a.Classes, int64(label)+1000*int64(part))
		}
	}
	return a
}

// frozen are features of photographs or drawings: those of the drawn set minicar by the pretrained small network, and
// of cars-160 and cub-160 (birds) by EfficientNet-Lite0, as ../paper/photographs.md says.
type frozen struct {
	name, file string // "" for the drawn set that the repository has.
	swapped    bool   // Whether it is trained on the test classes.
}

var frozenSets = []frozen{{"minicar", "", false}, {"cars", "cars", false}, {"cars, swapped", "cars", true},
	{"birds", "birds", false}}

// smallFeatures returns what the pretrained small network gives for a split of images before its last layer.
func smallFeatures(t *train.Trainer, images *samples.Data, of samples.Split) (*samples.Array, error) {
	store := model.NewStore()
	defer store.Finalize()
	if _, err := backbone.DecodeWeights(backbone.Pretrained(), store,
		backbone.LoadOptions{Arch: backbone.Small, WithoutHead: true}); err != nil {
		return nil, err
	}
	exec, err := model.NewExec(t.Backend, store, func(scope *model.Scope, pixels, colors *graph.Node) *graph.Node {
		return backbone.Small.Features(scope, samples.Scaled(pixels, colors), backbone.Pass{})
	})
	if err != nil {
		return nil, err
	}
	defer exec.Finalize()
	const rows = 128
	out := &samples.Array{Dims: []int{backbone.Small.Width()}, Classes: of.Labels()}
	one := int(of.Shape().ByteSize())
	raw := make([]byte, rows*one)
	for some := range slices.Chunk(samples.All(of), rows) {
		if err := of.Read(raw[:len(some)*one], some, nil); err != nil {
			return nil, err
		}
		pixels := tensors.FromFlatDataAndDimensions(raw, append([]int{rows}, of.Shape().Dimensions...)...)
		features, err := exec.Call1(pixels, images.Affine())
		if err != nil {
			return nil, err
		}
		out.Values = append(out.Values, tensors.MustCopyFlatData[float32](features)[:len(some)*out.Dims[0]]...)
	}
	return out, nil
}

func (f frozen) data(t *testing.T) (*samples.Data, error) {
	t.Helper()
	var parts [2]*samples.Array
	switch {
	case f.file == "":
		set, err := datasets.Open(f.name, datasets.Options{Size: 32})
		if err != nil {
			return nil, err
		}
		trainer, err := train.Open()
		if err != nil {
			return nil, err
		}
		images := samples.Images(set)
		for i, of := range []samples.Split{images.Train, images.Test} {
			if parts[i], err = smallFeatures(trainer, images, of); err != nil {
				return nil, err
			}
		}
	case *files == "":
		return nil, nil
	default:
		for i, part := range []string{"train", "test"} {
			path := filepath.Join(*files, f.file+"-"+part)
			values, shape, err := npy.ReadFloat32(path + ".npy")
			if err != nil {
				return nil, err
			}
			labels, _, err := npy.ReadInt64(path + ".labels.npy")
			if err != nil {
				return nil, err
			}
			parts[i] = &samples.Array{Values: values, Dims: shape[1:], Classes: labels}
		}
	}
	if f.swapped {
		parts[0], parts[1] = parts[1], parts[0]
	}
	return samples.Features(f.name, parts[0], parts[1])
}

// featureSet is a set by name. Its data are nil where its files are not there.
type featureSet struct {
	name string
	kind string // "isotropic" or at 100 %; classes differ in "all directions" or in "few directions"; "frozen".
	open func() (*samples.Data, error)
}

func featureSets(t *testing.T) (all []featureSet) {
	add := func(sets []made, kind string) {
		for _, m := range sets {
			seed, kind := uint64(2000+len(all)), kind
			if m.same {
				kind = "isotropic"
			}
			all = append(all, featureSet{m.name, kind, func() (*samples.Data, error) {
				return samples.Features(m.name, m.split(seed, 0), m.split(seed, 1))
			}})
		}
	}
	add(madeSets, "all directions")
	for _, f := range frozenSets {
		all = append(all, featureSet{f.name, "frozen", func() (*samples.Data, error) { return f.data(t) }})
	}
	add(lowRank, "few directions")
	return all
}

// allObjectives are the losses that there were when the plan was made, and 30 of the rules: evenly spaced in the list
// of all, from the first on.
func allObjectives(t *testing.T) (all []objectives.Objective) {
	t.Helper()
	for _, name := range strings.Fields("contrastive triplet triplet-soft n-pair info-nce lifted lifted-general margin " +
		"ms circle binomial nca sup-con proxy-nca proxy-nca++ proxy-anchor soft-triple norm-softmax arcface") {
		o, err := objectives.ParseLoss(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	list := dmlx.Rules()
	for i := range 30 {
		o, err := objectives.ByRule(list[i*len(list)/30])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

// inRound is the number of the objective that a set has in a round, of 49: a round has each set once, with objectives
// that differ, two rounds after each other have all of these, and 49 rounds have all pairs once.
func inRound(round, set int) int { return (23*round + 19*set) % 49 }

// headRow is a row of the file: percent.
type headRow struct {
	set, head, objective, choice string
	rows                         int
	features, whitened, recall   float64
}

func (r headRow) record() []string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }
	return []string{r.set, r.head, r.objective, strconv.Itoa(r.rows), number(r.features), number(r.whitened),
		number(r.recall), r.choice}
}

// trainHead trains a head with one seed.
func trainHead(
	t *testing.T, trainer *train.Trainer, data *samples.Data, references []train.Reference, head string,
	o objectives.Objective,
) (r headRow) {
	t.Helper()
	largest := make(map[int64]int)
	for _, l := range data.Train.Labels() {
		largest[l]++
	}
	images := min(8, slices.Max(slices.Collect(maps.Values(largest))))
	c, err := train.Config{Objective: o, Dim: data.Train.Shape().Dim(0), ClassesPerBatch: 8, ImagesPerClass: images,
		Epochs: 10, StepsPerEpoch: 20, LR: 1, Seed: 1}.WithHead(head)
	if err != nil {
		t.Fatal(err)
	}
	if c.Proxies() > 0 {
		c.ProxyLR = 1
	}
	out, err := trainer.Train(t.Context(), train.Training{Config: c, ID: "x", Data: data, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	r = headRow{set: data.Name, head: head, objective: o.String(), rows: len(data.Test.Labels()),
		choice: out.Head.String(), features: 100 * references[0].Recall[1], recall: 100 * out.Recall[1]}
	if len(references) > 1 {
		r.whitened = 100 * references[1].Recall[1]
	}
	return r
}

var headColumns = []string{"features", "head", "objective", "test rows", "R@1 of features", "whitened", "head",
	"choice"}

// readHeads reads the file.
func readHeads(t *testing.T) (rows []headRow) {
	t.Helper()
	raw, err := os.ReadFile(headsFile)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(bytes.NewReader(raw)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records[1:] {
		number := func(i int) float64 {
			v, err := strconv.ParseFloat(r[i], 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		rows = append(rows, headRow{r[0], r[1], r[2], r[7], int(number(3)), number(4), number(5), number(6)})
	}
	return rows
}

// below says how far a head is below the better of features and whitening, in percent, and the standard error of that
// one's Recall@1.
func (r headRow) below() (points, se float64) {
	best := max(r.features, r.whitened)
	return best - r.recall, 100 * math.Sqrt(best/100*(1-best/100)/float64(r.rows))
}

// What chosen heads reach, as recorded and for two of the pairs now. -regen trains pairs that are not recorded, round
// by round, until it is stopped.
func TestHeadsNeverLose(t *testing.T) {
	sets, rows, all := featureSets(t), readHeads(t), allObjectives(t)
	trainer, err := train.Open()
	if err != nil {
		t.Fatal(err)
	}
	train := func(set featureSet, heads []string, o objectives.Objective) (out []headRow) {
		data, err := set.open()
		if err != nil {
			t.Fatal(err)
		}
		if data == nil {
			t.Fatalf("%s: want a folder with its features, -features", set.name)
		}
		references, err := trainer.References(t.Context(), train.Training{Data: data})
		if err != nil {
			t.Fatal(err)
		}
		for _, head := range heads {
			out = append(out, trainHead(t, trainer, data, references, head, o))
		}
		return out
	}
	both, at := []string{"linear", "mlp"}, 0
	for round := range all {
		for i, set := range sets {
			o := all[inRound(round, i)]
			if at == len(rows) && *regen {
				rows = append(rows, train(set, both, o)...)
				writeHeads(t, rows)
			}
			for _, head := range both {
				if at == len(rows) {
					break
				}
				if r := rows[at]; r.set != set.name || r.head != head || r.objective != o.String() {
					t.Fatalf("row %d is of %s, %s, %s, want %s, %s, %s", at, r.set, r.head, r.objective, set.name, head, o)
				}
				at++
			}
		}
	}
	if at < len(rows) || at < len(both)*len(sets) {
		t.Fatalf("%d rows are recorded, the first %d of them by plan: want a round, %d, and all by plan", len(rows), at,
			len(both)*len(sets))
	}
	if !*regen && !testing.Short() {
		for i, head := range both {
			at := len(sets) - 4 + i
			now, was := train(sets[at], []string{head}, all[inRound(0, at)])[0], rows[len(both)*at+i]
			if math.Abs(now.recall-was.recall) > 0.5 {
				t.Errorf("%s, %s, %s: %.2f now, %.2f as recorded", now.set, head, now.objective, now.recall, was.recall)
			}
		}
	}
	kinds := make(map[string]string)
	for _, s := range sets {
		kinds[s.name] = s.kind
	}
	tallies := make(map[string]*headTally)
	for _, r := range rows {
		points, se := r.below()
		if r.rows < 600 || points > max(0.5, se) {
			t.Errorf("%s, %s, %s: %.2f of %d rows, but the features have %.2f and %.2f", r.set, r.head, r.objective, r.recall,
				r.rows, r.features, r.whitened)
		}
		groups := []string{kinds[r.set], "all but isotropic"}
		if kinds[r.set] == "isotropic" {
			groups = groups[:1]
		}
		for _, group := range groups {
			group = r.head + ", " + group
			if tallies[group] == nil {
				tallies[group] = new(headTally)
			}
			tallies[group].add(points, se)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(tallies)) {
		of := tallies[group]
		t.Logf("%s: above both in %d of %d; worst %+.2f; %d below by half a point, %d by a standard error too", group,
			of.above, of.pairs, -of.worst, of.half, of.se)
		if strings.HasSuffix(group, "all but isotropic") && 10*of.above < 6*of.pairs {
			t.Errorf("%s: above both in %d of %d", group, of.above, of.pairs)
		}
	}
}

// TestHeadsClaim checks what package heads says of the record, by its numbers.
func TestHeadsClaim(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "heads", "head.go"))
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(raw), "\npackage")
	_, claim, _ := strings.Cut(strings.ReplaceAll(text, "\n// ", " "), "What a chosen linear head")
	kinds, pairs, above := make(map[string]string), make(map[string]int), make(map[string]int)
	for _, s := range featureSets(t) {
		kinds[s.name] = s.kind
	}
	var isotropic, gained, start, untrained, drawn, same int
	worst := 0.
	for _, r := range readHeads(t) {
		if r.head != "linear" {
			continue
		}
		points, _ := r.below()
		alone := strings.HasSuffix(r.choice, "; no training, since none helped on held-out classes")
		pairs[r.set]++
		worst = max(worst, points)
		if alone {
			untrained++
		}
		if points < 0 {
			above[r.set]++
			gained++
			if alone {
				start++
			}
		}
		if kinds[r.set] == "isotropic" {
			isotropic++
		}
	}
	all, none, every := 0, 0, 0
	for set, n := range pairs {
		all += n
		if kinds[set] != "frozen" {
			drawn++
		}
		if kinds[set] == "isotropic" {
			same++
		}
		if above[set] == n {
			every++
		} else if above[set] == 0 {
			none++
		}
	}
	share := func(of int) string { return fmt.Sprintf("%.1f %%", 100*float64(gained)/float64(of)) }
	for _, want := range []string{fmt.Sprintf("%d pairs of %d sets of features and %d objectives", all, len(pairs),
		len(allObjectives(t))), fmt.Sprintf("%d sets are drawn. On %d sets all", drawn, every),
		fmt.Sprintf("on %d sets none has", none), fmt.Sprintf("these are %d, which are %s, or %s without the %s isotropic",
			gained, share(all), share(all-isotropic), map[int]string{4: "four"}[same]),
		fmt.Sprintf("Of the %d the chosen start alone has %d: %d of the %d heads", gained, start, untrained, all),
		fmt.Sprintf("more than %.1f points below", worst)} {
		if !strings.Contains(claim, want) {
			t.Errorf("package heads does not say %q", want)
		}
	}
}

// headTally counts pairs of features and objective: those above both the features and these whitened, those by more
// than half a point below the better of them, and those of them by more than a standard error.
type headTally struct {
	pairs, above, half, se int
	worst                  float64 // How far the worst is below, in percent.
}

func (h *headTally) add(points, se float64) {
	h.pairs++
	if points < 0 {
		h.above++
	}
	if points > 0.5 {
		h.half++
		if points > se {
			h.se++
		}
	}
	h.worst = max(h.worst, points)
}

func writeHeads(t *testing.T, rows []headRow) {
	t.Helper()
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	records := [][]string{headColumns}
	for _, r := range rows {
		records = append(records, r.record())
	}
	if err := w.WriteAll(records); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(headsFile, out.Bytes(), 0o666); err != nil {
		t.Fatal(fmt.Errorf("recorded heads: %w", err))
	}
}

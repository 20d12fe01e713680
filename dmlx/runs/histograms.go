package runs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/internal/brief"
	"github.com/gradient-surgery/dml/dmlx/internal/durable"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Portrait is how the triplets of a finished run lie on the triplet diagram (Figures 4 and 5). It is small, is kept in the
// run's directory as portrait.json, and can be shipped with the program without the run's embeddings.
type Histograms struct {
	// Recipe is [PortraitRecipe] of the program that made it.
	Recipe int `json:"recipe"`
	// Result is that of the run. A run that is not finite has no triplets, or none of a whole set.
	Result *Result `json:"result"`
	// Backend is the one that computed the similarities, and the embeddings of the training images.
	Backend string `json:"backend"`

	// Last is the triplets that the last five epochs trained on: augmented images, mined in their batches by weights
	// that still moved.
	Last TripletDensity `json:"last"`
	// Train and Test have a triplet of each image of the whole set: its nearest positive and nearest negative among all
	// others, by the last weights and without augmentation. Where the test set has a gallery of its own, as In-shop has,
	// the anchors are the queries and both neighbours are images of the gallery.
	Train TripletDensity `json:"train"`
	Test  TripletDensity `json:"test"`

	// Sum is the SHA-256 of all the above, so that damage shows.
	Sum string `json:"sum"`
	// Shipped is true for a portrait that came with the program.
	Bundled bool `json:"-"`
}

// PortraitRecipe is raised when a portrait's numbers come to mean something else.
const HistogramsRecipe = 1

// Cloud is triplets by the similarities of their pairs. All shares are fractions of Triplets; without any, all is 0.
type TripletDensity struct {
	Triplets int `json:"triplets"`
	// Lone counts the anchors that have no other of their class, or none of another, and so are in no triplet.
	Lone int `json:"lone,omitempty"`

	MedianSap float64 `json:"median_s_ap"`
	MedianSan float64 `json:"median_s_an"`
	// Spread is √(var S_ap + var S_an), how far triplets are scattered about their mean.
	Spread float64 `json:"spread"`
	// Edge is the share with S_ap > 0.9, along the diagram's right edge; Corner that with S_an > 0.9 as well, in its top right.
	Edge   float64 `json:"edge"`
	Corner float64 `json:"corner"`
	// Violations is the share with S_an > S_ap, above the diagonal. For a whole test set it is 1 − Recall@1, but for ties.
	Violations float64 `json:"violations"`
	// Overlap is that of the distributions of S_ap and S_an; see [Overlap].
	Overlap float64 `json:"overlap"`

	Counts Counts `json:"counts"`
}

// CloudBins is how many bins the range [−1, 1] of each similarity has in [Counts]: steps of 0.01.
const DensityBins = 200

// Counts is how many triplets lie in each square of the triplet diagram, [CloudBins, CloudBins] row by row from S_an = −1
// upwards; S_ap runs fastest. None lies outside: what rounding puts beyond 1 is in the last bin. Its JSON is pairs of
// numbers: how many squares further, and the count there. An empty one is nil.
type Counts []int

// newCloud counts triplets, S_ap and S_an [n]. Those in which one is NaN are lone.
func newTripletDensity(sap, san []float32) TripletDensity {
	var c TripletDensity
	var p, q []float64
	var p32, q32 []float32
	for i := range sap {
		if sap[i] != sap[i] || san[i] != san[i] {
			c.Lone++
			continue
		}
		p, q = append(p, float64(sap[i])), append(q, float64(san[i]))
		p32, q32 = append(p32, sap[i]), append(q32, san[i])
	}
	c.Triplets = len(p)
	if c.Triplets == 0 {
		return c
	}
	c.Counts = make(Counts, DensityBins*DensityBins)
	for i := range p {
		c.Counts[densityBin(q[i])*DensityBins+densityBin(p[i])]++
		if p32[i] > 0.9 {
			c.Edge++
		}
		if q[i] > p[i] {
			c.Violations++
		}
	}
	n := float64(c.Triplets)
	c.Edge /= n
	c.Violations /= n
	c.Corner = retrieval.Compactness(p32, q32)
	c.Overlap = retrieval.Overlap(p32, q32)
	if n > 1 {
		c.Spread = math.Sqrt(stat.Variance(p, nil) + stat.Variance(q, nil))
	}
	slices.Sort(p)
	slices.Sort(q)
	c.MedianSap, c.MedianSan = stat.Quantile(0.5, stat.Empirical, p, nil), stat.Quantile(0.5, stat.Empirical, q, nil)
	return c
}

func densityBin(similarity float64) int {
	return min(max(int(math.Floor((similarity+1)/2*DensityBins)), 0), DensityBins-1)
}

// Positive and Negative are the histograms of S_ap and of S_an over the 100 bins of [Overlap] on [−1, 1], as shares.
func (c TripletDensity) Positive() []float64 {
	return c.histogram(func(cell int) int { return cell % DensityBins })
}

// Negative is the histogram of S_an; see [Cloud.Positive].
func (c TripletDensity) Negative() []float64 {
	return c.histogram(func(cell int) int { return cell / DensityBins })
}

func (c TripletDensity) histogram(bin func(cell int) int) []float64 {
	out := make([]float64, retrieval.SimilarityBins)
	for cell, count := range c.Counts {
		out[bin(cell)*retrieval.SimilarityBins/DensityBins] += float64(count) / float64(c.Triplets)
	}
	return out
}

// Above is the share of triplets with S_ap and S_an in bins from the given ones on, which are best multiples of 0.01:
// Above(0.95, −1) is the triplets within 0.05 of the right edge.
func (c TripletDensity) Above(sap, san float64) float64 {
	const least = 1e-9 // 0.95 is not a binary number.
	found, low, left := 0, densityBin(san+least), densityBin(sap+least)
	for cell, count := range c.Counts {
		if cell/DensityBins >= low && cell%DensityBins >= left {
			found += count
		}
	}
	return float64(found) / float64(max(c.Triplets, 1))
}

// MarshalJSON writes pairs: squares further, count.
func (c Counts) MarshalJSON() ([]byte, error) {
	pairs, last := []int{}, 0
	for cell, count := range c {
		if count != 0 {
			pairs = append(pairs, cell-last, count)
			last = cell
		}
	}
	return json.Marshal(pairs)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Counts) UnmarshalJSON(raw []byte) error {
	var pairs []int
	if err := json.Unmarshal(raw, &pairs); err != nil {
		return err
	}
	*c = nil
	if len(pairs) == 0 {
		return nil
	}
	counts, cell := make(Counts, DensityBins*DensityBins), 0
	for i := 0; i < len(pairs); i += 2 {
		if i+1 == len(pairs) || pairs[i] < 0 || pairs[i] >= len(counts)-cell || pairs[i+1] < 1 {
			return fmt.Errorf("counts of a triplet diagram: no pair of a distance and a count at %d", i)
		}
		cell += pairs[i]
		counts[cell] = pairs[i+1]
	}
	*c = counts
	return nil
}

func (c TripletDensity) check() error {
	sum := 0
	for _, count := range c.Counts {
		sum += count
	}
	if sum != c.Triplets {
		return fmt.Errorf("counts %d triplets of %d", sum, c.Triplets)
	}
	return nil
}

func (p *Histograms) sum() (string, error) {
	c := *p
	c.Sum = ""
	raw, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(raw)
	return hex.EncodeToString(h[:]), nil
}

func (p *Histograms) seal() (err error) {
	p.Sum, err = p.sum()
	return err
}

// parsePortrait reads a portrait and checks it against its own sums.
func parseHistograms(raw []byte) (*Histograms, error) {
	var p Histograms
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("is damaged: %w", err)
	}
	if sum, err := p.sum(); err != nil {
		return nil, err
	} else if sum != p.Sum || p.Result == nil {
		return nil, errors.New("is damaged: its checksum does not fit")
	}
	result, err := json.Marshal(p.Result)
	if err != nil {
		return nil, err
	}
	if p.Result, err = parseResult(result, ""); err != nil {
		return nil, fmt.Errorf("has a result that %w", err)
	}
	for _, c := range []TripletDensity{p.Last, p.Train, p.Test} {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("is damaged: %w", err)
		}
	}
	return &p, nil
}

const histogramsFile = "portrait.json"

// portrait finds the portrait of a run in the store; nil if there is none of the result that is there now. result is nil
// if the store has none.
func (s *Store) histograms(spec Spec) (p *Histograms, result *Result, err error) {
	result, found, err := s.lookup(spec)
	if err != nil || !found {
		return nil, nil, err
	}
	path := filepath.Join(s.Path(result.Hash), histogramsFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, result, nil
	} else if err != nil {
		return nil, nil, err
	}
	p, err = parseHistograms(raw)
	if err != nil {
		return nil, result, s.setAside(path, err)
	}
	if p.Recipe != HistogramsRecipe || p.Result.Sum != result.Sum {
		return nil, result, nil
	}
	p.Result = result
	return p, result, nil
}

// PortrayAll returns the portraits of specs, in their order, and how many runs were trained for them. Portraits that the store
// or the program has are read. A run that has none is portrayed from its directory in the store, and trained if it is not
// there: a bundled result without its portrait does not do. With [Options.Have] those that are missing are nil. choose is called
// when the first of them has to be made.
func AllHistograms(ctx context.Context, choose func() (*train.Trainer, error), store *Store, specs []Spec, o Options) (portraits []*Histograms, ran int, err error) {
	shipped := map[string]*Histograms{}
	if !o.IgnoreBundled {
		if shipped, err = bundledHistograms(); err != nil {
			return nil, 0, err
		}
	}
	var missing []Job
	var run []int // Of each missing one: its number among the runs that are trained, from 1; 0 if the store has the run.
	have := make(map[string]*Histograms)
	for _, spec := range specs {
		hash := spec.Hash()
		if _, known := have[hash]; known { // Cells of a table may share a run.
			continue
		}
		p, result, err := store.histograms(spec)
		if err != nil {
			return nil, 0, err
		}
		if result == nil { // What is in the store comes first: it is the user's own.
			p = shipped[hash]
		}
		have[hash] = p
		switch {
		case p != nil || o.CachedOnly && !store.canEmbed(result):
		case result != nil:
			missing, run = append(missing, Job{Spec: spec, Histograms: true}), append(run, 0)
		default:
			ran++
			missing, run = append(missing, Job{Spec: spec, Histograms: true}), append(run, ran)
		}
	}
	if len(missing) > 0 {
		choose, err := o.send(ctx, store, missing, choose)
		if err != nil {
			return nil, 0, err
		}
		trainer, err := choose()
		if err != nil {
			return nil, 0, err
		}
		lacking := make([]Spec, len(missing))
		for i, j := range missing {
			lacking[i] = j.Spec
		}
		made, err := forEachSpec(ctx, o, lacking, "portrait of ", func(ctx context.Context, i int, progress func(Progress)) (*Histograms, error) {
			err := o.work(ctx, trainer, store, missing[i], func(p Progress) {
				p.Run, p.Runs = run[i], ran
				progress(p)
			})
			if err != nil {
				return nil, err
			}
			p, _, err := store.histograms(lacking[i])
			if err == nil && p == nil {
				err = errors.New("it was made, but the store has no sound portrait of it")
			}
			return p, err
		})
		if err != nil {
			return nil, 0, err
		}
		for i, p := range made {
			have[lacking[i].Hash()] = p
		}
	}
	portraits = make([]*Histograms, len(specs))
	for i, spec := range specs {
		portraits[i] = have[spec.Hash()]
	}
	return portraits, ran, nil
}

// portrayable tells a run whose training images can still be embedded. An imported one may have come without its weights.
func (s *Store) canEmbed(r *Result) bool {
	if r == nil {
		return false
	}
	_, err := s.lastWeights(r)
	return err == nil
}

// portray makes a run, if the store does not have it, and its portrait.
func computeHistograms(ctx context.Context, trainer *train.Trainer, store *Store, spec Spec, progress func(Progress)) (p *Histograms, err error) {
	if _, err := Run(ctx, trainer, store, spec, progress); err != nil {
		return nil, err
	}
	unlock, err := store.lock(ctx, spec.Hash())
	if err != nil {
		return nil, err
	}
	defer unlock()
	defer brief.Catch(&err)
	p, result, err := store.histograms(spec)
	if err != nil || p != nil { // Another process may have made it meanwhile.
		return p, err
	}
	if result == nil {
		return nil, errors.New("the run has been removed")
	}
	p = &Histograms{Recipe: HistogramsRecipe, Result: result, Backend: trainer.Name}
	if err := p.fill(ctx, trainer, store, spec.Data, store.during(ctx, spec, progress)); err != nil {
		return nil, err
	}
	if err := p.seal(); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	if err := durable.WriteFile(filepath.Join(store.Path(result.Hash), histogramsFile), append(raw, '\n'), 0o644); err != nil {
		return nil, fmt.Errorf("the portrait cannot be written: %w", err)
	}
	return p, nil
}

// fill makes the three clouds. The data set is opened where it is asked for now: a folder may have been moved since the run.
func (p *Histograms) fill(ctx context.Context, trainer *train.Trainer, store *Store, data string, how DataOptions) error {
	r := p.Result
	sap, san, err := store.Triplets(r.Hash)
	if err != nil {
		return err
	}
	p.Last = newTripletDensity(sap, san)
	if strings.HasPrefix(r.Diverged, "not finite") {
		return nil
	}
	mine := func(anchors, gallery *retrieval.Embeddings) (TripletDensity, error) {
		m, err := retrieval.Evaluate(ctx, trainer.Backend, anchors, gallery, nil)
		if err != nil {
			return TripletDensity{}, err
		}
		return newTripletDensity(m.NearestPositive, m.NearestNegative), nil
	}
	queries, gallery, err := store.Embeddings(r.Hash)
	if err != nil {
		return err
	}
	if p.Test, err = mine(queries, gallery); err != nil {
		return fmt.Errorf("test set: %w", err)
	}
	embedded, err := embedTrain(ctx, trainer, store, r, data, how)
	var bad *train.NotFiniteError
	if errors.As(err, &bad) { // Where the test set's embeddings are finite: there is no cloud to show, and no fault.
		return nil
	} else if err != nil {
		return fmt.Errorf("training set: %w", err)
	}
	if p.Train, err = mine(embedded, nil); err != nil {
		return fmt.Errorf("training set: %w", err)
	}
	return nil
}

// embedTrain rebuilds a run's network from its last checkpoint and embeds all images that it was trained on.
func embedTrain(ctx context.Context, trainer *train.Trainer, store *Store, r *Result, data string, how DataOptions) (*retrieval.Embeddings, error) {
	spec := r.Spec
	spec.Data = data
	set, err := OpenData(spec, how)
	if err != nil {
		return nil, err
	}
	if set.Digest != r.DataDigest {
		return nil, fmt.Errorf("the run was made on other images of %s", data)
	}
	out, err := train.HeldOutClasses(set.Train.Labels, r.Spec.HeldOut)
	if err != nil {
		return nil, err
	}
	var images []int
	for i, label := range set.Train.Labels {
		if !out[label] {
			images = append(images, i)
		}
	}
	return embedByLastWeights(ctx, trainer, store, r, set, set.Train, images)
}

// embedByLastWeights embeds images of a run's data set by the weights that it ended with.
func embedByLastWeights(ctx context.Context, trainer *train.Trainer, store *Store, r *Result, set *datasets.Set, im *datasets.Images, images []int) (*retrieval.Embeddings, error) {
	weights, err := store.lastWeights(r)
	if err != nil {
		return nil, err
	}
	return trainer.Embed(ctx, r.Spec.Config, weights, set, im, images)
}

// lastWeights reads the weights of a run's last checkpoint, a safetensors file.
func (s *Store) lastWeights(r *Result) ([]byte, error) {
	dir := s.Path(r.Hash)
	again := fmt.Sprintf("remove the run (dmlx runs remove %s), and it is made again", r.Hash)
	c, err := train.ReadCheckpoint(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no checkpoint any more; %s", dir, again)
	} else if err != nil {
		return nil, fmt.Errorf("the checkpoint in %s %w; %s", dir, err, again)
	}
	raw, err := os.ReadFile(filepath.Join(dir, train.CheckpointDir, filepath.Base(c.Weights)))
	if err != nil {
		return nil, fmt.Errorf("the checkpoint's weights cannot be read: %w; %s", err, again)
	}
	if h := sha256.Sum256(raw); c.Run != r.Hash || hex.EncodeToString(h[:]) != c.WeightsSum {
		return nil, fmt.Errorf("the checkpoint's weights in %s are damaged or another run's; %s", dir, again)
	}
	return raw, nil
}

// shippedPortraits are those that come with the program, by the hash of their runs. They were made by [ShipPortraits].
// They lie in a folder of their own beside the results.
var bundledHistograms = sync.OnceValues(func() (map[string]*Histograms, error) {
	out := make(map[string]*Histograms)
	err := forEachBundled("bundled/histograms/*.json", "portrait", func(raw []byte) error {
		p, err := parseHistograms(raw)
		if err == nil && p.Recipe == HistogramsRecipe {
			p.Bundled, p.Result.Bundled = true, true
			out[p.Result.Hash] = p
		}
		return err
	})
	return out, err
})

// ShipPortraits writes portraits as a file for the folder shipped/portraits, a line each, in the order of their runs' hashes,
// without the sums of the files that stay behind in the store.
func WriteBundledHistograms(path string, portraits []*Histograms) error {
	byHash := make(map[string][]byte)
	var hashes []string
	for _, p := range portraits {
		c, r := *p, *p.Result
		r.Files = nil
		if err := r.seal(); err != nil {
			return err
		}
		c.Result = &r
		if err := c.seal(); err != nil {
			return err
		}
		raw, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if byHash[r.Hash] == nil {
			hashes = append(hashes, r.Hash)
		}
		byHash[r.Hash] = raw
	}
	slices.Sort(hashes)
	lines := make([][]byte, len(hashes))
	for i, hash := range hashes {
		lines[i] = byHash[hash]
	}
	file := append([]byte("[\n"), bytes.Join(lines, []byte(",\n"))...)
	return durable.WriteFile(path, append(file, "\n]\n"...), 0o644)
}

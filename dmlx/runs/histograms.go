package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/samples"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Histograms show how the triplets of a finished run lie on the triplet diagram (Figures 4 and 5). They are stored as
// histograms.json in the directory of the run. They are small, so that they can be bundled with the program without the
// embeddings.
type Histograms struct {
	// Recipe is [HistogramsRecipe] of the program that computed them.
	Recipe int `json:"recipe"`
	// Result is the result of the run. A run that is not finite has no triplets, or none of a whole set.
	Result *Result `json:"result"`
	// Backend computed the similarities and the embeddings of the training images.
	Backend string `json:"backend"`

	// Last counts the triplets of the last five epochs of training: augmented images, mined from batches while the weights
	// still changed.
	Last TripletDensity `json:"last"`
	// Train and Test count one triplet per image of a whole set: its nearest positive and its nearest negative among all
	// others, with the final weights and without augmentation. If the test set has a gallery, as In-shop does, the anchors
	// are the queries and both neighbors are gallery images.
	Train TripletDensity `json:"train"`
	Test  TripletDensity `json:"test"`

	// Sum is the SHA-256 of all fields above, to detect damage.
	Sum string `json:"sum"`
	// Bundled is true for histograms that come with the program.
	Bundled bool `json:"-"`
}

// HistogramsRecipe is raised when the meaning of the numbers in [Histograms] changes.
const HistogramsRecipe = 1

func (p *Histograms) sum() (string, error) {
	c := *p
	c.Sum = ""
	return durable.SumOf(c)
}

func (p *Histograms) seal() (err error) {
	p.Sum, err = p.sum()
	return err
}

// parseHistograms reads histograms and verifies their checksum, their result and their counts.
func parseHistograms(raw []byte) (*Histograms, error) {
	var p Histograms
	if err := durable.ParseJSON(raw, &p); err != nil {
		return nil, fmt.Errorf("is damaged: %w", err)
	}
	if sum, err := p.sum(); err != nil {
		return nil, err
	} else if sum != p.Sum || p.Result == nil {
		return nil, errors.New("is damaged: wrong checksum")
	}
	result, err := json.Marshal(p.Result)
	if err != nil {
		return nil, err
	}
	if p.Result, err = parseResult(result, ""); err != nil {
		return nil, fmt.Errorf("contains a result that %w", err)
	}
	for _, c := range []TripletDensity{p.Last, p.Train, p.Test} {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("is damaged: %w", err)
		}
	}
	return &p, nil
}

const histogramsFile = "histograms.json"

// histograms returns the histograms of a run in the store, and its result. The histograms are nil if there are none of
// the present result; the result is nil if the store has none.
func (s *Store) histograms(hash string, spec Spec) (p *Histograms, result *Result, err error) {
	result, found, err := s.lookupAs(hash, spec)
	if err != nil || !found {
		return nil, nil, err
	}
	path := filepath.Join(s.Path(result.Hash), histogramsFile)
	raw, err := durable.ReadAtMost(path, durable.MaxText)
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

// AllHistograms returns the histograms of specs, in their order, and how many runs were trained for them. Histograms in
// the store or bundled with the program are read. Others are computed from the directory of the run in the store. If
// the run is not there it is trained, even if its result is bundled, because a result alone is not enough. With
// [Options].CachedOnly nothing is trained, and missing histograms are nil. choose opens the backend; it is called only
// if this process has to compute.
func AllHistograms(
	ctx context.Context, choose func() (*train.Trainer, error), store *Store, specs []Spec, o Options,
) (all []*Histograms, ran int, err error) {
	bundled := bundle[*Histograms]{}
	if !o.IgnoreBundled {
		if bundled, err = bundledHistograms(); err != nil {
			return nil, 0, err
		}
	}
	var missing []task
	hashes := make([]string, len(specs))
	have := make(map[string]*Histograms)
	for i, spec := range specs {
		hash := spec.Hash()
		hashes[i] = hash
		if _, known := have[hash]; known { // Several cells of a table may share a run.
			continue
		}
		p, result, err := store.histograms(hash, spec)
		if err != nil {
			return nil, 0, err
		}
		if result == nil { // The store comes first, because its runs are the user's own.
			if p, err = bundled.get(hash); err != nil {
				return nil, 0, err
			}
		}
		have[hash] = p
		if p != nil || o.CachedOnly && !store.canEmbed(result) {
			continue
		}
		missing = append(missing, task{Job{spec, true, o.Devices, o.Keep, o.Measure}, hash, result == nil})
		if result == nil {
			ran++
		}
	}
	if len(missing) > 0 {
		if err := o.do(ctx, choose, store, missing); err != nil {
			return nil, 0, err
		}
	}
	for _, t := range missing {
		p, _, err := store.histograms(t.hash, t.Spec)
		if err == nil && p == nil {
			err = errors.New("the job ended, but the store has no valid histograms")
		}
		if err != nil {
			return nil, 0, of(t.Spec, "histograms of ", err)
		}
		have[t.hash] = p
	}
	all = slice.Map(hashes, func(hash string) *Histograms { return have[hash] })
	return all, ran, nil
}

// canEmbed reports whether the training images of a run can still be embedded: a copied one may lack its
// weights.
func (s *Store) canEmbed(r *Result) bool {
	if r == nil {
		return false
	}
	_, err := s.Weights(r.Hash)
	return err == nil
}

// computeHistograms computes and stores the histograms of a run. It trains the run if the store does not have it.
func computeHistograms(
	ctx context.Context, trainer *train.Trainer, store *Store, t task, progress func(Progress),
) (p *Histograms, err error) {
	if _, err := runTasks(ctx, trainer, store, []task{t}, progress); err != nil {
		return nil, err
	}
	unlock, err := store.lock(ctx, t.hash)
	if err != nil {
		return nil, err
	}
	defer unlock()
	defer errs.Catch(&err)
	p, result, err := store.histograms(t.hash, t.Spec)
	if err != nil || p != nil { // Another process may have computed them meanwhile.
		return p, err
	}
	if result == nil {
		return nil, errors.New("the run was removed meanwhile")
	}
	p = &Histograms{Recipe: HistogramsRecipe, Result: result, Backend: trainer.Name}
	if err := p.fill(ctx, trainer, store, t.Spec.Data, store.dataOptions(ctx, t.Spec, progress)); err != nil {
		return nil, err
	}
	if err := p.seal(); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(store.Path(result.Hash), histogramsFile)
	if err := durable.WriteFile(path, append(raw, '\n'), 0o644); err != nil {
		return nil, fmt.Errorf("cannot write the histograms: %w", err)
	}
	return p, nil
}

// fill computes the three densities. data is the present path of a folder of images, which may have been moved since
// the run.
func (p *Histograms) fill(
	ctx context.Context, trainer *train.Trainer, store *Store, data string, how DataOptions,
) error {
	r := p.Result
	sap, san, err := store.Triplets(r.Hash)
	if err != nil {
		return err
	}
	p.Last = newTripletDensity(sap, san)
	if strings.HasPrefix(r.Diverged, "not finite") {
		return nil
	}
	density := func(anchors, gallery *retrieval.Embeddings) (TripletDensity, error) {
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
	if p.Test, err = density(queries, gallery); err != nil {
		return fmt.Errorf("test set: %w", err)
	}
	embedded, err := embedTrain(ctx, trainer, store, r, data, how)
	var bad *train.NotFiniteError
	if errors.As(err, &bad) { // Not an error: the run has embeddings of the test set, but none of the training set.
		return nil
	} else if err != nil {
		return fmt.Errorf("training set: %w", err)
	}
	if p.Train, err = density(embedded, nil); err != nil {
		return fmt.Errorf("training set: %w", err)
	}
	return nil
}

// embedTrain embeds all images that a run was trained on, with the weights of its last checkpoint.
func embedTrain(
	ctx context.Context, trainer *train.Trainer, store *Store, r *Result, data string, how DataOptions,
) (*retrieval.Embeddings, error) {
	spec := r.Spec
	spec.Data = data
	set, err := OpenData(spec, how)
	if err != nil {
		return nil, err
	}
	if set.Digest != r.DataDigest {
		return nil, fmt.Errorf("the run was trained on other images of %s", data)
	}
	out, err := samples.HeldOut(set.Train.Labels, r.Spec.HeldOut)
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

// embedByLastWeights embeds images of the data set of a run with its final weights.
func embedByLastWeights(
	ctx context.Context, trainer *train.Trainer, store *Store, r *Result, set *datasets.Set, im *datasets.Images,
	images []int,
) (*retrieval.Embeddings, error) {
	weights, err := store.Weights(r.Hash)
	if err != nil {
		return nil, err
	}
	return trainer.Embed(ctx, r.Spec.Config, weights, samples.Images(set), samples.ImageSplit(im), images)
}

// Weights returns the weights of the last checkpoint of a run: a safetensors file.
func (s *Store) Weights(hash string) ([]byte, error) {
	dir := s.Path(hash)
	again := fmt.Sprintf("remove the run (dmlx runs remove %s) and train it again", hash)
	c, err := train.ReadCheckpoint(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s contains no checkpoint any more; %s", dir, again)
	} else if err != nil {
		return nil, fmt.Errorf("the checkpoint in %s %w; %s", dir, err, again)
	}
	raw, err := durable.ReadFile(filepath.Join(dir, train.CheckpointDir, filepath.Base(c.Weights)))
	if err != nil {
		return nil, fmt.Errorf("cannot read the weights of the checkpoint: %w; %s", err, again)
	}
	if c.Run != hash || durable.Sum(raw) != c.WeightsSum {
		return nil, fmt.Errorf("the weights of the checkpoint in %s are damaged or belong to another run; %s", dir, again)
	}
	return raw, nil
}

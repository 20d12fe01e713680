package runs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
		choose, err := o.submit(ctx, store, missing, choose)
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
			err := o.runJob(ctx, trainer, store, missing[i], func(p Progress) {
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
	if err := p.fill(ctx, trainer, store, spec.Data, store.dataOptions(ctx, spec, progress)); err != nil {
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

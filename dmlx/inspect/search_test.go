package inspect

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/search"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

// madeUp scores runs without making them: by the learning rate, and for cos-orth.
func madeUp(_ context.Context, specs []runs.Spec) ([]search.Outcome, error) {
	var out []search.Outcome
	for _, s := range specs {
		o := search.Outcome{HeldOut: 0.7 - 0.02*math.Pow(math.Log2(s.LR/0.3), 2), Seconds: 1}
		if strings.HasPrefix(s.Rule, "cos-orth/") {
			o.HeldOut += 0.05
		}
		if s.LR > 2 {
			o = search.Outcome{Diverged: "not finite"}
		}
		out = append(out, o)
	}
	return out, nil
}

// madeUpSearch makes a request's trials at the quick preset, with the request as it is then.
func madeUpSearch(t *testing.T, q SearchRequest) (SearchRequest, *search.Search) {
	t.Helper()
	var err error
	if q.Preset, err = presets.Parse("quick"); err != nil {
		t.Fatal(err)
	}
	if q.Store, err = runs.OpenStore(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	q = q.withDefaults()
	settings, err := q.settings(q.Name, q.Rule, func(b runs.Spec) (search.Space,
		error) {
		return search.NewSpace(b, q.Parameters...)
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := search.Begin(q.Store, settings)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), madeUp, q.Budget); err != nil {
		t.Fatal(err)
	}
	return q, s
}

// A search that is not done is shown as far as it is.
func TestSearchAsFarAsItIs(t *testing.T) {
	t.Parallel()
	q, s := madeUpSearch(t, SearchRequest{Name: "a", Parameters: []string{"direction", "triplet", "tau", "lr", "decay"},
		Budget: search.Budget{Trials: 32}})
	store := q.Store
	settings, err := q.settings(referenceName("a"), q.Reference, s.Space.Around)
	if err != nil {
		t.Fatal(err)
	}
	if len(settings.Space) != 3 || settings.Space[0].Name != "tau" || settings.Base.Rule != "cos-orth/lin-ms/cir" {
		t.Errorf("the reference is searched around %s over %v", settings.Base.Rule, settings.Space)
	}
	if s, err = search.Begin(store, settings); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), madeUp, search.Budget{Trials: 16}); err != nil {
		t.Fatal(err)
	}
	r, err := Search(t.Context(), SearchRequest{Name: "a",
		Request: report.Request{Store: store, Options: runs.Options{CachedOnly: true}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Parts {
		err := figures.Failure(p.Of)
		if p.Name == "outcome" {
			// The reference as the preset has it may be among the shipped results; the search's own tests are not.
			if err == nil || !strings.Contains(err.Error(), "the search is not finished") {
				t.Errorf("outcome: %v", err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		for _, format := range p.Of.Formats() {
			if _, err := figures.Bytes(p.Of, format); err != nil {
				t.Errorf("%s as %s: %v", p.Name, format, err)
			}
		}
	}
	if f := r.Part("history").(*figures.Figure); !strings.Contains(f.Provenance, "6 against 12 epochs: ρ 1.00, n 16") ||
		!strings.Contains(f.Alt, "a: 32 trials") || !strings.Contains(f.Alt, "cos-orth/lin-ms/cir: 16 trials") {
		t.Error(f.Alt)
	}
	if text, err := figures.Bytes(r.Part("finalists"), "txt"); err != nil ||
		!strings.Contains(string(text), "cos-orth/con/") || strings.Contains(string(text), "Chosen") {
		t.Errorf("%s, %v", text, err)
	}
	for _, want := range []string{"search a on minicar", "32 trials, 56 runs", "every 4-th training class held out"} {
		if !strings.Contains(r.Provenance, want) {
			t.Errorf("no %q in %s", want, r.Provenance)
		}
	}
	if r.Preset != "quick" {
		t.Errorf("preset %s", r.Preset)
	}
}

// A search over parts alone leaves nothing to search around the reference, which is compared with as the preset has it.
func TestSearchOverPartsHasAReference(t *testing.T) {
	t.Parallel()
	q, s := madeUpSearch(t, SearchRequest{Name: "parts", Parameters: []string{"direction", "pair"},
		Budget: search.Budget{Trials: 8}})
	store := q.Store
	// All runs that are wanted beyond the trials are in the store, so that none is made.
	finish := func(_ context.Context, specs []runs.Spec) ([]*runs.Result, error) {
		var out []*runs.Result
		for _, spec := range specs {
			r := &runs.Result{Spec: spec, Backend: "go", Measures: train.Measures{Recall: map[int]float64{1: 0.5 +
				0.01*float64(spec.Seed%3)}, HeldOutRecall: map[int]float64{1: 0.5}}}
			if err := put(store, r, nil); err != nil {
				return nil, err
			}
			out = append(out, r)
		}
		return out, nil
	}
	if _, err := s.Select(t.Context(), finish, search.StandardFinals); err != nil {
		t.Fatal(err)
	}
	ours, err := q.base("ours")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := search.Test(t.Context(), finish, ours, search.StandardFinals.Seeds); err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]SearchRequest{"searched": q,
		"shown": {Name: q.Name, Request: report.Request{Store: store, Options: runs.Options{CachedOnly: true}}}} {
		r, err := Search(t.Context(), q)
		if err != nil {
			t.Fatal(name, err)
		}
		if text, err := figures.Bytes(r.Part("outcome"), "txt"); err != nil || !strings.Contains(string(text),
			"reference, as the preset has it") || !strings.Contains(string(text), "cos-orth/lin-ms/cir") {
			t.Errorf("%s: %s, %v", name, text, err)
		}
		q.Reference = "none"
		if r, err = Search(t.Context(), q); err != nil {
			t.Fatal(name, err)
		}
		if text, err := figures.Bytes(r.Part("outcome"), "txt"); err != nil || strings.Contains(string(text), "reference") {
			t.Errorf("%s, without a reference: %s, %v", name, text, err)
		}
	}
}

// A search on a folder takes the folder's name, with what a name may not have replaced.
func TestSearchNameOfAFolder(t *testing.T) {
	t.Parallel()
	p, err := presets.Parse("smoke")
	if err != nil {
		t.Fatal(err)
	}
	for data, want := range map[string]string{"": "smoke-minicar", "minishop": "smoke-minishop",
		"/some where/my birds/": "smoke-my-birds"} {
		q := SearchRequest{Request: report.Request{Preset: p}, Data: data}
		if q = q.withDefaults(); q.Name != want {
			t.Errorf("%q: %s, want %s", data, q.Name, want)
		}
		if _, err := search.Path(&runs.Store{}, q.Name); err != nil {
			t.Error(err)
		}
	}
}

// put writes a drawn result into a store, as a run does.
func put(store *runs.Store, r *runs.Result, files map[string][]byte) error {
	r.Hash, r.Files = r.Spec.Hash(), make(map[string]string)
	dir := store.Path(r.Hash)
	errs := []error{os.Mkdir(dir, 0o755), durable.WriteJSON(filepath.Join(dir, "spec.json"), r.Spec)}
	for name, raw := range files {
		r.Files[name] = durable.Sum(raw)
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), raw, 0o644))
	}
	sum, err := durable.SumOf(r)
	r.Sum = sum
	return errors.Join(append(errs, err, durable.WriteJSON(filepath.Join(dir, "result.json"), r))...)
}

package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// base is a spec that nothing is trained by.
func base(t testing.TB) runs.Spec {
	t.Helper()
	p, err := presets.Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Spec("minicar", dmlx.Rule{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.HeldOut = 4
	return s
}

func store(t testing.TB) *runs.Store {
	t.Helper()
	s, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func settings(t testing.TB, given ...string) Settings {
	t.Helper()
	b := base(t)
	d, err := parseDraft(b)
	if err != nil {
		t.Fatal(err)
	}
	var space Space
	for _, k := range parameters { // Without a look at the data, which NewSpace takes.
		for _, text := range given {
			p, err := parse(d, text)
			if err != nil {
				t.Fatal(err)
			}
			if p.Name != k.name {
				continue
			}
			if k.of != "" {
				if p, err = k.tie(p, d, space); err != nil {
					t.Fatal(err)
				}
			}
			space = append(space, p)
		}
	}
	rungs, err := Rungs(b.Epochs, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	return Settings{Name: "a", Base: b, Space: space, Sampler: TPE, Seed: 1, Bracket: 8, Factor: 2, Rungs: rungs}
}

// known is a function with a known best: 0.9, for the direction cos-orth, the pair weight lin, the rate 0.2 and a decay
// at 0.7. It diverges at rates above 5.
func known(s runs.Spec) Outcome {
	if s.LR > 5 {
		return Outcome{Diverged: "not finite from step 3 on"}
	}
	v := 0.9 - 0.03*math.Pow(math.Log2(s.LR/0.2), 2) - 0.5*math.Pow(s.Decay-0.7, 2)
	name := strings.Split(s.Rule, "/")
	v -= map[string]float64{"euc": 0.12, "cos": 0.04, "euc-orth": 0.08}[name[0]]
	v -= map[string]float64{"con": 0.06, "euc": 0.05, "lin-ms": 0.02, "sig": 0.07, "sig-ms": 0.15}[name[1]]
	v -= 0.2 / float64(s.Epochs) // Short runs are worse.
	return Outcome{HeldOut: max(v, 0), Seconds: float64(s.Epochs)}
}

func each(f func(runs.Spec) Outcome) Objective {
	return func(_ context.Context, specs []runs.Spec) ([]Outcome, error) {
		var out []Outcome
		for _, s := range specs {
			out = append(out, f(s))
		}
		return out, nil
	}
}

var knownSpace = []string{"direction", "pair", "lr=0.01..10", "decay=0.3..1"}

// TPE comes near the best of a known function, and nearer than random search does.
func TestFindsTheBest(t *testing.T) {
	t.Parallel()
	const best, seeds = 0.9 - 0.2/24, 12
	shortfall := map[Sampler]float64{}
	for _, sampler := range []Sampler{TPE, Random} {
		for seed := range uint64(seeds) {
			s := settings(t, knownSpace...)
			s.Sampler, s.Seed = sampler, seed
			search, err := Begin(store(t), s)
			if err != nil {
				t.Fatal(err)
			}
			if err := search.Run(t.Context(), each(known), Budget{Trials: 80}); err != nil {
				t.Fatal(err)
			}
			shortfall[sampler] += (best - search.Best(1)[0].HeldOut) / seeds
		}
	}
	t.Logf("below the best by %.4f (TPE), %.4f (random)", shortfall[TPE], shortfall[Random])
	if shortfall[TPE] > 0.015 || shortfall[TPE] > 0.7*shortfall[Random] {
		t.Errorf("below the best by %.4f (TPE), %.4f (random); want at most 0.015, and 0.7 of random search's",
			shortfall[TPE], shortfall[Random])
	}
}

func history(t *testing.T, s *Search) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.path, historyFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A search that is stopped at any moment, and opened again, tries what an undisturbed one does.
func TestStoppedSearchesGoOn(t *testing.T) {
	t.Parallel()
	whole, err := Begin(store(t), settings(t, knownSpace...))
	if err != nil {
		t.Fatal(err)
	}
	if err := whole.Run(t.Context(), each(known), Budget{Trials: 40}); err != nil {
		t.Fatal(err)
	}
	want := history(t, whole)
	if lines := strings.Count(want, "\n"); lines != 5*(8+4+2) {
		t.Errorf("%d lines, want 5 brackets of 8, 4 and 2", lines)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		st := store(t)
		stops, budget := 0, Budget{Trials: 8}
		for {
			s, err := Begin(st, settings(t, knownSpace...))
			if err != nil {
				t.Fatal(err)
			}
			left := 1 + rng.IntN(20) // Runs until it is stopped, in the middle of a rung or not.
			err = s.Run(t.Context(), func(ctx context.Context, specs []runs.Spec) ([]Outcome, error) {
				if left -= len(specs); left < 0 {
					return nil, context.Canceled
				}
				return each(known)(ctx, specs)
			}, budget)
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			stops++
			if err == nil && budget.Trials == 40 {
				if got := history(t, s); got != want {
					t.Errorf("stopped %d times:\n%s\nundisturbed:\n%s", stops, got, want)
				}
				break
			}
			budget.Trials = min(40, budget.Trials+8) // A budget that grows changes nothing either.
		}
	}
	// Opened for reading alone, it is the same.
	again, err := Open(&runs.Store{Dir: filepath.Dir(filepath.Dir(whole.path))}, "a")
	if err != nil || !reflect.DeepEqual(again.Records, whole.Records) {
		t.Errorf("read back: %v", err)
	}
}

// results are what runs found: on the held-out classes what the known function says, on the test classes anything.
func results(specs []runs.Spec, test func(heldOut float64) float64) []*runs.Result {
	var out []*runs.Result
	for _, s := range specs {
		o := known(s)
		r := &runs.Result{Hash: s.Hash(), Spec: s, Seconds: o.Seconds, Measures: train.Measures{Diverged: o.Diverged}}
		if o.Diverged == "" {
			r.HeldOutRecall = map[int]float64{1: o.HeldOut}
			if test != nil {
				v := test(o.HeldOut)
				r.Recall, r.MAPAtR, r.RPrecision, r.Overlap, r.Compact = map[int]float64{1: v, 2: v}, v, v, v, v
			}
		}
		out = append(out, r)
	}
	return out
}

// Whatever is measured on the test classes, a search tries and chooses the same; the choice's test runs alone show it.
func TestNeverSeesTestClasses(t *testing.T) {
	t.Parallel()
	run := func(test func(float64) float64) (string, *Selection) {
		s, err := Begin(store(t), settings(t, knownSpace...))
		if err != nil {
			t.Fatal(err)
		}
		train := func(_ context.Context, specs []runs.Spec) ([]*runs.Result, error) {
			return results(specs, test), nil
		}
		if err := s.Run(t.Context(), TrainObjective(train), Budget{Trials: 32}); err != nil {
			t.Fatal(err)
		}
		v, err := s.Select(t.Context(), train, StandardFinals)
		if err != nil {
			t.Fatal(err)
		}
		return history(t, s), v
	}
	want, chosen := run(nil)
	for name, test := range map[string]func(float64) float64{
		"the opposite": func(v float64) float64 { return 1 - v },
		"perfect":      func(float64) float64 { return 1 },
		"NaN":          func(float64) float64 { return math.NaN() },
	} {
		got, v := run(test)
		if got != want {
			t.Errorf("test recall that is %s changes what is tried", name)
		}
		if v.Chosen != chosen.Chosen || v.Finalists[v.Chosen].Run != chosen.Finalists[chosen.Chosen].Run {
			t.Errorf("test recall that is %s changes what is chosen", name)
		}
	}
	for _, r := range chosen.Tests {
		if r.Spec.HeldOut != 0 || r.Spec.Epochs != 24 {
			t.Errorf("tested by %s", r.Spec.Canonical())
		}
	}
	for _, f := range chosen.Finalists {
		for _, r := range f.Fresh {
			if r.Spec.HeldOut != 4 || r.Spec.Seed == 1 {
				t.Errorf("tried again by %s", r.Spec.Canonical())
			}
		}
	}
	if seeds := len(chosen.Tests); seeds != 3 {
		t.Errorf("%d test runs", seeds)
	}
}

// Of two that run one search, the second waits for the first and loses nothing of what that has found.
func TestTwoThatRunOneSearch(t *testing.T) {
	t.Parallel()
	where := store(t)
	var both [2]*Search
	for i := range both { // Each before the other has run anything.
		var err error
		if both[i], err = Begin(where, settings(t, knownSpace...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := both[0].Run(t.Context(), each(known), Budget{Trials: 16}); err != nil {
		t.Fatal(err)
	}
	want := history(t, both[0])
	none := func(context.Context, []runs.Spec) ([]Outcome, error) {
		return nil, errors.New("a trial was run again")
	}
	if err := both[1].Run(t.Context(), none, Budget{Trials: 8}); err != nil || history(t, both[1]) != want {
		t.Errorf("%v, a history of %d records, want %d", err, len(both[1].Records), len(both[0].Records))
	}
	unlock, err := where.Lock(t.Context(), "search-a")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := both[1].Run(ctx, none, Budget{Trials: 24}); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "waiting for another process") {
		t.Errorf("while it is locked: %v", err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	b := base(t)
	for want, given := range map[string]string{
		`no parameter "speed"; there are direction, pair`: "speed",
		"is empty: want low..high":                        "lr=2..1",
		"range 1 to 1 is empty":                           "lr=1..1",
		"must begin above 0":                              "lr=0..1",
		"want two numbers":                                "lr=a..b",
		"want low..high, or numbers":                      "lr=a,b",
		`no choice "up"; there are euc, cos`:              "direction=cos,up",
		"decay is 2, must be a share of the epochs":       "decay=0.5..2",
		"rule cos/con/con does not have it":               "tau",
		`"0" is no whole number`:                          "images=0,4",
		"has no triplets":                                 "images=64,8",
		"a batch of 256 classes needs as many":            "batch=2048,64",
		`no choice ""; there are euc`:                     "direction=cos,",
	} {
		if _, err := NewSpace(b, given); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want …%s…", given, err, want)
		}
	}
	if _, err := NewSpace(b, "lr", "lr=1..2"); err == nil || !strings.Contains(err.Error(), "given twice") {
		t.Error(err)
	}
	st := store(t)
	good := settings(t, knownSpace...)
	for want, change := range map[string]func(*Settings){
		"nothing to search":          func(s *Settings) { s.Space = nil },
		"held_out is 0":              func(s *Settings) { s.Base.HeldOut = 0 },
		`no sampler "grid"`:          func(s *Settings) { s.Sampler = "grid" },
		"brackets of 1 trials":       func(s *Settings) { s.Bracket = 1 },
		"end with 24":                func(s *Settings) { s.Rungs = []int{6, 12} },
		`"../x" is not a valid name`: func(s *Settings) { s.Name = "../x" },
		"which does not precede": func(s *Settings) {
			s.Space = Space{{Name: "tau", Low: 1, High: 2, Of: "triplet", In: []string{"cos"}}}
		},
		"must begin above 0": func(s *Settings) { s.Space = Space{{Name: "lr", High: 2, Log: true}} },
		"range NaN to 2":     func(s *Settings) { s.Space = Space{{Name: "lr", Low: math.NaN(), High: 2}} },
		"lr: occurs twice":   func(s *Settings) { s.Space = Space{{Name: "lr", High: 2}, {Name: "lr", High: 2}} },
		"lists none of its values": func(s *Settings) {
			s.Space = Space{{Name: "pair", Choices: []string{"con"}}, {Name: "beta", High: 2, Of: "pair"}}
		},
		"is empty or occurs twi": func(s *Settings) { s.Space = Space{{Name: "pair", Choices: []string{"con", "con"}}} },
	} {
		s := good
		change(&s)
		if _, err := Begin(st, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want …%s…", err, want)
		}
	}
	s, err := Begin(st, good)
	if err != nil {
		t.Fatal(err)
	}
	for _, budget := range []Budget{{}, {Trials: -1, Hours: 1}, {Hours: math.NaN()}} {
		if err := s.Run(t.Context(), each(known), budget); err == nil || !strings.Contains(err.Error(), "above 0") {
			t.Errorf("budget %v: %v", budget, err)
		}
	}
	if _, err := s.Select(t.Context(), nil, StandardFinals); err == nil ||
		!strings.Contains(err.Error(), "nothing to choose") {
		t.Error(err)
	}
	if _, err := Open(st, "b"); err == nil || !strings.Contains(err.Error(), `no search "b"`) ||
		!strings.Contains(err.Error(), "there are a") {
		t.Error(err)
	}
}

// A search that goes on must have the settings that it began with, and is told where they differ.
func TestOtherSettings(t *testing.T) {
	t.Parallel()
	st := store(t)
	if _, err := Begin(st, settings(t, knownSpace...)); err != nil {
		t.Fatal(err)
	}
	if _, err := Begin(st, settings(t, knownSpace...)); err != nil {
		t.Errorf("the same settings: %v", err)
	}
	other := settings(t, "direction=cos,euc", "lr=0.02..10", "decay=0.3..1", "batch")
	other.Base.LR, other.Seed = 0.7, 9
	_, err := Begin(st, other)
	if err == nil {
		t.Fatal("a search goes on with other settings")
	}
	all, _, _ := dmlx.PartNames()
	for _, want := range []string{"its space has direction=" + strings.Join(all, ",") + ", not direction=cos,euc",
		"also pair=", "lr=0.01..10, not lr=0.02..10", "no batch", "; lr 0.3, not 0.7", "search_seed 1, not 9",
		"another --name"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

func TestAllDiverge(t *testing.T) {
	t.Parallel()
	s, err := Begin(store(t), settings(t, "direction", "lr=6..10"))
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	err = s.Run(t.Context(), func(ctx context.Context, specs []runs.Spec) ([]Outcome, error) {
		calls += len(specs)
		return each(known)(ctx, specs)
	}, Budget{Trials: 80})
	if err == nil || !strings.Contains(err.Error(), "all 16 trials of search a diverged") ||
		!strings.Contains(err.Error(), "lower learning rates") {
		t.Errorf("%v after %d runs", err, calls)
	}
}

func TestDamagedHistory(t *testing.T) {
	t.Parallel()
	st := store(t)
	s, err := Begin(st, settings(t, knownSpace...))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), each(known), Budget{Trials: 8}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.path, historyFile)
	lines := strings.SplitAfter(history(t, s), "\n")
	if err := os.WriteFile(path, []byte(strings.Join(lines[1:], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = Open(st, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), each(known), Budget{Trials: 8}); err == nil ||
		!strings.Contains(err.Error(), "7 trials of bracket 0 at 6 epochs, want 8") {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte(lines[0]+"{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(st, "a"); err == nil || !strings.Contains(err.Error(), "trials.jsonl, line 2, is damaged") {
		t.Error(err)
	}
}

func TestHistoryThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	st := store(t)
	s, err := Begin(st, settings(t, knownSpace...))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(s.path); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), each(known), Budget{Trials: 8}); err == nil ||
		!strings.Contains(err.Error(), "cannot write the history of search a") {
		t.Error(err)
	}
}

func TestRungsAndPromotion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		epochs, factor, count int
		want                  []int
	}{{24, 2, 3, []int{6, 12, 24}}, {60, 4, 2, []int{15, 60}}, {2, 2, 3, []int{1, 2}}, {1, 2, 3, []int{1}}, {24, 3, 3,
		[]int{3, 8, 24}}, {20, 2, 1, []int{20}}} {
		if got, err := Rungs(c.epochs, c.factor, c.count); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, %v", c, got, err)
		}
	}
	if _, err := Rungs(0, 2, 3); err == nil {
		t.Error("no epochs")
	}
	worst := math.Inf(-1)
	for _, c := range []struct {
		scores []float64
		want   []int
	}{
		{[]float64{1, 4, 3, 2}, []int{1, 2}}, {[]float64{1, 1, 1, 1}, []int{0, 1}}, {[]float64{worst, 1, worst, worst},
			[]int{1}},
		{[]float64{worst, worst}, nil}, {[]float64{5}, []int{0}}, {[]float64{2, 3, 1}, []int{1}},
	} {
		if got := promoted(c.scores, 2); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.scores, got, c.want)
		}
	}
}

// Values keep to a few digits, to their range, and are read as they are written.
func TestValues(t *testing.T) {
	t.Parallel()
	lr := Parameter{Name: "lr", Low: 0.0375, High: 2.4, Log: true}
	for unit, want := range map[float64]string{0: "0.0375", 1: "2.4", 0.5: "0.3", 0.25: "0.106"} {
		got := lr.value(unit)
		if got != want {
			t.Errorf("%g is %s, want %s", unit, got, want)
		}
		if back, err := lr.Unit(got); err != nil || math.Abs(back-unit) > 2e-3 {
			t.Errorf("%s is read as %g, %v", got, back, err)
		}
	}
	if v := (Parameter{Low: 0.12345, High: 0.2}).value(0); v != "0.12345" {
		t.Errorf("a value outside its range: %s", v)
	}
	for _, bad := range []string{"x", "NaN", "-1"} {
		if _, err := lr.Unit(bad); err == nil {
			t.Errorf("%s is a rate", bad)
		}
	}
	if _, err := (Parameter{Name: "p", Choices: []string{"a"}}).Unit("b"); err == nil ||
		!strings.Contains(err.Error(), "there are a") {
		t.Error(err)
	}
}

// A parameter that belongs to a part of the rule is drawn where the rule has it, and only there.
func TestTiedParameters(t *testing.T) {
	t.Parallel()
	s := settings(t, "pair", "triplet", "tau", "alpha", "epsilon", "lr")
	for i := range 200 {
		at := s.Space.draw(rand.New(rand.NewPCG(uint64(i), 0)))
		for name, counts := range map[string]bool{
			"tau":     !strings.HasPrefix(at["triplet"], "con"),
			"alpha":   at["pair"] == "sig" || at["pair"] == "sig-ms",
			"epsilon": at["pair"] == "lin-ms" || at["pair"] == "sig-ms",
		} {
			if _, there := at[name]; there != counts {
				t.Fatalf("%v: %s", at, name)
			}
		}
		spec, err := Apply(s.Base, s.Space, at)
		if err != nil {
			t.Fatal(err)
		}
		if err := spec.Validate(); err != nil {
			t.Fatal(err)
		}
		if v, there := at["tau"]; there && v != "1" && !strings.Contains(spec.Rule, "tau="+v) {
			t.Fatalf("%v is %s", at, spec.Rule)
		}
	}
	// Around a rule, what belongs to no part of it and what its own parts have is left.
	ours, err := dmlx.ParseRule("ours")
	if err != nil {
		t.Fatal(err)
	}
	b := s.Base
	b.Objective, err = objectives.ByRule(ours)
	if err != nil {
		t.Fatal(err)
	}
	around, err := s.Space.Around(b)
	var names []string
	for _, p := range around {
		names = append(names, p.Name+p.Of)
	}
	if err != nil || !slices.Equal(names, []string{"tau", "epsilon", "lr"}) {
		t.Errorf("around %s: %v, %v", b.Rule, names, err)
	}
	// Where all of a part's choices have it, it is tied to none.
	if p := settings(t, "pair=sig,sig-ms", "alpha").Space[1]; p.Of != "" {
		t.Errorf("tied to %s", p.Of)
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	rule, err := dmlx.ParseRule("cos/sig/cos?alpha=3&sum&tau=2")
	if err != nil {
		t.Fatal(err)
	}
	b := base(t)
	b.Objective, err = objectives.ByRule(rule)
	if err != nil {
		t.Fatal(err)
	}
	space := Space{{Name: "pair", Choices: []string{"con", "sig"}}, {Name: "lr", Low: 0.1, High: 1},
		{Name: "batch", Choices: []string{"32"}}, {Name: "images", Choices: []string{"4", "6"}}}
	got, err := Apply(b, space, Point{"pair": "con", "lr": "0.25", "batch": "32", "images": "4"})
	if err != nil {
		t.Fatal(err)
	}
	// Alpha goes with sig; the sum and the triplet weight's slope stay. 30 steps of 64 images are 60 of 32.
	if got.Rule != "cos/con/cos?sum&tau=2" || got.LR != 0.25 || got.ClassesPerBatch != 8 || got.ImagesPerClass != 4 ||
		got.StepsPerEpoch != 60 || got.Epochs != 24 {
		t.Errorf("%s", got.Canonical())
	}
	if got, err = Apply(b, space, Point{"images": "6"}); err != nil || got.ClassesPerBatch != 11 ||
		got.StepsPerEpoch != 29 || got.Rule != b.Rule {
		t.Errorf("%s, %v", got.Canonical(), err) // 64/6 is about 11 classes; 1920/66 about 29 steps.
	}
	if got, err = Apply(b, space, nil); err != nil || got.Hash() != b.Hash() {
		t.Errorf("a point of nothing: %s, %v", got.Canonical(), err)
	}
}

// The whole space, as a user gets it, keeps to what the data sets can give.
func TestNewSpace(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{"minicar": "4,8,16", "minishop": "2,4"} {
		p, err := presets.Parse("quick")
		if err != nil {
			t.Fatal(err)
		}
		b, err := p.Spec(data, dmlx.Rule{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		b.HeldOut = 4
		s, err := NewSpace(b)
		if err != nil {
			t.Fatal(err)
		}
		names, _ := Names()
		for i, name := range names {
			if i >= len(s) || s[i].Name != name {
				t.Fatalf("%s: %v", data, s)
			}
		}
		if got := strings.Join(s[s.index("images")].Choices, ","); got != want {
			t.Errorf("%s: %s images of a class, want %s", data, got, want)
		}
	}
}

func TestAgreement(t *testing.T) {
	t.Parallel()
	s := &Search{Settings: Settings{Rungs: []int{1, 2}}}
	for i, v := range []struct{ short, long float64 }{{0.1, 0.3}, {0.2, 0.2}, {0.3, 0.5}, {0.4, 0.6}, {0.9, 0}} {
		s.Records = append(s.Records, Record{Trial: i, HeldOut: v.short})
		if i < 4 {
			s.Records = append(s.Records, Record{Trial: i, Rung: 1, HeldOut: v.long})
		}
	}
	// Ranks 1 2 3 4 and 2 1 3 4: ρ = 1 − 6·2/(4·15).
	if rho, n := s.Agreement(0); n != 4 || math.Abs(rho-0.8) > 1e-12 {
		t.Errorf("ρ %g of %d", rho, n)
	}
}

// A record is a line of JSON that is read back as it was.
func TestRecordJSON(t *testing.T) {
	t.Parallel()
	r := Record{Trial: 3, Rung: 1, Epochs: 12, At: Point{"lr": "0.3", "direction": "cos"}, Run: "0123456789ab",
		HeldOut: 0.1 + 0.2, Seconds: 1.5}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Record
	if err := json.Unmarshal(raw, &back); err != nil || !reflect.DeepEqual(back, r) || !maps.Equal(back.At, r.At) {
		t.Errorf("%s: %+v, %v", raw, back, err)
	}
	if fmt.Sprint(Record{Diverged: "x", HeldOut: 1}.Score()) != "-Inf" {
		t.Error("a diverged run scores")
	}
}

// The searches that come with the program are whole.
func TestBundled(t *testing.T) {
	t.Parallel()
	st := store(t)
	names, err := List(st)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		s, err := Open(st, name)
		if err != nil {
			t.Error(err)
		} else if s.Name != name || len(s.Best(1)) == 0 {
			t.Errorf("%s is called %s and has %d records", name, s.Name, len(s.Records))
		}
	}
	t.Logf("%d searches", len(names))
}

// What the trials say of a parameter: the shortest runs, without those that diverged.
func TestTrialsByParameter(t *testing.T) {
	s := &Search{Settings: Settings{Space: Space{{Name: "pair", Choices: []string{"con", "lin", "sig"}},
		{Name: "lr", Low: 0.1, High: 1}}}}
	for i, r := range []Record{
		{At: Point{"pair": "con", "lr": "0.2"}, HeldOut: 0.5},
		{At: Point{"pair": "lin", "lr": "0.4"}, HeldOut: 0.7},
		{At: Point{"pair": "lin", "lr": "0.3"}, HeldOut: 0.8},
		{At: Point{"pair": "con", "lr": "0.9"}, Diverged: "not finite"},
		{At: Point{"pair": "lin", "lr": "0.4"}, Rung: 1, HeldOut: 0.9},
	} {
		r.Trial = i
		s.Records = append(s.Records, r)
	}
	values, recall := s.Numbers("lr")
	if !slices.Equal(values, []float64{0.2, 0.4, 0.3}) || !slices.Equal(recall, []float64{0.5, 0.7, 0.8}) {
		t.Errorf("%v with %v", values, recall)
	}
	if values, _ := s.Numbers("pair"); values != nil {
		t.Errorf("pair has the numbers %v", values)
	}
	c := s.Choices("pair")
	if len(c) != 2 || c[0].Value != "lin" || c[0].Recall.N != 2 || math.Abs(c[0].Recall.Mean-0.75) > 1e-12 ||
		c[1].Recall.Mean != 0.5 {
		t.Errorf("%+v", c)
	}
	if s.Choices("lr") != nil || s.Choices("nowhere") != nil {
		t.Error("a range or an unknown parameter has choices")
	}
}

package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// Settings decide which points a search tries. Except for the name, they cannot change once it has started.
type Settings struct {
	Name string `json:"name"`
	// Base has the values of all parameters that are not in the space. It must hold out classes.
	Base    runs.Spec `json:"base"`
	Space   Space     `json:"space"`
	Sampler Sampler   `json:"sampler"`
	Seed    uint64    `json:"search_seed"` // Seed of the sampler.
	// Bracket is the number of trials that compete with each other. One in Factor of them goes on to the next of the
	// Rungs, which are lengths in epochs.
	Bracket int   `json:"bracket"`
	Factor  int   `json:"factor"`
	Rungs   []int `json:"rungs"`
}

// Check returns an error if the settings are invalid.
func (s Settings) Check() error {
	if err := s.Space.Check(); err != nil {
		return err
	}
	if s.Base.HeldOut < 2 {
		return fmt.Errorf("held_out is %d: want at least 2, because a search needs held-out classes to choose by",
			s.Base.HeldOut)
	}
	if s.Sampler != TPE && s.Sampler != Random {
		return errs.NoSuch(fmt.Sprintf("no sampler %q", s.Sampler), string(s.Sampler), Samplers())
	}
	if s.Bracket < 2 || s.Factor < 2 {
		return fmt.Errorf("brackets of %d trials, of which one in %d goes on: want at least 2 and 2", s.Bracket, s.Factor)
	}
	if len(s.Rungs) == 0 || !slices.IsSorted(s.Rungs) || s.Rungs[0] < 1 || s.Rungs[len(s.Rungs)-1] != s.Base.Epochs {
		return fmt.Errorf("rungs of %d epochs: want increasing lengths that end with %d", s.Rungs, s.Base.Epochs)
	}
	return nil
}

// Search is a search with its history.
type Search struct {
	Settings
	Records []Record // In the order of brackets, then of rungs, then of trials.

	base  runs.Spec // As given to Begin: it may contain the path of a data set on this machine.
	store *runs.Store
	path  string
}

// Budget limits a search. It ends at the first limit that is not 0.
type Budget struct {
	Trials int     // Rounded up to whole brackets.
	Hours  float64 // Total time of the runs, as in their results.
}

// Outcome contains everything that a search may know about a run.
type Outcome struct {
	HeldOut  float64 // Recall@1 of the held-out training classes.
	Diverged string
	Seconds  float64
}

// Objective trains specs, in any order and as many at once as it likes. It returns their outcomes in the order of the
// specs.
type Objective func(ctx context.Context, specs []runs.Spec) ([]Outcome, error)

// OutcomeOf returns the part of a result that a search may know.
func OutcomeOf(r *runs.Result) (Outcome, error) {
	o := Outcome{Diverged: r.Diverged, Seconds: r.Seconds}
	v, measured := r.HeldOutRecall[1]
	if !measured && r.Diverged == "" {
		return o, fmt.Errorf("run %s did not measure the recall of held-out classes", r.Hash)
	}
	if r.Diverged == "" {
		o.HeldOut = v
	}
	return o, nil
}

// maxDivergedBrackets is the number of brackets without a finite run after which a search gives up.
const maxDivergedBrackets = 2

// Run continues a search until its budget is used up. A search that was stopped is continued by [Open] or [Begin] and
// Run. Only one process at a time runs a search. Another one waits, and then continues from the history.
func (s *Search) Run(ctx context.Context, train Objective, b Budget) error {
	if b.Trials <= 0 && b.Hours <= 0 {
		return errors.New("a search needs a budget: trials, or hours, above 0")
	}
	if math.IsNaN(b.Hours) || b.Trials < 0 || b.Hours < 0 {
		return fmt.Errorf("budget of %d trials and %g hours: want numbers above 0", b.Trials, b.Hours)
	}
	unlock, err := s.store.Lock(ctx, "search-"+s.Name)
	if err != nil {
		return fmt.Errorf("search %s: %w", s.Name, err)
	}
	defer unlock()
	if err := s.readHistory(); err != nil {
		return err
	}
	for bracket := 0; ; bracket++ {
		began := s.began(bracket)
		if !began && (b.Trials > 0 && bracket*s.Bracket >= b.Trials || b.Hours > 0 && s.Seconds() >= 3600*b.Hours) {
			return nil
		}
		if err := s.bracket(ctx, train, bracket); err != nil {
			return err
		}
		if bracket+1 >= maxDivergedBrackets && !s.measured() {
			last := s.Records[len(s.Records)-1]
			return fmt.Errorf("all %d trials of search %s diverged; the last one was %s: %s; search lower learning rates or "+
				"other rules",
				(bracket+1)*s.Bracket, s.Name, s.Space.Text(last.At), last.Diverged)
		}
	}
}

// Seconds returns the total time of all runs.
func (s *Search) Seconds() float64 {
	sum := 0.0
	for _, r := range s.Records {
		sum += r.Seconds
	}
	return sum
}

// Trials returns the number of trials so far.
func (s *Search) Trials() int {
	n := 0
	for _, r := range s.Records {
		n = max(n, r.Trial+1)
	}
	return n
}

// measured reports whether any run did not diverge.
func (s *Search) measured() bool {
	return slices.ContainsFunc(s.Records, func(r Record) bool { return r.Diverged == "" })
}

func (s *Search) began(bracket int) bool {
	return slices.ContainsFunc(s.Records, func(r Record) bool { return r.Trial/s.Bracket == bracket })
}

// at returns the records of a bracket at a rung.
func (s *Search) at(bracket, rung int) []Record {
	var out []Record
	for _, r := range s.Records {
		if r.Trial/s.Bracket == bracket && r.Rung == rung {
			out = append(out, r)
		}
	}
	return out
}

// bracket trains the remaining runs of a bracket.
func (s *Search) bracket(ctx context.Context, train Objective, bracket int) error {
	points, err := s.points(bracket)
	if err != nil {
		return err
	}
	going := make([]int, s.Bracket) // Indices, within the bracket, of the trials that reach a rung.
	for i := range going {
		going[i] = i
	}
	for rung := range s.Rungs {
		done := s.at(bracket, rung)
		if len(done) == 0 {
			if done, err = s.rung(ctx, train, bracket, rung, going, points); err != nil {
				return err
			}
		}
		if len(done) != len(going) {
			return fmt.Errorf("search %s: %s has %d trials of bracket %d at %d epochs, want %d: it is damaged or of another "+
				"version",
				s.Name, historyFile, len(done), bracket, s.Rungs[rung], len(going))
		}
		scores := slice.Map(done, Record.Score)
		var next []int
		for _, i := range promoted(scores, s.Factor) {
			next = append(next, going[i])
		}
		if going = next; len(going) == 0 {
			return nil
		}
	}
	return nil
}

// points returns the points of a bracket. They depend only on earlier brackets.
func (s *Search) points(bracket int) ([]Point, error) {
	if begun := s.at(bracket, 0); len(begun) > 0 {
		return slice.Map(begun, func(r Record) Point { return r.At }), nil
	}
	rng := rand.New(rand.NewPCG(s.Seed, uint64(bracket)))
	return s.Sampler.propose(s.Space, s.observations(), s.Bracket, rng)
}

// observations returns the points that a sampler learns from. The score is that of the longest run. For each length
// that a trial did not reach, the mean gain of the trials that did is added, so that stopped trials can be compared
// with the others.
func (s *Search) observations() []Observation {
	scores := make(map[int][]float64) // Scores of each trial, by rung.
	var order []Record
	for _, r := range s.Records {
		if r.Rung == 0 {
			order = append(order, r)
		}
		scores[r.Trial] = append(scores[r.Trial], r.Score())
	}
	gains := make([]float64, len(s.Rungs)) // Mean gain from each rung to the next.
	for rung := range len(s.Rungs) - 1 {
		var all []float64
		for _, r := range order {
			if v := scores[r.Trial]; len(v) > rung+1 && !math.IsInf(v[rung+1], -1) {
				all = append(all, v[rung+1]-v[rung])
			}
		}
		if len(all) > 0 {
			gains[rung] = stat.Mean(all, nil)
		}
	}
	var out []Observation
	for _, r := range order {
		v := scores[r.Trial]
		out = append(out, Observation{r.At, v[len(v)-1] + floats.Sum(gains[len(v)-1:])})
	}
	return out
}

// rung trains trials at a length and adds them to the history.
func (s *Search) rung(
	ctx context.Context, train Objective, bracket, rung int, going []int, points []Point,
) ([]Record, error) {
	specs := make([]runs.Spec, len(going))
	records := make([]Record, len(going))
	for i, k := range going {
		spec, err := s.Spec(points[k])
		if err != nil {
			return nil, err
		}
		spec.Epochs = s.Rungs[rung]
		specs[i] = spec
		records[i] = Record{Trial: bracket*s.Bracket + k, Rung: rung, Epochs: spec.Epochs, At: points[k], Run: spec.Hash()}
	}
	outcomes, err := train(ctx, specs)
	if err != nil {
		return nil, err
	}
	if len(outcomes) != len(specs) {
		return nil, fmt.Errorf("search %s: the objective returned %d outcomes, want %d", s.Name, len(outcomes), len(specs))
	}
	for i, o := range outcomes {
		records[i].HeldOut, records[i].Diverged, records[i].Seconds = o.HeldOut, o.Diverged, o.Seconds
	}
	s.Records = append(s.Records, records...)
	return records, s.saveHistory()
}

// Best returns the n best trials of the full length, the best first, without diverged ones.
func (s *Search) Best(n int) []Record {
	var out []Record
	for _, r := range s.Records {
		if r.Rung == len(s.Rungs)-1 && r.Diverged == "" {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b Record) int {
		if a.HeldOut != b.HeldOut {
			return int(math.Copysign(1, b.HeldOut-a.HeldOut))
		}
		return a.Trial - b.Trial
	})
	return out[:min(n, len(out))]
}

// Numbers returns the values of a parameter that are numbers, and the held-out recall of each, a fraction, among the
// runs of the first and shortest length, which all trials have. Diverged runs are left out.
func (s *Search) Numbers(parameter string) (values, recall []float64) {
	for _, r := range s.Records {
		v, err := strconv.ParseFloat(r.At[parameter], 64)
		if err == nil && r.Rung == 0 && r.Diverged == "" {
			values, recall = append(values, v), append(recall, r.HeldOut)
		}
	}
	return values, recall
}

// Choice is a value of a parameter with the held-out recall of the trials that have it, a fraction.
type Choice struct {
	Value  string
	Recall stats.Mean
}

// Choices returns the choices of a parameter that trials have, with their recall at the first length, the best first. A
// range has none.
func (s *Search) Choices(parameter string) []Choice {
	i := s.Space.index(parameter)
	if i < 0 {
		return nil
	}
	var out []Choice
	for _, choice := range s.Space[i].Choices {
		var recall []float64
		for _, r := range s.Records {
			if r.At[parameter] == choice && r.Rung == 0 && r.Diverged == "" {
				recall = append(recall, r.HeldOut)
			}
		}
		if recall != nil {
			out = append(out, Choice{choice, stats.MeanOf(recall)})
		}
	}
	slices.SortStableFunc(out, func(a, b Choice) int { return cmp.Compare(b.Recall.Mean, a.Recall.Mean) })
	return out
}

// Agreement returns Spearman's rank correlation between the scores of n promoted trials at a rung and at the next one:
// how well a short run predicts a long one. It is NaN for fewer than three trials.
func (s *Search) Agreement(rung int) (rho float64, n int) {
	var a, b []float64
	for _, long := range s.Records {
		if long.Rung != rung+1 || long.Diverged != "" {
			continue
		}
		for _, short := range s.Records {
			if short.Trial == long.Trial && short.Rung == rung {
				a, b = append(a, short.HeldOut), append(b, long.HeldOut)
			}
		}
	}
	if len(a) < 3 {
		return math.NaN(), len(a)
	}
	return stats.Spearman(a, b), len(a)
}

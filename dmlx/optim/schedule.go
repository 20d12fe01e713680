package optim

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/query"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// Schedule says how learning rates change in the course of a training. [ParseSchedule] reads one from text. The zero
// value keeps the rates constant.
type Schedule struct {
	// Name is "constant", also if it is empty, "step" or "cosine".
	Name string

	// At lists where a step schedule multiplies the rates by Factor, as rising shares of the epochs; Epochs lists the same
	// as numbers of epochs done before. One of them is empty.
	At     []float64
	Epochs []int
	Factor float64

	// Final is the share of the rates at which a cosine would end, one step after the last.
	Final float64

	// Warmup is the number of steps in which the rates rise linearly: step k, counted from 1, has the share k/Warmup. The
	// cosine begins after them.
	Warmup int
}

const constant, stepDecay, cosine = "constant", "step", "cosine"

// schedules has the schedules of the names, with their defaults.
var schedules = map[string]Schedule{
	"":        {Name: constant},
	constant:  {Name: constant},
	stepDecay: {Name: stepDecay, Factor: 0.1},
	cosine:    {Name: cosine},
}

// settings lists the numbers of the schedule, except its warm-up and places.
func (s *Schedule) settings() []setting {
	switch s.Name {
	case stepDecay:
		return []setting{{name: "factor", at: &s.Factor,
			ok: func(v float64) bool { return v > 0 && v < 1 }, want: "a number between 0 and 1"}}
	case cosine:
		return []setting{{name: "final", at: &s.Final,
			ok: func(v float64) bool { return v >= 0 && v < 1 }, want: "a number from 0 to below 1"}}
	}
	return nil
}

// PaperSchedule is the paper's schedule (§4.1): a tenth of the rates after 60 % of the epochs.
const PaperSchedule = "step?at=0.6"

// ParseSchedule reads a schedule of learning rates:
//
//	constant?warmup=100              100 steps of linear warm-up, then the learning rate
//	step?at=0.5,0.8&factor=0.2       a fifth after half and after 80 % of the epochs
//	step?epochs=30,50                a tenth after 30 and after 50 epochs
//	cosine?warmup=100&final=0.01     half a cosine from the rate to a hundredth, step by step
//
// The factor of a step schedule is 0.1 unless it is given, and the final share of a cosine is 0.
func ParseSchedule(text string) (Schedule, error) {
	name, _, _ := strings.Cut(text, "?")
	s, known := schedules[name]
	if !known {
		return s, fmt.Errorf("schedule %q: there is no %q; there are %s, %s, %s", text, name, constant, stepDecay, cosine)
	}
	more := []query.Option{{Name: "warmup", Text: func(value string) (err error) {
		if s.Warmup, err = strconv.Atoi(value); err != nil || s.Warmup < 1 || s.Warmup > 1<<30 {
			return errors.New("want a number of steps, at least 1")
		}
		return nil
	}}}
	if s.Name == stepDecay {
		more = append(more, query.Option{Name: "at", Text: func(value string) (err error) {
			s.At, err = rising(value, func(text string) (float64, error) { return strconv.ParseFloat(text, 64) })
			if err != nil || !(s.At[0] > 0) || !(s.At[len(s.At)-1] < 1) {
				return errors.New("want rising shares of the epochs between 0 and 1, as in 0.5,0.75")
			}
			return nil
		}}, query.Option{Name: "epochs", Text: func(value string) (err error) {
			if s.Epochs, err = rising(value, strconv.Atoi); err != nil || s.Epochs[0] < 1 {
				return errors.New("want rising numbers of epochs, at least 1, as in 30,50")
			}
			return nil
		}})
	}
	if err := readSettings(text, s.settings(), more...); err != nil {
		return s, fmt.Errorf("schedule %q: %w", text, err)
	}
	if s.Name == stepDecay && (s.At == nil) == (s.Epochs == nil) {
		return s, fmt.Errorf("schedule %q: want either at=0.5,0.75, shares of the epochs, or epochs=30,45", text)
	}
	return s, nil
}

// rising reads numbers with commas between them, each above the one before.
func rising[T int | float64](text string, parse func(text string) (T, error)) ([]T, error) {
	var out []T
	for field := range strings.SplitSeq(text, ",") {
		v, err := parse(field)
		if err != nil {
			return nil, err
		}
		if n := len(out); n > 0 && !(v > out[n-1]) {
			return nil, errors.New("not rising")
		}
		out = append(out, v)
	}
	return out, nil
}

// String returns the canonical text, which [ParseSchedule] reads.
func (s Schedule) String() string {
	d, known := schedules[s.Name]
	if !known {
		return s.Name
	}
	s.Name = d.Name
	var fields []string
	if len(s.At) > 0 {
		fields = append(fields, "at="+joined(s.At))
	}
	if len(s.Epochs) > 0 {
		fields = append(fields, "epochs="+joined(s.Epochs))
	}
	fields = append(fields, differing(s.settings(), d.settings())...)
	if s.Warmup > 0 {
		fields = append(fields, "warmup="+strconv.Itoa(s.Warmup))
	}
	return query.Join(s.Name, fields)
}

// joined returns numbers with commas between them.
func joined[T int | float64](values []T) string {
	text := func(v T) string { return strconv.FormatFloat(float64(v), 'g', -1, 64) }
	return strings.Join(slice.Map(values, text), ",")
}

// Share returns the factor of the learning rates in a step, counted from 0, of a training of epochs × perEpoch steps.
func (s Schedule) Share(step, epochs, perEpoch int) float64 {
	if step < s.Warmup {
		return s.main(step, epochs, perEpoch) * float64(step+1) / float64(s.Warmup)
	}
	return s.main(step, epochs, perEpoch)
}

// main is [Schedule.Share] without the warm-up. A cosine has its full height until the warm-up ends.
func (s Schedule) main(step, epochs, perEpoch int) float64 {
	switch s.Name {
	case stepDecay:
		done, share := step/perEpoch, 1.0
		for _, at := range s.At {
			if float64(done) >= at*float64(epochs) {
				share *= s.Factor
			}
		}
		for _, epoch := range s.Epochs {
			if done >= epoch {
				share *= s.Factor
			}
		}
		return share
	case cosine:
		left := float64(max(step-s.Warmup, 0)) / float64(epochs*perEpoch-s.Warmup)
		return s.Final + (1-s.Final)*(1+math.Cos(math.Pi*left))/2
	}
	return 1
}

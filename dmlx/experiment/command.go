package experiment

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gradient-surgery/dml/datasets"
)

// WithCommand returns the error, with the command that trains what is missing if it is a [MissingError].
func WithCommand(err error) error {
	var missing *MissingError
	if errors.As(err, &missing) {
		return fmt.Errorf("%w; to train it: %s", err, makeCommand(missing.Spec))
	}
	return err
}

// makeCommand returns the command that trains a spec.
func makeCommand(s Spec) string {
	if _, err := s.TheRule(); err != nil && s.Loss == "" {
		return "run it again by the rule in your program (runs.Run)"
	}
	preset := PresetOf(s)
	if preset == "custom" || s.HeldOut != 0 || s.Decay != 0 { // Of which train has no flags.
		return "run it again by runs.Run with its spec"
	}
	by := fmt.Sprintf("--rule '%s'", s.Rule)
	if s.Loss != "" {
		by = fmt.Sprintf("--loss '%s'", s.Loss)
		for _, f := range [][2]string{{"miner", s.Miner}, {"exchange", s.Exchange}} {
			if f[1] != "" {
				by += fmt.Sprintf(" --%s '%s'", f[0], f[1])
			}
		}
		if s.ProxyLR != 0 {
			by += fmt.Sprintf(" --proxy-lr %g", s.ProxyLR)
		}
	}
	data := s.Data
	if !isPublished(data) && !slices.Contains(datasets.Names(), data) {
		data = "'" + data + "'"
	}
	text := fmt.Sprintf("dmlx train --preset %s --data %s %s --seed %d --lr %g", preset, data, by, s.Seed, s.LR)
	if s.Precision != "" {
		text += " --precision " + s.Precision
	}
	if s.Piece != 0 {
		text += fmt.Sprintf(" --piece %d", s.Piece)
	}
	if s.Recompute {
		text += " --recompute"
	}
	if s.AllowPartial {
		text += " --allow-partial"
	}
	if s.SkipBad {
		text += " --skip-bad"
	}
	if digest, err := (Config{Arch: s.Arch}).StartDigest(); s.Weights == Pretrained && (err != nil || digest != s.WeightsDigest) {
		text += fmt.Sprintf(" --weights FILE, with the weights of digest %s", s.WeightsDigest)
	}
	return text
}

package paper

import (
	"bytes"
	"embed"
	"fmt"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/scores"
)

// photographFiles are the setting of photographs.md, the learning rates that its searches have chosen on cars and on
// birds, and the longer training.
//
//go:embed photographs.toml photographs-rates.toml photographs-long.toml photographs-birds.toml
var photographFiles embed.FS

// frozenScores are what the network of photographs.md has without training: its features as they are, whitened within
// the training classes with the shrinkage that is best on held-out ones, and cut to the dimension of the trained
// networks. photographs.md says by what they were measured.
//
//go:embed photographs-frozen.csv
var frozenScores []byte

// Frozen returns the scores of a preset's network without training, of its features as they are, whitened and in
// fewer dimensions, if they are known: rows for its tables.
func Frozen(p presets.Preset) (scores.Table, error) {
	all, err := scores.Read(bytes.NewReader(frozenScores))
	return all.Where(func(r scores.Row) bool {
		return r.Data == p.FineGrained && strings.HasSuffix(r.Network, "#"+p.Base.WeightsDigest)
	}), err
}

// What identifies the images and the network of photographs.md, of which only the results are bundled.
const (
	photographs        = "cars-160"
	photographsDigest  = "c33da30116fc05a247bf59c4d02d73ff4d56cd87e95a4e685f6b52acdf934dc8"
	birds              = "cub-160"
	birdsDigest        = "9a7d5e017c5db58cb4211c200cedddac6c2d4ad4b8ec8a9e82ea0bbcf528db61"
	photographsRates   = "photographs-rates.toml"
	photographsLong    = "photographs-long.toml"
	longPhotographs    = "photographs, 960 steps"
	photographsNetwork = "lite0.onnx#efeb510d27c4af39adefa1ec9331298b4a7866966db71ab9e711330addc2535e"
)

// PhotographsPreset returns the preset of photographs.md with the rates that were chosen on held-out classes. Its
// images and network are identified by their digests, so that its bundled runs can be shown without them.
func PhotographsPreset() presets.Preset {
	return photographsPreset("photographs", photographsRates, photographs)
}

// Flags returns what asks on the command line for a preset, with the seeds that full.md has, or with the images and the
// network of photographs.md.
func Flags(p presets.Preset) string {
	switch {
	case p.Name == "full" && len(p.Seeds) == fullSeeds:
		return fmt.Sprintf("--preset full --seeds 1-%d", fullSeeds)
	case p.FineGrained == photographs:
		file := photographsRates
		if p.Name == longPhotographs {
			file = photographsLong
		}
		return fmt.Sprintf("--preset dmlx/paper/%s --set fine_grained=%s --arch lite0.onnx", file, photographs)
	}
	return "--preset " + p.Name
}

// LongPhotographsPreset returns the preset of the longer training in photographs.md: the same with 960 steps and three
// seeds.
func LongPhotographsPreset() presets.Preset {
	return photographsPreset(longPhotographs, photographsLong, photographs)
}

// BirdsPreset returns the preset of photographs.md for birds, which the paper's tables do not have.
func BirdsPreset() presets.Preset { return photographsPreset("birds", "photographs-birds.toml", birds) }

func photographsPreset(name, file, data string) presets.Preset {
	p, err := presets.LoadFS(photographFiles, file)
	if err != nil {
		panic(err) // It is one of the package's own.
	}
	p.Name, p.FineGrained, p.Origin, p.Changes = name, data, "see dmlx/paper/photographs.md", nil
	p.Rates, p.SweepSeeds = []float64{0.0022, 0.0067, 0.02, 0.06, 0.2, 0.6, 2}, []uint64{1} // Those of the search.
	p.Digests = map[string]string{photographs: photographsDigest, birds: birdsDigest}
	_, digest, _ := strings.Cut(photographsNetwork, "#")
	p.Base.Arch, p.Base.Model, p.Base.WeightsDigest = "", photographsNetwork, digest[:12]
	return p
}

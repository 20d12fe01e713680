// Package peer holds the losses against pytorch-metric-learning: values and gradients of both on the same batches. Its
// numbers are in peer.json, made in float64 by peer.py, which says where they are a formula's instead.
package peer

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
	"github.com/gradient-surgery/dml/figures"
)

//go:embed peer.json
var raw []byte

// Fixture is what peer.json holds.
type Fixture struct {
	Torch   string
	Version string `json:"pytorch-metric-learning"`
	Batches []Batch
}

// Batch is a batch with the losses that were computed of it.
type Batch struct {
	Labels                       []int64
	Dim                          int
	Embeddings, Proxies, Centers []float32 // Proxies are one a class, Centers three.
	Losses                       []Loss
}

// Loss is a loss of a batch with its gradients at the un-normalized embeddings and proxies.
type Loss struct {
	Name              string // As losses.Parse reads it, or with " with its miner" behind it.
	Peer              string // Whose numbers they are: PML, formula, or both.
	Value             float64
	Gradient, Proxies []float32
}

// Read gives the fixture.
func Read() (*Fixture, error) {
	var f Fixture
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("peer.json: %w", err)
	}
	return &f, nil
}

// EmbeddingsOf are the embeddings of the batch.
func (b Batch) EmbeddingsOf() dissect.Embeddings {
	return dissect.Embeddings{Values: b.Embeddings, N: len(b.Labels), Dim: b.Dim, Labels: b.Labels}
}

// Ours is the loss here and the proxies that it takes of the batch.
func (b Batch) Ours(name string) (l *losses.Named, loss dmlx.LossFunc, p dissect.Proxies, err error) {
	body, mined := strings.CutSuffix(name, " with its miner")
	if l, err = losses.Parse(body); err != nil {
		return nil, nil, p, err
	}
	loss = l.Of
	if mined {
		loss = miners.With(miners.NewMultiSimilarity(), loss)
	}
	k := losses.PerClass(l)
	if k == 0 {
		return l, loss, p, nil
	}
	p = dissect.Proxies{Values: b.Proxies, Dim: b.Dim}
	if k > 1 {
		p.Values = b.Centers
	}
	p.N = len(p.Values) / p.Dim
	for i := range p.N {
		p.Classes = append(p.Classes, int64(i/k))
	}
	return l, loss, p, nil
}

// Agreement is how far a loss here is from the peer's over the batches: largest differences, relative to the largest
// value.
type Agreement struct {
	Name, Peer               string
	Value, Gradient, Proxies float64
	HasProxies               bool
}

// Agreements compares all losses on a backend.
func Agreements(b compute.Backend) ([]Agreement, error) {
	f, err := Read()
	if err != nil {
		return nil, err
	}
	var out []Agreement
	for i, batch := range f.Batches {
		for _, want := range batch.Losses {
			if i == 0 && want.Name == "lifted-general" {
				continue // The peer gives anchors without a positive a loss; this batch has one.
			}
			_, loss, p, err := batch.Ours(want.Name)
			if err != nil {
				return nil, err
			}
			d, err := dissect.Loss(b, batch.EmbeddingsOf(), p, loss)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", want.Name, err)
			}
			k := slices.IndexFunc(out, func(a Agreement) bool { return a.Name == want.Name })
			if k < 0 {
				k = len(out)
				out = append(out, Agreement{Name: want.Name, Peer: want.Peer, HasProxies: p.N > 0})
			}
			a := &out[k]
			n := len(batch.Embeddings)
			a.Value = max(a.Value, math.Abs(float64(d.Value)-want.Value)/max(math.Abs(want.Value), 1e-2))
			a.Gradient = max(a.Gradient, Off(d.Raw[:n], want.Gradient))
			a.Proxies = max(a.Proxies, Off(d.Raw[n:], want.Proxies))
		}
	}
	return out, nil
}

// Table returns the table of losses against the peer.
func Table(all []Agreement, provenance string) (*figures.Table, error) {
	const off = "largest difference, relative"
	t := &figures.Table{
		Columns: []figures.Column{{Title: "Loss", Left: true}, {Title: "Against", Left: true}, {Group: off, Title: "value"},
			{Group: off, Title: "gradient"}, {Group: off, Title: "proxies' gradient"}},
		Caption: "Each loss and its gradient at the unnormalized embeddings in float32, against " +
			"pytorch-metric-learning or the formula in float64.",
		Provenance: provenance,
	}
	for _, a := range all {
		if off := a.Value + a.Gradient + a.Proxies; off-off != 0 {
			return nil, fmt.Errorf("agreement of %s: a difference is infinite or NaN; want finite numbers", a.Name)
		}
		proxies := "–"
		if a.HasProxies {
			proxies = figures.Scientific(a.Proxies)
		}
		t.Rows = append(t.Rows, figures.Row(a.Name, a.Peer, figures.Scientific(a.Value), figures.Scientific(a.Gradient),
			proxies))
	}
	return t, nil
}

// Off is the largest difference of got from want, over the largest value of want.
func Off(got, want []float32) float64 {
	var d, top float64
	for i, w := range want {
		d, top = max(d, math.Abs(float64(got[i]-w))), max(top, math.Abs(float64(w)))
	}
	return d / max(top, 1e-6)
}

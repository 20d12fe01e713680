package retrieval

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"runtime"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
)

// blockSize bounds how many similarities are held at once: 16 MiB of float32 on the device and as much on the host,
// which caches still help. One query's row to the whole gallery is the least that is held. Tests make it small.
var blockSize = 4 << 20

// similarities calls visit once for each of the given queries with its cosines to the whole gallery, several at a time.
// The row is only valid during the call. The devices compute blocks of queries in turn. It returns an error of visit.
func similarities(ctx context.Context, b compute.Backend, devices int, queries *Embeddings, which []int,
	gallery *Embeddings, progress func(done, total int), visit func(query int, row []float32) error) (err error) {
	defer errs.Catch(&err)
	if len(which) == 0 {
		return nil
	}
	m := len(gallery.Labels)
	rows := min(len(which), max(1, blockSize/m))
	p, err := newProduct(b, devices)
	if err != nil {
		return err
	}
	p.progress = progress
	defer p.exec.Finalize()
	galleries := make([]*tensors.Tensor, devices)
	for d := range devices {
		if galleries[d], err = unitRows(b, d, gallery, upTo(m), m); err != nil {
			return err
		}
		defer galleries[d].MustFinalizeAll()
	}
	copies := duplicates(gallery)
	blocks := slices.Collect(slices.Chunk(which, rows))
	failures := make(chan error, 1)
	err = p.each(ctx, len(blocks), func(k, device int) (*tensors.Tensor, error) {
		q, err := unitRows(b, device, queries, blocks[k], rows)
		if err != nil {
			return nil, err
		}
		s, err := p.of(device, q, galleries[device])
		return s, errors.Join(err, q.FinalizeAll())
	}, func(k int, values []float32) {
		some := blocks[k]
		inParallel(len(some), 16, func(i int) {
			row := values[i*m : (i+1)*m]
			for _, c := range copies {
				row[c.copy] = row[c.original]
			}
			if err := visit(some[i], row); err != nil {
				select {
				case failures <- err:
				default: // One is enough.
				}
			}
		})
	})
	close(failures)
	return cmp.Or(err, <-failures)
}

// rankPairs ranks each item of a set among all others, with each similarity computed once, for both of its items.
// blocks are the set's; the devices compute pairs of them in turn. Of items that are equal bit by bit it may not know
// which comes first: a matrix product may round the same dot product differently in different columns.
func rankPairs(ctx context.Context, b compute.Backend, devices int, e *Embeddings, blocks []classBlock, most int,
	ranked []ranking, progress func(done, total int)) (err error) {
	defer errs.Catch(&err)
	rows := 0
	for _, block := range blocks {
		rows = max(rows, len(block.items))
	}
	p, err := newProduct(b, devices)
	if err != nil {
		return err
	}
	defer p.exec.Finalize()
	units := make([][]*tensors.Tensor, devices)
	for d := range devices {
		for _, block := range blocks {
			u, err := unitRows(b, d, e, block.items, rows)
			if err != nil {
				return err
			}
			defer u.MustFinalizeAll()
			units[d] = append(units[d], u)
		}
	}
	tallies := make([][]*tally, len(blocks))
	lows := make([][]float32, len(blocks)) // What each tally's low is, side by side.

	// A class is in one block, so a block with itself has all matches of its items, by which the other blocks' are
	// counted.
	err = p.each(ctx, len(blocks), func(k, device int) (*tensors.Tensor, error) {
		return p.of(device, units[device][k], units[device][k])
	}, func(k int, values []float32) {
		block := blocks[k]
		n := len(block.items)
		tallies[k], lows[k] = make([]*tally, n), make([]float32, n)
		inParallel(n, 16, func(i int) {
			row, from, to := values[i*rows:i*rows+n], block.from[i], block.to[i]
			matches := make([]match, 0, to-from-1)
			for j := from; j < to; j++ {
				if j != i {
					matches = append(matches, match{similarity: row[j], index: block.items[j]})
				}
			}
			t := newTally(matches, most)
			low := t.seeAll(block.items[:from], row[:from], t.low())
			tallies[k][i], lows[k][i] = t, t.seeAll(block.items[to:], row[to:], low)
		})
	})
	if err != nil {
		return err
	}
	var pairs [][2]int
	for k := range blocks {
		for l := k + 1; l < len(blocks); l++ {
			pairs = append(pairs, [2]int{k, l})
		}
	}
	p.progress = progress // Of what takes long.
	err = p.each(ctx, len(pairs), func(i, device int) (*tensors.Tensor, error) {
		return p.of(device, units[device][pairs[i][0]], units[device][pairs[i][1]])
	}, func(pair int, values []float32) {
		k, l := pairs[pair][0], pairs[pair][1]
		block, other := blocks[k], blocks[l]
		n, m := len(block.items), len(other.items)
		inParallel(n, 16, func(i int) {
			lows[k][i] = tallies[k][i].seeAll(other.items, values[i*rows:i*rows+m], lows[k][i])
		})
		// The same for the columns. A piece of all rows at a time, since memory is laid out in rows.
		width := max(16, (m-1)/runtime.GOMAXPROCS(0)+1)
		inParallel((m-1)/width+1, 1, func(piece int) {
			from, to := piece*width, min((piece+1)*width, m)
			low, ts := lows[l][from:to], tallies[l][from:to]
			for i, item := range block.items {
				row := values[i*rows+from : i*rows+to]
				for j, s := range row[:len(low)] {
					if s >= low[j] {
						low[j] = ts[j].see(item, s)
					}
				}
			}
		})
	})
	if err != nil {
		return err
	}
	for k, block := range blocks {
		for i, item := range block.items {
			ranked[item] = tallies[k][i].ranking()
		}
	}
	return nil
}

// classBlock is a part of a set that holds its classes whole, one after the other.
type classBlock struct {
	items    []int // Indices of the set.
	from, to []int // items[from[i]:to[i]] is the class of items[i].
}

// classBlocks cuts a set into blocks whose similarities are at most blockSize, given the members of each class. It
// returns none if a class is too large for that, or if there are so many pairs of one class that they should not all be
// kept.
func classBlocks(members map[int64][]int) []classBlock {
	pairs, n := 0, 0
	for _, class := range members {
		pairs += len(class) * len(class)
		n += len(class)
	}
	if pairs > blockSize {
		return nil
	}
	size := int(math.Sqrt(float64(blockSize)))
	blocks := []classBlock{{}}
	for _, label := range slices.Sorted(maps.Keys(members)) {
		class := members[label]
		block := &blocks[len(blocks)-1]
		if len(block.items)+len(class) > size && len(block.items) > 0 {
			blocks = append(blocks, classBlock{})
			block = &blocks[len(blocks)-1]
		}
		from := len(block.items)
		block.items = append(block.items, class...)
		for range class {
			block.from, block.to = append(block.from, from), append(block.to, from+len(class))
		}
	}
	return blocks
}

// product multiplies blocks of unit vectors, all of the same shape, so that the graph is compiled once.
type product struct {
	exec    *graph.Exec
	devices int

	progress func(done, total int) // Told of each block; may be nil.
}

func newProduct(b compute.Backend, devices int) (*product, error) {
	exec, err := graph.NewExec(b, func(q, g *graph.Node) *graph.Node { return graph.Einsum("qd,gd->qg", q, g) })
	if err != nil {
		return nil, failed(err)
	}
	return &product{exec: exec, devices: devices}, nil
}

// of returns the similarities of q's rows to g's, [rows, columns], computed on a device that has both.
func (p *product) of(device int, q, g *tensors.Tensor) (*tensors.Tensor, error) {
	out, _, err := p.exec.CallWithGraphOnDevice(compute.DeviceNum(device), q, g)
	if err != nil {
		return nil, failed(err)
	}
	return out[0], nil
}

// each visits n blocks of similarities in order, unless ctx is done. The devices compute them in turn, each one block
// ahead of the visits if there are several devices.
func (p *product) each(ctx context.Context, n int, similarities func(k, device int) (*tensors.Tensor, error),
	visit func(k int, values []float32)) error {
	type block struct {
		similarities *tensors.Tensor
		err          error
	}
	fetch := func(k, device int) (b block) {
		defer errs.Catch(&b.err)
		if ctx.Err() != nil {
			return block{err: fmt.Errorf("retrieval: stopped: %w", ctx.Err())}
		}
		if b.similarities, b.err = similarities(k, device); b.err != nil {
			return b
		}
		// Where the host can read a device's memory, this waits for the block; elsewhere it copies it.
		if err := b.similarities.ConstFlatData(func(any) {}); err != nil {
			b.err = failed(err)
		}
		return b
	}
	fetched := make([]chan block, p.devices)
	start := func(k int) {
		if k < n {
			go func() { fetched[k%p.devices] <- fetch(k, k%p.devices) }()
		}
	}
	for d := range p.devices {
		fetched[d] = make(chan block, 1)
		start(d)
	}
	for k := range n {
		b := <-fetched[k%p.devices]
		if b.err != nil {
			for other := k + 1; other < min(k+p.devices, n); other++ {
				<-fetched[other%p.devices] // It uses tensors that the caller frees.
			}
			return b.err
		}
		tensors.MustConstFlatData(b.similarities, func(values []float32) { visit(k, values) })
		b.similarities.MustFinalizeAll()
		if p.progress != nil {
			p.progress(k+1, n)
		}
		start(k + p.devices)
	}
	return nil
}

// unitRows puts the given items, normalized, on a device, filled up to rows with zeros.
func unitRows(b compute.Backend, device int, e *Embeddings, items []int, rows int) (*tensors.Tensor, error) {
	// Written in place where the backend allows it, so that there is one copy of a set.
	t, err := tensors.FromShapeForBackend(b, compute.DeviceNum(device), shapes.Make(dtypes.Float32, rows, e.Dim))
	if err != nil {
		return nil, failed(err)
	}
	tensors.MustMutableFlatData(t, func(unit []float32) {
		clear(unit[len(items)*e.Dim:])
		inParallel(len(items), 256, func(i int) { unitRow(e, items[i], unit[i*e.Dim:(i+1)*e.Dim]) })
	})
	return t, nil
}

// unitRow writes row i divided by its length. Equal rows stay equal bit by bit, so ties stay ties.
func unitRow(e *Embeddings, i int, unit []float32) {
	row := e.Values[i*e.Dim : (i+1)*e.Dim]
	sum := 0.0
	for _, v := range row {
		sum += float64(v) * float64(v)
	}
	length := math.Sqrt(sum)
	if sum == 0 {
		length = 1
	}
	for j, v := range row {
		unit[j] = float32(float64(v) / length)
	}
}

type duplicate struct{ original, copy int }

// duplicates finds the items whose unit vector is an earlier one's.
func duplicates(e *Embeddings) []duplicate {
	var out []duplicate
	seed := maphash.MakeSeed()
	first := make(map[uint64]int, len(e.Labels))
	unit, earlier := make([]float32, e.Dim), make([]float32, e.Dim)
	for j := range e.Labels {
		unitRow(e, j, unit)
		var h maphash.Hash
		h.SetSeed(seed)
		_ = binary.Write(&h, binary.LittleEndian, unit) // A hash does not fail.
		sum := h.Sum64()
		i, seen := first[sum]
		if !seen {
			first[sum] = j
			continue
		}
		if unitRow(e, i, earlier); slices.Equal(unit, earlier) {
			out = append(out, duplicate{i, j})
		}
	}
	return out
}

// inParallel calls do with each of 0…n−1, as many as size one after the other.
func inParallel(n, size int, do func(i int)) {
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for from := 0; from < n; from += size {
		workers.Go(func() error {
			for i := from; i < min(from+size, n); i++ {
				do(i)
			}
			return nil
		})
	}
	_ = workers.Wait() // The workers return no error.
}

// upTo is 0…n−1.
func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// failed keeps the first line of a GoMLX error, which carries a stack.
func failed(err error) error {
	return fmt.Errorf("retrieval: similarities: %w", errs.Error(err))
}

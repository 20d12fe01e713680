package retrieval

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
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

// similarities calls visit once for each query with its cosines to the whole gallery, several at a time.
// The row is only valid during the call. The devices compute blocks of queries in turn. It returns an error of visit.
func similarities(ctx context.Context, b compute.Backend, devices int, queries, gallery *Embeddings,
	progress func(done, total int), visit func(query int, row []float32) error) (err error) {
	defer errs.Catch(&err)
	n, m := len(queries.Labels), len(gallery.Labels)
	rows := min(n, max(1, blockSize/m)) // Of each block, so that the graph is compiled once.
	exec, err := graph.NewExec(b, func(q, g *graph.Node) *graph.Node { return graph.Einsum("qd,gd->qg", q, g) })
	if err != nil {
		return failed(err)
	}
	defer exec.Finalize()
	galleries := make([]*tensors.Tensor, devices)
	for d := range devices {
		if galleries[d], err = unitRows(b, d, gallery, 0, m); err != nil {
			return err
		}
		defer galleries[d].MustFinalizeAll()
	}
	copies := duplicates(gallery)
	blocks := (n + rows - 1) / rows
	failures := make(chan error, 1)
	err = inTurn(ctx, devices, blocks, func(k, device int) (*tensors.Tensor, error) {
		q, err := unitRows(b, device, queries, k*rows, rows)
		if err != nil {
			return nil, err
		}
		out, _, err := exec.CallWithGraphOnDevice(compute.DeviceNum(device), q, galleries[device])
		if err = errors.Join(err, q.FinalizeAll()); err != nil {
			return nil, failed(err)
		}
		return out[0], nil
	}, func(k int, values []float32) {
		inParallel(min(rows, n-k*rows), 16, func(i int) {
			row := values[i*m : (i+1)*m]
			for _, c := range copies {
				row[c.copy] = row[c.original]
			}
			if err := visit(k*rows+i, row); err != nil {
				select {
				case failures <- err:
				default: // One is enough.
				}
			}
		})
		if progress != nil {
			progress(k+1, blocks)
		}
	})
	close(failures)
	return cmp.Or(err, <-failures)
}

// inTurn visits n blocks of similarities in order, unless ctx is done. The devices compute them in turn, each one block
// ahead of the visits if there are several devices.
func inTurn(ctx context.Context, devices, n int, similarities func(k, device int) (*tensors.Tensor, error),
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
	fetched := make([]chan block, devices)
	start := func(k int) {
		if k < n {
			go func() { fetched[k%devices] <- fetch(k, k%devices) }()
		}
	}
	for d := range devices {
		fetched[d] = make(chan block, 1)
		start(d)
	}
	for k := range n {
		b := <-fetched[k%devices]
		if b.err != nil {
			for other := k + 1; other < min(k+devices, n); other++ {
				<-fetched[other%devices] // It uses tensors that the caller frees.
			}
			return b.err
		}
		tensors.MustConstFlatData(b.similarities, func(values []float32) { visit(k, values) })
		b.similarities.MustFinalizeAll()
		start(k + devices)
	}
	return nil
}

// unitRows puts so many rows from one on, normalized, on a device, filled up with zeros.
func unitRows(b compute.Backend, device int, e *Embeddings, from, rows int) (*tensors.Tensor, error) {
	// Written in place where the backend allows it, so that there is one copy of a set.
	t, err := tensors.FromShapeForBackend(b, compute.DeviceNum(device), shapes.Make(dtypes.Float32, rows, e.Dim))
	if err != nil {
		return nil, failed(err)
	}
	tensors.MustMutableFlatData(t, func(unit []float32) {
		n := min(rows, len(e.Labels)-from)
		clear(unit[n*e.Dim:])
		inParallel(n, 256, func(i int) { unitRow(e, from+i, unit[i*e.Dim:(i+1)*e.Dim]) })
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
	seed, sums := maphash.MakeSeed(), make([]uint64, len(e.Labels))
	row := func(i int) []float32 {
		unit := make([]float32, e.Dim)
		unitRow(e, i, unit)
		return unit
	}
	inParallel(len(sums), 256, func(i int) {
		bits, _ := binary.Append(make([]byte, 0, 4*e.Dim), binary.LittleEndian, row(i)) // Numbers do not fail.
		sums[i] = maphash.Bytes(seed, bits)
	})
	first := make(map[uint64]int, len(sums))
	for j, sum := range sums {
		if i, seen := first[sum]; !seen {
			first[sum] = j
		} else if slices.Equal(row(i), row(j)) {
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

// failed keeps the first line of a GoMLX error, which carries a stack.
func failed(err error) error {
	return fmt.Errorf("retrieval: similarities: %w", errs.Error(err))
}

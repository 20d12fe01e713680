// Package embed embeds images by a trained network: [Source.Open] reads one from a file or a run, and an [Embedder]
// answers any number of goroutines, whose images it puts together in batches.
//
// It is for programs that embed as they go. Servers of networks, such as KServe's and Triton, put requests together,
// too, but are programs of their own beside the caller's.
package embed

import (
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
)

// An Image reads a picture. [Path], [Bytes], [Reader] and [Picture] return one, as may any function.
type Image func() (*datasets.Raster, error)

// Path is the picture of a JPEG or PNG file.
func Path(name string) Image {
	return func() (*datasets.Raster, error) { return datasets.ReadImage(name) }
}

// Bytes is the picture of a JPEG or PNG file that is in memory.
func Bytes(file []byte) Image {
	return func() (*datasets.Raster, error) { return datasets.DecodeImage(file) }
}

// Reader is the picture of a JPEG or PNG file of at most some bytes. It is read once.
func Reader(r io.Reader, most int64) Image {
	return func() (*datasets.Raster, error) {
		file, err := io.ReadAll(io.LimitReader(r, most+1))
		if err == nil && int64(len(file)) > most {
			err = fmt.Errorf("more than %d bytes", most)
		}
		if err != nil {
			return nil, err
		}
		return datasets.DecodeImage(file)
	}
}

// Picture is a picture of package image, whose transparency is dropped.
func Picture(of image.Image) Image {
	return func() (*datasets.Raster, error) { return datasets.RasterOf(of), nil }
}

// sizes are the rows for which the network is compiled, each at its first use.
var sizes = [...]int{1, 4, 16, 64}

// ErrClosed is what [Embedder.Embed] returns after [Embedder.Close].
var ErrClosed = errors.New("the embedder is closed")

// An Embedder embeds images for many goroutines at once. Its weights stay on the device.
type Embedder struct {
	net     *Network
	exec    *model.Exec
	decode  chan struct{} // A token for each image that is decoded.
	asked   chan *request
	served  chan struct{} // Closed when the last request is answered.
	mu      sync.RWMutex  // Held for reading by those that embed, so that Close waits for them.
	closed  bool
	closing sync.Once
}

// request is a picture that waits for its row.
type request struct {
	pixels []uint8
	answer chan answer // Has room for one.
}

type answer struct {
	row []float32
	err error
}

// New starts an embedder of a network. Close the embedder before the network.
func New(b compute.Backend, net *Network) (*Embedder, error) {
	exec, err := model.NewExec(b, net.store, net.graph)
	if err != nil {
		return nil, err
	}
	e := &Embedder{net: net, exec: exec, decode: make(chan struct{}, runtime.GOMAXPROCS(0)),
		asked: make(chan *request, sizes[len(sizes)-1]), served: make(chan struct{})}
	go e.serve()
	return e, nil
}

// Width is the number of values of a row.
func (e *Embedder) Width() int { return e.net.Width }

// Close waits for all that is being embedded, and ends the embedder.
func (e *Embedder) Close() {
	e.closing.Do(func() {
		e.mu.Lock()
		e.closed = true
		e.mu.Unlock()
		close(e.asked)
	})
	<-e.served
}

// An ImageError is an image that cannot be embedded.
type ImageError struct {
	Index int // Of the call's images.
	Err   error
}

// Error names the image by its place, from 0.
func (e *ImageError) Error() string { return fmt.Sprintf("image %d: %v", e.Index, e.Err) }

// Unwrap returns what is wrong with the image.
func (e *ImageError) Unwrap() error { return e.Err }

// Embed returns a row of Width values for each image, in order: what the network gives for it alone, to the rounding of
// batches of several sizes. An image that cannot be read has a nil row and an [ImageError] among the joined errors; the
// others have their rows. It returns ctx's error, without rows, once ctx is done, and ErrClosed after Close.
func (e *Embedder) Embed(ctx context.Context, images ...Image) ([][]float32, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.closed {
		return nil, ErrClosed
	}
	rows, errs := make([][]float32, len(images)), make([]error, len(images))
	var group sync.WaitGroup
	for i, image := range images {
		select {
		case e.decode <- struct{}{}:
		case <-ctx.Done():
			group.Wait()
			return nil, ctx.Err()
		}
		group.Go(func() {
			r, err := e.ask(ctx, image)
			<-e.decode // Not before: what is decoded waits in memory.
			if err == nil {
				rows[i], err = r.wait(ctx)
			}
			if err != nil {
				errs[i] = &ImageError{i, err}
			}
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return rows, errors.Join(errs...)
}

// ask reads an image as the network's input, and asks for its row.
func (e *Embedder) ask(ctx context.Context, image Image) (*request, error) {
	picture, err := image()
	if err != nil {
		return nil, err
	}
	r, p := &request{answer: make(chan answer, 1)}, e.net.Prepare
	if r.pixels, err = picture.Square(p.Resize, p.Crop, datasets.Filter(p.Interpolation)); err != nil {
		return nil, err
	}
	select {
	case e.asked <- r:
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// wait waits for the row. A picture whose row nobody waits for is embedded all the same.
func (r *request) wait(ctx context.Context) ([]float32, error) {
	select {
	case a := <-r.answer:
		return a.row, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve embeds what is asked for, all that waits at once, until asked is closed.
func (e *Embedder) serve() {
	defer close(e.served)
	defer e.exec.Finalize()
	for first := range e.asked {
		batch := []*request{first}
	more:
		for len(batch) < sizes[len(sizes)-1] {
			select {
			case r, open := <-e.asked:
				if !open {
					break more
				}
				batch = append(batch, r)
			default:
				break more
			}
		}
		values, err := e.embed(batch)
		for i, r := range batch {
			a := answer{err: err}
			if err == nil {
				a.row = values[i*e.net.Width : (i+1)*e.net.Width : (i+1)*e.net.Width]
				if slices.ContainsFunc(a.row, func(v float32) bool { return v-v != 0 }) {
					a = answer{err: errors.New("the embedding is not finite; the weights may be damaged")}
				}
			}
			r.answer <- a
		}
	}
}

// embed returns the rows of a batch, padded to a size for which the network is compiled.
func (e *Embedder) embed(batch []*request) ([]float32, error) {
	crop := e.net.Prepare.Crop
	one, n := crop*crop*3, sizes[slices.IndexFunc(sizes[:], func(size int) bool { return size >= len(batch) })]
	pixels := make([]uint8, n*one)
	for i, r := range batch {
		copy(pixels[i*one:], r.pixels)
	}
	in := tensors.FromFlatDataAndDimensions(pixels, n, crop, crop, 3)
	out, err := e.exec.Call(in)
	if err != nil {
		return nil, err
	}
	defer out[0].FinalizeAll()
	return tensors.CopyFlatData[float32](out[0])
}

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
	return func() (*datasets.Raster, error) {
		picture, err := datasets.ReadImage(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return picture, nil
	}
}

// Bytes is the picture of a JPEG or PNG file that is in memory.
func Bytes(file []byte) Image {
	return func() (*datasets.Raster, error) { return datasets.DecodeImage(file) }
}

// Reader is the picture of a JPEG or PNG file of at most some bytes. It is read once, while other images may wait: read
// the bytes of a slow source, such as an upload, beforehand.
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
	if of == nil {
		return nil
	}
	return func() (*datasets.Raster, error) { return datasets.RasterOf(of), nil }
}

// sizes are the rows for which the network is compiled, each at its first use.
var sizes = [...]int{1, 4, 16, 64}

// ErrClosed is what [Embedder.Embed] returns after [Embedder.Close].
var ErrClosed = errors.New("the embedder is closed")

// An Embedder embeds images for many goroutines at once. Its weights stay on the device. The first batch of 1, of 4, of
// 16 and of 64 images compiles the network, for which XLA takes seconds: a server may embed so many before it listens.
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

// New starts an embedder of a network. Close the embedder before the network. It returns an error if the size of the
// network's images is not known.
func New(b compute.Backend, net *Network) (*Embedder, error) {
	if p := net.Prepare; p.Crop < 1 || p.Resize < p.Crop {
		return nil, fmt.Errorf("images are resized to %d pixels and cropped to %d: set Prepare.Resize and Prepare.Crop of "+
			"the network to the size of the images that it was trained on", p.Resize, p.Crop)
	}
	exec, err := model.NewExec(b, net.Store, net.Graph)
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

// An ImageError is an image that cannot be read.
type ImageError struct {
	Index int // Of the call's images, from 0.
	Err   error
}

// Error names the image by its place.
func (e *ImageError) Error() string { return fmt.Sprintf("image %d: %v", e.Index, e.Err) }

// Unwrap returns what is wrong with the image.
func (e *ImageError) Unwrap() error { return e.Err }

// Embed returns a row of Width values for each image, in order: what the network gives for it alone, to the rounding of
// batches of several sizes. An image that cannot be read has a nil row and an [ImageError] among the joined errors; the
// others have their rows. Once ctx is done, it returns ctx's error, without rows, as soon as the images that are being
// read are; after Close it returns ErrClosed.
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
			if err != nil {
				errs[i] = &ImageError{i, err}
			} else if rows[i], err = r.wait(ctx); err != nil {
				errs[i] = fmt.Errorf("image %d: %w", i, err)
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
	if image == nil {
		return nil, errors.New("no image: it is nil")
	}
	picture, err := image()
	if err == nil && picture == nil {
		err = errors.New("its function returned neither a picture nor an error")
	}
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

// serve embeds what is asked for, as much of what waits at once as fills a batch, until asked is closed.
func (e *Embedder) serve() {
	defer close(e.served)
	defer e.exec.Finalize()
	var waiting []*request
	for r := range e.asked {
		for waiting = append(waiting, r); len(waiting) > 0; {
			waiting = e.more(waiting)
			n := filled(len(waiting))
			batch := waiting[:min(n, len(waiting))]
			waiting = waiting[len(batch):]
			values, err := e.embed(batch, n)
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
}

// more adds what is asked for by now to what waits, up to the largest batch.
func (e *Embedder) more(waiting []*request) []*request {
	for len(waiting) < sizes[len(sizes)-1] {
		select {
		case r, open := <-e.asked:
			if !open {
				return waiting
			}
			waiting = append(waiting, r)
		default:
			return waiting
		}
	}
	return waiting
}

// filled returns the rows of the batch for some requests: the largest size of which they fill more than half, since a
// row that is padded costs what any other does.
func filled(requests int) int {
	n := sizes[0]
	for _, size := range sizes {
		if 2*requests > size {
			n = size
		}
	}
	return n
}

// embed returns the rows of a batch, padded to n.
func (e *Embedder) embed(batch []*request, n int) ([]float32, error) {
	crop := e.net.Prepare.Crop
	one := crop * crop * 3
	pixels := make([]uint8, n*one)
	for i, r := range batch {
		copy(pixels[i*one:], r.pixels)
	}
	in := tensors.FromFlatDataAndDimensions(pixels, n, crop, crop, 3)
	defer in.FinalizeAll()
	out, err := e.exec.Call(in)
	if err != nil {
		return nil, err
	}
	defer out[0].FinalizeAll()
	return tensors.CopyFlatData[float32](out[0])
}

package main

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/datasets"
)

// The photographs of the benchmark: about as large as CUB's.
const (
	photoWidth, photoHeight  = 500, 375
	photoClasses, photosEach = 4, 48
	photoSide                = 256 // Pixels of a cached photograph.
)

const decodeLine = "photographs decoded and scaled"

// photoSize describes the photographs; bench.py prints the same text.
func photoSize(each int) string {
	return fmt.Sprintf("%d JPEG files, %d×%d to %d px", photoClasses*each, photoWidth, photoHeight, photoSide)
}

// input measures the input of training: photographs decoded, then the same kept in a cache, with their digest and
// their statistics, batches cut from it, and batches copied to the device.
func (s *session) input(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "dmlx-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	photos, each := filepath.Join(dir, "photos"), photosEach
	if s.Small {
		each = 2
	}
	if err := writePhotos(photos, each); err != nil {
		return err
	}
	times, err := s.repeatCalls(ctx, func() error { return decode(photos) })
	if err != nil {
		return err
	}
	s.reportValues(decodeLine, photoSize(each), "ms", times...)
	var seconds []float64
	var set *datasets.Set
	for i := range 3 {
		start := time.Now()
		if set, err = datasets.Open(photos, datasets.Options{Size: photoSide,
			Cache: filepath.Join(dir, fmt.Sprint("cache", i)), Context: ctx}); err != nil {
			return err
		}
		seconds = append(seconds, 1000*time.Since(start).Seconds())
	}
	s.reportValues("photographs decoded, scaled and kept", photoSize(each), "ms", seconds...)
	const batch = 128
	pixels, rng := make([]uint8, batch*photoSide*photoSide*3), rand.New(rand.NewPCG(1, 1))
	times, err = s.repeatCalls(ctx, func() error {
		one := len(pixels) / batch
		for i := range batch {
			set.Train.Augmented(pixels[i*one:(i+1)*one], rng.IntN(len(set.Train.Labels)), rng.IntN(21)-10, rng.IntN(21)-10,
				rng.IntN(2) == 0)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.reportValues("batch cut from what is kept", fmt.Sprintf("B=%d, %d px, one core", batch, photoSide), "ms",
		times...)
	// The sum on the host says that the batch has arrived.
	sum, err := graph.NewExec(s.Choice.Backend, func(x *graph.Node) *graph.Node {
		return graph.ReduceAllSum(graph.ConvertDType(x, dtypes.Int32))
	})
	if err != nil {
		return err
	}
	defer sum.Finalize()
	times, err = s.repeatCalls(ctx, func() error {
		images := tensors.FromFlatDataAndDimensions(pixels, batch, photoSide, photoSide, 3)
		out, err := sum.Call(images)
		if err == nil {
			err = errors.Join(out[0].ToLocal(), out[0].FinalizeAll(), images.FinalizeAll())
		}
		return err
	})
	if err != nil {
		return err
	}
	s.reportValues("batch copied to the device, and its sum back", fmt.Sprintf("B=%d, %d px", batch, photoSide), "ms",
		times...)
	return nil
}

// decode decodes and scales the photographs of a folder, on all cores.
func decode(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.jpg"))
	if err != nil {
		return err
	}
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for _, file := range files {
		workers.Go(func() error {
			photo, err := datasets.ReadImage(file)
			if err != nil {
				return err
			}
			_, err = photo.Square(photoSide, photoSide, datasets.Bilinear)
			return err
		})
	}
	return workers.Wait()
}

// writePhotos draws photographs into a folder per class, with as much detail as a camera's.
func writePhotos(dir string, each int) error {
	for class := range photoClasses {
		folder := filepath.Join(dir, fmt.Sprintf("class-%d", class))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for i := range each {
			rng := rand.New(rand.NewPCG(uint64(class), uint64(i)))
			img := image.NewRGBA(image.Rect(0, 0, photoWidth, photoHeight))
			fx, fy := 0.01+0.1*rng.Float64(), 0.01+0.1*rng.Float64()
			for y := range photoHeight {
				for x := range photoWidth {
					v := func(phase float64) uint8 {
						return uint8(128 + 90*math.Sin(fx*float64(x)+phase)*math.Cos(fy*float64(y)) + 12*rng.Float64())
					}
					img.SetRGBA(x, y, color.RGBA{v(0), v(1), v(2), 255})
				}
			}
			file, err := os.Create(filepath.Join(folder, fmt.Sprintf("%03d.jpg", i)))
			if err != nil {
				return err
			}
			if err := jpeg.Encode(file, img, &jpeg.Options{Quality: 90}); err != nil {
				return err
			}
			if err := file.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

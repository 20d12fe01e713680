//go:build !(goexperiment.simd && amd64)

package jpeg

func (b *block) transformAtOnce([]uint8, int) (within, done bool) { return false, false }

func yccAtOnce(out, luma, cb, cr []uint8) int { return 0 }

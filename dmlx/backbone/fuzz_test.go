package backbone

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"
)

// Whatever a safetensors or .pth file says, it is read within its bytes, or refused; weights that are read are written
// and read again as they are.
func FuzzDecodeWeights(f *testing.F) {
	file := func(header string, body ...byte) []byte {
		out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
		return append(append(out, header...), body...)
	}
	store := model.NewStore()
	if err := Init(store, Small, 2, 1); err != nil {
		f.Fatal(err)
	}
	whole, err := EncodeWeights(store, Small, map[string]string{"run": "0123456789ab"})
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"small", "types", "types-legacy"} {
		data, err := os.ReadFile("testdata/" + name + ".pth")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(file(`{"__metadata__":{"a":"b"},"fc.bias":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 0, 0, 128, 63))
	f.Add(file(`{"fc.bias":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`))
	f.Add(file(`{"fc.bias":{"dtype":"F32","shape":[-1],"data_offsets":[4,0]}}`))
	f.Add(file(strings.Repeat("[", 1000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = Metadata(data) // They only must not panic.
		_, _ = HeadDim(data)
		store := model.NewStore()
		if _, err := DecodeWeights(data, store, LoadOptions{Arch: Small, Dim: 2}); err != nil {
			return
		}
		once, err := EncodeWeights(store, Small, nil)
		if err != nil {
			t.Fatal(err)
		}
		again := model.NewStore()
		if _, err := DecodeWeights(once, again, LoadOptions{Arch: Small, Dim: 2}); err != nil {
			t.Fatal(err)
		}
		if twice, err := EncodeWeights(again, Small, nil); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("weights change when they are written and read: %v", err)
		}
	})
}

package backbone

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A header's length may begin with the bytes of another kind of file: a brace, a blank and one, or those of a pickle.
func TestHeaderLengths(t *testing.T) {
	t.Parallel()
	const header = `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`
	for _, n := range []int{'{', 0x7b20, 0x0280} {
		data := binary.LittleEndian.AppendUint64(nil, uint64(n))
		data = append(data, header+strings.Repeat(" ", n-len(header))...)
		f, err := parseTensors(append(data, 0, 0, 128, 63))
		if err != nil || len(f.entries) != 1 {
			t.Errorf("a header of %d bytes: %v", n, err)
		}
		if _, err := parseTensors(data); err == nil || strings.Contains(err.Error(), "JSON") {
			t.Errorf("a header of %d bytes and no values: %v", n, err)
		}
	}
}

// The files are torch.save's, today's and that of PyTorch before 1.6; testdata/weights.py says what is in them.
func TestParseTorch(t *testing.T) {
	eighths := make([]float32, 24)
	for i := range eighths {
		eighths[i] = float32(i)/8 - 1
	}
	var transposed []float32
	for j := range 6 {
		for i := range 4 {
			transposed = append(transposed, eighths[i*6+j])
		}
	}
	for _, file := range []string{"types.pth", "types-legacy.pth"} {
		data := read(t, file)
		entries, err := parseTorch(data)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for name, want := range map[string]struct {
			shape  []int
			values []float32
		}{
			"float32": {[]int{2, 3, 4}, eighths}, "float64": {[]int{24}, eighths}, "float16": {[]int{24}, eighths},
			"bfloat16": {[]int{24}, eighths}, "transposed": {[]int{6, 4}, transposed}, "view": {[]int{4}, eighths[5:9]},
			"scalar": {[]int{}, eighths[7:8]}, "empty": {[]int{0, 3}, nil}, "parameter": {[]int{2}, eighths[:2]},
		} {
			e := entries[name]
			if !slices.Equal(e.Shape, want.shape) || !slices.Equal(e.values(data), want.values) {
				t.Errorf("%s: %s is %+v, %v", file, name, e, e.values(data))
			}
		}
		if e := entries["counter"]; e.DType != "I64" || len(e.Shape) != 0 || len(entries) != 11 {
			t.Errorf("%s: %d tensors, counter %+v", file, len(entries), e)
		}
	}
}

// A checkpoint with more than weights in it, from a network in DataParallel, is read as the network that it is.
func TestTorchCheckpoint(t *testing.T) {
	data := read(t, "small.pth")
	if a, ok := ArchOf(data); !ok || a != Small {
		t.Errorf("it looks like %q", a)
	}
	dim, err := HeadDim(data)
	if err != nil {
		t.Fatal(err)
	}
	store := model.NewStore()
	if _, err := DecodeWeights(data, store, LoadOptions{Arch: Small, Dim: dim}); err != nil {
		t.Fatal(err)
	}
	// weights.py counts the names in order: bn1.bias is the first, conv1.weight behind bn1's tensors.
	for path, want := range map[string]float32{"/bn1/bias": 0.01, "/bn1/running_mean": 0.02, "/conv1/weight": 0.05} {
		values := tensors.MustCopyFlatData[float32](store.GetVariable(path).MustValue())
		if slices.Min(values) != want || slices.Max(values) != want {
			t.Errorf("%s is %v to %v, want %v", path, slices.Min(values), slices.Max(values), want)
		}
	}
	want := "not the weights of resnet18: these look like small's: --arch small"
	if _, err := DecodeWeights(data, store, LoadOptions{Arch: ResNet18, WithoutHead: true}); err == nil ||
		err.Error() != want {
		t.Errorf("as resnet18: %v", err)
	}
}

// archive is a zip archive of members.
func archive(t *testing.T, method uint16, members ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i := 0; i < len(members); i += 2 {
		m, err := w.CreateHeader(&zip.FileHeader{Name: members[i], Method: method})
		if err == nil {
			_, err = m.Write([]byte(members[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestBadTorchFiles(t *testing.T) {
	// tensor is the program of {"w": a tensor of 4 values in the storage "0" of 16 bytes}.
	tensor := func(length, offset int, shape, strides string) string {
		return fmt.Sprintf("\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n("+
			"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK%ctQK%c%s%s\x89}tRs.", length,
			offset, shape, strides)
	}
	of := func(program string) []byte {
		return archive(t, zip.Store, "a/data.pkl", program, "a/byteorder", "little", "a/data/0", strings.Repeat("v", 16))
	}
	if entries, err := parseTorch(of(tensor(4, 0, "K\x04\x85", "K\x01\x85"))); err != nil || len(entries) != 1 {
		t.Fatalf("the sound file: %v, %v", entries, err)
	}
	damaged := of(tensor(4, 0, "K\x04\x85", "K\x01\x85"))
	damaged[bytes.Index(damaged, []byte("vvvvvvvv"))] = 'w'
	legacy := read(t, "types-legacy.pth")
	for want, data := range map[string][]byte{
		"zip":                         []byte("PK\x03\x04 and no more"),
		"data.pkl is not in":          archive(t, zip.Store, "a/version", "3"),
		"TorchScript":                 archive(t, zip.Store, "a/data.pkl", "N.", "a/constants.pkl", "N."),
		"compressed":                  archive(t, zip.Deflate, "a/data.pkl", strings.Repeat("N0", 50)+"N."),
		`byte order "big"`:            archive(t, zip.Store, "a/data.pkl", "N.", "a/byteorder", "big"),
		"ends too early":              of("\x80\x02}"),
		"an empty stack":              of("\x80\x020."),
		"has no mark":                 of("\x80\x02u."),
		"a key without a value":       of("\x80\x02}(Nu."),
		"the opcode 0xff":             of("\x80\x02\xff."),
		"else than a storage":         of("\x80\x02NQ."),
		"without a key or length":     of("\x80\x02(X\x07\x00\x00\x00storageNNNNtQ."),
		"no tensors in the file":      of("\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."),
		"beyond its 4 values":         of(tensor(4, 1, "K\x04\x85", "K\x01\x85")),
		"with strides [2 1] reaches":  of(tensor(4, 0, "K\x03K\x02\x86", "K\x02K\x01\x86")),
		"16 bytes for 5 values":       of(tensor(5, 0, "K\x05\x85", "K\x01\x85")),
		"a tensor whose shape":        of(tensor(4, 0, "K\x04\x85", "K\x01K\x01\x86")),
		"within its storage":          of(tensor(4, 9, "K\x04\x85", "K\x01\x85")),
		"checksum":                    damaged,
		"data/0 is not in":            archive(t, zip.Store, "data.pkl", tensor(4, 0, "K\x04\x85", "K\x01\x85")),
		`damaged or cut off`:          legacy[:len(legacy)-3],
		"not a file of torch.save: i": legacy[:100],
	} {
		if _, err := parseTorch(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	// A program that calls a function of the system makes nothing of it; what else there is counts.
	call := newMachine([]byte("cos\nsystem\nX\x04\x00\x00\x00true\x85R."))
	if v, err := call.run(); err != nil || v != any(placeholder{}) {
		t.Errorf("a call made %v, %v", v, err)
	}
}

// Whatever a pickle or an archive says, it is read within its bytes, or refused.
func FuzzParseTorch(f *testing.F) {
	for _, name := range []string{"small", "types", "types-legacy"} {
		data, err := os.ReadFile("testdata/" + name + ".pth")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		if r, err := zip.NewReader(bytes.NewReader(data), int64(len(data))); err == nil {
			m, err := r.Open(name + "/data.pkl")
			if err != nil {
				f.Fatal(err)
			}
			program, err := io.ReadAll(m)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(program)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = newMachine(data).run()
		entries, err := parseTorch(data)
		for name, e := range entries {
			if size := e.Offsets[1] - e.Offsets[0]; err != nil || size < 0 || e.Offsets[0] < 0 || e.Offsets[1] > len(data) {
				t.Errorf("%s is %+v of %d bytes, %v", name, e, len(data), err)
			}
			if n := product(e.Shape); floating[e.DType] != nil && n < 1<<16 {
				e.values(data)
			}
		}
	})
}

// product is the size of a shape, or a large number.
func product(shape []int) int {
	n := 1
	for _, d := range shape {
		if d == 0 {
			return 0
		} else if n *= d; n > 1<<16 {
			n = 1 << 16
		}
	}
	return n
}

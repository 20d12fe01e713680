package backbone

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

// stranger is a safetensors file of a network's tensors, each under the name that rename gives it; "" leaves it out.
func stranger(t *testing.T, rename func(name string) string) []byte {
	t.Helper()
	entries, _, body, err := parseSafetensors(Pretrained())
	if err != nil {
		t.Fatal(err)
	}
	header := map[string]any{}
	for name, e := range entries {
		if to := rename(name); to != "" {
			header[to] = e
		}
	}
	data, err := safetensors(header, body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// stem gives the first tensor that a file's network has once it is loaded.
func stem(t *testing.T, path string) []float32 {
	t.Helper()
	store := model.NewStore()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeWeights(data, store, LoadOptions{Arch: Small, WithoutHead: true}); err != nil {
		t.Errorf("%s: %v", filepath.Base(path), err)
		return nil
	}
	return tensors.MustCopyFlatData[float32](store.GetVariable("/conv1/weight").MustValue())
}

// TestStrangersNames finds a network under the prefixes that trainers and the hub's libraries give it, with what they
// save beside it.
func TestStrangersNames(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain.safetensors")
	if err := os.WriteFile(plain, Pretrained(), 0o644); err != nil {
		t.Fatal(err)
	}
	want := stem(t, plain)
	for i, prefix := range []string{"module.", "model.", "module.model.", "net.module.", "backbone.", "encoder.0.",
		"_orig_mod.", "state_dict/", "state_dict/module.", "model_state_dict/model."} {
		path := filepath.Join(dir, fmt.Sprint(i))
		data := stranger(t, func(name string) string { return prefix + name })
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := stem(t, path); !slices.Equal(got, want) {
			t.Errorf("under %q another network is read", prefix)
		}
		if a, ok := ArchOf(data); !ok || a != Small {
			t.Errorf("under %q it looks like %q", prefix, a)
		}
	}
}

// TestStrangersErrors bounds what is said of a file that cannot be read: at most 300 characters, on one line, without
// control characters, whatever the names in the file are.
func TestStrangersErrors(t *testing.T) {
	entries, _, _, err := parseSafetensors(Pretrained())
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("\x1b[2J\n", 10_000)
	all := func(name string) string { return name }
	named := func(rename func(name string) string) []byte { return stranger(t, rename) }
	without := func(text string) func(string) string {
		return func(name string) string { return strings.Replace(name, text, "", 1) }
	}
	bad := func(header string) []byte {
		return append([]byte{byte(len(header)), byte(len(header) >> 8), byte(len(header) >> 16), 0, 0, 0, 0, 0}, header...)
	}
	shape := "[" + strings.Repeat("1099511627776,", 5000) + "1]"
	for what, data := range map[string][]byte{
		"long names":    named(func(name string) string { return long + name }),
		"a long prefix": named(func(name string) string { return long + "." + without("bn1.bias")(name) }),
		"a criterion": named(func(name string) string {
			if name == "bn1.bias" {
				return "model." + name + long
			}
			return "model." + name
		}),
		"many beside":     named(func(name string) string { return strings.Replace(name, "layer1", "layer9", 1) }),
		"another network": named(func(name string) string { return strings.ReplaceAll(name, "conv", "attention.qkv") }),
		"two networks": named(func(name string) string {
			if name > "layer2" {
				return "teacher/" + name
			}
			return long + "/" + name
		}),
		"nothing":       named(func(string) string { return "" }),
		"a long type":   bad(`{"w":{"dtype":"` + strings.Repeat("F", 9000) + `","shape":[1],"data_offsets":[0,0]}}`),
		"a long shape":  bad(`{"conv1.weight":{"dtype":"F32","shape":` + shape + `,"data_offsets":[0,0]}}`),
		"a wrong type":  bad(`{"w":{"dtype":7,"shape":"` + strings.Repeat("x", 9000) + `"}}`),
		"long metadata": bad(`{"__metadata__":{"a":["` + strings.Repeat("x", 9000) + `"]}}`),
		"no JSON":       bad(strings.Repeat("{\x1b", 3000)),
		"a web page":    []byte("<!DOCTYPE html><html>" + long),
		"a pointer":     []byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"),
		"a zip":         []byte("PK\x03\x04" + long),
		"a pickle":      []byte("\x80\x02c" + long + "\n" + long + "\n."),
		"a photograph":  append([]byte("RIFF\x00\x00\x01\x00WEBPVP8 "), long...),
		"a text":        []byte(long),
	} {
		for _, o := range []LoadOptions{
			{Arch: Small, Dim: 3}, {Arch: Small, WithoutHead: true}, {Arch: ResNet50, WithoutHead: true},
		} {
			_, err := DecodeWeights(data, model.NewStore(), o)
			short(t, what, err)
		}
		if _, err := HeadDim(data); err != nil { // Else it has a head.
			short(t, what, err)
		}
	}
	for name := range entries {
		_, err := DecodeWeights(stranger(t, without(name)),
			model.NewStore(), LoadOptions{Arch: ResNet18, Dim: 512})
		short(t, "without "+name, err)
	}
	_, err = DecodeWeights(stranger(t, all), model.NewStore(), LoadOptions{Arch: ResNet50, Dim: 512})
	short(t, "as resnet50", err)
}

func short(t *testing.T, what string, err error) {
	t.Helper()
	const most = 300
	switch {
	case err == nil:
		t.Errorf("%s: no error", what)
	case len([]rune(err.Error())) > most:
		t.Errorf("%s: %d characters: %.400s", what, len([]rune(err.Error())), err)
	case strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x7f }):
		t.Errorf("%s: control characters in %q", what, err)
	}
}

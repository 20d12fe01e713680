//go:build unix

package campaign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"golang.org/x/text/unicode/norm"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/onnxpb"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/onnx"
)

// rowsOf writes n rows of 16 values around a center for each class, with names of their own.
func (t *try) rowsOf(dir, what string, n, classes int) (path string) {
	t.must(os.MkdirAll(dir, 0o755))
	path = filepath.Join(dir, "X.npy")
	values, labels, names := make([]float32, n*16), make([]int64, n), make([]string, n)
	centers := make([]float64, classes*16)
	for i := range centers {
		centers[i] = t.NormFloat64()
	}
	for i := range n {
		labels[i], names[i] = int64(i%classes), fmt.Sprintf("%s-%d", what, i)
		for j := range 16 {
			values[16*i+j] = float32(centers[i%classes*16+j] + t.NormFloat64())
		}
	}
	t.must(errors.Join(npy.WriteFloat32(path, values, n, 16),
		npy.WriteInt64(filepath.Join(dir, "X.labels.npy"), labels, n),
		os.WriteFile(filepath.Join(dir, "X.names.txt"), []byte(strings.Join(names, "\n")+"\n"), 0o644)))
	return path
}

// embedTo is the command that embeds a folder of images.
func embedTo(images, out string) []string {
	return []string{"embed", "--images", images, "--arch", "small", "--weights", "pretrained", "--features", "gap",
		"--out", out}
}

// photograph is the first of the images.
func (t *try) photograph() (path string) {
	t.must(filepath.WalkDir(t.images, func(file string, d fs.DirEntry, err error) error {
		if path == "" && err == nil && !d.IsDir() {
			path = file
		}
		return err
	}))
	return path
}

// killEmbed replaces embedded rows by others, and kills it or gives it no room: what then reads the folder finds all of
// the old or all of the new, or is refused, and the same command makes it whole.
func killEmbed(t *try) {
	fewer := filepath.Join(t.dir, "fewer")
	t.must(os.CopyFS(fewer, os.DirFS(t.images)))
	asked := t.photograph()
	t.must(os.Remove(filepath.Join(fewer, strings.TrimPrefix(asked, t.images))))
	sources, dir := []string{t.images, fewer}, filepath.Join(t.dir, "G")
	rows := filepath.Join(dir, "rows.npy")
	embed := func(k int) []string { return embedTo(sources[k], rows) }
	readers := [][]string{{"recall", "--embeddings", rows, "--json"}}
	var want [2][2]string
	for k := range sources {
		t.must(errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)))
		if r := t.run(embed(k)...); r.code != 0 {
			t.fail(&t.Lost, "rows are not written: %s", r.stderr)
			return
		}
		for i, args := range readers {
			want[k][i] = string(t.run(args...).stdout)
		}
	}
	for i, args := range readers {
		if want[0][i] == "" || want[0][i] == want[1][i] {
			t.fail(&t.Wrong, "%v tells no difference: %s", args, want[0][i])
			return
		}
	}
	whole, now := true, 1
	for range 2 + t.IntN(5) {
		now = t.IntN(2)
		var short func(*exec.Cmd)
		if t.IntN(3) == 0 {
			short = limited(1 + t.IntN(6))
		}
		child := t.start(short, embed(now)...)
		if short == nil {
			for before := names(dir); !child.ended() && names(dir) == before && t.IntN(100000) > 0; {
			}
			child.endIn(time.Duration(t.Int64N(int64(4 * time.Millisecond))))
			child.kill()
		}
		t.check(child.wait(), embed(now)...)
		for i, args := range readers {
			r := t.run(args...)
			have := string(r.stdout)
			if whole = whole && r.code == 0; r.code == 0 && have != want[0][i] && have != want[1][i] {
				t.fail(&t.Wrong, "%v reads what is of neither folder: %s", args, have)
				return
			}
		}
	}
	if r := t.run(embed(now)...); r.code != 0 {
		t.fail(&t.Lost, "rows are not written again: %s", r.stderr)
	}
	for i, args := range readers {
		if r := t.run(args...); string(r.stdout) != want[now][i] {
			t.fail(&t.Lost, "%v after the command was run again: exit code %d, %s", args, r.code, r.stderr)
		}
	}
	t.wasRead(whole)
}

// limited lets a command write files of at most so many kB.
func limited(kB int) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		script := fmt.Sprintf("trap '' XFSZ; ulimit -f %d; exec \"$@\"", kB)
		cmd.Args = append([]string{"bash", "-c", script, "bash", cmd.Path}, cmd.Args[1:]...)
		cmd.Path, cmd.Err = "/bin/bash", nil
	}
}

// names are those of the files in a folder.
func names(dir string) string {
	entries, _ := os.ReadDir(dir)
	return fmt.Sprint(entries)
}

// oddOutput has a command write to a pipe, a device, a link, a folder or an input. It is refused, and what is there
// stays what it is.
func oddOutput(t *try) {
	canary, unharmed := t.canary()
	x, labels := t.rowsOf(filepath.Join(t.dir, "a"), "a", 12, 3), filepath.Join(t.dir, "a", "X.labels.npy")
	net := filepath.Join(t.dir, "net.onnx")
	raw, err := os.ReadFile(filepath.Join("..", "..", "onnx", "testdata", "vit_tiny.onnx"))
	t.must(err)
	t.must(os.WriteFile(net, raw, 0o644))
	input := pick(t, []string{x, labels})
	command := pick(t, [][]string{
		{"dissect", "--loss", "triplet", "--embeddings", x, "--labels", labels, "--matrix"},
		{"dissect", "--loss", "triplet", "--embeddings", x, "--labels", labels, "--pairs"},
		{"rule", "ours", "--pytorch", "--out"},
		{"embed", "--weights", net, "--images", t.images, "--out"},
		{"ledger", "--out"}, // A folder.
	})
	switch {
	case command[0] == "embed":
		input = net
	case command[0] == "rule" || command[0] == "ledger":
		input = ""
	}
	place := filepath.Join(t.dir, "out.png")
	switch kind := t.IntN(7); {
	case kind == 0 && syscall.Mknod(place, syscall.S_IFCHR|0o666, 1<<8|3) == nil: // A null device of its own.
	case kind == 1:
		t.must(os.Symlink(pick(t, []string{canary, filepath.Join(canary, "secret"), filepath.Join(canary, "none"),
			place, "/proc/self/fd/1"}), place))
	case kind == 2 && command[0] != "ledger":
		t.must(os.MkdirAll(filepath.Join(place, "within"), 0o755))
	case kind == 3 && input != "":
		t.must(os.Link(input, place))
	case kind == 4 && input != "" && command[0] != "ledger":
		place = input
	default:
		t.must(mkfifo(place))
	}
	look := func() string {
		info, err := os.Lstat(place)
		if err != nil {
			return err.Error()
		}
		raw := []byte(nil)
		if info.Mode().IsRegular() {
			raw, err = os.ReadFile(place)
		}
		return fmt.Sprintln(info.Mode(), info.Sys().(*syscall.Stat_t).Ino, len(raw), raw, err)
	}
	before := look()
	r := t.run(append(command, place)...)
	if after := look(); after != before {
		t.fail(&t.Escapes, "%v %s: exit code %d; there was %.80q, and is %.80q", command, place, r.code, before, after)
	}
	if linked, err := os.Readlink(place); r.code == 0 && (err != nil || linked != canary) { // A folder may be written to.
		t.fail(&t.Wrong, "%v %s: exit code 0", command, place)
	}
	if command[0] != "ledger" {
		unharmed(strings.Join(command, " ") + " " + place)
	}
	t.wasRead(false)
}

// otherOpset reads a network of one operator with the opset and the axis of chance: it is refused, or computes what
// that opset says.
func otherOpset(t *try) {
	opset, axis, given := t.IntN(30), t.IntN(4), t.IntN(3) > 0
	op := pick(t, []string{"Softmax", "BatchNormalization", "Relu", "Gelu", "Erf", "Mish"})
	var attributes [][]byte
	training := op == "BatchNormalization" && t.IntN(2) == 0
	switch {
	case training:
		attributes = append(attributes, onnxpb.Int("training_mode", 1))
	case given && op == "Softmax":
		attributes = append(attributes, onnxpb.Int("axis", axis))
	}
	inputs, parts := []string{"images"}, []byte(nil)
	if op == "BatchNormalization" {
		for _, name := range []string{"s", "b", "m", "v"} {
			parts = onnxpb.Message(parts, 5, onnxpb.Tensor(name, []float32{1, 2, 3}, 3))
			inputs = append(inputs, name)
		}
	}
	parts = onnxpb.Message(parts, 1, onnxpb.Node(op, "y", inputs, attributes...))
	parts = onnxpb.Message(parts, 1, onnxpb.Node("Flatten", "features", []string{"y"}))
	parts = onnxpb.Message(parts, 11, onnxpb.Value("images", "N", 3, 2, 2))
	parts = onnxpb.Message(parts, 12, onnxpb.Value("features", "N", 12))
	file := onnxpb.Message(onnxpb.Number(nil, 1, 8), 7, parts)
	file = onnxpb.Message(file, 8, onnxpb.Number(onnxpb.Message(nil, 1, ""), 2, opset))

	first := map[string]int{"Gelu": 20, "Erf": 9, "Mish": 18}[op]
	n, err := onnx.Read(file)
	if err != nil {
		if opset >= 7 && opset >= first && opset <= 26 && !training && op != "Mish" {
			t.fail(&t.Lost, "%s at opset %d, axis %d (%v): %v", op, opset, axis, given, err)
		}
		t.wasRead(false)
		return
	}
	if opset < max(7, first) || opset > 26 || training {
		t.fail(&t.Wrong, "%s at opset %d, training mode %v, is read", op, opset, training)
		return
	}
	images := make([]float32, 2*12) // [2, 2, 2, 3], of [2, 3, 2, 2].
	for i := range images {
		images[i] = float32(t.NormFloat64())
	}
	at := func(i int) float64 { return float64(images[i/12*12+i%4*3+i/4%3]) } // Of [2, 3, 2, 2].
	if !given {
		axis = map[bool]int{true: 1, false: 3}[opset < 13]
	}
	same := func(i, j int) bool { // Whether two values are in one sum of the exponentials.
		sizes, step := []int{2, 3, 2, 2}, 24
		for k, size := range sizes {
			step /= size
			if inSum := k == axis || opset < 13 && k > axis; !inSum && i/step%size != j/step%size {
				return false
			}
		}
		return true
	}
	want := make([]float64, 24)
	for i := range want {
		x, sum := at(i), 0.0
		for j := range want {
			if same(i, j) {
				sum += math.Exp(at(j))
			}
		}
		scale := float64(i/4%3 + 1)
		want[i] = map[string]float64{"Softmax": math.Exp(x) / sum, "Relu": max(x, 0),
			"Gelu": x / 2 * (1 + math.Erf(x/math.Sqrt2)), "Erf": math.Erf(x),
			"Mish":               x * math.Tanh(math.Log1p(math.Exp(x))),
			"BatchNormalization": (x-scale)/math.Sqrt(scale+1e-5)*scale + scale}[op]
	}
	b, err := backend.Go()
	t.must(err)
	store := model.NewStore()
	defer store.Finalize()
	t.must(n.Init(store, nil))
	exec, err := model.NewExec(b, store, func(scope *model.Scope, x *Node) *Node {
		return n.Features(scope, x, backbone.Pass{})
	})
	t.must(err)
	defer exec.Finalize()
	out, err := exec.Call(tensors.FromFlatDataAndDimensions(images, 2, 2, 2, 3))
	if err != nil {
		t.fail(&t.Lost, "%s at opset %d, axis %d: %v", op, opset, axis, err)
		return
	}
	for i, have := range tensors.MustCopyFlatData[float32](out[0]) {
		if math.Abs(float64(have)-want[i]) > 1e-5 {
			t.fail(&t.Wrong, "%s at opset %d, axis %d: value %d is %g, want %g", op, opset, axis, i, have, want[i])
			return
		}
	}
	t.wasRead(true)
}

// alikeLabels writes labels as other programs do: the measures are the same, or labels that look alike and differ are
// refused.
func alikeLabels(t *try) {
	x := t.rowsOf(filepath.Join(t.dir, "a"), "a", 40, 8)
	names := []string{"Café", "naïve", "Ωmega", "plain", "two words", "7", "007", "ÅNGSTRÖM"}
	lines := make([]string, 40)
	for i := range lines {
		lines[i] = names[i%8]
	}
	labels := filepath.Join(t.dir, "labels.txt")
	measures := func(text string) (string, result) {
		t.must(os.WriteFile(labels, []byte(text), 0o644))
		r := t.run("recall", "--embeddings", x, "--labels", labels, "--json")
		var v map[string]any
		if r.code == 0 {
			t.must(json.Unmarshal(r.stdout, &v))
		}
		return fmt.Sprint(v), r
	}
	want, r := measures(strings.Join(lines, "\n") + "\n")
	if r.code != 0 {
		t.fail(&t.Lost, "sound labels are refused: %s", r.stderr)
		return
	}
	end, before, alike := "\n", "", false
	for range 1 + t.IntN(3) {
		switch t.IntN(7) {
		case 0:
			before = "\ufeff"
		case 1:
			end = pick(t, []string{"\r\n", "\r", "\n"})
		case 2:
			for i := range lines {
				blank := pick(t, []string{"", " ", "\t"})
				lines[i] = strings.Repeat(blank, t.IntN(3)) + lines[i] + pick(t, []string{"", " ", "\t "})
			}
		case 3:
			for i := range lines {
				lines[i] = norm.NFD.String(lines[i])
			}
		case 4, 5, 6:
			k, seen := t.IntN(40), slices.Clone(lines)
			lines[k] = pick(t, []func(string) string{norm.NFD.String, norm.NFC.String,
				func(s string) string { return s + "\u200b" }, func(s string) string { return "\u2060" + s },
				func(s string) string { return strings.ReplaceAll(s, " ", "\u00a0") }})(lines[k])
			alike = alike || lines[k] != seen[k]
		}
	}
	text := before + strings.Join(lines, end)
	if t.IntN(2) == 0 {
		text += end
	}
	have, r := measures(text)
	switch {
	case r.code == 0 && have != want:
		t.fail(&t.Wrong, "%q: %s, want %s", text, have, want)
	case r.code != 0 && (!alike || !bytes.Contains(r.stderr, []byte("look alike"))):
		t.fail(&t.Lost, "%q: exit code %d, %s", text, r.code, r.stderr)
	default:
		t.wasRead(r.code == 0)
	}
}

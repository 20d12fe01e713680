package notebooks

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEnvironment checks that the numbers of environment.md, and of README.md, are those of recorded outputs, of the
// bundled runs, or sums of each other. Each fragment below is made from its source and must stand in the page; what is
// left of the page must have no decimal.
func TestEnvironment(t *testing.T) {
	page := read(t, "environment.md")
	campaignAddsUp(t, read(t, ".github/SECURITY.md"))
	text := plain(page)
	for _, want := range slices.Concat(gpuLines(t), ddpLines(t), parityLines(t)) {
		if strings.Count(text, want) != 1 { // Twice, and a changed digit in one of them would pass.
			t.Errorf("environment.md lacks what the recorded output says, or has it twice:\n%s", want)
		}
		text = strings.ReplaceAll(text, want, "")
	}
	text = notMeasured.ReplaceAllString(text, " ")
	if typed := regexp.MustCompile(`[^ ]*\d\.\d[^ ]*`).FindAllString(text, -1); typed != nil {
		t.Errorf("environment.md has numbers of no recorded output: %q", typed)
	}

	want := fmt.Sprintf("A quick run takes %s seconds on two cores", quickRunSeconds(t))
	if !strings.Contains(plain(read(t, "README.md")), want) {
		t.Errorf("README.md lacks: %s", want)
	}
}

// notMeasured are code, links and versions, and sizes and bounds that are settings or arithmetic, not results.
var notMeasured = regexp.MustCompile("```[^`]*```|`[^`]*`|\\]\\([^)]*\\)|v?\\d+\\.\\d+\\.\\d+|" +
	"(Go|Python|Runtime|gonum/plot|\\|) v?\\d+\\.\\d+|(2\\.3|23\\.6) GB|(--)?torch[^ ]*|2026-[\\d-]+")

// plain returns a page with each run of white space as one blank.
func plain(page string) string { return strings.Join(strings.Fields(page), " ") }

// record returns the numbers after the first line of a recorded output that begins with a text. Blanks count as one.
func record(t *testing.T, file, prefix string) []float64 {
	t.Helper()
	for line := range strings.Lines(recorded(t, file)) {
		if rest, found := strings.CutPrefix(plain(line), prefix+" "); found {
			return numbers(rest)
		}
	}
	t.Fatalf("%s has no line %q", file, prefix)
	return nil
}

func recorded(t *testing.T, file string) string {
	return read(t, filepath.Join("dmlx/cmd/dmlx/internal/peer/testdata", file))
}

func numbers(text string) (out []float64) {
	for _, s := range regexp.MustCompile(`-?\d+(\.\d+)?(e-?\d+)?`).FindAllString(text, -1) {
		v, err := strconv.ParseFloat(s, 64)
		if err == nil {
			out = append(out, v)
		}
	}
	return out
}

// gpuLines are the tables of the steps compiled for H100s. The columns of gpu.txt are memory, bytes moved and kernels,
// the same in flax, and the bytes in PyTorch.
func gpuLines(t *testing.T) []string {
	of := func(what string) []float64 { return record(t, "gpu.txt", what) }
	var out []string
	for name, of := range map[string][2][]float64{
		"ResNet-18": {of("resnet18, B=128"), of("resnet18, B=128, bf16")},
		"ResNet-50": {of("resnet50, B=128"), of("resnet50, B=128, bf16")},
	} {
		pair := func(i int) []any { return []any{of[0][i], of[1][i]} }
		const columns = " | %.1f, %.1f GB"
		out = append(out, fmt.Sprintf("| %s, B=128: float32, bf16"+strings.Repeat(columns, 4)+" |",
			slices.Concat([]any{name}, pair(0), pair(1), pair(4), pair(6))...))
	}
	whole, recomputed, micro := of("resnet50, B=512, bf16"), of("resnet50, B=512, bf16, recomputed"),
		of("resnet50, B=128, bf16, of a micro-batch of")
	out = append(out, fmt.Sprintf("whole, `--set recompute` | %.1f, %.1f GB | %.0f, %.0f GB | %.0f GB whole | "+
		"%.0f GB whole |",
		whole[0], recomputed[0], whole[1], recomputed[1], whole[4], whole[6]),
		fmt.Sprintf("the gradient of a micro-batch | %.1f GB | %.1f GB | | |", micro[1], micro[2]))
	for name, prefix := range map[string]string{"whole": "resnet50, bf16",
		"`--set recompute`": "resnet50, bf16, recomputed"} {
		line := "| " + name
		for _, gpus := range []string{"1", "2", "4", "8"} {
			line += fmt.Sprintf(" | %.1f GB", of(prefix + " " + gpus)[0])
		}
		out = append(out, line+" |")
	}
	// Networks of files: memory, bytes moved and kernels, and in PyTorch memory and bytes moved.
	const last = ` --train-only blocks\.(10|11)\.|^norm`
	for start, columns := range map[string][]string{
		"| ViT-S/16: float32, bf16":                  {"vit_small_patch16_224, B=128", "vit_small_patch16_224, B=128, bf16"},
		"`--set 'lora=attn\\.qkv\\.weight:8'`, bf16": {"vit_small_patch16_224, B=128, bf16 --lora attn\\.qkv\\.weight:8"},
		"| ViT-B/16, bf16":                           {"vit_base_patch16_224, B=128, bf16"},
		"| EfficientNet-Lite0: float32, bf16":        {"efficientnet_lite0, B=128", "efficientnet_lite0, B=128, bf16"},
		"| – last two blocks, bf16":                  {"vit_small_patch16_224, B=128, bf16" + last},
		"| – the same in float32, kept by `--keep`":  {"vit_small_patch16_224, B=128" + last + " --keep 8GB"},
	} {
		for _, i := range []int{0, 1, 3, 4} {
			var cells []string
			for _, name := range columns {
				if v := of(name); i < len(v) {
					cells = append(cells, fmt.Sprintf("%.1f", v[i]))
				}
			}
			start += " | " + strings.Join(cells, ", ")
			if cells != nil {
				start += " GB"
			}
		}
		out = append(out, plain(start+" |"))
	}
	two := of("resnet50, bf16 2")
	return append(out, fmt.Sprintf("each receives %.2f GB a step in some %.0f collectives", two[1],
		10*math.Ceil(two[2]/10)))
}

// ddpLines are the rows of the table of gradients by DistributedDataParallel.
func ddpLines(t *testing.T) (out []string) {
	for _, name := range []string{"contrastive", "triplet, easy positive and hard negative",
		"multi-similarity with its miner", "circle", "NT-Xent", "proxy-anchor"} {
		v := record(t, "ddp.txt", name)
		power := strings.NewReplacer("-7", "⁻⁷", "-6", "⁻⁶").Replace(fmt.Sprint(math.Floor(math.Log10(v[6]))))
		shown := strings.Replace(name, "proxy-anchor", "Proxy-Anchor", 1)
		out = append(out, fmt.Sprintf("| %s | %.2f, %.3f | %.2f, %.3f | %.0f·10%s |", shown, v[0], v[1], v[2], v[3],
			v[6]/math.Pow(10, math.Floor(math.Log10(v[6]))), power))
	}
	return out
}

// parityLines are the sentences on training beside PyTorch, on exported networks and on photographs.
func parityLines(t *testing.T) []string {
	plainly, farther := 0.0, 0.0 // Our largest distance over that of PyTorch's plain run, and of the farther of its two.
	row := regexp.MustCompile(`(?m)^  .*?  +((?:[\d.e-]+ +){9}[\d.e-]+)$`)
	for _, m := range row.FindAllStringSubmatch(recorded(t, "parity.txt"), -1) {
		v := numbers(m[1]) // Largest difference and share of PyTorch's two; largest difference, share and times of ours.
		plainly, farther = max(plainly, v[5]/v[1], v[8]/v[1]), max(farther, v[6], v[9])
	}
	cases, options := 0, 0.0
	for line := range strings.Lines(recorded(t, "options.txt")) {
		if f := strings.Fields(line); strings.HasPrefix(line, "--") {
			cases++
			for _, i := range []int{len(f) - 4, len(f) - 1} { // The two columns "times".
				v, err := strconv.ParseFloat(f[i], 64)
				if err != nil {
					t.Fatal(err)
				}
				options = max(options, v)
			}
		}
	}
	small := record(t, "onnx.txt", "small, gap, 32 pixels, dmlx embed")
	photos := numbers(strings.Split(recorded(t, "photos.txt"), "\n")[1])
	largest := record(t, "photos.txt", "resnet50, gap: values up to")
	if largest[1] > 1e-4 {
		t.Errorf("photographs differ by %g", largest[1])
	}
	return []string{
		fmt.Sprintf("stay within %.1f times the distance from float64 that one run of PyTorch's float32 has, and within "+
			"%.1f times that of the farther of two", plainly, farther),
		fmt.Sprintf("in %d cases, both backends are at most %.1f times as far", cases, math.Ceil(10*options)/10),
		fmt.Sprintf("to %.1f · 10⁻⁶ of values up to %.1f", small[len(small)-2]*1e6, small[len(small)-1]),
		fmt.Sprintf("On %.0f photographs of CUB the features of `embed` differ from torchvision's by less than 10⁻⁴ (values "+
			"up to %.0f)", photos[0], largest[0]),
	}
}

// campaignAddsUp checks that each attack's tries are those refused and those identical, and that the last row is the
// sum of the others.
func campaignAddsUp(t *testing.T, page string) {
	_, table, _ := strings.Cut(page, "| attack | tries | refused | identical |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var sum [3]float64
	for _, line := range strings.Split(table, "\n")[1:] {
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		v := numbers(strings.ReplaceAll(rest, ",", ""))
		if len(v) != 3 || v[0] != v[1]+v[2] {
			t.Errorf("SECURITY.md, %s: %v tries, want the sum of the others", name, v)
			continue
		}
		for i := range v {
			if name == "all" && v[i] != sum[i] {
				t.Errorf("SECURITY.md: %g in all, the rows add up to %g", v[i], sum[i])
			}
			sum[i] += v[i]
		}
	}
	if sum[0] == 0 {
		t.Error("SECURITY.md has no table of attacks")
	}
}

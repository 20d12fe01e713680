package backbone

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The metadata of weights with low-rank matrices: α of the factor α/rank, and the names of the weights that are
// [in, out], as a JSON list.
const (
	LoRAAlpha = "lora_alpha"
	LoRAInOut = "lora_in_out"
)

// The ends of the names of low-rank matrices, behind the name of their weight without ".weight", as PEFT has them.
const (
	lowRankA = ".lora_A.weight" // [rank, in]
	lowRankB = ".lora_B.weight" // [rows, rank]
)

// LowRank names the matrices A [rank, in] and B [rows, rank] beside a weight [out, in], or beside its rows of a part;
// see [Rows].
func LowRank(weight, part string) (a, b string) {
	name := strings.TrimSuffix(weight, ".weight")
	if part != "" {
		name += "." + part
	}
	return name + lowRankA, name + lowRankB
}

// IsLowRank reports whether a weight is such a matrix, by its name, and whether it is an A.
func IsLowRank(name string) (is, isA bool) {
	isA = strings.HasSuffix(name, lowRankA)
	return isA || strings.HasSuffix(name, lowRankB), isA
}

// Rows returns the rows from and to, which is the first behind them, that a part has of the out rows of a fused weight:
// "q", "k" and "v" are its thirds, "2of4" the second of four equal parts, and "" is all of it.
func Rows(part string, out int) (from, to int, err error) {
	i, n := 1, 1
	switch {
	case part == "":
	case len(part) == 1 && strings.Contains("qkv", part):
		i, n = 1+strings.Index("qkv", part), 3
	default:
		first, last, _ := strings.Cut(part, "of")
		i, _ = strconv.Atoi(first)
		if n, _ = strconv.Atoi(last); part != fmt.Sprintf("%dof%d", i, n) || i < 1 || i > n {
			return 0, 0, fmt.Errorf("rows %.40q: want q, k or v, which are thirds, or a part as in 2of4", part)
		}
	}
	if out%n != 0 {
		return 0, 0, fmt.Errorf("rows %s of %d: want a number of rows that %d divides", part, out, n)
	}
	return (i - 1) * out / n, i * out / n, nil
}

// lowRank is a pair of low-rank matrices beside rows of a weight.
type lowRank struct {
	weight   string
	from, to int
	a, b     entry
	out      int
	inOut    bool // Whether the weight is [in, out].
}

// lowRanks returns the low-rank matrices of weights, a safetensors file, and α/rank; none without [LoRAAlpha].
func lowRanks(entries map[string]entry, meta map[string]string) (all []lowRank, alpha float64, err error) {
	if meta[LoRAAlpha] == "" {
		return nil, 0, nil
	}
	if alpha, err = strconv.ParseFloat(meta[LoRAAlpha], 64); err != nil {
		return nil, 0, fmt.Errorf("the metadata %s is %.40q: want a number", LoRAAlpha, meta[LoRAAlpha])
	}
	var inOut []string
	if text, there := meta[LoRAInOut]; there && json.Unmarshal([]byte(text), &inOut) != nil {
		return nil, 0, fmt.Errorf("the metadata %s is %.40q: want a JSON list of names", LoRAInOut, text)
	}
	for nameA, a := range entries {
		name, isA := strings.CutSuffix(nameA, lowRankA)
		if !isA {
			continue
		}
		l := lowRank{a: a, b: entries[name+lowRankB]}
		whole, part := name, ""
		if i := strings.LastIndexByte(name, '.'); i > 0 {
			whole, part = name[:i], name[i+1:]
		}
		for _, try := range [][2]string{{name + ".weight"}, {name}, {whole + ".weight", part}, {whole, part}} {
			w, there := entries[try[0]]
			if !there {
				continue
			}
			in := 0
			if l.weight = try[0]; len(w.Shape) == 2 {
				if l.out, in, l.inOut = w.Shape[0], w.Shape[1], slices.Contains(inOut, l.weight); l.inOut {
					l.out, in = in, l.out
				}
				l.from, l.to, err = Rows(try[1], l.out)
			}
			if err != nil || len(w.Shape) != 2 || len(a.Shape) != 2 || a.Shape[0] < 1 || a.DType != "F32" ||
				l.b.DType != "F32" || w.DType != "F32" || a.Shape[1] != in ||
				!slices.Equal(l.b.Shape, []int{l.to - l.from, a.Shape[0]}) {
				return nil, 0, fmt.Errorf("the low-rank matrices of %s are of shapes %v and %v: they do not fit %v of F32",
					l.weight, a.Shape, l.b.Shape, w.Shape)
			}
			break
		}
		if l.weight == "" {
			return nil, 0, fmt.Errorf("there is no weight for the low-rank matrix %.80q", nameA)
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(x, y lowRank) int {
		return cmp.Or(cmp.Compare(x.weight, y.weight), cmp.Compare(x.from, y.from))
	})
	return all, alpha, nil
}

// MergeLowRank returns weights, a safetensors file, with W + (α/rank)·B·A in place of each weight W, or in place of its
// rows, that has low-rank matrices, and without these; see [LowRank]. Weights without the metadata [LoRAAlpha] are
// returned as they are.
func MergeLowRank(data []byte) ([]byte, error) {
	entries, meta, body, err := parseSafetensors(data)
	if err != nil {
		return nil, err
	}
	all, alpha, err := lowRanks(entries, meta)
	if err != nil || all == nil {
		return data, err
	}
	merged := slices.Clone(body)
	for _, l := range all {
		in, rank := l.a.Shape[1], l.a.Shape[0]
		a, b, whole := l.a.values(body), l.b.values(body), merged[entries[l.weight].Offsets[0]:]
		for i := range (l.to - l.from) * in {
			at := l.from*in + i
			if l.inOut {
				at = i%in*l.out + l.from + i/in
			}
			w, sum := whole[4*at:], 0.0
			for k := range rank {
				sum += float64(b[i/in*rank+k]) * float64(a[k*in+i%in])
			}
			sum = sum*alpha/float64(rank) + float64(math.Float32frombits(binary.LittleEndian.Uint32(w)))
			binary.LittleEndian.PutUint32(w, math.Float32bits(float32(sum)))
		}
	}
	meta = maps.Clone(meta)
	delete(meta, LoRAAlpha)
	delete(meta, LoRAInOut)
	out := newTensorFile(meta)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if is, _ := IsLowRank(name); !is {
			e, begin := entries[name], len(out.body)
			out.body = append(out.body, merged[e.Offsets[0]:e.Offsets[1]]...)
			e.Shape, e.Offsets = slices.Concat([]int{}, e.Shape), [2]int{begin, len(out.body)}
			out.header[name] = e
		}
	}
	return safetensors(out.header, out.body)
}
